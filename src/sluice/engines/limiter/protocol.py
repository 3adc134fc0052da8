"""The contract of a rate limiter. No engine lives here."""

from dataclasses import dataclass
from typing import Protocol

from sluice.engines.health import EngineHealth


@dataclass(frozen=True, slots=True)
class Taken:
    """A place in the window was claimed. `remaining` places are left; `token` gives this one back."""

    key: str
    token: str
    remaining: int


@dataclass(frozen=True, slots=True)
class Exhausted:
    """The window is full. `retry_after` is the time in seconds until a place falls free."""

    retry_after: float


class Limiter(Protocol):
    """A sliding window: in any window of `window_seconds`, at most `limit` takes of one key succeed, however many ask at once."""

    async def take(self, key: str, *, limit: int, window_seconds: int) -> Taken | Exhausted:
        """Claim one place atomically. A refused take leaves no trace: waiting callers do not push the window ahead of them."""
        ...

    async def give_back(self, taken: Taken, *, window_seconds: int) -> None:
        """Free a claimed place, as for an attempt that the service itself could not finish. Twice, or too late, is a no-op."""
        ...

    async def health(self) -> EngineHealth:
        """Answer how the engine is. Never raises."""
        ...
