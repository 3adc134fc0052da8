"""Who scans next, and where: bounded scans at each clamd, fair between tenants. Whether a clamd may be used is decided in `clamd_member`."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

_FOR_ALL: Final = 0.75
"""Share of a clamd's places that large files may take: the rest is kept for small ones, which so overtake them."""


class Host(Protocol):
    """A clamd as it is seen from here."""

    @property
    def in_service(self) -> bool:
        """Whether it may be asked."""

    @property
    def slow(self) -> bool:
        """Whether it shows no sign of life and is asked only where there is no other."""


HostT = TypeVar("HostT", bound=Host)


@dataclass(frozen=True, slots=True)
class Want(Generic[HostT]):
    """One scan that is to take place at some host, but at none of `tried`."""

    tenant_id: str
    small: bool
    tried: frozenset[HostT] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter(Generic[HostT]):
    want: Want[HostT]
    granted: "asyncio.Future[HostT | None]"


class Places(Generic[HostT]):
    """`per_host` places at each host. Among those who wait, the tenant with the fewest scans under way comes first, then the earliest."""

    def __init__(self, hosts: Sequence[HostT], per_host: int) -> None:
        self._hosts = hosts
        self._per_host = per_host
        self._for_large = max(1, int(per_host * _FOR_ALL))
        self._running: Counter[HostT] = Counter()
        self._large: Counter[HostT] = Counter()
        self._of_tenant: Counter[str] = Counter()
        self._waiters: list[_Waiter[HostT]] = []

    @property
    def running(self) -> int:
        """Scans under way."""
        return self._running.total()

    @property
    def waiting(self) -> int:
        """Scans in line."""
        return len(self._waiters)

    def offers(self, want: Want[HostT]) -> bool:
        """Answer whether any host could take the scan, now or later."""
        return bool(self._usable(want))

    def offers_quick(self, want: Want[HostT]) -> bool:
        """Answer whether a host that is not slow could take the scan, now or later."""
        return any(not host.slow for host in self._usable(want))

    async def take(self, want: Want[HostT]) -> HostT | None:
        """Wait for a place, which is to be given back; None as soon as no host is in service that was not tried."""
        if not self.offers(want):
            return None
        if host := self._free(want):
            self._start(want, host)
            return host
        waiter = _Waiter(want, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        try:
            return await waiter.granted
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            elif not waiter.granted.cancelled() and (host := waiter.granted.result()):
                self.give(want, host)
            raise

    def give(self, want: Want[HostT], host: HostT) -> None:
        """Give a place back, to the next in line."""
        self._running[host] -= 1
        self._large[host] -= not want.small
        self._of_tenant[want.tenant_id] -= 1
        if not self._of_tenant[want.tenant_id]:
            del self._of_tenant[want.tenant_id]
        self._fill()

    def look_again(self) -> None:
        """Serve those who wait: a host came into service, or left it."""
        for waiter in [waiter for waiter in self._waiters if not self.offers(waiter.want)]:
            self._settle(waiter, None)
        self._fill()

    def _fill(self) -> None:
        while waiting := [(waiter, host) for waiter in self._waiters if (host := self._free(waiter.want))]:
            waiter, host = min(waiting, key=lambda pair: self._of_tenant[pair[0].want.tenant_id])
            self._start(waiter.want, host)
            self._settle(waiter, host)

    def _usable(self, want: Want[HostT]) -> list[HostT]:
        usable = [host for host in self._hosts if host.in_service and host not in want.tried]
        return [host for host in usable if not host.slow] or usable

    def _free(self, want: Want[HostT]) -> HostT | None:
        free = [host for host in self._usable(want) if self._has_room(want, host)]
        return min(free, key=lambda host: self._running[host], default=None)

    def _has_room(self, want: Want[HostT], host: HostT) -> bool:
        return self._running[host] < self._per_host and (want.small or self._large[host] < self._for_large)

    def _start(self, want: Want[HostT], host: HostT) -> None:
        self._running[host] += 1
        self._large[host] += not want.small
        self._of_tenant[want.tenant_id] += 1

    def _settle(self, waiter: _Waiter[HostT], host: HostT | None) -> None:
        self._waiters.remove(waiter)
        if not waiter.granted.done():
            waiter.granted.set_result(host)
        elif host is not None:
            self.give(waiter.want, host)
