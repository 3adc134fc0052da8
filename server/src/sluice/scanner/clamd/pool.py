"""The pool of clamds: give each scan to a member that is in service and has a free slot, to another if that fails."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from sluice.scanner.clamd.connection import ClamdAddress, ClamdTimeouts
from sluice.scanner.clamd.member import ClamdMember, HealthPolicy, describe_failure
from sluice.scanner.clamd.probe import Capabilities
from sluice.scanner.clamd.replies import ClamdUnavailable, ScanReply
from sluice_inspect.sandbox.fair_queue import FairQueue
from sluice_inspect.sandbox.sealed import Sealed

_SMALL_BYTES: Final = 4 * 1024**2
# Share of a clamd's slots that large files may take. The rest is reserved for small ones, which so overtake them.
_LARGE_SHARE: Final = 0.75
# How long a scan waits for any clamd to return to service. One with few signatures restarts in less.
_GRACE_SECONDS: Final = 1.0


class SlotHost(Protocol):
    """A clamd as `ClamdSlots` needs it."""

    @property
    def in_service(self) -> bool:
        """Whether it may be asked to scan."""

    @property
    def is_slow(self) -> bool:
        """Whether it shows no sign of life, and is asked only if there is no other."""


HostT = TypeVar("HostT", bound=SlotHost)


@dataclass(frozen=True, slots=True)
class SlotRequest(Generic[HostT]):
    """A request for one scan at some host, but at none of `tried`."""

    tenant_id: str
    small: bool
    tried: frozenset[HostT] = frozenset()


class _NoHost(Exception):
    """No untried host is in service."""


class ClamdSlots(Generic[HostT]):
    """`per_host` concurrent scans at each host, fairly between tenants. A scan goes to the host with the fewest."""

    def __init__(self, hosts: Sequence[HostT], per_host: int) -> None:
        self._hosts = hosts
        self._per_host = per_host
        self._large_per_host = max(1, int(per_host * _LARGE_SHARE))
        self._running: Counter[HostT] = Counter()
        self._large: Counter[HostT] = Counter()
        self._queue: FairQueue[str, SlotRequest[HostT], tuple[SlotRequest[HostT], HostT]] = FairQueue(
            self._occupy, self._free, overtaking=True
        )

    @property
    def running(self) -> int:
        """Scans in progress."""
        return self._queue.held_total

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return self._queue.waiting

    def has_host(self, request: SlotRequest[HostT]) -> bool:
        """Return whether any host could take the scan, now or later."""
        return bool(self._usable_hosts(request))

    def has_responsive_host(self, request: SlotRequest[HostT]) -> bool:
        """Return whether a host that is not slow could take the scan, now or later."""
        return any(not host.is_slow for host in self._usable_hosts(request))

    async def acquire(self, request: SlotRequest[HostT]) -> HostT | None:
        """Wait for a slot, which the caller releases; return None as soon as no untried host is in service."""
        try:
            _request, host = await self._queue.get(request.tenant_id, request)
        except _NoHost:
            return None
        return host

    def release(self, request: SlotRequest[HostT], host: HostT) -> None:
        """Give back a slot."""
        self._queue.put_back(request.tenant_id, (request, host))

    def update(self) -> None:
        """Serve waiting requests again: a host came into service or left it."""
        self._queue.refresh()

    def _usable_hosts(self, request: SlotRequest[HostT]) -> list[HostT]:
        usable = [host for host in self._hosts if host.in_service and host not in request.tried]
        return [host for host in usable if not host.is_slow] or usable

    def _occupy(self, _tenant_id: str, request: SlotRequest[HostT]) -> tuple[SlotRequest[HostT], HostT] | None:
        usable = self._usable_hosts(request)
        if not usable:
            raise _NoHost
        free = [
            host
            for host in usable
            if self._running[host] < self._per_host and (request.small or self._large[host] < self._large_per_host)
        ]
        if not free:
            return None
        host = min(free, key=self._running.__getitem__)
        self._running[host] += 1
        self._large[host] += not request.small
        return request, host

    def _free(self, _tenant_id: str, grant: tuple[SlotRequest[HostT], HostT]) -> None:
        request, host = grant
        self._running[host] -= 1
        self._large[host] -= not request.small


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds for a reply, waiting included: `base` plus the size divided by `bytes_per_second`, at most `most`."""

    base: float = 30.0
    bytes_per_second: float = 4_000_000.0
    most: float = 300.0

    def for_size(self, size: int) -> float:
        """Return the seconds for a file of `size` bytes."""
        return min(self.most, self.base + size / self.bytes_per_second)


@dataclass(frozen=True, slots=True)
class MemberReply:
    """The reply of one member, with its address and its capabilities. A `cached` one was given on an earlier scan."""

    reply: ScanReply
    capabilities: Capabilities
    address: str
    ms: float
    cached: bool = False


