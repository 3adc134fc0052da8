"""Clean verdicts of one process, in a dictionary. Other processes do not see them."""

import time
from collections.abc import Callable

from sluice.engines.verdicts.protocol import Cleared, VerdictKey
from sluice.kit.health import EngineHealth, EngineState


class MemoryVerdicts:
    """Keeps the `most` verdicts that were used last, each for `life_seconds` from when it was given. About 300 bytes each."""

    name = "memory"

    def __init__(
        self, *, most: int = 50_000, life_seconds: float = 86_400.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._life_seconds = life_seconds
        self._monotonic = monotonic
        self._kept: dict[bytes, tuple[float, Cleared]] = {}  # the one unused for longest comes first

    async def find(self, key: VerdictKey) -> Cleared | None:
        """Answer the verdict of this key; see the protocol."""
        entry = self._kept.pop(key.identity, None)
        if entry is None or entry[0] <= self._monotonic():
            return None
        self._kept[key.identity] = entry
        return entry[1]

    async def keep(self, key: VerdictKey, cleared: Cleared) -> None:
        """Keep the verdict; see the protocol."""
        self._kept.pop(key.identity, None)
        self._kept[key.identity] = (self._monotonic() + self._life_seconds, cleared)
        while len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]

    async def health(self) -> EngineHealth:
        """Answer that it is up: it is a dictionary."""
        limits = {"verdicts": len(self._kept), "most_verdicts": self._most}
        return EngineHealth("verdicts", self.name, EngineState.UP, detail="of this process only", limits=limits)

    async def aclose(self) -> None:
        """Forget everything."""
        self._kept.clear()
