"""The scanner engine `icap:NAME`: an antivirus behind an ICAP server judges the file as it is.

The server is watched: it is in service while it replies and finds the test virus, plain and in a zip archive. How large
a file it scans to its end is found by trying, since a server may pass what is beyond its limit without a word. Our own
rules are not run here: `several` has them scan beside this engine.
"""

import asyncio
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sluice.kit.health import EngineHealth, EngineState
from sluice.observe.log import log
from sluice.scanner.icap.connection import IcapAddress, IcapClient
from sluice.scanner.icap.replies import IcapReply, IcapUnavailable, IcapVerdict, Options
from sluice.scanner.probe_files import MIB, in_memory, on_disk, zip_of, zipped_behind
from sluice.scanner.protocol import Clean, EngineVersion, Incomplete, Infected, ScannerUnavailable, ScanResult
from sluice_inspect.sandbox.fair_queue import FairQueue
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.unpack import UnpackReport
from sluice_inspect.threats import EICAR

_LARGEST_BYTES: Final = 500 * MIB  # of any context
_AT_ONCE_BYTES: Final = 32 * MIB  # tried when the server comes into service
_CONNECT_SECONDS: Final = 5.0
_START_SECONDS: Final = 10.0
_CHECK_SECONDS: Final = 15.0  # between two checks, if the server asks for no longer time
_RETRY_SECONDS: Final = (0.2, 5.0)  # the first and the longest pause after a failure
GRACE_SECONDS: Final = 1.0  # how long a scan waits for a server that is away; an optional one is not waited for
_PROBE_AGAIN_SECONDS: Final = 300.0
_STALL_SECONDS: Final = 30.0  # without a reply to any scan, after which it is asked whether it still lives
_TAG_SECONDS: Final = 3600.0  # how long a version counts that no reply has stated since


@dataclass(frozen=True, slots=True)
class _Known:
    """What was found out of a server in service.

    `scan_limit`: bytes of the largest file that it was seen to scan to its end; `is_final`: it scans no larger one, or
    none larger is ever sent.
    """

    options: Options
    scan_limit: int
    is_final: bool


