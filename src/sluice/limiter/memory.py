"""The rate limiter of one process. Not shared: several processes need another engine."""

import itertools
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from sluice.engines.limiter.protocol import Exhausted, Taken
from sluice.kit.health import EngineHealth, EngineState


class MemoryLimiter:
    """An exact sliding window: the moments of the takes of each key, kept for as long as they count."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, *, most_keys: int = 100_000) -> None:
        self._monotonic = monotonic
        self._most_keys = most_keys
        self._takes: OrderedDict[str, deque[tuple[float, str]]] = OrderedDict()
        self._numbers = itertools.count()

    async def take(self, key: str, *, limit: int, window_seconds: int) -> Taken | Exhausted:
        """Claim one place; there is no await between the count and the claim, so no other take comes between."""
        now = self._monotonic()
        takes = self._takes.setdefault(key, deque())
        self._takes.move_to_end(key)
        self._forget_idle()
        while takes and takes[0][0] <= now - window_seconds:
            takes.popleft()
        if len(takes) >= limit:
            # A limit that was lowered leaves more takes than places: the one that makes room is further on.
            return Exhausted(max(math.ulp(1.0), takes[len(takes) - limit][0] + window_seconds - now))
        token = str(next(self._numbers))
        takes.append((now, token))
        return Taken(key, token, limit - len(takes), now)

    async def give_back(self, taken: Taken, *, window_seconds: int) -> None:  # noqa: ARG002  (other engines need the window)
        """Free the place of this token, if it still counts."""
        takes = self._takes.get(taken.key)
        if takes is not None:
            self._takes[taken.key] = deque(entry for entry in takes if entry[1] != taken.token)

    async def health(self) -> EngineHealth:
        """Answer that it is up: it is a dictionary."""
        return EngineHealth("limiter", "memory", EngineState.UP, detail="exact within this process only")

    async def aclose(self) -> None:
        """There is nothing to let go of."""

    def _forget_idle(self) -> None:
        # An hour is the longest window the interface allows: the key unused for longest has none left to count, or memory matters more.
        while len(self._takes) > self._most_keys:
            self._takes.popitem(last=False)
