"""The rate limiter of a single process. Several processes need another engine."""

import itertools
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from sluice.kit.health import EngineHealth, EngineState
from sluice.limiter.protocol import Exhausted, Taken


class MemoryLimiter:
    """An exact sliding window: the times of the takes of each key, kept as long as they count."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, *, max_keys: int = 100_000) -> None:
        self._monotonic = monotonic
        self._max_keys = max_keys
        self._takes: OrderedDict[str, deque[tuple[float, str]]] = OrderedDict()
        self._numbers = itertools.count()

    async def take(self, key: str, *, limit: int, window_seconds: int) -> Taken | Exhausted:
        """Count and claim; see the protocol. Without an `await` in between, no other take can interfere."""
        now = self._monotonic()
        takes = self._takes.setdefault(key, deque())
        self._takes.move_to_end(key)
        # The longest window is an hour: the takes of the key unused for longest have expired, or memory matters more.
        while len(self._takes) > self._max_keys:
            self._takes.popitem(last=False)
        while takes and takes[0][0] <= now - window_seconds:
            takes.popleft()
        if len(takes) >= limit:
            # A lowered limit leaves more takes than fit: the one that makes room is not the first.
            age = now - takes[len(takes) - limit][0]
            return Exhausted(max(math.ulp(1.0), window_seconds - age))  # in this order, or rounding exceeds the window
        token = str(next(self._numbers))
        takes.append((now, token))
        return Taken(key, token, limit - len(takes), now)

    async def give_back(self, taken: Taken, *, window_seconds: int) -> None:  # noqa: ARG002  (others need the window)
        """Delete the take of this token, if it still counts."""
        takes = self._takes.get(taken.key)
        if takes is not None:
            self._takes[taken.key] = deque(entry for entry in takes if entry[1] != taken.token)

    async def health(self) -> EngineHealth:
        """Return that it is up: it is a dictionary."""
        return EngineHealth("limiter", "memory", EngineState.UP, detail="exact within this process only")

    async def aclose(self) -> None:
        """Do nothing: there is nothing to release."""
