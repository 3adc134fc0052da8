"""What a few scans with known answers show of one clamd: does it find, does it tell what it skips, how large a file does it scan to the end.

When a clamd is probed, and what becomes of it, is decided in `clamd_member`.
"""

import asyncio
import contextlib
import gzip
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from sluice.engines.scanner.clamd_address import ClamdAway
from sluice.engines.scanner.clamd_answers import Verdict, Version
from sluice.engines.scanner.clamd_scan import Scans
from sluice.kit.sealed import Sealed
from sluice.threats.eicar import EICAR

MIB: Final = 1024**2
_DEEPER_THAN_ANY_LIMIT: Final = 110  # clamd takes no MaxRecursion above 100
_LOCAL: Final = struct.Struct("<4s5H3L2H")
_CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
_END: Final = struct.Struct("<4s4H2LH")
_DEFLATED: Final = 8
_1980: Final = 33  # a date of the file that every reader takes

Layout = Callable[[int], "tuple[tuple[int, bytes], ...]"]
"""Answers, for a size of padding, where in an else empty file which bytes stand; the last of them end it."""


class ClamdUnfit(ClamdAway):
    """It answers, and does not find what every scanner must find."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a clamd that may be used."""

    version: Version
    takes_descriptors: bool
    """It found the test virus behind passed descriptors, in memory and on disk. One that it may not read, it calls OK (measured, 1.4.6)."""
    names_limits: bool
    """It is set to `AlertExceedsMax yes`: most of what it did not scan, it does not call OK (see `unpacked`)."""
    reach: int = 0
    """Bytes of the largest file that it was seen to scan to its end so far."""
    reach_is_found: bool = False
    """Whether `reach` is final: the largest file it scans, or the largest that is asked for."""


