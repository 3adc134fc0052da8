"""AVIF: integrity, limits and blankness."""

from functools import partial

import pytest
from PIL import AvifImagePlugin, Image

from sluice_inspect.formats.heif import avif
from sluice_inspect.formats.heif.avif import FORMAT
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.inspection.formats.heif_samples import item_file
from tests.inspection.formats.image_samples import animated, chess_board, encoded, plain_picture
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)
GOOD = encoded(chess_board(128, 16).convert("RGB"), "AVIF")
ANIMATION = animated([chess_board(64, 4 + number).convert("RGB") for number in range(5)], "AVIF")


def test_picture_of_every_mode_passes_and_is_not_blank() -> None:
    for data in (GOOD, *(encoded(chess_board().convert(mode), "AVIF") for mode in ("L", "RGB", "RGBA"))):
        assert examine(data) == Examined(recognised=True, outcome=Outcome.OK)
    assert examine(encoded(plain_picture().convert("RGB"), "AVIF")).blank


def test_animation_passes_and_its_frames_are_counted() -> None:
    assert examine(ANIMATION).outcome is Outcome.OK
    assert examine(ANIMATION, Limits(max_frames=4)).finding is Finding.IMAGE_TOO_LARGE
    assert ANIMATION.count(b"pitm") == 1
    assert examine(ANIMATION.replace(b"pitm", b"free")).passes  # without a primary item


@each_row("kept", [0.1, 0.5, 0.95, 0.999])
def test_truncated_picture_is_corrupt(kept: float) -> None:
    assert examine(GOOD[: int(len(GOOD) * kept)]).outcome is Outcome.CORRUPT


@each_row("seed", range(8))
def test_changed_pixel_bytes_are_corrupt_although_one_decoder_accepts_them(seed: int) -> None:
    picture = encoded(Image.effect_noise((256, 256), 60).convert("RGB"), "AVIF", quality=80)
    damaged = bytearray(picture)
    for place in range(picture.index(b"mdat") + 100 + seed * 37, len(picture) - 8, 500):
        damaged[place] ^= 0x55
    assert examine(bytes(damaged)).outcome is Outcome.CORRUPT


def test_zeroed_frame_of_an_animation_is_corrupt() -> None:
    assert examine(ANIMATION[:-120] + bytes(100) + ANIMATION[-20:]).outcome is Outcome.CORRUPT


def test_too_many_pixels_are_refused_before_decoding() -> None:
    huge = item_file(b"av01", b"x", brand=b"avif", size=(30_000, 30_000))
    assert examine(huge).finding is Finding.IMAGE_TOO_LARGE


def test_feature_that_the_decoder_lacks_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("Failed to decode image: Not implemented")

    monkeypatch.setattr(avif, "decode_frames", fail)
    assert examine(GOOD).outcome is Outcome.UNSUPPORTED


def test_good_picture_passes_without_the_second_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avif, "_STRICT_DECODER", False)
    assert examine(GOOD).outcome is Outcome.OK
    assert examine(GOOD[:-30]).outcome is Outcome.CORRUPT


def test_decoder_uses_one_thread() -> None:
    assert AvifImagePlugin.DEFAULT_MAX_THREADS == 1
