"""The contract of a rate limiter."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sluice.kit.health import EngineHealth


class LimiterUnavailable(Exception):
    """The limiter does not reply, so it is not known whether the limit is reached. `str()` is one safe sentence."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A take was counted. `remaining` more fit into the window; `token` gives this one back.

    `at` is the time of the take in seconds by the engine's own clock.
    """

    key: str
    token: str
    remaining: int
    at: float


@dataclass(frozen=True, slots=True)
class Exhausted:
    """The window is full. `retry_after` is the time in seconds until the next take fits."""

    retry_after: float


@runtime_checkable
class ForgetsIdle(Protocol):
    """A limiter that keeps the takes of a key until the next take of the same key."""

    async def forget_idle(self) -> None:
        """Delete the takes that count in no window any more. Raise `LimiterUnavailable`."""
        ...


class Limiter(Protocol):
    """A sliding window: in any `window_seconds`, at most `limit` takes of one key succeed, also concurrent ones.

    A window is half open: a take at `at` counts before `at + window_seconds` and no longer at that moment.
    """

    async def take(self, key: str, *, limit: int, window_seconds: int) -> Taken | Exhausted:
        """Count and claim atomically. A refused take is not counted, so retries do not extend the wait.

        Raise `LimiterUnavailable` in bounded time when the engine cannot be asked; the take may be counted all the
        same.
        """
        ...

    async def give_back(self, taken: Taken, *, window_seconds: int) -> None:
        """Uncount a take, for an attempt that the service itself could not finish. Twice, or too late, is a no-op.

        Never raises: a take that cannot be given back counts until its window is over.
        """
        ...

    async def health(self) -> EngineHealth:
        """Return the state of the engine. Never raises."""
        ...

    async def aclose(self) -> None:
        """Release connections. A second call is a no-op."""
        ...
