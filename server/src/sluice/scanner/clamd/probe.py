"""Probe one clamd by scans with known results: what it finds, what it skips, how large a file it scans."""

import asyncio
import gzip
import os
import zlib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from sluice.scanner.clamd.connection import ClamdClient
from sluice.scanner.clamd.replies import ClamdUnavailable, ClamdVerdict, ClamdVersion
from sluice.scanner.probe_files import (
    MIB,
    Layout,
    deflate,
    deflated_zip,
    in_memory,
    on_disk,
    plain_behind,
    zip_of,
    zipped_behind,
)
from sluice_inspect.threats import EICAR

# The largest file that is tried when a clamd comes into service: it takes 0.1 to 0.3 s. Larger ones are tried when
# something needs them (`find_scan_limit`).
AT_ONCE_BYTES: Final = 32 * MIB
_DEEPER_THAN_ANY_LIMIT: Final = 110  # clamd accepts no MaxRecursion above 100
# What is tried of a clamd that does not report limits. No more parts of one file than the first are extracted for it.
_MEMBERS_TRIED: Final = (4_000, 1_000, 100, 10)
_TIMES_TRIED: Final = (4, 2)  # multiples of the largest file that is scanned; MaxScanSize is 4 by default
_MOST_PACKED_BYTES: Final = 1024 * MIB
_NONCE_BYTES: Final = 16


class ClamdUnfit(ClamdUnavailable):
    """It replies, and does not find what every scanner must find."""


