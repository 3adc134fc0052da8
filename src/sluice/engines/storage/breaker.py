"""Leaving a store alone that keeps failing, so that nobody waits for what is not there. What a failure is, is the store's matter."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sluice.engines.storage.protocol import StoreAway


class Breaker:
    """After `failures` in a row, requests are refused at once for `rest_seconds`; then one is let through to see, and the others after it.

    One breaker belongs to one client of one bucket: a bucket that is dead slows no other, and rotated credentials begin anew.
    """

    def __init__(self, *, failures: int = 3, rest_seconds: float = 10.0, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._most = failures
        self._rest_seconds = rest_seconds
        self._monotonic = monotonic
        self._failures = 0
        self._closed_again_at = 0.0
        self._trying = False

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Let one request through and learn from its end: `StoreAway` is a failure. Raises `StoreAway` at once for a store left alone."""
        trial = self._failures >= self._most
        if trial and (self._trying or self._monotonic() < self._closed_again_at):
            raise StoreAway(f"The store failed {self._failures} times in a row and is left alone for a moment.")
        self._trying = trial
        try:
            yield
        except StoreAway:
            self._failures += 1
            self._closed_again_at = self._monotonic() + self._rest_seconds
            raise
        else:
            self._failures = 0
        finally:
            if trial:
                self._trying = False
