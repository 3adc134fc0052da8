"""WebP: integrity, limits and blankness."""

import struct
from functools import partial

import pytest

from sluice_inspect.formats import webp
from sluice_inspect.formats.webp import FORMAT
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.image_samples import animated, chess_board, encoded, noise_picture, plain_picture
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)
LOSSY = encoded(chess_board().convert("RGB"), "WEBP")
LOSSLESS = encoded(chess_board().convert("RGB"), "WEBP", lossless=True)
TRANSPARENT = encoded(chess_board().convert("RGBA"), "WEBP", lossless=True, exif=b"Exif\0\0")
ANIMATION = animated([chess_board(48, 3 + n).convert("RGB") for n in range(4)], "WEBP")
NOISE = [noise_picture(100, 100, 128, 40, seed).convert("RGB") for seed in range(4)]
each_variant = each_row("picture", [LOSSY, LOSSLESS, TRANSPARENT, ANIMATION])
each_coding = each_row("coding", [{}, {"lossless": True}])


def photo(side: int, coding: dict[str, bool]) -> bytes:
    return encoded(noise_picture(side, side, 128, 40).convert("RGB"), "WEBP", **coding)


@each_variant
def test_every_variant_passes_up_to_the_pixel_limit(picture: bytes) -> None:
    result = examine(picture)
    assert (result.passes, result.blank) == (True, None)
    assert examine(picture, Limits(max_pixels=48 * 48 - 1)).finding is Finding.IMAGE_TOO_LARGE


@each_variant
@each_row("kept", [0.5, 0.95])
def test_truncated_picture_is_corrupt(picture: bytes, kept: float) -> None:
    assert examine(picture[: int(len(picture) * kept)]).outcome is Outcome.CORRUPT


def test_empty_picture_is_blank() -> None:
    assert examine(encoded(plain_picture().convert("RGB"), "WEBP")).blank


def test_bytes_after_the_container_pass() -> None:
    assert examine(LOSSLESS + b"behind").passes


def test_damaged_container_or_pixels_are_corrupt() -> None:
    longer = LOSSLESS[:16] + (len(LOSSLESS)).to_bytes(4, "little") + LOSSLESS[20:]
    assert "passes the end" in examine(longer).detail
    assert examine(b"RIFF\x0c\0\0\0WEBPEXIF\0\0\0\0").outcome is Outcome.CORRUPT
    middle = len(LOSSLESS) // 2
    assert examine(LOSSLESS[:middle] + bytes(len(LOSSLESS) - middle)).outcome is Outcome.CORRUPT


@each_coding
@each_row("place", [0.3, 0.5, 0.7])
def test_zeros_in_encoded_data_are_corrupt(coding: dict[str, bool], place: float) -> None:
    data = photo(200, coding)
    at = int(len(data) * place)
    assert examine(data[:at] + bytes(400) + data[at + 400 :]).outcome is Outcome.CORRUPT


@each_coding
@each_row("tail", [1200, 4096])
def test_zeros_in_place_of_the_end_are_corrupt(coding: dict[str, bool], tail: int) -> None:
    assert examine(photo(300, coding)[:-tail] + bytes(tail)).outcome is Outcome.CORRUPT


def test_zeros_in_an_animation_are_corrupt() -> None:
    moving = animated(NOISE, "WEBP")
    last = moving.rindex(b"ANMF")
    assert examine(moving[:last] + bytes(len(moving) - last)).outcome is Outcome.CORRUPT
    lossless = animated(NOISE, "WEBP", lossless=True)
    middle = len(lossless) // 2
    assert examine(lossless).passes
    assert examine(lossless[:middle] + bytes(400) + lossless[middle + 400 :]).outcome is Outcome.CORRUPT


@each_row("spare", [1, 12, 400])
def test_padding_after_encoded_data_passes(spare: int) -> None:
    data = LOSSLESS[20:] + b"spare" + bytes(spare) + b"\0" * (len(LOSSLESS) + 5 + spare & 1)
    head = b"RIFF" + struct.pack("<I4s4sI", 12 + len(data), b"WEBP", b"VP8L", len(data))
    assert examine(head + data).passes


@each_row(("quality", "method"), [(1, 0), (30, 6), (80, 4), (100, 0)])
@each_coding
def test_pictures_of_every_quality_and_method_pass(quality: int, method: int, coding: dict[str, bool]) -> None:
    options = {"quality": quality, "method": method, **coding}
    noise = noise_picture(90, 70, 128, 40)
    for picture in (plain_picture(1, 1), plain_picture(300, 20), chess_board(33), noise):
        assert examine(encoded(picture.convert("RGB"), "WEBP", **options)).passes
        clear = picture.convert("RGB")
        clear.putalpha(picture.rotate(90).resize(picture.size))
        assert examine(encoded(clear, "WEBP", **options)).passes


def test_too_many_frames_or_chunks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webp, "_CHUNKS_MAX", 1000)
    assert examine(ANIMATION, Limits(max_frames=3)).finding is Finding.IMAGE_TOO_LARGE
    chunks = b"XXXX\0\0\0\0" * 1001
    whole = b"RIFF" + (4 + len(chunks)).to_bytes(4, "little") + b"WEBP" + chunks
    assert examine(whole).outcome is Outcome.TOO_COMPLEX
