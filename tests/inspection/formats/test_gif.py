"""GIF: integrity, limits and blankness."""

import struct
import time
from functools import partial

import pytest

from sluice_inspect.formats import gif
from sluice_inspect.formats.gif import FORMAT
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.inspection.formats.image_samples import animated, chess_board, encoded, plain_picture
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)
GOOD = encoded(chess_board(), "GIF")
ANIMATION = animated([chess_board(48, 3 + n) for n in range(6)], "GIF")
WHITE = [plain_picture(48, 48, 255), plain_picture(48, 48, 254)]
FRAME = GOOD.index(b"," + struct.pack("<HHHH", 0, 0, 64, 64))
SECOND_FRAME = ANIMATION.index(b"\x2c", 20)


def moved(offset: int) -> bytes:
    return GOOD[: FRAME + 1] + struct.pack("<HH", offset, offset) + GOOD[FRAME + 5 :]


@each_row(
    ("case", "data"),
    [
        ("good", GOOD),
        ("animation", ANIMATION),
        ("one visible frame among empty ones", animated([*WHITE, chess_board(48)], "GIF")),
        ("no trailer after a complete frame", GOOD.removesuffix(b";")),
        ("bytes after the trailer", GOOD + b"behind"),
    ],
)
def test_picture_passes_and_is_not_blank(case: str, data: bytes) -> None:
    assert examine(data) == Examined(recognised=True, outcome=Outcome.OK)


def test_empty_picture_is_blank() -> None:
    assert examine(encoded(plain_picture(), "GIF")).blank


@each_row(
    ("case", "data", "verdict"),
    [
        *((f"cut at {kept}", GOOD[: int(len(GOOD) * kept)], Outcome.CORRUPT) for kept in (0.2, 0.5, 0.95)),
        *((f"cut at {kept}", ANIMATION[: int(len(ANIMATION) * kept)], Outcome.CORRUPT) for kept in (0.2, 0.5, 0.95)),
        ("header without a frame", GOOD[:13] + b";", Outcome.CORRUPT),
        ("invalid LZW codes", GOOD[: FRAME + 30] + b"\xff" * 40 + GOOD[FRAME + 70 :], Outcome.CORRUPT),
        ("frame without width",
         ANIMATION[: SECOND_FRAME + 5] + bytes(2) + ANIMATION[SECOND_FRAME + 7 :], Outcome.UNSUPPORTED),
        ("frame outside of the screen", moved(9000), Finding.IMAGE_TOO_LARGE),
        ("frame at a huge offset", moved(60_000), Finding.IMAGE_TOO_LARGE),
    ],
)  # fmt: skip
def test_damaged_picture_does_not_pass(case: str, data: bytes, verdict: Outcome | Finding) -> None:
    assert examine(data).verdict is verdict


def test_too_many_pixels_or_frames_are_refused_before_decoding() -> None:
    assert examine(GOOD, Limits(max_pixels=64 * 64 - 1)).finding is Finding.IMAGE_TOO_LARGE
    assert examine(ANIMATION, Limits(max_frames=5)).finding is Finding.IMAGE_TOO_LARGE


def test_picture_past_the_time_limit_is_too_complex_or_not_blank() -> None:
    endless = GOOD[:10] + b"\0\0\0" + (b"!\xfe\x01x\x00" * 300_000)
    assert examine(endless, Limits(soft_seconds=0)).outcome is Outcome.TOO_COMPLEX
    result = examine(animated(WHITE, "GIF"), Limits(soft_seconds=0))
    assert (result.passes, result.blank) == (True, None)


def of_small_frames(count: int, side: int) -> bytes:
    frame = b"\x21\xf9\x04\x08\x01\0\0\0\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x4c\x01\0"
    screen = struct.pack("<HHBBB", side, side, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    return b"GIF89a" + screen + frame * count + b";"


def test_small_frames_are_judged_to_the_end_unless_the_screen_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    assert examine(of_small_frames(20, 300)).blank
    monkeypatch.setattr(gif, "_SPARSE_FRAMES_PIXELS", 10_000_000)
    began = time.process_time()
    result = examine(of_small_frames(100, 1000))
    assert (result.outcome, result.blank) == (Outcome.OK, None)
    assert time.process_time() - began < 2
