"""The connections of a server: a share for each address, who gives way when there are too many, and a bound on the
bytes that clients have not read.

What happens on one connection is in `connection`.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Protocol

from sluice.errors import TooManyConnections, TooManyRequests
from sluice.observe.metrics import Metric
from sluice.observe.scrape import connection_families

# A connection has at most twice this in hand, and half as much again below the mark at which it stops writing: 64 KiB.
PIECE_BYTES: Final = 24 * 1024
HIGH_WATER_BYTES: Final = 16 * 1024
MOST_UNSENT_BYTES: Final = 64 * 1024 * 1024  # of all connections
_SWEEP_SECONDS: Final = 1.0
_SITE_PREFIX: Final = 64  # bits of an IPv6 address that a network has; the client chooses the others


class Connection(Protocol):
    """The interface of a connection in the table."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses in the memory of this process that the client has not read."""
        ...

    @property
    def is_responding(self) -> bool:
        """Whether a request is in progress that has no response yet."""
        ...

    def give_way(self) -> None:
        """Close: another connection takes the place. No caller who is known waits for a response."""
        ...

    def cut_off(self, why: str) -> None:
        """Close at once and drop what is unsent."""
        ...

    def check_reader(self, now: float) -> None:
        """Cut the connection off if its client reads too slowly."""
        ...


class ConnectionTable:
    """The connections of one server.

    At most `limit` are open, and of one address (an IPv6 network of 64 bits) at most `per_address`, except for those of
    `exempt`: addresses and networks of proxies, behind which there are many clients. A connection keeps its place while
    a request of a known caller has its response. One tenant keeps at most half of the places that other tenants leave,
    so that there is one for a further tenant, and at most a quarter of these for guests, who have nothing but a link or
    an upload token. When all are taken, the connection gives way that has shown no sign of a request for the longest
    time.
    """

    def __init__(self, limit: int, per_address: int, exempt: Sequence[str], *, check_seconds: float) -> None:
        """Readers are checked every `check_seconds`, at least each second."""
        self._limit = limit
        self._per_address = per_address
        self._exempt = exempt
        self._exempt_networks = list(_networks(exempt))
        self._check_seconds = min(_SWEEP_SECONDS, check_seconds)
        # What is below the high-water mark of each connection is not counted.
        self.high_water_bytes = min(HIGH_WATER_BYTES, MOST_UNSENT_BYTES // 4 // limit)
        self._most_unsent = MOST_UNSENT_BYTES - limit * self.high_water_bytes
        self._open: dict[Connection, str | None] = {}
        self._by_address: Counter[str] = Counter()
        self._kept: dict[Connection, tuple[str, bool]] = {}  # for which tenant, and whether for a guest of it
        self._by_tenant: Counter[tuple[str, bool]] = Counter()
        self._silent: dict[Connection, None] = {}  # those that are not kept, the first to give way first
        self._unsent: dict[Connection, int] = {}  # of those that do not read now, in the order in which they stopped
        self._unsent_total = 0
        self._sweeping: asyncio.TimerHandle | None = None

    def admit(self, connection: Connection, address: str | None) -> None:
        """Give the connection a place; raise `TooManyConnections`. `address` is None for a Unix socket."""
        share = None if address is None or self._is_exempt(address) else share_of(address)
        if share is not None and self._by_address[share] >= self._per_address:
            raise TooManyConnections(errors=["Too many connections from this address are open; try again later"])
        if len(self._open) >= self._limit:
            oldest = next(iter(self._silent), None)
            if oldest is None:
                raise TooManyConnections
            self.leave(oldest)
            oldest.give_way()
        self._open[connection] = share
        if share is not None:
            self._by_address[share] += 1
        self._silent[connection] = None
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(self._check_seconds, self._sweep)

    def leave(self, connection: Connection) -> None:
        """Free the place of a connection. A second call is a no-op."""
        self.count_unsent(connection, 0)
        self._give_up(connection)
        self._silent.pop(connection, None)
        share = self._open.pop(connection, None)
        if share is not None:
            self._by_address[share] -= 1
            if not self._by_address[share]:
                del self._by_address[share]

    def begin_request(self, connection: Connection) -> None:
        """Note that the head of a request is complete: others give way before this one."""
        if connection in self._silent:
            del self._silent[connection]
            self._silent[connection] = None

    def keep(self, connection: Connection, tenant_id: str, *, is_guest: bool = False) -> None:
        """Note that the request comes from this tenant: the connection keeps its place until the response.

        Raise `TooManyRequests` if the tenant, or its guests, keep as many as they may.
        """
        if connection not in self._silent:
            return
        whose, guests = (tenant_id, is_guest), self._by_tenant[tenant_id, True]
        kept = guests + self._by_tenant[tenant_id, False]
        most = max(1, (self._limit - len(self._kept) + kept) // 2)
        if kept >= most or (is_guest and guests >= max(1, most // 4)):
            raise TooManyRequests(errors=["Too many requests of this tenant are under way"])
        del self._silent[connection]
        self._kept[connection] = whose
        self._by_tenant[whose] += 1

    def end_request(self, connection: Connection) -> None:
        """Note that a request has its response, whether or not its body has come."""
        self._give_up(connection)
        if connection in self._open:
            self._silent.setdefault(connection)

    def _give_up(self, connection: Connection) -> None:
        whose = self._kept.pop(connection, None)
        if whose is not None:
            self._by_tenant[whose] -= 1
            if not self._by_tenant[whose]:
                del self._by_tenant[whose]

    def count_unsent(self, connection: Connection, count: int) -> None:
        """Note how much a client that does not read leaves in memory, 0 when it reads again.

        When it is too much in all, those that stopped reading first are cut off.
        """
        before = self._unsent.pop(connection, 0) if not count else self._unsent.get(connection, 0)
        self._unsent_total += count - before
        if not count:
            return
        self._unsent[connection] = count
        while self._unsent_total > self._most_unsent:
            first = next(iter(self._unsent))
            self.count_unsent(first, 0)
            first.cut_off("unsent_bytes")

    def metrics(self) -> Iterator[Metric]:
        """Return the metrics of the connections."""
        busy = sum(connection.is_responding for connection in self._open)
        unsent = sum(connection.unsent_bytes for connection in self._open)
        return connection_families(len(self._open) - busy, busy, unsent)

    def _is_exempt(self, address: str) -> bool:
        if not self._exempt:
            return False
        if "*" in self._exempt:
            return True
        with suppress(ValueError):
            parsed = ip_address(address)
            mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
            return any((mapped or parsed) in network for network in self._exempt_networks)
        return False

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in tuple(self._open):
            connection.check_reader(now)
        self._sweeping = loop.call_later(self._check_seconds, self._sweep) if self._open else None


def share_of(address: str) -> str | None:
    """Return what shares its connections with this address: an IPv4 address alone, an IPv6 address with its /64."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return None
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ip_network((parsed.packed, _SITE_PREFIX), strict=False))


def _networks(names: Sequence[str]) -> Iterator[IPv4Network | IPv6Network]:
    for name in names:
        with suppress(ValueError):
            yield ip_network(name)
