import struct

import pytest

from sluice.formats.kinds.gif import KIND
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.images import animated, board, encoded, plain
from tests.formats.judging import corpus, judge, needs_corpus

GOOD = encoded(board(), "GIF")
MOVING = animated([board(48, 3 + n) for n in range(6)], "GIF")


def test_a_good_picture_passes() -> None:
    judged = judge(KIND, GOOD)
    assert judged.passes
    assert judged.blank is None


def test_an_animation_passes() -> None:
    assert judge(KIND, MOVING).passes


def test_an_empty_picture_is_blank() -> None:
    assert judge(KIND, encoded(plain(), "GIF")).blank


def test_one_shown_frame_among_empty_ones_is_content() -> None:
    assert judge(KIND, animated([plain(48, 48, 255), plain(48, 48, 254), board(48)], "GIF")).blank is None


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.95])
@pytest.mark.parametrize("whole", [GOOD, MOVING])
def test_a_truncated_picture_is_corrupt(whole: bytes, kept: float) -> None:
    assert judge(KIND, whole[: int(len(whole) * kept)]).outcome is Outcome.CORRUPT


def test_a_missing_trailer_behind_a_whole_frame_is_forgiven() -> None:
    assert judge(KIND, GOOD.removesuffix(b";")).passes


def test_bytes_behind_the_trailer_are_forgiven() -> None:
    assert judge(KIND, GOOD + b"behind").passes


def test_a_header_without_a_frame_is_corrupt() -> None:
    assert judge(KIND, GOOD[:13] + b";").outcome is Outcome.CORRUPT


def test_pixels_that_are_no_codes_are_corrupt() -> None:
    place = GOOD.index(b"," + struct.pack("<HHHH", 0, 0, 64, 64)) + 30
    assert judge(KIND, GOOD[:place] + b"\xff" * 40 + GOOD[place + 40 :]).outcome is Outcome.CORRUPT


def test_a_frame_beyond_the_pixel_limit_is_refused() -> None:
    assert judge(KIND, GOOD, Limits(max_pixels=64 * 64 - 1)).finding is Finding.IMAGE_TOO_LARGE


def test_a_frame_that_reaches_far_outside_its_screen_counts_as_large() -> None:
    place = GOOD.index(b"," + struct.pack("<HHHH", 0, 0, 64, 64)) + 1
    moved = GOOD[:place] + struct.pack("<HH", 60_000, 60_000) + GOOD[place + 4 :]
    assert judge(KIND, moved).finding is Finding.IMAGE_TOO_LARGE


def test_too_many_frames_are_refused_before_they_are_decoded() -> None:
    assert judge(KIND, MOVING, Limits(max_frames=5)).finding is Finding.IMAGE_TOO_LARGE


def test_more_blocks_than_time_is_too_complex() -> None:
    endless = GOOD[:10] + b"\0\0\0" + (b"!\xfe\x01x\x00" * 300_000)
    assert judge(KIND, endless, Limits(soft_seconds=0)).outcome is Outcome.TOO_COMPLEX


def test_an_animation_longer_than_the_time_is_judged_by_what_was_seen() -> None:
    judged = judge(KIND, animated([plain(48, 48, 255), plain(48, 48, 254)], "GIF"), Limits(soft_seconds=0))
    assert judged.passes
    assert judged.blank is None


@needs_corpus
def test_the_intact_files_of_the_corpus_pass() -> None:
    assert [path.name for path in corpus("gif", "valid", "not_blank") if not judge(KIND, path.read_bytes()).passes] == []


def test_a_frame_without_width_is_not_held_against_the_file() -> None:
    frame = MOVING.index(b"\x2c", 20)
    assert judge(KIND, MOVING[: frame + 5] + bytes(2) + MOVING[frame + 7 :]).outcome is Outcome.UNSUPPORTED


def test_a_frame_laid_far_outside_of_the_screen_is_too_large_for_its_bytes() -> None:
    frame = GOOD.index(b"\x2c", 13)
    far = GOOD[: frame + 1] + struct.pack("<HH", 9000, 9000) + GOOD[frame + 5 :]
    assert judge(KIND, far).finding is Finding.IMAGE_TOO_LARGE
