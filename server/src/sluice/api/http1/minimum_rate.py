"""The minimum rate at which bodies must arrive and responses must be read. Pure bookkeeping: clock and
connection are those of `connection`.
"""

from dataclasses import dataclass
from typing import Final

_NEVER: Final = float("inf")
# A reader may seem silent this many times longer than a writer: what it reads shows only once it has room for another
# segment, and a local proxy's segments have 64 KiB.
_READER_GRACE: Final = 4


@dataclass(frozen=True, slots=True)
class RequestTimeouts:
    """The limits of one client: seconds for a head, seconds of silence, bytes per second of a body or a response."""

    head_seconds: float
    idle_seconds: float
    bytes_per_second: int

    @property
    def reader_seconds(self) -> float:
        """Seconds for which a client need not read."""
        return self.idle_seconds * _READER_GRACE


class MinimumRate:
    """The moment at which a body is late.

    A body is late when nothing of it came for `idle_seconds`, or when it is slower on the whole than
    `bytes_per_second`, with `idle_seconds` of grace at the start. Each byte buys time, so neither silence nor a trickle
    holds a connection for long. Time in which the service did not read does not count.
    """

    def __init__(self, timeouts: RequestTimeouts, now: float) -> None:
        self._timeouts = timeouts
        self._silent_at = self._slow_at = now + timeouts.idle_seconds
        self._ends_at = _NEVER

    @property
    def late_at(self) -> float:
        """The moment at which the body is late unless more of it comes."""
        return min(self._silent_at, self._slow_at, self._ends_at)

    def received(self, count: int, now: float) -> None:
        """Count `count` bytes that came."""
        self._silent_at = now + self._timeouts.idle_seconds
        self._slow_at += count / self._timeouts.bytes_per_second

    def restart(self, now: float) -> None:
        """Restart the clock: the service was not reading until now."""
        self._silent_at = now + self._timeouts.idle_seconds
        self._slow_at = max(self._slow_at, self._silent_at)

    def response_sent(self, now: float) -> None:
        """Bound the rest of the body, which is read only so that the client comes to read the response."""
        self._ends_at = min(self._ends_at, now + self._timeouts.idle_seconds)


class ReadingRate:
    """The moment at which the reader of a response is late.

    Each byte that was read buys time, at `bytes_per_second`. A reader never has more than `reader_seconds` ahead, and
    has as much at the start.
    """

    def __init__(self, timeouts: RequestTimeouts, read_so_far: int, now: float) -> None:
        self._timeouts = timeouts
        self._read_so_far = read_so_far
        self._late_at = now + timeouts.reader_seconds

    def is_late(self, read_so_far: int, now: float) -> bool:
        """Return whether a client that has read this many bytes is late."""
        bought = max(0, read_so_far - self._read_so_far) / self._timeouts.bytes_per_second
        self._read_so_far = read_so_far
        self._late_at = min(self._late_at + bought, now + self._timeouts.reader_seconds)
        return now >= self._late_at
