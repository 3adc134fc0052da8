"""GIF: integrity, limits and blankness."""

import struct
import time
from collections.abc import Iterable

import pytest

from sluice_inspect.formats import gif
from sluice_inspect.formats.gif import FORMAT
from sluice_inspect.images import raster
from sluice_inspect.report import Limits, Outcome
from tests.inspection.formats.examining import Row, cuts, examine_bytes, verdicts
from tests.inspection.formats.image_samples import animated, chess_board, encoded, plain_picture

# By fuzzing: Pillow reads the byte behind a frame's header without a check that there is one.
CUT_BEHIND_A_HEADER = bytes.fromhex(
    "47494638376120002000810000ffffff0001000032000000002c000000002000200000089e0001081c283080c18306091244"
    "8850e14086071d1684184022008a152562b4b85123458e1f3d42043952244392274d3654199125c6842e363aec383364cd92"
    "3753e65cb9b3654f983f652aa439d466519c477526e5b9d4a7c5a640a10a5d68942a52ab4ab132d5ea946b54af531f56157b"
    "956c56b35bd17655fb95ed4b94692796957b966edc8b63edaed5db966f58bf70f7e29d3bb86ee1bb44c15a010000022c0000"
    "2052ab00d5b1"
)


@verdicts(FORMAT)
def test_every_picture_gets_its_verdict() -> Iterable[Row]:
    good = encoded(chess_board(), "GIF")
    moving = animated([chess_board(48, 3 + n) for n in range(6)], "GIF")
    white = [plain_picture(48, 48, 255), plain_picture(48, 48, 254)]
    frame, second = good.index(b"," + struct.pack("<HHHH", 0, 0, 64, 64)), moving.index(b"\x2c", 20)
    yield "good", good, "ok"
    yield "animation", moving, "ok"
    yield "one visible frame among empty ones", animated([*white, chess_board(48)], "GIF"), "ok"
    yield "no trailer after a complete frame", good.removesuffix(b";"), "ok"
    yield "bytes after the trailer", good + b"behind", "ok"
    yield "empty", encoded(plain_picture(), "GIF"), "blank"
    yield from cuts(good, 0.2, 0.5, 0.95)
    yield from cuts(moving, 0.2, 0.5, 0.95)
    yield "header without a frame", good[:13] + b";", "corrupt"
    yield "invalid LZW codes", good[: frame + 30] + b"\xff" * 40 + good[frame + 70 :], "corrupt"
    yield "frame without width", moving[: second + 5] + bytes(2) + moving[second + 7 :], "unsupported"
    for offset in (9000, 60_000):
        moved = good[: frame + 1] + struct.pack("<HH", offset, offset) + good[frame + 5 :]
        yield f"frame outside of the screen at {offset}", moved, "image_too_large"
    yield "too many pixels", good, "image_too_large", Limits(max_pixels=64 * 64 - 1)
    yield "too many frames", moving, "image_too_large", Limits(max_frames=5)
    yield "past the time limit", animated(white, "GIF"), "ok", Limits(soft_seconds=0)
    endless = good[:10] + b"\0\0\0" + (b"!\xfe\x01x\x00" * 300_000)
    yield "end behind a frame's header", CUT_BEHIND_A_HEADER, "corrupt"
    yield "endless comments past the time limit", endless, "too_complex", Limits(soft_seconds=0)


def of_small_frames(count: int, side: int) -> bytes:
    frame = b"\x21\xf9\x04\x08\x01\0\0\0\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x4c\x01\0"
    screen = struct.pack("<HHBBB", side, side, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    return b"GIF89a" + screen + frame * count + b";"


def test_small_frames_are_judged_to_the_end_unless_the_screen_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    assert examine_bytes(FORMAT, of_small_frames(20, 300)).blank
    assert examine_bytes(FORMAT, of_small_frames(9, 1000)).blank
    monkeypatch.setattr(gif, "_SPARSE_FRAMES_PIXELS", 10_000_000)
    began = time.process_time()
    result = examine_bytes(FORMAT, of_small_frames(100, 1000))
    assert (result.outcome, result.blank) == (Outcome.OK, None)
    assert time.process_time() - began < 2
    monkeypatch.setattr(raster, "_JUDGED_PIXELS_MOST", 400_000)  # a sixteenth of each frame's million counts
    assert examine_bytes(FORMAT, of_small_frames(9, 1000)).blank is None
