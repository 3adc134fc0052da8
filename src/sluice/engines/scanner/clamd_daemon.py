"""One clamd as it is known so far: its version, and what a few tiny scans have shown it to do. Which clamd is asked is decided in `clamd`."""

import gzip
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Final

from sluice.engines.scanner.clamd_address import ClamdAddress, ClamdAway
from sluice.engines.scanner.clamd_answers import Said, Verdict, Version, read_scan, read_version
from sluice.engines.scanner.clamd_talk import Patience, ask, scan_descriptor, scan_stream
from sluice.kit.sealed import Sealed
from sluice.threats.eicar import EICAR

SILENT_BYTES: Final = 25 * 1024**2
"""The smallest limit on the size of a file that distributions set. A larger file, clamd may skip and call OK unless it is set to name limits."""

_FEWEST_REPEATS: Final = 2
_MOST_REPEATS: Final = 15
_REPEATED_BYTES: Final = 16 * 1024**2

_DEEPER_THAN_ANY_LIMIT: Final = 110  # clamd takes no MaxRecursion above 100


@dataclass(frozen=True, slots=True)
class Known:
    """What was found out about a clamd when its version was first seen."""

    version: Version
    takes_descriptors: bool
    """It found the test virus behind a passed descriptor. One that it may not read, it calls OK (measured, 1.4.6): so this is tried."""
    finds_test_virus: bool
    names_limits: bool
    """It is set to `AlertExceedsMax yes`: what it did not scan, it does not call OK."""


class Daemon:
    """One clamd. Every method raises `ClamdAway` when it gives no answer that can be understood."""

    def __init__(self, address: ClamdAddress, patience: Patience, *, version_seconds: float) -> None:
        self.address = address
        self._patience = patience
        self._version_seconds = version_seconds
        self._known: Known | None = None
        self._fresh_until = 0.0
        self._resting_until = 0.0

    async def known(self) -> Known:
        """Answer what is known, asking for the version again when the last answer is older than `version_seconds`."""
        if self._known is not None and time.monotonic() < self._fresh_until:
            return self._known
        asked_at = time.monotonic()
        version = read_version(await ask(self.address, b"VERSION", self._patience))
        if self._known is None or self._known.version != version:
            self._known = await self._find_out(version)
        self._fresh_until = asked_at + self._version_seconds
        return self._known

    async def scan(self, sealed: Sealed) -> tuple[Said, Known]:
        """Answer what clamd says of the bytes, and what was known of it before it was asked."""
        known = await self.known()
        said = await self._say(sealed, by_descriptor=known.takes_descriptors)
        for _ in range(_repeats(sealed.size)):
            if said.verdict is not Verdict.ENCRYPTED:
                break
            said = await self._say(sealed, by_descriptor=known.takes_descriptors)
        if said.verdict is Verdict.REFUSED:
            raise ClamdAway(f"it refused: {said.detail}")
        found_nothing = said.verdict in {Verdict.CLEAN, Verdict.ENCRYPTED}
        if found_nothing and not known.names_limits and sealed.size > SILENT_BYTES:
            said = Said(
                Verdict.INCOMPLETE, f"this clamd does not tell what it skips, and may skip files of more than {SILENT_BYTES} bytes"
            )
        return said, known

    def rest(self, seconds: float) -> None:
        """Note a fault: other daemons are asked first for some time, and what was known of this one is found out anew."""
        self._known = None
        self._resting_until = time.monotonic() + seconds

    @property
    def is_resting(self) -> bool:
        """Whether a fault was met a short time ago."""
        return time.monotonic() < self._resting_until

    async def _say(self, sealed: Sealed, *, by_descriptor: bool) -> Said:
        if by_descriptor:
            said = read_scan(await scan_descriptor(self.address, sealed, self._patience))
            if said.verdict is not Verdict.REFUSED:
                return said
        return read_scan(await scan_stream(self.address, sealed, self._patience))

    async def _find_out(self, version: Version) -> Known:
        takes_descriptors = self.address.is_local and await self._tells(EICAR, Verdict.INFECTED, by_descriptor=True)
        return Known(
            version,
            takes_descriptors=takes_descriptors,
            finds_test_virus=takes_descriptors or await self._tells(EICAR, Verdict.INFECTED),
            names_limits=await self._tells(_deeply_packed(), Verdict.INCOMPLETE),
        )

    async def _tells(self, data: bytes, verdict: Verdict, *, by_descriptor: bool = False) -> bool:
        with _in_memory(data) as sealed:
            said = await self._say(sealed, by_descriptor=by_descriptor)
        return said.verdict is verdict


def _repeats(size: int) -> int:
    """Answer how often a file with a password is scanned again, to see whether a limit was met as well.

    ClamAV picks one of several heuristic finds by chance: `Encrypted` hid `Limits.Exceeded` in 33 of 80 scans of such files (1.4.6).
    With `AlertEncrypted no` there is nothing to pick from.
    """
    return max(_FEWEST_REPEATS, min(_MOST_REPEATS, _REPEATED_BYTES // max(1, size)))


@cache
def _deeply_packed() -> bytes:
    data = b"deep"
    for _ in range(_DEEPER_THAN_ANY_LIMIT):
        data = gzip.compress(data, mtime=0)
    return data


@contextmanager
def _in_memory(data: bytes) -> Iterator[Sealed]:
    descriptor = os.memfd_create("sluice-probe")
    try:
        os.write(descriptor, data)
        yield Sealed(descriptor, len(data), sha256(data).digest())
    finally:
        os.close(descriptor)
