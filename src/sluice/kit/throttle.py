"""A brake on failed attempts, by address, in this process. Rate limits of uploads, exact across processes, live in `engines.limiter`."""

import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

_IPV6_NETWORK: Final = 64
_MAX_NAME: Final = 64


class FailureThrottle:
    """Blocks an address once it failed `limit` times within any `window_seconds`, until the oldest of those failures is past.

    An IPv6 address counts as its /64 network: one customer line has 2⁶⁴ addresses, and a throttle by address would be none. Memory
    is bounded by `limit` × `max_addresses` moments; past that, the address that failed longest ago is forgotten first. Success does
    not clear anything: whoever owns one good key could otherwise guess without end.
    """

    def __init__(
        self, limit: int, window_seconds: float, max_addresses: int, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        if limit < 1 or window_seconds <= 0 or max_addresses < 1:
            raise ValueError("a throttle needs a limit, a window and room for at least one address")
        self._limit = limit
        self._window = window_seconds
        self._max_addresses = max_addresses
        self._monotonic = monotonic
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def blocked(self, address: str) -> float | None:
        """Answer the seconds until `address` may try again, or None when it may now."""
        moments = self._failures.get(_network(address))
        if moments is None or len(moments) < self._limit:
            return None
        wait = moments[0] + self._window - self._monotonic()
        return wait if wait > 0 else None

    def failed(self, address: str) -> None:
        """Note a failed attempt. Attempts of a blocked address are not to be made, and if noted they prolong the block."""
        network, now = _network(address), self._monotonic()
        moments = self._failures.setdefault(network, deque(maxlen=self._limit))
        moments.append(now)
        self._failures.move_to_end(network)
        self._forget(now)

    def __len__(self) -> int:
        return len(self._failures)

    def _forget(self, now: float) -> None:
        """Drop addresses whose last failure is past the window, and the oldest beyond the bound; each is dropped once, so O(1)."""
        while self._failures:
            network, moments = next(iter(self._failures.items()))
            if len(self._failures) <= self._max_addresses and moments[-1] + self._window > now:
                return
            del self._failures[network]


def _network(address: str) -> str:
    """Answer what is counted: an IPv4 address, an IPv6 network, or the name itself when it is neither (a Unix socket)."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:_MAX_NAME]
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed), _IPV6_NETWORK), strict=False))
