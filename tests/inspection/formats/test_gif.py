"""GIF: integrity, limits and blankness."""

import struct
import time

from sluice_inspect.formats.gif import FORMAT
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.image_samples import animated, chess_board, encoded, plain_picture
from tests.rows import each_row

GOOD = encoded(chess_board(), "GIF")
ANIMATION = animated([chess_board(48, 3 + n) for n in range(6)], "GIF")


def test_good_picture_passes() -> None:
    result = examine_bytes(FORMAT, GOOD)
    assert result.passes
    assert result.blank is None


def test_animation_passes() -> None:
    assert examine_bytes(FORMAT, ANIMATION).passes


def test_empty_picture_is_blank() -> None:
    assert examine_bytes(FORMAT, encoded(plain_picture(), "GIF")).blank


def test_one_visible_frame_among_empty_ones_is_not_blank() -> None:
    assert (
        examine_bytes(
            FORMAT, animated([plain_picture(48, 48, 255), plain_picture(48, 48, 254), chess_board(48)], "GIF")
        ).blank
        is None
    )


@each_row("kept", [0.2, 0.5, 0.95])
@each_row("picture", [GOOD, ANIMATION])
def test_truncated_picture_is_corrupt(picture: bytes, kept: float) -> None:
    assert examine_bytes(FORMAT, picture[: int(len(picture) * kept)]).outcome is Outcome.CORRUPT


def test_missing_trailer_after_a_complete_frame_passes() -> None:
    assert examine_bytes(FORMAT, GOOD.removesuffix(b";")).passes


def test_bytes_after_the_trailer_pass() -> None:
    assert examine_bytes(FORMAT, GOOD + b"behind").passes


def test_header_without_a_frame_is_corrupt() -> None:
    assert examine_bytes(FORMAT, GOOD[:13] + b";").outcome is Outcome.CORRUPT


def test_invalid_lzw_codes_are_corrupt() -> None:
    place = GOOD.index(b"," + struct.pack("<HHHH", 0, 0, 64, 64)) + 30
    assert examine_bytes(FORMAT, GOOD[:place] + b"\xff" * 40 + GOOD[place + 40 :]).outcome is Outcome.CORRUPT


def test_frame_beyond_the_pixel_limit_is_refused() -> None:
    assert examine_bytes(FORMAT, GOOD, Limits(max_pixels=64 * 64 - 1)).finding is Finding.IMAGE_TOO_LARGE


def test_frame_at_a_huge_offset_is_too_large() -> None:
    place = GOOD.index(b"," + struct.pack("<HHHH", 0, 0, 64, 64)) + 1
    moved = GOOD[:place] + struct.pack("<HH", 60_000, 60_000) + GOOD[place + 4 :]
    assert examine_bytes(FORMAT, moved).finding is Finding.IMAGE_TOO_LARGE


def test_too_many_frames_are_refused_before_decoding() -> None:
    assert examine_bytes(FORMAT, ANIMATION, Limits(max_frames=5)).finding is Finding.IMAGE_TOO_LARGE


def test_blocks_past_the_time_limit_are_too_complex() -> None:
    endless = GOOD[:10] + b"\0\0\0" + (b"!\xfe\x01x\x00" * 300_000)
    assert examine_bytes(FORMAT, endless, Limits(soft_seconds=0)).outcome is Outcome.TOO_COMPLEX


def test_animation_past_the_time_limit_passes_and_is_not_blank() -> None:
    result = examine_bytes(
        FORMAT, animated([plain_picture(48, 48, 255), plain_picture(48, 48, 254)], "GIF"), Limits(soft_seconds=0)
    )
    assert result.passes
    assert result.blank is None


def test_frame_without_width_is_unsupported() -> None:
    frame = ANIMATION.index(b"\x2c", 20)
    assert (
        examine_bytes(FORMAT, ANIMATION[: frame + 5] + bytes(2) + ANIMATION[frame + 7 :]).outcome is Outcome.UNSUPPORTED
    )


def test_frame_outside_the_screen_is_too_large_for_its_bytes() -> None:
    frame = GOOD.index(b"\x2c", 13)
    far = GOOD[: frame + 1] + struct.pack("<HH", 9000, 9000) + GOOD[frame + 5 :]
    assert examine_bytes(FORMAT, far).finding is Finding.IMAGE_TOO_LARGE


def of_small_frames(count: int, side: int) -> bytes:
    frame = b"\x21\xf9\x04\x08\x01\0\0\0\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x4c\x01\0"
    screen = struct.pack("<HHBBB", side, side, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    return b"GIF89a" + screen + frame * count + b";"


def test_many_small_frames_on_a_large_screen_cost_seconds() -> None:
    began = time.process_time()
    result = examine_bytes(FORMAT, of_small_frames(1000, 4000))
    assert (result.outcome, result.blank) == (Outcome.OK, None)
    assert time.process_time() - began < 15


def test_small_frames_on_a_small_screen_are_still_judged_to_the_end() -> None:
    assert examine_bytes(FORMAT, of_small_frames(100, 300)).blank
