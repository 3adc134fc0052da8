"""Follows the run lengths of compressed BMP pixels, which decoders clip without a word. Draws nothing; headers are judged elsewhere."""

from dataclasses import dataclass
from typing import Final

from sluice.formats.budget import Deadline
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt

_WINDOW: Final = 256 * 1024
_TOKEN_MOST: Final = 2 + 256
_END_OF_LINE, _END_OF_PICTURE, _MOVE = 0, 1, 2
_SLACK: Final = 32
"""Pixels behind the end of a row that encoders fill up rows to; readers clip them."""
_REST: Final = 8
"""Bytes that may be left over behind the last row."""


@dataclass(slots=True)
class _Pen:
    """Where the next pixel goes."""

    width: int
    bits: int
    column: int = 0
    row: int = 0
    ended: bool = False

    def take(self, count: int, value: int, behind: bytes) -> int:
        """Follow one token, and answer how many of the bytes behind it belong to it."""
        if count:
            self.column += count
        elif value == _END_OF_LINE:
            self.row, self.column = self.row + 1, 0
        elif value == _END_OF_PICTURE:
            self.ended = True
        elif value == _MOVE:
            across, up = behind[:2].ljust(2, b"\0")
            self.row, self.column = self.row + up, self.column + across
            return 2
        else:
            self.column += value
            return (-(-value * self.bits // 8) + 1) // 2 * 2
        return 0


def follow_runs(source: Source, start: int, stated: int, *, size: tuple[int, int], bits: int, deadline: Deadline) -> int | None:
    """Answer where the runs of a picture of 4 or 8 bits a pixel end; None when the time was over before.

    They begin at `start` and are `stated` bytes long, or 0 where the header leaves that open. Raises `Corrupt` where they leave the
    picture, end before its last row without saying so, or go on behind it.
    """
    width, height = size
    pen = _Pen(width, bits)
    window, place, base = b"", 0, start
    while pen.row < height and not pen.ended:
        if place + _TOKEN_MOST > len(window):
            base, place, window = base + place, 0, source.read_at(base + place, _WINDOW)
            if deadline.has_passed:
                return None
        token = window[place : place + 2]
        if len(token) < 2:  # noqa: PLR2004  (a count and a value)
            if pen.row >= height - 1 and pen.column >= width:
                break
            raise Corrupt(f"the BMP ends at byte {source.size}, in row {pen.row + 1} of {height}")
        place += 2
        place += pen.take(token[0], token[1], window[place : place + 2])
        if pen.column > width + _SLACK:
            raise Corrupt(f"the BMP is damaged before byte {base + place}: a row goes on behind the edge of the picture")
    end = base + place
    if not pen.ended and source.read_at(end, 2) == bytes([0, _END_OF_PICTURE]):
        end, pen.ended = end + 2, True
    if not pen.ended and stated and min(start + stated, source.size) - end > _REST:
        raise Corrupt(f"the BMP is damaged before byte {end}: its pixels go on behind the last row")
    return end