class Probe:
    """Asks one clamd. `folder` holds test files for a moment; `largest` is the size in bytes of the largest file that it may ever be sent."""

    def __init__(self, scans: Scans, *, folder: Path | None, largest: int) -> None:
        self._scans = scans
        self._folder = folder
        self._largest = largest

    async def look(self, version: Version) -> Known:
        """Answer what a handful of small scans show; raises `ClamdUnfit` when the test virus is not found, plain or inside a zip."""
        by_descriptor = self._scans.address.is_local and await self._finds_behind_descriptors()
        for what, data in (("the EICAR test virus", EICAR), ("the EICAR test virus inside a zip", _zip(EICAR))):
            if await self._says(data, by_descriptor=by_descriptor) is not Verdict.INFECTED:
                raise ClamdUnfit(f"it does not find {what}: its signatures are not of use")
        limits = await self._says(_deeply_packed(), by_descriptor=by_descriptor)
        known = Known(version, takes_descriptors=by_descriptor, names_limits=limits is Verdict.INCOMPLETE)
        finds = await self._says_behind(MIB, await self._layout(known), known) is Verdict.INFECTED
        return replace(known, reach=MIB if finds else 0)

    async def find_reach(self, known: Known) -> Known:
        """Answer how large a file is scanned to its end, to the megabyte: by the test virus behind ever other sizes of padding.

        Costs up to some seconds of clamd's time. One that calls a file clean that it did not scan to the end names no limits.
        """
        layout = await self._layout(known)
        enough, too_much = known.reach // MIB, max(self._largest, MIB) // MIB + 1
        middle = too_much - 1
        names_limits = known.names_limits
        while too_much - enough > 1:
            said = await self._says_behind(middle * MIB, layout, known)
            names_limits = names_limits and said is not Verdict.CLEAN
            if said is Verdict.INFECTED:
                enough = middle
            else:
                too_much = middle
            middle = (enough + too_much) // 2
        return replace(known, reach=enough * MIB, reach_is_found=True, names_limits=names_limits)

    async def _layout(self, known: Known) -> Layout:
        """Answer how padding is made behind which this clamd looks for the test virus: its signature may hold for whole files only."""
        plain = await self._says_behind(2 * len(EICAR), _plain_behind, known)
        return _plain_behind if plain is Verdict.INFECTED else _zipped_behind

    async def _finds_behind_descriptors(self) -> bool:
        with _in_memory(EICAR) as in_memory, self._on_disk(((0, EICAR),)) as on_disk:
            found = [await self._scans.once(sealed, by_descriptor=True) for sealed in (in_memory, on_disk)]
        return all(said.verdict is Verdict.INFECTED for said in found)

    async def _says(self, data: bytes, *, by_descriptor: bool) -> Verdict:
        with _in_memory(data) as sealed:
            return (await self._scans.once(sealed, by_descriptor=by_descriptor)).verdict

    async def _says_behind(self, padding: int, layout: Layout, known: Known) -> Verdict:
        places = await asyncio.to_thread(layout, padding)
        with self._on_disk(places) as sealed:
            return (await self._scans.once(sealed, by_descriptor=known.takes_descriptors)).verdict

    @contextlib.contextmanager
    def _on_disk(self, places: tuple[tuple[int, bytes], ...]) -> Iterator[Sealed]:
        """Answer a nameless file that is one hole but for a few bytes: it takes no room, whatever its size."""
        descriptor = self._nameless()
        try:
            for at, data in places:
                os.pwrite(descriptor, data, at)
            yield Sealed(descriptor, os.fstat(descriptor).st_size, b"")
        finally:
            os.close(descriptor)

    def _nameless(self) -> int:
        if self._folder is not None:
            with contextlib.suppress(OSError):  # not every file system has such files
                return os.open(self._folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        return os.memfd_create("sluice-probe")


@contextlib.contextmanager
def _in_memory(data: bytes) -> Iterator[Sealed]:
    descriptor = os.memfd_create("sluice-probe")
    try:
        os.write(descriptor, data)
        yield Sealed(descriptor, len(data), sha256(data).digest())
    finally:
        os.close(descriptor)


@cache
def _deeply_packed() -> bytes:
    data = b"deep"
    for _ in range(_DEEPER_THAN_ANY_LIMIT):
        data = gzip.compress(data, mtime=0)
    return data


def _zip(data: bytes) -> bytes:
    """Answer a zip archive of one member that is packed: stored bytes would be found by a clamd that opens no archive."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS, strategy=zlib.Z_FIXED)
    packed = packer.compress(data) + packer.flush()
    name, sizes = b"eicar.com", (zlib.crc32(data), len(packed), len(data))
    local = _LOCAL.pack(b"PK\3\4", 20, 0, _DEFLATED, 0, _1980, *sizes, len(name), 0) + name + packed
    entry = _CENTRAL.pack(b"PK\1\2", 20, 20, 0, _DEFLATED, 0, _1980, *sizes, len(name), 0, 0, 0, 0, 0, 0) + name
    return local + entry + _END.pack(b"PK\5\6", 0, 0, 1, 1, len(entry), len(local), 0)


def _plain_behind(padding: int) -> tuple[tuple[int, bytes], ...]:
    return ((padding - len(EICAR), EICAR),)


def _zipped_behind(padding: int) -> tuple[tuple[int, bytes], ...]:
    return _members(((b"padding", b"", padding), (b"eicar.com", EICAR, len(EICAR))))


def _members(members: tuple[tuple[bytes, bytes, int], ...]) -> tuple[tuple[int, bytes], ...]:
    """Lay out a zip archive of stored members: name, the bytes at their start (zeros follow), and their size."""
    places: list[tuple[int, bytes]] = []
    at, directory = 0, b""
    for name, data, size in members:
        checksum = _checksum(data, size)
        directory += _CENTRAL.pack(b"PK\1\2", 20, 20, 0, 0, 0, _1980, checksum, size, size, len(name), 0, 0, 0, 0, 0, at) + name
        places.append((at, _LOCAL.pack(b"PK\3\4", 20, 0, 0, 0, _1980, checksum, size, size, len(name), 0) + name + data))
        at += _LOCAL.size + len(name) + size
    end = _END.pack(b"PK\5\6", 0, 0, len(members), len(members), len(directory), at, 0)
    return (*places, (at, directory + end))


def _checksum(data: bytes, size: int) -> int:
    checksum, left = zlib.crc32(data), size - len(data)
    while left > 0:
        checksum = zlib.crc32(bytes(min(left, MIB)), checksum)
        left -= MIB
    return checksum
