"""A memory that is short in time and bounded in number, of one process. What may be done on what it says is its user's to know."""

import math
import time
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Brief(Generic[K, V]):
    """Keeps what was put in for `seconds`, and no more than `most` of it: the oldest goes first. With 0 seconds it keeps nothing."""

    def __init__(self, seconds: float, *, most: int = 10_000, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._most = most
        self._monotonic = monotonic
        self._kept: dict[K, tuple[float, V]] = {}  # in the order of their ends

    def find(self, key: K) -> V | None:
        """Answer what is known of `key`, or None."""
        entry = self._kept.get(key)
        return entry[1] if entry is not None and self._monotonic() < entry[0] else None

    def keep(self, key: K, value: V) -> None:
        """Keep `value` from now on."""
        now = self._monotonic()
        self._kept.pop(key, None)
        self._kept[key] = (now + self._seconds, value)
        while len(self._kept) > self._most or self._first_end() <= now:
            del self._kept[next(iter(self._kept))]

    def forget(self) -> None:
        """Know nothing."""
        self._kept.clear()

    def _first_end(self) -> float:
        return next(iter(self._kept.values()))[0] if self._kept else math.inf
