"""The scanner engine `icap:NAME`: an antivirus behind an ICAP server judges the file as it is.

The server is watched: it is in service while it replies and finds the test virus, plain and in a zip archive. How large
a file it scans to its end is found by trying, in the background, since a server may silently pass what is beyond its
limit; a file that the server cannot judge is unavailable and takes it out of service for no other. Our own
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
from sluice.scanner.icap.connection import IcapAddress, IcapClient, IcapSilent, IcapUnreachable
from sluice.scanner.icap.replies import IcapReply, IcapUnavailable, IcapVerdict, Options
from sluice.scanner.probe_files import MIB, in_memory, on_disk, zip_of, zipped_behind
from sluice.scanner.protocol import (
    Clean,
    EncryptedPolicy,
    EngineVersion,
    Incomplete,
    Infected,
    ScannerUnavailable,
    ScanResult,
)
from sluice_inspect.sandbox.fair_queue import FairQueue
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.unpack import UnpackReport
from sluice_inspect.threats import EICAR

_LARGEST_BYTES: Final = 500 * MIB  # of any context
_AT_ONCE_BYTES: Final = 32 * MIB  # tried when the server comes into service, and again at each test
_CONNECT_SECONDS: Final = 5.0
_START_SECONDS: Final = 10.0
_CHECK_SECONDS: Final = 15.0  # between two checks
_RETRY_SECONDS: Final = (0.2, 5.0)  # the first and the longest pause after a failure
GRACE_SECONDS: Final = 1.0  # how long a scan waits for a server that is away; an optional one is not waited for
_TEST_AGAIN_SECONDS: Final = 300.0
_TRY_SECONDS: Final = 60.0  # for one test file
_STALL_SECONDS: Final = 30.0  # without a reply to any scan, after which it is asked whether it still lives
_TAG_SECONDS: Final = 3600.0  # how long a version counts that no reply has stated since
_MOST_TAGS: Final = 16  # versions in that time, beyond which they are none
_PROBE: Final = "probe"  # in place of a tenant


@dataclass(frozen=True, slots=True)
class _Known:
    """What was found out of a server in service.

    `scan_limit`: bytes of the largest file that it was seen to scan to its end; `is_final`: it was not seen to scan a
    larger one, or none larger is ever sent. `period` changes whenever it comes into service or loses its limit: a reply
    to what was asked in an earlier one is no verdict.
    """

    options: Options
    scan_limit: int
    is_final: bool
    period: int


class IcapScanner:
    """Asks one service of an ICAP server. `method` is `RESPMOD` or `REQMOD`, `folder` briefly holds test files.

    `encrypted` is the policy on parts behind a password.
    """

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
        encrypted: EncryptedPolicy = "allow",
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
        self._encrypted: EncryptedPolicy = encrypted
        self._largest_bytes = largest_bytes
        self._check_seconds = check_seconds
        self._stall_seconds = stall_seconds
        self._grace_seconds = grace_seconds
        self._monotonic = monotonic
        self._known: _Known | None = None  # None while it is out of service
        self._limit_before: int | None = None  # holds after a failure until it is found again
        # Each version of the signatures with the time of the last reply that stated it, the newest version last.
        self._tags: dict[str, float] = {}
        self._fault = "it was not asked yet"
        self._failures = 0
        self._period = 0
        self._tested_tag: str | None = None
        self._tested_at = 0.0
        self._replied_at = 0.0
        self._changed = asyncio.Event()
        self._wake = asyncio.Event()
        self._checked = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._search: asyncio.Task[None] | None = None
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
                reply = await self._scan(sealed, tenant_id)
        except TimeoutError:
            return ScannerUnavailable(f"no verdict within {self._scan_seconds:g} s", self.name)
        except OSError as error:  # no descriptor or no memory left
            return ScannerUnavailable(f"the file cannot be sent: {type(error).__name__}", self.name)
        except IcapUnavailable as fault:
            if isinstance(fault, IcapUnreachable | IcapSilent):
                self._leave(str(fault))
            self._wake.set()
            return ScannerUnavailable(str(fault), self.name)
        ms = (time.perf_counter() - began) * 1000
        if reply.verdict is IcapVerdict.INFECTED:
            return Infected(reply.detail, self.name, reply.tag, ms)
        if reply.verdict is IcapVerdict.CLEAN:
            return Clean(self.name, reply.tag, ms)
        if reply.verdict is IcapVerdict.ENCRYPTED and self._encrypted == "allow":
            return Clean(self.name, reply.tag, ms, flags=("encrypted",))
        return Incomplete(reply.detail, self.name, reply.tag, ms)

    async def _scan(self, sealed: Sealed, tenant_id: str) -> IcapReply:
        """Return what the server says of all of the bytes. Raise `IcapUnavailable`."""
        await self._require_service()
        await self._require_limit(sealed.size)
        async with self._slots.take(tenant_id, None):
            known = self._known
            if known is None:
                raise IcapUnavailable(self._fault)
            if sealed.size > known.scan_limit:
                why = f"a file of {sealed.size} bytes; {self.name} scans {known.scan_limit}"
                return IcapReply(IcapVerdict.INCOMPLETE, why, self._tag)
            reply = await self._scan_while_alive(sealed, known.options)
        self._note_tag(reply.tag)
        if reply.verdict is not IcapVerdict.INFECTED and self._period != known.period:
            raise IcapUnavailable("it was out of service meanwhile")
        return reply

    async def find_scan_limit(self, seconds: float, size: int | None = None) -> None:
        """Find `scan_limit`, in at most `seconds`; do nothing if files of `size` bytes are known to be scanned."""
        with suppress(TimeoutError, IcapUnavailable):
            async with asyncio.timeout(seconds):
                await self._require_service()
                await self._require_limit(self._largest_bytes if size is None else size)

    async def health(self) -> EngineHealth:
        """Return `down` while the server is out of service."""
        if self._watching is None:
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
        detail = "" if self._tag else "it states no version of its signatures: no verdict is cached"
        state = EngineState.UP if self._tag else EngineState.DEGRADED
        version = known.options.service or self.name
        return EngineHealth("scanner", self.name, state, version=version, detail=detail, limits=limits)

    async def aclose(self) -> None:
        """Stop watching and close the connections. A second call is a no-op."""
        tasks = [task for task in (self._watching, self._search) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._known, self._fault = None, "the scanner was closed"
        self._client.close()

    def _take_slot(self, _tenant_id: str, _request: None) -> bool | None:
        return True if self._slots.held_total < self._limit_of_connections(self._known) else None

    def _limit_of_connections(self, known: _Known | None) -> int:
        stated = None if known is None else known.options.connections
        return self._concurrency if not stated else max(1, min(self._concurrency, stated))

    async def _require_service(self) -> None:
        """Wait a moment if the server is away. Raise `IcapUnavailable` if it stays away."""
        if self._known is None and self._grace_seconds:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._grace_seconds):
                    while self._known is None:
                        self._changed.clear()
                        await self._changed.wait()
        if self._known is None:
            raise IcapUnavailable(self._fault)

    async def _require_limit(self, size: int) -> None:
        """Wait until it is clear whether files of `size` bytes are scanned to their end. Raise `IcapUnavailable`."""
        size = min(size, self._largest_bytes)
        while (known := self._known) is not None and size > known.scan_limit and not known.is_final:
            self._begin_search(size)
            if self._search is None:
                break
            await asyncio.wait({self._search})  # shared by all scans that wait; a cancelled one does not end it
            if self._known is known:
                raise IcapUnavailable("how large files it scans could not be found out")

    def _begin_search(self, size: int) -> None:
        """Begin to find whether files of `size` bytes are scanned, unless a search is under way."""
        known = self._known
        if known is not None and (self._search is None or self._search.done()):
            self._search = asyncio.create_task(self._find_limit(known, size))

    async def _find_limit(self, known: _Known, size: int) -> None:
        """Find by bisection, to the megabyte, how large a file of at most `size` bytes is scanned to its end.

        Each step is noted, unless the server was out of service meanwhile.
        """
        tried = -(-size // MIB)
        enough, too_much, middle = known.scan_limit // MIB, tried + 1, tried
        while too_much - enough > 1:
            try:
                is_found = await self._finds_behind(middle * MIB, known.options)
            except (IcapUnavailable, TimeoutError, OSError) as fault:
                # Some refuse what is too large by an error, or close the connection: they still find the small one.
                try:
                    await self._require_test_virus(known.options)
                except (IcapUnavailable, TimeoutError, OSError):
                    self._leave(str(fault) or "no reply to a test file in time")
                    self._wake.set()
                    return
                is_found = False
            enough, too_much = (middle, too_much) if is_found else (enough, middle)
            middle = (enough + too_much) // 2
            if self._known is None or self._known.period != known.period:
                return
            is_final = too_much - enough <= 1 and (enough < tried or tried * MIB >= self._largest_bytes)
            self._known = replace(self._known, scan_limit=enough * MIB, is_final=is_final)
            self._limit_before = enough * MIB if is_final else self._limit_before

    async def _scan_while_alive(self, sealed: Sealed, options: Options) -> IcapReply:
        """Return what the server says of all of the bytes. Raise `IcapUnavailable` if it shows no sign of life."""
        scanning = asyncio.create_task(self._client.scan(sealed, options))
        try:
            while not scanning.done():
                await asyncio.wait({scanning}, timeout=self._stall_seconds)
                if not scanning.done():
                    await self._ask_options()
            reply = scanning.result()
            self._replied_at = self._monotonic()
            return reply
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
        except IcapSilent:
            if self._slots.held_total and self._monotonic() - self._replied_at <= self._stall_seconds:
                return None
            raise

    async def _watch(self) -> None:
        """Keep the server in service while it is healthy. Runs until cancelled."""
        shortest, longest = _RETRY_SECONDS
        while True:
            self._wake.clear()
            try:
                await self._check()
            except TimeoutError:
                self._leave("no reply to a test file in time")
            except IcapUnavailable as fault:
                self._leave(str(fault))
            except OSError as error:
                self._leave(f"a test file cannot be made: {type(error).__name__}")
            except Exception:  # noqa: BLE001  (without its watcher the server would never be used again)
                log.exception("scanner_check_failed", engine=self.name)
                self._leave("an unexpected fault; see the log")
            self._checked.set()
            if self._known is None:
                pause = min(longest, shortest * 2**self._failures)
                self._failures = min(self._failures + 1, 10)
                await asyncio.sleep(pause)
                continue
            await asyncio.sleep(shortest)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._check_seconds):
                    await self._wake.wait()

    async def _check(self) -> None:
        """Ask the server, and test it if that is due. Raise what shows that it cannot be used."""
        options = await self._ask_options()
        if options is None:
            return
        if options.methods and self._method not in options.methods:
            raise IcapUnavailable(f"the service takes {', '.join(options.methods)} and not {self._method}")
        is_new = self._known is None or options.tag != self._tested_tag
        if is_new or self._monotonic() - self._tested_at >= _TEST_AGAIN_SECONDS:
            await self._require_test_virus(options)
            await self._test_limit(options)
            self._tested_tag, self._tested_at = options.tag, self._monotonic()
        self._note_tag(options.tag)
        self._failures = 0
        if self._known is not None:
            self._known = replace(self._known, options=options)
            self._slots.refresh()
            return
        self._period += 1
        self._known, self._fault = _Known(options, MIB, is_final=False, period=self._period), ""
        self._changed.set()
        self._begin_search(min(_AT_ONCE_BYTES, self._largest_bytes))

    async def _require_test_virus(self, options: Options) -> None:
        """Raise `IcapUnavailable` if the test virus is not found: plain, in a zip archive, or at the end of 1 MB."""
        async with self._slots.take(_PROBE, None), asyncio.timeout(_TRY_SECONDS):
            for what, data in (("the EICAR test virus", EICAR), ("the EICAR test virus inside a zip", zip_of(EICAR))):
                with in_memory(data) as sealed:
                    reply = await self._client.scan(sealed, options)
                if reply.verdict is not IcapVerdict.INFECTED:
                    raise IcapUnavailable(f"it does not find {what}: {reply.detail or 'it calls it clean'}")
        if not await self._finds_behind(MIB, options):
            raise IcapUnavailable("it does not scan a file of 1 MB to its end: see its limits")

    async def _test_limit(self, options: Options) -> None:
        """Forget the limit if the server no longer scans what it did, and search for a larger one when it is needed."""
        known = self._known
        if known is None:
            return
        size = min(known.scan_limit, _AT_ONCE_BYTES)
        if size > MIB and not await self._finds_behind(size, options):
            self._period += 1
            self._limit_before = None
            self._known = replace(known, scan_limit=MIB, is_final=False, period=self._period)
            self._begin_search(size)
        elif self._known is not None and known.scan_limit < self._largest_bytes:
            self._known = replace(self._known, is_final=False)

    async def _finds_behind(self, size: int, options: Options) -> bool:
        """Return whether the test virus is found behind padding of `size` bytes."""
        async with self._slots.take(_PROBE, None), asyncio.timeout(_TRY_SECONDS):
            pieces = await asyncio.to_thread(zipped_behind, size)
            with on_disk(pieces, self._folder) as sealed:
                return (await self._client.scan(sealed, options)).verdict is IcapVerdict.INFECTED

    def _leave(self, fault: str) -> None:
        if self._known is not None:
            log.warning("scanner_away", engine=self.name, why=fault)
            self._period += 1
        self._known, self._fault = None, fault

    @property
    def _tag(self) -> str:
        return "" if len(self._tags) > _MOST_TAGS else next(reversed(self._tags), "")

    def _note_tag(self, tag: str) -> None:
        """Note a version of the signatures. Servers behind one address may be updated one by one: the newest counts.

        A server with another version in each reply states none.
        """
        now = self._monotonic()
        if tag and (tag in self._tags or len(self._tags) <= _MOST_TAGS):
            self._tags[tag] = now
        for old in [old for old, seen_at in self._tags.items() if now - seen_at > _TAG_SECONDS]:
            del self._tags[old]