class IcapScanner:
    """Asks one service of an ICAP server. `method` is `RESPMOD` or `REQMOD`, `folder` briefly holds test files."""

    def __init__(
        self,
        name: str,
        address: IcapAddress,
        *,
        method: str = "RESPMOD",
        tls: ssl.SSLContext | None = None,
        scan_seconds: float = 300.0,
        concurrency: int = 8,
        folder: Path | None = None,
        largest_bytes: int = _LARGEST_BYTES,
        check_seconds: float = _CHECK_SECONDS,
        stall_seconds: float = _STALL_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = f"icap:{name}"
        self._client = IcapClient(address, method=method, tls=tls, connect_seconds=_CONNECT_SECONDS)
        self._method = method
        self._scan_seconds = scan_seconds
        self._concurrency = concurrency
        self._folder = folder
        self._largest_bytes = largest_bytes
        self._check_seconds = check_seconds
        self._stall_seconds = stall_seconds
        self._grace_seconds = grace_seconds
        self._monotonic = monotonic
        self._known: _Known | None = None  # None while it is out of service
        self._limit_before: int | None = None  # holds after a failure until it is found again
        self._tags: dict[
            str, float
        ] = {}  # each with the time of the last reply that stated it, the newest version last
        self._fault = "it was not asked yet"
        self._failures = 0
        self._probed_at = 0.0
        self._replied_at = 0.0
        self._changed = asyncio.Event()
        self._wake = asyncio.Event()
        self._checked = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._searching = asyncio.Lock()
        self._slots: FairQueue[str, None, bool] = FairQueue(self._take_slot)

    @property
    def engine_version(self) -> EngineVersion | None:
        """The engine with the newest version of signatures that the server stated; None while it is out of service."""
        return None if self._known is None else EngineVersion(self.name, self._tag)

    @property
    def scan_limit(self) -> int | None:
        """Bytes of the largest file that is scanned to its end; None while that is unknown."""
        if self._known is not None and self._known.is_final:
            return self._known.scan_limit
        return self._limit_before

    async def start(self) -> None:
        """Begin to watch the server; return when the first check has ended, at the latest after some seconds."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        with suppress(TimeoutError):
            async with asyncio.timeout(_START_SECONDS):
                await self._checked.wait()

    async def scan(
        self,
        sealed: Sealed,
        *,
        tenant_id: str,
        unpack_report: "asyncio.Future[UnpackReport | None] | None" = None,  # noqa: ARG002  (the protocol's signature)
    ) -> ScanResult:
        """Have the server scan all of the bytes; see `Scanner.scan`."""
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self._scan_seconds):
                known = await self._require_service()
                known = await self._require_limit(known, sealed.size)
                if sealed.size > known.scan_limit:
                    why = f"a file of {sealed.size} bytes; {self.name} scans {known.scan_limit}"
                    return Incomplete(why, self.name, self._tag, _ms_since(began))
                async with self._slots.take(tenant_id, None):
                    reply = await self._scan_while_alive(sealed, known.options)
        except TimeoutError:
            return ScannerUnavailable(f"no verdict within {self._scan_seconds:g} s", self.name)
        except IcapUnavailable as fault:
            self._leave(str(fault))
            self._wake.set()
            return ScannerUnavailable(str(fault), self.name)
        self._note_tag(reply.tag)
        ms = _ms_since(began)
        if reply.verdict is IcapVerdict.INFECTED:
            return Infected(reply.detail, self.name, reply.tag, ms)
        if reply.verdict is IcapVerdict.CLEAN:
            return Clean(self.name, reply.tag, ms)
        return Incomplete(reply.detail, self.name, reply.tag, ms)

    async def find_scan_limit(self, seconds: float, size: int | None = None) -> None:
        """Find `scan_limit`, in at most `seconds`; do nothing if files of `size` bytes are known to be scanned."""
        with suppress(TimeoutError, IcapUnavailable):
            async with asyncio.timeout(seconds):
                known = await self._require_service()
                await self._require_limit(known, self._largest_bytes if size is None else size)

    async def health(self) -> EngineHealth:
        """Return `down` while the server is out of service."""
        await self.start()
        known = self._known
        limits: dict[str, int | str] = {
            "concurrency": self._limit_of_connections(known),
            "running": self._slots.held_total,
            "waiting": self._slots.waiting,
            "signatures": self._tag or "unknown",
        }
        if known is None:
            return EngineHealth("scanner", self.name, EngineState.DOWN, detail=self._fault, limits=limits)
        limits["scanned_bytes"] = known.scan_limit if known.is_final else f"at least {known.scan_limit}"
        detail = "" if self._tag else "it states no version of its signatures: verdicts are not cached or renewed"
        state = EngineState.UP if self._tag else EngineState.DEGRADED
        version = known.options.service or self.name
        return EngineHealth("scanner", self.name, state, version=version, detail=detail, limits=limits)

    async def aclose(self) -> None:
        """Stop watching and close the connections. A second call is a no-op."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        self._known, self._fault = None, "the scanner was closed"
        self._client.close()

    def _take_slot(self, _tenant_id: str, _request: None) -> bool | None:
        return True if self._slots.held_total < self._limit_of_connections(self._known) else None

    def _limit_of_connections(self, known: _Known | None) -> int:
        stated = None if known is None else known.options.connections
        return self._concurrency if not stated else max(1, min(self._concurrency, stated))

    async def _require_service(self) -> _Known:
        """Return what is known of the server; wait a moment if it is away. Raise `IcapUnavailable`."""
        if self._known is None and self._grace_seconds:
            self._wake.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._grace_seconds):
                    while self._known is None:
                        self._changed.clear()
                        await self._changed.wait()
        if self._known is None:
            raise IcapUnavailable(self._fault)
        return self._known

    async def _require_limit(self, known: _Known, size: int) -> _Known:
        """Return what is known once it is clear whether files of `size` bytes are scanned to their end."""
        size = min(size, self._largest_bytes)
        if size <= known.scan_limit or known.is_final:
            return known
        async with self._searching:
            if self._known is None:
                raise IcapUnavailable(self._fault)
            if size > self._known.scan_limit and not self._known.is_final:
                found = await self._find_limit(self._known, size)
                if self._known is None:
                    raise IcapUnavailable(self._fault)
                self._known = replace(self._known, scan_limit=found.scan_limit, is_final=found.is_final)
                self._limit_before = found.scan_limit if found.is_final else self._limit_before
            return self._known

    async def _find_limit(self, known: _Known, size: int) -> _Known:
        """Find by bisection, to the megabyte, how large a file of at most `size` bytes is scanned to its end."""
        tried = -(-size // MIB)
        enough, too_much, middle = known.scan_limit // MIB, tried + 1, tried
        while too_much - enough > 1:
            pieces = await asyncio.to_thread(zipped_behind, middle * MIB)
            with on_disk(pieces, self._folder) as sealed:
                reply = await self._client.scan(sealed, known.options)
            enough, too_much = (middle, too_much) if reply.verdict is IcapVerdict.INFECTED else (enough, middle)
            middle = (enough + too_much) // 2
        is_final = enough < tried or tried * MIB >= self._largest_bytes
        return _Known(known.options, enough * MIB, is_final)

    async def _scan_while_alive(self, sealed: Sealed, options: Options) -> IcapReply:
        """Return what the server says of all of the bytes. Raise `IcapUnavailable` if it shows no sign of life."""
        scanning = asyncio.create_task(self._client.scan(sealed, options))
        try:
            while True:
                done, _ = await asyncio.wait({scanning}, timeout=self._stall_seconds)
                if done:
                    self._replied_at = self._monotonic()
                    return scanning.result()
                await self._ask_options()
        finally:
            scanning.cancel()
            await asyncio.gather(scanning, return_exceptions=True)

    async def _ask_options(self) -> Options | None:
        """Return what the server says of the service.

        Return None if it does not reply while scans take its connections, of which one has ended lately. Raise
        `IcapUnavailable`.
        """
        try:
            return await self._client.options()
        except IcapUnavailable:
            if self._slots.held_total and self._monotonic() - self._replied_at <= self._stall_seconds:
                return None
            raise

    async def _watch(self) -> None:
        """Keep the server in service while it is healthy. Runs until cancelled."""
        while True:
            self._wake.clear()
            try:
                await self._check()
            except IcapUnavailable as fault:
                self._leave(str(fault))
            except TimeoutError:
                self._leave("no reply to a test in time")
            self._checked.set()
            first, longest = _RETRY_SECONDS
            pause = self._check_seconds
            if self._known is None:
                pause = min(longest, first * 2**self._failures)
                self._failures = min(self._failures + 1, 10)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def _check(self) -> None:
        options = await self._ask_options()
        if options is None:
            return
        if options.methods and self._method not in options.methods:
            raise IcapUnavailable(f"the service takes {', '.join(options.methods)} and not {self._method}")
        known = self._known
        is_new = known is None or options.tag != self._tag
        if is_new or self._monotonic() - self._probed_at >= _PROBE_AGAIN_SECONDS:
            async with asyncio.timeout(self._scan_seconds):
                await self._require_test_virus(options)
            self._probed_at = self._monotonic()
        self._note_tag(options.tag)
        known = self._known  # a search may have ended meanwhile
        limit, is_final = (MIB, False) if known is None else (known.scan_limit, known.is_final)
        self._known, self._fault, self._failures = _Known(options, limit, is_final), "", 0
        self._changed.set()
        if known is None:
            await self._require_limit(self._known, _AT_ONCE_BYTES)

    async def _require_test_virus(self, options: Options) -> None:
        """Raise `IcapUnavailable` if the test virus is not found: plain, in a zip archive, or at the end of 1 MB."""
        for what, data in (("the EICAR test virus", EICAR), ("the EICAR test virus inside a zip", zip_of(EICAR))):
            with in_memory(data) as sealed:
                reply = await self._client.scan(sealed, options)
            if reply.verdict is not IcapVerdict.INFECTED:
                raise IcapUnavailable(f"it does not find {what}: {_shown(reply)}")
        with on_disk(zipped_behind(MIB), self._folder) as sealed:
            reply = await self._client.scan(sealed, options)
        if reply.verdict is not IcapVerdict.INFECTED:
            raise IcapUnavailable("it does not scan a file of 1 MB to its end: see its limits")

    def _leave(self, fault: str) -> None:
        if self._known is not None:
            log.warning("scanner_away", engine=self.name, why=fault)
        self._known, self._fault = None, fault

    @property
    def _tag(self) -> str:
        return next(reversed(self._tags), "")

    def _note_tag(self, tag: str) -> None:
        """Note a version of the signatures. Servers behind one address may be updated one by one: the newest counts."""
        now = self._monotonic()
        if tag:
            self._tags[tag] = now
        for old in [old for old, seen_at in self._tags.items() if now - seen_at > _TAG_SECONDS]:
            del self._tags[old]


def _shown(reply: IcapReply) -> str:
    return reply.detail or "it calls it clean"


def _ms_since(began: float) -> float:
    return (time.perf_counter() - began) * 1000
