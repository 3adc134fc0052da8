"""Copying one object from store to store, held to its SHA-256 on the way. Which objects, and why, is decided by the callers."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sluice.engines.storage import ObjectStore, StoreFault
from sluice.uploads.spool import Spool

_IN_MEMORY: Final = 8 * 1024 * 1024


class Damaged(Exception):
    """The object in the source is missing, or is not what the record says. `str()` says which, in a few words."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the record says of an object."""

    size_bytes: int
    sha256: str
    content_type: str


@dataclass(frozen=True, slots=True)
class Spot:
    """One key of one store."""

    store: ObjectStore
    key: str


async def copy_object(source: Spot, target: Spot, recorded: Recorded, folder: Path) -> bool:
    """Copy the object and answer True; False when the target has it already, with the same SHA-256.

    It waits in `folder` on the way when it is large. Raises `Damaged`, and `StoreFault` also for a target that holds something else.
    """
    if await target.store.size(target.key) is not None:
        if await _digest(target) != recorded.sha256:
            raise StoreFault("The target holds another object under this key.")
        return False
    spool = Spool(_IN_MEMORY, folder)
    try:
        try:
            async for chunk in source.store.read(source.key):
                await spool.write(chunk)
        except KeyError:
            raise Damaged("there is no object") from None
        sealed = await spool.seal()
        if (sealed.size, sealed.sha256.hex()) != (recorded.size_bytes, recorded.sha256):
            raise Damaged("the object's SHA-256 is not that of the record")
        await target.store.put(target.key, sealed, content_type=recorded.content_type)
    finally:
        spool.close()
    return True


async def _digest(spot: Spot) -> str:
    digest = hashlib.sha256()
    try:
        async for chunk in spot.store.read(spot.key):
            digest.update(chunk)
    except KeyError:
        return ""
    return digest.hexdigest()
