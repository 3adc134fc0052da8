"""What hash lists say of an upload: its digests, and those of its members, are looked up.

A tenant pays for that only if it, or the installation, has entries: the snapshot says of which algorithms.
"""

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sluice.db.database import Database
from sluice.errors import ServiceUnavailable
from sluice.hash_lists import ListedHash
from sluice.hash_lists.entry import Algorithm
from sluice.hash_lists.repository import MOST_ASKED, find_listed
from sluice.observe.log import log
from sluice.observe.stages import staged
from sluice.uploads.examined import ExamineFact
from sluice.uploads.values import HashListFact
from sluice_inspect.report import Outcome
from sluice_inspect.sandbox import Sandbox
from sluice_inspect.sandbox.members import MembersUnavailable, hash_members
from sluice_inspect.sandbox.sealed import Sealed

FindListed = Callable[[Sequence[bytes]], Awaitable[Sequence[ListedHash]]]
_PIECE_BYTES: Final = 1024**2
# Others compute them to exchange lists. They only deny files; to allow one needs its SHA-256.
_WEAK: Final[Mapping[Algorithm, Callable[..., Any]]] = {"md5": hashlib.md5, "sha1": hashlib.sha1}
# Formats that hold no files: pictures, recordings, fonts, tables and text.
_WITHOUT_FILES: Final = frozenset(
    {
        *("avif", "bmp", "gif", "heic", "j2k", "jp2", "jpeg", "png", "tiff", "webp"),
        *("aac", "aiff", "flac", "m4a", "mp3", "ogg", "opus", "wav"),
        *("avi", "mkv", "mov", "mp4", "webm"),
        *("otf", "ttf", "woff", "woff2"),
        *("csv", "json", "md", "parquet", "sqlite", "text", "yaml"),
    }
)
_NO_NAME: Final = "without a name"
_MOST_KEPT: Final = 20  # entries on members that a decision keeps
_INLINE_BYTES: Final = 256 * 1024  # more are hashed in a thread


@staged("hash_list")
async def look_up(
    database: Database, tenant_id: str, sealed: Sealed, algorithms: Collection[Algorithm], *, also: Sequence[bytes] = ()
) -> HashListFact:
    """Return the entries that the file is on, by one statement. Raise `DatabaseUnavailable`.

    `also` are digests of what was sent, if the file is what is left of it.
    """
    digests = [*await digests_of(sealed, algorithms), *also]
    return HashListFact(tuple(await find_listed(database, tenant_id, digests)))


def may_hold_files(examined: ExamineFact | None) -> bool:
    """Return whether files may be packed in a file, by what its check found.

    They may unless it is sound, and of a format that holds none.
    """
    report = None if examined is None else examined.report
    is_sound = report is not None and report.finding is None and report.integrity is Outcome.OK
    return not is_sound or report is None or report.format not in _WITHOUT_FILES


@staged("hash_list_members")
async def look_up_members(
    find: FindListed, sandbox: Sandbox, tenant_id: str, sealed: Sealed, algorithms: Collection[Algorithm]
) -> HashListFact:
    """Return the entries that deny members of the file. `find` returns those with one of at most `MOST_ASKED` digests.

    Raise `ServiceUnavailable` if there is no checker, or `DatabaseUnavailable`.
    """
    try:
        found = await hash_members(sandbox, sealed, tenant_id=tenant_id, weak=bool(set(algorithms) - {"sha256"}))
    except MembersUnavailable as fault:
        log.warning("check_unavailable", tenant_id=tenant_id, why=str(fault))
        raise ServiceUnavailable("file checker") from fault
    digests, denied = list(found.offsets), list[ListedHash]()
    for start in range(0, len(digests), MOST_ASKED):
        listed = await find(digests[start : start + MOST_ASKED])
        denied += [
            replace(entry, member=found.name_of(bytes.fromhex(entry.digest)) or _NO_NAME)
            for entry in listed
            if entry.list == "deny"
        ]
    return HashListFact(tuple(denied[:_MOST_KEPT]), found.number, found.why, found.is_stopped)


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
    hashes = [_WEAK[algorithm](usedforsecurity=False) for algorithm in algorithms]
    for offset in range(0, sealed.size, _PIECE_BYTES):
        piece = os.pread(sealed.fd, min(_PIECE_BYTES, sealed.size - offset), offset)
        for each in hashes:
            each.update(piece)
    return [each.digest() for each in hashes]
