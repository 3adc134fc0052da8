"""One clamd of the pool: watch it, probe it, take it out of service after a failure and back when it has recovered."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sluice.scanner.clamd.connection import (
    ClamdAddress,
    ClamdClient,
    ClamdSession,
    ClamdTimeouts,
    ClamdUnresponsive,
    MayAbandon,
    describe_os_error,
)
from sluice.scanner.clamd.probe import AT_ONCE_BYTES, Capabilities, Probe
from sluice.scanner.clamd.replies import ClamdUnavailable, ClamdVerdict, ClamdVersion, ScanReply, parse_version
from sluice.scanner.probe_files import MIB
from sluice_inspect.sandbox.sealed import Sealed

_FIRST_PAUSE: Final = 0.05
_MOST_DOUBLINGS: Final = 20


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """Intervals in seconds: between two health checks, between two probes, and the longest pause after failures.

    A clamd that shows no sign of life for `dead_after` seconds is taken for dead. Until then it is slow, as one is that
    loads signatures.
    """

    check_interval: float = 5.0
    probe_interval: float = 300.0
    retry_interval: float = 5.0
    dead_after: float = 120.0


class ClamdMember:
    """One clamd. `on_change` is called whenever it enters or leaves service, or becomes slow or responsive."""

    def __init__(
        self,
        address: ClamdAddress,
        timeouts: ClamdTimeouts,
        health_policy: HealthPolicy,
        *,
        folder: Path | None,
        largest: int,
        on_change: Callable[[], None],
    ) -> None:
        self.address = address
        self.capabilities: Capabilities | None = None  # None while it is out of service
        self.scan_limit: int | None = None  # the one found last, also after a restart until it is found again
        self.fault = "it was not asked yet"  # why it is out of service; empty while it is in service
        self.is_slow = False
        self.first_check_done = asyncio.Event()  # set whether it passed or not
        self._client = ClamdClient(address, timeouts)
        self._timeouts = timeouts
        self._policy = health_policy
        self._probe = Probe(self._client, folder=folder, largest=largest)
        self._on_change = on_change
        self._failures = 0
        self._wake = asyncio.Event()
        self._limit_search: asyncio.Task[None] | None = None

    @property
    def in_service(self) -> bool:
        """Whether it may be asked to scan."""
        return self.capabilities is not None and not self.fault

    async def scan(self, sealed: Sealed, may_abandon: MayAbandon) -> tuple[ScanReply, Capabilities]:
        """Return its reply, and its capabilities from before it was asked. Raise `ClamdUnavailable` or `OSError`."""
        capabilities = self.capabilities
        if capabilities is None:
            raise ClamdUnavailable(self.fault)
        by_descriptor = capabilities.takes_descriptors
        reply = await self._client.scan(sealed, by_descriptor=by_descriptor, may_abandon=may_abandon)
        if reply.verdict is ClamdVerdict.REFUSED:
            raise ClamdUnavailable(f"it refused: {reply.detail}")
        self._failures = 0
        return reply, capabilities

    def report_failure(self, error: ClamdUnavailable | OSError) -> None:
        """Take it out of service after a failed scan; an unresponsive one is only slow, until its next check."""
        if isinstance(error, ClamdUnresponsive):
            self._become_slow()
        else:
            self._leave(error)
            self._wake.set()

    def check_now(self) -> None:
        """Check it without waiting for the end of a pause: a scan waits and there is no other member."""
        self._wake.set()

    async def watch(self) -> None:
        """Keep it in service while it is healthy: check, probe, and reconnect after ever longer pauses.

        Runs until cancelled.
        """
        try:
            while True:
                try:
                    async with self._client.session() as session:
                        await self._serve(session)
                except (ClamdUnavailable, OSError) as error:
                    self._leave(error)
                self.first_check_done.set()
                await self._pause()
        finally:
            self._leave(ClamdUnavailable("the scanner was closed"))

    async def _serve(self, session: ClamdSession) -> None:
        """Keep it in service as long as the session lasts; raise what ends it."""
        loop = asyncio.get_running_loop()
        probed_at = loop.time()
        self._wake.clear()
        while True:
            version = await self._query_version(session)
            known = self.capabilities
            if known is None or known.version != version or loop.time() - probed_at >= self._policy.probe_interval:
                await self._update_capabilities(version)
                probed_at = loop.time()
            self._enter()
            await self._wait_for_next_check(session)

    async def _query_version(self, session: ClamdSession) -> ClamdVersion:
        """Ask for the version. A clamd that does not reply in time becomes slow, and is dead only after long."""
        asking = asyncio.create_task(session.query(b"VERSION"))
        try:
            await asyncio.wait({asking}, timeout=self._timeouts.connect)
            if not asking.done():
                self._become_slow()
                await asyncio.wait({asking}, timeout=self._policy.dead_after)
            if not asking.done():
                seconds = self._timeouts.connect + self._policy.dead_after
                raise ClamdUnavailable(f"no sign of life for {seconds:g} s")
            return parse_version(asking.result())
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _update_capabilities(self, version: ClamdVersion) -> None:
        before = self.capabilities
        found = await self._probe.probe(version)
        if before is not None and (before.is_scan_limit_final or before.scan_limit > MIB):
            # The session held, so it is the same process with the same limits: only its signatures are new.
            reports_limits = found.reports_limits and before.reports_limits
            if reports_limits or not before.reports_limits:
                found = replace(
                    found,
                    scan_limit=before.scan_limit,
                    is_scan_limit_final=before.is_scan_limit_final,
                    reports_limits=reports_limits,
                    packed=before.packed,
                )
        self.capabilities = found
        if found.scan_limit == MIB:
            self.find_scan_limit(AT_ONCE_BYTES)

    def find_scan_limit(self, most: int | None = None) -> None:
        """Begin to find how large a file, of at most `most` bytes, it scans, unless that is known or being found."""
        found = self.capabilities
        if found is not None and not found.is_scan_limit_final and self._limit_search is None:
            # In the background: it may take seconds, and small files need not wait for it.
            self._limit_search = asyncio.create_task(self._find_scan_limit(found, most))

    async def _find_scan_limit(self, before: Capabilities, most: int | None) -> None:
        try:
            found = await self._probe.find_scan_limit(before, most)
        except (ClamdUnavailable, OSError) as error:
            self._limit_search = None
            why = f"the search for the largest file that it scans failed: {describe_failure(error)}"
            self.report_failure(ClamdUnavailable(why))
            return
        self._limit_search = None
        if self.capabilities is not None:
            self.capabilities = replace(found, version=self.capabilities.version)
            self.scan_limit = found.scan_limit if found.is_scan_limit_final else self.scan_limit
            self._on_change()

    async def _wait_for_next_check(self, session: ClamdSession) -> None:
        """Wait for the check interval.

        Raise `ClamdUnavailable` at once when the session breaks or a scan has failed.
        """
        closing = asyncio.create_task(session.wait_closed())
        waking = asyncio.create_task(self._wake.wait())
        try:
            await asyncio.wait(
                {closing, waking}, timeout=self._policy.check_interval, return_when=asyncio.FIRST_COMPLETED
            )
            if closing.done():
                raise ClamdUnavailable("it closed the connection")
            if waking.done() and not self.in_service:
                raise ClamdUnavailable(self.fault)
            self._wake.clear()
        finally:
            for task in (closing, waking):
                task.cancel()
            await asyncio.gather(closing, waking, return_exceptions=True)

    async def _pause(self) -> None:
        seconds = min(self._policy.retry_interval, _FIRST_PAUSE * 2**self._failures)
        self._failures = min(self._failures + 1, _MOST_DOUBLINGS)
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    def _enter(self) -> None:
        was_healthy = self.in_service and not self.is_slow
        self.fault, self.is_slow = "", False
        self.first_check_done.set()
        if was_healthy:
            self._failures = 0  # it stayed healthy from one check to the next
        else:
            self._on_change()

    def _leave(self, error: ClamdUnavailable | OSError) -> None:
        self.capabilities, self.is_slow, self.fault = None, False, describe_failure(error)
        if self._limit_search is not None:
            self._limit_search.cancel()
            self._limit_search = None
        self._on_change()

    def _become_slow(self) -> None:
        if not self.is_slow:
            self.is_slow = True
            self._on_change()


def describe_failure(error: ClamdUnavailable | OSError) -> str:
    """Return a failure in a few words, without paths."""
    if isinstance(error, TimeoutError):
        return "no verdict in time"
    return describe_os_error(error) if isinstance(error, OSError) else str(error)