@dataclass(frozen=True, slots=True)
class PackedLimits:
    """The scan limits for the content of one file: bytes, the file's own included, members, levels below it."""

    size: int = 0
    members: int = 0
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The measured abilities of a running clamd.

    `takes_descriptors`: it found the test virus behind passed descriptors, in memory and on disk; of a descriptor that
    it may not read, it says OK (measured, 1.4.6). `reports_limits`: it is set to `AlertExceedsMax yes`, so that it does
    not say OK of most of what it did not scan (see `sluice_inspect.sandbox.unpack`). `scan_limit`: bytes of the largest
    file that it was seen to scan to its end; `is_scan_limit_final`: that is the largest file it scans, or the
    largest that it may ever be sent. `packed`, known when that is final: up to where one that does not report limits
    was seen to find the test virus among what is packed in a file.
    """

    version: ClamdVersion
    takes_descriptors: bool
    reports_limits: bool
    scan_limit: int = 0
    is_scan_limit_final: bool = False
    packed: PackedLimits = PackedLimits()


class Probe:
    """Probes one clamd.

    `folder` briefly holds test files; `largest` is the size in bytes of the largest file that it may ever be sent.
    """

    def __init__(self, client: ClamdClient, *, folder: Path | None, largest: int) -> None:
        self._client = client
        self._folder = folder
        self._largest = largest

    async def probe(self, version: ClamdVersion) -> Capabilities:
        """Find the capabilities by a few small scans.

        Raise `ClamdUnfit` if the test virus is not found: plain, inside a zip, or at the end of 1 MB.
        """
        by_descriptor = self._client.address.is_local and await self._finds_behind_descriptors()
        for what, data in (("the EICAR test virus", EICAR), ("the EICAR test virus inside a zip", zip_of(EICAR))):
            if await self._scan(data, by_descriptor=by_descriptor) is not ClamdVerdict.INFECTED:
                raise ClamdUnfit(f"it does not find {what}: its signatures are not of use")
        deep = await self._scan(_deeply_packed(), by_descriptor=by_descriptor)
        found = Capabilities(version, takes_descriptors=by_descriptor, reports_limits=deep is ClamdVerdict.INCOMPLETE)
        if await self._scan_behind(MIB, await self._choose_layout(found), found) is not ClamdVerdict.INFECTED:
            raise ClamdUnfit(
                "it does not scan a file of 1 MB to its end: see MaxFileSize, MaxScanSize and StreamMaxLength"
            )
        return replace(found, scan_limit=MIB)

    async def find_scan_limit(self, found: Capabilities, most: int | None = None) -> Capabilities:
        """Find by bisection how large a file, of at most `most` bytes, is scanned to its end.

        The test virus is behind padding; the result is exact to the megabyte. Without `most`, it is final, and takes up
        to some seconds of clamd's time. A clamd that calls a file clean that it did not scan to the end does not report
        limits; of such a one, all limits are found, also those on what is packed in a file.
        """
        layout = await self._choose_layout(found)
        reports_limits = found.reports_limits
        largest = max(self._largest, MIB) // MIB
        tried = min(largest, most // MIB) if most is not None and reports_limits else largest
        enough, too_much = found.scan_limit // MIB, tried + 1
        middle = tried
        while too_much - enough > 1:
            verdict = await self._scan_behind(middle * MIB, layout, found)
            reports_limits = reports_limits and verdict is not ClamdVerdict.CLEAN
            if verdict is ClamdVerdict.INFECTED:
                enough = middle
            else:
                too_much = middle
            middle = (enough + too_much) // 2
        is_final = enough < tried or tried == largest
        found = replace(found, scan_limit=enough * MIB, is_scan_limit_final=is_final, reports_limits=reports_limits)
        return found if reports_limits else replace(found, packed=await self._find_packed_limits(found))

    async def _find_packed_limits(self, found: Capabilities) -> PackedLimits:
        """Find how much of what is packed in one file is scanned. Each is a lower bound of the limit that is set."""

        async def finds(packed: bytes) -> bool:
            return await self._scan(packed, by_descriptor=found.takes_descriptors) is ClamdVerdict.INFECTED

        depth, too_deep = 0, _DEEPER_THAN_ANY_LIMIT
        while too_deep - depth > 1:
            middle = (depth + too_deep) // 2
            depth, too_deep = (middle, too_deep) if await finds(_packed(EICAR, middle)) else (depth, middle)
        members = 0
        for count in _MEMBERS_TRIED:
            if await finds(await asyncio.to_thread(_crowded_zip, count)):
                members = count
                break
        size = found.scan_limit
        for times in _TIMES_TRIED:
            # The archive's own bytes, and the test virus, count as well.
            sizes = [found.scan_limit] * (times - 1) + [found.scan_limit - MIB // 2]
            if sum(sizes) <= _MOST_PACKED_BYTES and await finds(await asyncio.to_thread(_large_zip, sizes)):
                size = sum(sizes)
                break
        return PackedLimits(size, members, depth)

    async def _choose_layout(self, found: Capabilities) -> Layout:
        """Return padding behind which this clamd finds the test virus: its signature may match whole files only."""
        plain = await self._scan_behind(2 * len(EICAR), plain_behind, found)
        return plain_behind if plain is ClamdVerdict.INFECTED else zipped_behind

    async def _finds_behind_descriptors(self) -> bool:
        with in_memory(EICAR) as first, on_disk(((0, EICAR),), self._folder) as second:
            replies = [await self._client.scan_once(sealed, by_descriptor=True) for sealed in (first, second)]
        return all(reply.verdict is ClamdVerdict.INFECTED for reply in replies)

    async def _scan(self, data: bytes, *, by_descriptor: bool) -> ClamdVerdict:
        with in_memory(data) as sealed:
            return (await self._client.scan_once(sealed, by_descriptor=by_descriptor)).verdict

    async def _scan_behind(self, padding: int, layout: Layout, found: Capabilities) -> ClamdVerdict:
        pieces = await asyncio.to_thread(layout, padding)
        with on_disk(pieces, self._folder) as sealed:
            return (await self._client.scan_once(sealed, by_descriptor=found.takes_descriptors)).verdict


@cache
def _deeply_packed() -> bytes:
    return _packed(b"deep", _DEEPER_THAN_ANY_LIMIT)


def _packed(data: bytes, levels: int) -> bytes:
    for _ in range(levels):
        data = gzip.compress(data, mtime=0)
    return data


def _crowded_zip(count: int) -> bytes:
    """Return a zip archive of `count` members, of which the last is the test virus."""
    return zip_of(*(os.urandom(_NONCE_BYTES) for _ in range(count - 1)), EICAR)


def _large_zip(sizes: list[int]) -> bytes:
    """Return a zip archive of the test virus behind members of these sizes.

    No two of them are alike, since clamd remembers what it has scanned.
    """
    members: list[tuple[int, bytes, int]] = []
    for size in sizes:
        nonce = os.urandom(_NONCE_BYTES)
        packer = zlib.compressobj(1, wbits=-zlib.MAX_WBITS)
        packed, checksum, zeros = packer.compress(nonce), zlib.crc32(nonce), size - len(nonce)
        while zeros > 0:
            piece = bytes(min(zeros, MIB))
            packed, checksum, zeros = packed + packer.compress(piece), zlib.crc32(piece, checksum), zeros - len(piece)
        members.append((checksum, packed + packer.flush(), size))
    return deflated_zip([*members, (zlib.crc32(EICAR), deflate(EICAR), len(EICAR))])
