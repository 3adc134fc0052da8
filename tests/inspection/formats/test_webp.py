"""WebP: integrity, limits and blankness."""

import struct

from sluice_inspect.formats.webp import FORMAT
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.image_samples import (
    animated,
    chess_board,
    encoded,
    grey_picture,
    noise_field,
    plain_picture,
)
from tests.rows import each_row

LOSSY = encoded(chess_board().convert("RGB"), "WEBP")
LOSSLESS = encoded(chess_board().convert("RGB"), "WEBP", lossless=True)
TRANSPARENT = encoded(chess_board().convert("RGBA"), "WEBP", lossless=True, exif=b"Exif\0\0")
ANIMATION = animated([chess_board(48, 3 + n).convert("RGB") for n in range(4)], "WEBP")
ALL = [LOSSY, LOSSLESS, TRANSPARENT, ANIMATION]


@each_row("picture", ALL)
def test_every_variant_passes(picture: bytes) -> None:
    result = examine_bytes(FORMAT, picture)
    assert result.passes
    assert result.blank is None


@each_row("picture", ALL)
@each_row("kept", [0.5, 0.95])
def test_truncated_picture_is_corrupt(picture: bytes, kept: float) -> None:
    assert examine_bytes(FORMAT, picture[: int(len(picture) * kept)]).outcome is Outcome.CORRUPT


def test_empty_picture_is_blank() -> None:
    assert examine_bytes(FORMAT, encoded(plain_picture().convert("RGB"), "WEBP")).blank


def test_bytes_after_the_container_pass() -> None:
    assert examine_bytes(FORMAT, LOSSLESS + b"behind").passes


def test_chunk_past_the_end_of_the_file_is_corrupt() -> None:
    longer = LOSSLESS[:16] + (len(LOSSLESS)).to_bytes(4, "little") + LOSSLESS[20:]
    assert "passes the end" in examine_bytes(FORMAT, longer).detail


def test_container_without_a_picture_is_corrupt() -> None:
    assert examine_bytes(FORMAT, b"RIFF\x0c\0\0\0WEBPEXIF\0\0\0\0").outcome is Outcome.CORRUPT


def test_damaged_pixels_are_corrupt() -> None:
    middle = len(LOSSLESS) // 2
    assert examine_bytes(FORMAT, LOSSLESS[:middle] + bytes(len(LOSSLESS) - middle)).outcome is Outcome.CORRUPT


@each_row("coding", [{}, {"lossless": True}])
@each_row("place", [0.3, 0.5, 0.7])
def test_zeros_in_encoded_data_are_corrupt(coding: dict[str, bool], place: float) -> None:
    photo = bytearray(encoded(grey_picture(noise_field(200, 200, 128, 40)).convert("RGB"), "WEBP", **coding))
    at = int(len(photo) * place)
    photo[at : at + 400] = bytes(400)
    assert examine_bytes(FORMAT, bytes(photo)).outcome is Outcome.CORRUPT


@each_row("coding", [{}, {"lossless": True}])
@each_row("tail", [1200, 4096])
def test_zeros_in_place_of_the_end_are_corrupt(coding: dict[str, bool], tail: int) -> None:
    photo = encoded(grey_picture(noise_field(300, 300, 128, 40)).convert("RGB"), "WEBP", **coding)
    assert examine_bytes(FORMAT, photo[:-tail] + bytes(tail)).outcome is Outcome.CORRUPT


def test_zeros_in_place_of_the_last_frames_are_corrupt() -> None:
    frames = [grey_picture(noise_field(100, 100, 128, 40, seed)).convert("RGB") for seed in range(4)]
    moving = animated(frames, "WEBP")
    last = moving.rindex(b"ANMF")
    assert examine_bytes(FORMAT, moving[:last] + bytes(len(moving) - last)).outcome is Outcome.CORRUPT


def test_damaged_frame_of_an_animation_is_corrupt() -> None:
    frames = [grey_picture(noise_field(100, 100, 128, 40, seed)).convert("RGB") for seed in range(4)]
    moving = bytearray(animated(frames, "WEBP", lossless=True))
    assert examine_bytes(FORMAT, bytes(moving)).passes
    moving[len(moving) // 2 : len(moving) // 2 + 400] = bytes(400)
    assert examine_bytes(FORMAT, bytes(moving)).outcome is Outcome.CORRUPT


@each_row("spare", [1, 12, 400])
def test_padding_after_encoded_data_passes(spare: int) -> None:
    data = LOSSLESS[20:] + b"spare" + bytes(spare) + b"\0" * (len(LOSSLESS) + 5 + spare & 1)
    assert examine_bytes(
        FORMAT, b"RIFF" + struct.pack("<I4s4sI", 12 + len(data), b"WEBP", b"VP8L", len(data)) + data
    ).passes


@each_row("quality", [1, 30, 80, 100])
@each_row("method", [0, 4, 6])
@each_row("coding", [{}, {"lossless": True}])
def test_pictures_of_every_quality_and_method_pass(quality: int, method: int, coding: dict[str, bool]) -> None:
    options = {"quality": quality, "method": method, **coding}
    for picture in (
        plain_picture(1, 1),
        plain_picture(300, 20),
        chess_board(33),
        grey_picture(noise_field(90, 70, 128, 40)),
    ):
        assert examine_bytes(FORMAT, encoded(picture.convert("RGB"), "WEBP", **options)).passes
        clear = picture.convert("RGB")
        clear.putalpha(picture.rotate(90).resize(picture.size))
        assert examine_bytes(FORMAT, encoded(clear, "WEBP", **options)).passes


@each_row("picture", ALL)
def test_pixel_limit_applies_to_every_variant(picture: bytes) -> None:
    assert examine_bytes(FORMAT, picture, Limits(max_pixels=48 * 48 - 1)).finding is Finding.IMAGE_TOO_LARGE


def test_too_many_frames_are_refused() -> None:
    assert examine_bytes(FORMAT, ANIMATION, Limits(max_frames=3)).finding is Finding.IMAGE_TOO_LARGE


def test_file_of_only_chunks_is_too_complex() -> None:
    chunks = b"XXXX\0\0\0\0" * 500_001
    assert (
        examine_bytes(FORMAT, b"RIFF" + (4 + len(chunks)).to_bytes(4, "little") + b"WEBP" + chunks).outcome
        is Outcome.TOO_COMPLEX
    )