class NoVerdict(Exception):
    """No clamd gave a valid reply in time. `str()` says why, with one reason for each that was asked."""


class ClamdPool:
    """The clamds at `addresses`. Raise `ValueError` for an invalid address, and for no address.

    Each runs up to `concurrency` scans at once. `largest` is the size in bytes of the largest file that will ever be
    scanned: whether it is scanned to its end is probed, with test files in `folder`.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        timeouts: ClamdTimeouts,
        health_policy: HealthPolicy,
        deadlines: Deadlines,
        *,
        concurrency: int,
        largest: int,
        folder: Path | None,
    ) -> None:
        if not addresses:
            raise ValueError("a clamd scanner needs at least one address")
        self.members = [
            ClamdMember(
                ClamdAddress.parse(text),
                timeouts,
                health_policy,
                folder=folder,
                largest=largest,
                on_change=self._on_change,
            )
            for text in addresses
        ]
        self.slots: ClamdSlots[ClamdMember] = ClamdSlots(self.members, concurrency)
        self._deadlines = deadlines
        self._watches: list[asyncio.Task[None]] = []
        self._changed: asyncio.Future[None] | None = None
        self._closed = False

    async def start(self) -> None:
        """Check every member once, and watch them from now on. Return when the first check of each has ended."""
        if self._closed:
            return
        self._start_watches()
        await asyncio.gather(*(member.first_check_done.wait() for member in self.members))

    async def find_scan_limits(self, size: int | None) -> None:
        """Wait until each member in service is known to scan files of `size` bytes, or its scan limit is final."""
        while searching := [
            member
            for member in self.members
            if (found := member.capabilities) is not None
            and not found.is_scan_limit_final
            and (size is None or found.scan_limit < size)
        ]:
            for member in searching:
                member.find_scan_limit()
            await self._next_change()

    async def scan(self, sealed: Sealed, *, tenant_id: str) -> MemberReply:
        """Scan the bytes at some member. Raise `NoVerdict`."""
        if self._closed:
            raise NoVerdict("the scanner was closed")
        self._start_watches()
        seconds = self._deadlines.for_size(sealed.size)
        failures: dict[ClamdMember, str] = {}
        try:
            async with asyncio.timeout(seconds):
                return await self._scan_somewhere(sealed, tenant_id, failures)
        except TimeoutError:
            if not failures:
                failures = {member: f"{member.address}: {member.fault}" for member in self.members if member.fault}
            raise NoVerdict("; ".join([f"no verdict within {seconds:g} s", *failures.values()])) from None

    async def aclose(self) -> None:
        """Stop watching. A second call is a no-op."""
        self._closed = True
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        self._watches.clear()

    async def _scan_somewhere(self, sealed: Sealed, tenant_id: str, failures: dict[ClamdMember, str]) -> MemberReply:
        """Try one member after another; `failures` collects why the ones that were tried failed."""
        small = sealed.size <= _SMALL_BYTES
        while True:
            request = SlotRequest(tenant_id, small, frozenset(failures))
            member = await self.slots.acquire(request)
            if member is None:
                await self._wait_for_member(request, failures)
                continue
            others = SlotRequest(tenant_id, small, request.tried | {member})
            started = time.perf_counter()
            try:
                reply, capabilities = await member.scan(sealed, partial(self.slots.has_responsive_host, others))
                return MemberReply(reply, capabilities, str(member.address), (time.perf_counter() - started) * 1000)
            except asyncio.CancelledError:
                failures[member] = f"{member.address}: it was still at work"
                raise
            except (ClamdUnavailable, OSError) as error:
                failures[member] = f"{member.address}: {describe_failure(error)}"
                if not isinstance(error, TimeoutError):
                    member.report_failure(error)
            finally:
                self.slots.release(request, member)

    async def _wait_for_member(self, request: SlotRequest[ClamdMember], failures: dict[ClamdMember, str]) -> None:
        """Return when an untried member is in service. Raise `NoVerdict` if that does not happen soon."""
        while not self.slots.has_host(request) and not all(member.first_check_done.is_set() for member in self.members):
            await self._next_change()
        if not failures:
            for member in self.members:
                member.check_now()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0 if failures else _GRACE_SECONDS):
                while not self.slots.has_host(request):
                    await self._next_change()
                return
        untried = (f"{member.address}: {member.fault}" for member in self.members if member not in failures)
        raise NoVerdict("; ".join([*failures.values(), *untried]))

    def _start_watches(self) -> None:
        if not self._watches and not self._closed:
            self._watches = [asyncio.create_task(member.watch()) for member in self.members]

    def _on_change(self) -> None:
        self.slots.update()
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def _next_change(self) -> None:
        if self._changed is None or self._changed.done():
            self._changed = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._changed)
