"""What hash lists say of an upload: its digests, and those of its members, are looked up.

A tenant pays for that only if it, or the installation, has entries: the snapshot says of which algorithms.
"""

import asyncio
import hashlib
import os
from collections.abc import Collection, Sequence
from typing import Final

from sluice.db.database import Database
from sluice.hash_lists.entry import Algorithm
from sluice.hash_lists.repository import find_listed
from sluice.observe.stages import staged
from sluice.uploads.values import HashListFact
from sluice_inspect.sandbox.sealed import Sealed

_PIECE_BYTES: Final = 1024**2
_INLINE_BYTES: Final = 256 * 1024  # more are hashed in a thread


@staged("hash_list")
async def look_up(
    database: Database, tenant_id: str, sealed: Sealed, algorithms: Collection[Algorithm]
) -> HashListFact:
    """Return the entries that the file is on, by one statement. Raise `DatabaseUnavailable`."""
    digests = await digests_of(sealed, algorithms)
    return HashListFact(tuple(await find_listed(database, tenant_id, digests)))


async def digests_of(sealed: Sealed, algorithms: Collection[Algorithm]) -> Sequence[bytes]:
    """Return the digests of the bytes by these algorithms; the SHA-256 is known."""
    known = [sealed.sha256] if "sha256" in algorithms else []
    others = sorted(set(algorithms) - {"sha256"})
    if not others:
        return known
    if sealed.size <= _INLINE_BYTES:
        return [*known, *_hash(sealed, others)]
    return [*known, *await asyncio.to_thread(_hash, sealed, others)]


def _hash(sealed: Sealed, algorithms: Sequence[Algorithm]) -> list[bytes]:
    hashes = [hashlib.new(algorithm, usedforsecurity=False) for algorithm in algorithms]
    for offset in range(0, sealed.size, _PIECE_BYTES):
        piece = os.pread(sealed.fd, min(_PIECE_BYTES, sealed.size - offset), offset)
        for each in hashes:
            each.update(piece)
    return [each.digest() for each in hashes]
