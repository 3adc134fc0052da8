"""Moving files from one bucket to another while the service runs: each is copied, verified, and only then switched.

The old objects stay, because issued download links point to them: `sluice audit --repair` deletes them later. Backups
use the same copy.
"""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from sluice.buckets.bucket import Bucket
from sluice.buckets.stores import Stores
from sluice.db.database import Database, DatabaseUnavailable
from sluice.errors import StorageFull
from sluice.files import FileRecord, repository
from sluice.storage import ObjectStore, StoreError, outside_service_folders
from sluice.uploads.spool import Spool

_BATCH: Final = 200
_IN_MEMORY: Final = 8 * 1024 * 1024


class Damaged(Exception):
    """The source object is missing, or does not match its record. `str()` says which, in a few words."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The row of an object."""

    size_bytes: int
    sha256: str
    content_type: str


@dataclass(frozen=True, slots=True)
class StoreKey:
    """One key of one store."""

    store: ObjectStore
    key: str


async def copy_object(source: StoreKey, target: StoreKey, recorded: Recorded, folder: Path) -> bool:
    """Copy the object and return True; False if the target holds it already, with the same SHA-256.

    A large object is spooled in `folder`. Raise `Damaged`, and `StoreError` also for a target that holds something
    else.
    """
    if await target.store.size(target.key) is not None:
        if await _digest(target) != recorded.sha256:
            raise StoreError("The target holds another object under this key.")
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


async def _digest(at: StoreKey) -> str:
    digest = hashlib.sha256()
    try:
        async for chunk in at.store.read(at.key):
            digest.update(chunk)
    except KeyError:
        return ""
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Moved:
    """The result for one file. `failed` ones stay where they are, and are tried again by the next run."""

    file_id: str
    outcome: Literal["moved", "failed", "gone"]
    detail: str = ""


class ObjectMove:
    """Moves all stored files of a tenant from one of its buckets to another; None is the platform's own store."""

    def __init__(self, database: Database, stores: Stores, folder: Path, tenant_id: str) -> None:
        self._database = database
        self._stores = stores
        self._folder = folder
        self._tenant_id = tenant_id

    async def run(self, source: Bucket | None, target: Bucket | None) -> AsyncIterator[Moved]:
        """Yield the result of each file, oldest first. Raise `DatabaseUnavailable`, or `OSError` for the folder."""
        after = ""
        config_id = None if source is None else source.config_id
        while True:
            async with self._database.reading(self._tenant_id) as connection:
                files = await repository.list_stored_in(connection, self._tenant_id, config_id, after, _BATCH)
            if not files:
                return
            for file in files:
                try:
                    yield await self._move(file, source, target)
                except (DatabaseUnavailable, OSError):
                    raise  # concerns all files
                except Exception as fault:  # noqa: BLE001  (one file that cannot be moved must not stop the others)
                    yield Moved(file.file_id, "failed", f"unexpected {type(fault).__name__}: {fault}")
            after = files[-1].file_id

    async def _move(self, file: FileRecord, source: Bucket | None, target: Bucket | None) -> Moved:
        base = "" if source is None or not source.base_path else f"{source.base_path}/"
        relative = outside_service_folders(file.object_key.removeprefix(base))
        key = relative if target is None else target.key_for(relative)
        recorded = Recorded(file.size_bytes, file.sha256, file.content_type)
        try:
            old, new = StoreKey(self._stores.of(source), file.object_key), StoreKey(self._stores.of(target), key)
            copied = await copy_object(old, new, recorded, self._folder)
        except (Damaged, StoreError, StorageFull) as fault:
            return Moved(file.file_id, "failed", str(fault))
        async with self._database.transaction(self._tenant_id) as connection:
            config_id = None if target is None else target.config_id
            switched = await repository.switch_bucket(
                connection, self._tenant_id, file.file_id, file.storage_config_id, config_id, key=key
            )
        if switched:
            return Moved(file.file_id, "moved")
        if copied and key != file.object_key:
            await new.store.delete(key)  # the file was deleted in the meantime
        return Moved(file.file_id, "gone")
