"""The contract of a rate limiter. No engine lives here."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sluice.kit.health import EngineHealth


class LimiterAway(Exception):
    """The limiter does not answer, so nobody knows whether a place is free. `str()` is one safe sentence."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A place in the window was claimed. `remaining` places are left; `token` gives this one back.

    `at` is the moment of the claim in seconds by the engine's own clock.
    """

    key: str
    token: str
    remaining: int
    at: float


@dataclass(frozen=True, slots=True)
class Exhausted:
    """The window is full. `retry_after` is the time in seconds until a place falls free."""

    retry_after: float


@runtime_checkable
class ForgetsIdle(Protocol):
    """A limiter that keeps the takes of a key until the next take of the same key."""

    async def forget_idle(self) -> None:
        """Delete what counts in no window any more. Raises `LimiterAway`."""
        ...


class Limiter(Protocol):
    """A sliding window: in any window of `window_seconds`, at most `limit` takes of one key succeed, however many ask at once.

    A window is half open: a take at the moment `at` counts before `at + window_seconds` and no longer at it.
    """

    async def take(self, key: str, *, limit: int, window_seconds: int) -> Taken | Exhausted:
        """Claim one place atomically. A refused take leaves no trace: waiting callers do not push the window ahead of them.

        Raises `LimiterAway` in bounded time when the engine cannot be asked; the place may then be taken all the same.
        """
        ...

    async def give_back(self, taken: Taken, *, window_seconds: int) -> None:
        """Free a claimed place, as for an attempt that the service itself could not finish. Twice, or too late, is a no-op.

        Never raises: a place that cannot be given back counts until its window is over.
        """
        ...

    async def health(self) -> EngineHealth:
        """Answer how the engine is. Never raises."""
        ...

    async def aclose(self) -> None:
        """Let go of connections. A second call is a no-op."""
        ...
