"""Counts what is unpacked from one file, so that no archive costs more than its limits. Unpacks nothing itself."""

import time
from dataclasses import dataclass
from typing import Final

from sluice.formats.verdict import Finding, Limits, Unsafe

CHUNK_BYTES: Final = 256 * 1024
"""How much is held of one member at a time."""


@dataclass(slots=True)
class Budget:
    """What one file has cost so far, archives within archives included."""

    limits: Limits
    packed_bytes: int
    unpacked_bytes: int = 0
    members: int = 0

    def spend(self, size: int) -> None:
        """Count `size` more unpacked bytes. Raises `Unsafe` once they are too many, or too many for what they came from."""
        self.unpacked_bytes += size
        if self.unpacked_bytes > self.limits.max_unpacked_bytes:
            raise Unsafe(Finding.ARCHIVE_BOMB, f"the archive unpacks to more than {self.limits.max_unpacked_bytes} bytes")
        if self.unpacked_bytes > max(self.limits.ratio_floor_bytes, self.packed_bytes * self.limits.max_ratio):
            raise Unsafe(Finding.ARCHIVE_BOMB, f"the archive unpacks to more than {self.limits.max_ratio} times its size")

    def count(self, members: int) -> None:
        """Count `members` more entries. Raises `Unsafe` once they are too many."""
        self.members += members
        if self.members > self.limits.max_members:
            raise Unsafe(
                Finding.ARCHIVE_BOMB, f"the archive and those in it list more than the {self.limits.max_members} members allowed"
            )


class Deadline:
    """When an expensive look stops and answers with what it has seen."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def has_passed(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self._end
