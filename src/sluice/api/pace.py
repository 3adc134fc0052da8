"""How long the bytes of a body may take to come. Pure bookkeeping: the clock and the connection are `wire`'s."""

from dataclasses import dataclass
from typing import Final

_FOREVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Patience:
    """What one client may cost: seconds for a head, seconds of silence, least bytes per second of a body, connections in all."""

    head_seconds: float
    idle_seconds: float
    bytes_per_second: int
    connections: int


class Pace:
    """The moment at which a body is late. Each byte buys time, so that neither silence nor a trickle holds a connection for long.

    A body is late once nothing of it came for `idle_seconds`, or once it is slower on the whole than `bytes_per_second`, with
    `idle_seconds` of grace at the start. Time in which the service itself did not read is the client's no more than the weather.
    """

    def __init__(self, patience: Patience, now: float) -> None:
        self._patience = patience
        self._silent_at = self._slow_at = now + patience.idle_seconds
        self._ends_at = _FOREVER

    @property
    def late_at(self) -> float:
        """The moment at which the body is late unless more of it comes."""
        return min(self._silent_at, self._slow_at, self._ends_at)

    def took(self, count: int, now: float) -> None:
        """Note `count` bytes that came."""
        self._silent_at = now + self._patience.idle_seconds
        self._slow_at += count / self._patience.bytes_per_second

    def waive(self, now: float) -> None:
        """Note that until now the service did not read: the client starts anew."""
        self._silent_at = now + self._patience.idle_seconds
        self._slow_at = max(self._slow_at, self._silent_at)

    def end(self, now: float) -> None:
        """Note that the answer is sent: the rest of the body is of no use and is taken only so long that the answer can be read."""
        self._ends_at = min(self._ends_at, now + self._patience.idle_seconds)
