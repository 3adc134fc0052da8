"""Limits on what one file may cost: unpacked bytes, archive members, time."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from sluice_inspect.report import Finding, Limits, Unsafe

CHUNK_BYTES: Final = 256 * 1024  # held of one archive member at a time
_shared_end: ContextVar[float] = ContextVar("shared_end", default=float("inf"))


@dataclass(slots=True)
class Budget:
    """What one archive has cost so far, nested archives included."""

    limits: Limits
    packed_bytes: int
    unpacked_bytes: int = 0
    members: int = 0

    def spend(self, size: int) -> None:
        """Count `size` more unpacked bytes. Raise `Unsafe` if the total or its ratio to the input is too high."""
        self.unpacked_bytes += size
        limits = self.limits
        if self.unpacked_bytes > limits.max_unpacked_bytes:
            raise Unsafe(Finding.ARCHIVE_BOMB, f"the archive unpacks to more than {limits.max_unpacked_bytes} bytes")
        if self.unpacked_bytes > max(limits.ratio_floor_bytes, self.packed_bytes * limits.max_ratio):
            raise Unsafe(Finding.ARCHIVE_BOMB, f"the archive unpacks to more than {limits.max_ratio} times its size")

    def counted(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield unpacked pieces and spend their size."""
        for piece in pieces:
            self.spend(len(piece))
            yield piece

    def count(self, members: int) -> None:
        """Count `members` more entries. Raise `Unsafe` when there are too many."""
        self.members += members
        if self.members > self.limits.max_members:
            raise Unsafe(
                Finding.ARCHIVE_BOMB,
                f"the archive and those in it list more than the {self.limits.max_members} members allowed",
            )


class Deadline:
    """The processor time at which an expensive examination stops and returns what it found so far.

    None is later than the end of the `shared_time` around it.

    Time by the clock would depend on what else the machine does: a busy one would look at less of a file.
    """

    def __init__(self, seconds: float) -> None:
        self._end = min(time.process_time() + seconds, _shared_end.get())

    @property
    def has_passed(self) -> bool:
        """Whether the time is over."""
        return time.process_time() > self._end


@contextmanager
def shared_time(seconds: float) -> Iterator[None]:
    """Let all deadlines that are set within the block share `seconds` of processor time, and what is left around it."""
    token = _shared_end.set(min(time.process_time() + seconds, _shared_end.get()))
    try:
        yield
    finally:
        _shared_end.reset(token)
