"""A throttle on failed attempts by address, in this process. Rate limits across processes are in `limiter`."""

import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

_IPV6_NETWORK: Final = 64
_MAX_NAME: Final = 64


class FailureThrottle:
    """Blocks an address that failed `limit` times in `window_seconds`, until the oldest of those failures expires.

    An IPv6 address counts as its /64 network. Memory is bounded by `limit` x `max_addresses` times; beyond that, the
    address that failed longest ago is forgotten first.
    """

    # One customer line has a whole IPv6 /64, so a throttle by single address would not limit it. Success clears
    # nothing: the owner of one valid key could otherwise guess without limit.

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
        """Return the seconds until `address` may try again, or None when it may now."""
        moments = self._failures.get(_throttle_key(address))
        if moments is None or len(moments) < self._limit:
            return None
        wait = moments[0] + self._window - self._monotonic()
        return wait if wait > 0 else None

    def failed(self, address: str) -> None:
        """Count a failed attempt. A blocked address should not get this far; its attempts prolong the block."""
        network, now = _throttle_key(address), self._monotonic()
        moments = self._failures.setdefault(network, deque(maxlen=self._limit))
        moments.append(now)
        self._failures.move_to_end(network)
        self._remove_expired(now)

    def __len__(self) -> int:
        return len(self._failures)

    def _remove_expired(self, now: float) -> None:
        """Remove addresses whose last failure has expired, and the oldest beyond the limit; amortized O(1)."""
        while self._failures:
            network, moments = next(iter(self._failures.items()))
            if len(self._failures) <= self._max_addresses and moments[-1] + self._window > now:
                return
            del self._failures[network]


def _throttle_key(address: str) -> str:
    """Return the key to count under: an IPv4 address, an IPv6 network, or the name itself (a Unix socket)."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:_MAX_NAME]
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed), _IPV6_NETWORK), strict=False))
