"""WebP: integrity, limits and blankness."""

import struct
from collections.abc import Iterable
from itertools import product

import pytest
from PIL import Image

from sluice_inspect.formats import webp
from sluice_inspect.formats.webp import FORMAT
from sluice_inspect.report import Corrupt, Limits, Outcome
from tests.inspection.formats.examining import Row, cuts, examine_bytes, verdicts
from tests.inspection.formats.image_samples import animated, chess_board, encoded, noise_picture, plain_picture

MOVING = animated([chess_board(48, 3 + n).convert("RGB") for n in range(4)], "WEBP")


def with_zeros(data: bytes, start: int, length: int) -> bytes:
    return data[:start] + bytes(length) + data[start + length :]


@verdicts(FORMAT)
def test_every_picture_gets_its_verdict() -> Iterable[Row]:
    board = chess_board().convert("RGB")
    lossless = encoded(board, "WEBP", lossless=True)
    clear = encoded(board.convert("RGBA"), "WEBP", lossless=True, exif=b"Exif\0\0")
    for name, data in {"lossy": encoded(board, "WEBP"), "lossless": lossless, "clear": clear, "moving": MOVING}.items():
        yield name, data, "ok"
        yield f"{name}, too many pixels", data, "image_too_large", Limits(max_pixels=48 * 48 - 1)
        yield from cuts(data, 0.5, 0.95)
    yield "too many frames", MOVING, "image_too_large", Limits(max_frames=3)
    yield "empty", encoded(plain_picture().convert("RGB"), "WEBP"), "blank"
    yield "bytes after the container", lossless + b"behind", "ok"
    for four, verdict in ((b"XMP\0", "ok"), (b"XMP ", "ok"), (b"\0\0\0\0", "corrupt"), (b"EX\0\0", "corrupt")):
        named = lossless[8:] + four + b"\4\0\0\0<a/>"
        yield f"chunk named {four!r}", b"RIFF" + len(named).to_bytes(4, "little") + named, verdict
    longer = lossless[:16] + (len(lossless)).to_bytes(4, "little") + lossless[20:]
    yield "chunk that is too long", longer, "corrupt", "passes the end"
    yield "no picture", b"RIFF\x0c\0\0\0WEBPEXIF\0\0\0\0", "corrupt"
    yield "zeros to the end", with_zeros(lossless, len(lossless) // 2, len(lossless) - len(lossless) // 2), "corrupt"
    for spare in (1, 12, 400):
        data = lossless[20:] + b"spare" + bytes(spare) + b"\0" * (len(lossless) + 5 + spare & 1)
        head = b"RIFF" + struct.pack("<I4s4sI", 12 + len(data), b"WEBP", b"VP8L", len(data))
        yield f"padding of {spare} after encoded data", head + data, "ok"


@verdicts(FORMAT)
def test_zeros_in_encoded_data_are_corrupt() -> Iterable[Row]:
    for coding in ({}, {"lossless": True}):
        small, large = (encoded(noise_picture(n, n, 128, 40).convert("RGB"), "WEBP", **coding) for n in (200, 300))
        for place in (0.3, 0.5, 0.7):
            yield f"zeros at {place} {coding}", with_zeros(small, int(len(small) * place), 400), "corrupt"
        for tail in (1200, 4096):
            yield f"{tail} zeros at the end {coding}", large[:-tail] + bytes(tail), "corrupt"
    noise = [noise_picture(100, 100, 128, 40, seed).convert("RGB") for seed in range(4)]
    lossy, lossless = animated(noise, "WEBP"), animated(noise, "WEBP", lossless=True)
    last = lossy.rindex(b"ANMF")
    yield "last frame", lossy[:last] + bytes(len(lossy) - last), "corrupt"
    yield "lossless animation", lossless, "ok"
    yield "frame in the middle", with_zeros(lossless, len(lossless) // 2, 400), "corrupt"


def test_even_area_below_other_content_passes() -> None:
    page = Image.new("RGB", (512, 1200), "white")
    page.paste(noise_picture(512, 64, 128, 40).convert("RGB"))
    codings: list[dict[str, bool]] = [{"lossless": True}, {}]
    for quality, coding in product((50, 100), codings):
        data = encoded(page, "WEBP", quality=quality, method=0, **coding)
        assert examine_bytes(FORMAT, data).passes, (quality, coding)
    assert not examine_bytes(FORMAT, data[:-3000] + bytes(3000)).passes


def test_pictures_of_every_quality_and_method_pass() -> None:
    options = product([(1, 0), (30, 6), (80, 4), (100, 0)], [{}, {"lossless": True}])
    pictures = [plain_picture(1, 1), plain_picture(300, 20), chess_board(33), noise_picture(90, 70, 128, 40)]
    for ((quality, method), coding), picture in product(options, pictures):
        plain, clear = picture.convert("RGB"), picture.convert("RGB")
        clear.putalpha(picture.rotate(90).resize(picture.size))
        for each in (plain, clear):
            data = encoded(each, "WEBP", quality=quality, method=method, **coding)
            assert examine_bytes(FORMAT, data).passes, (quality, method, coding, picture.size)


def test_too_many_chunks_are_too_complex(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webp, "_CHUNKS_MAX", 1000)
    chunks = b"XXXX\0\0\0\0" * 1001
    whole = b"RIFF" + (4 + len(chunks)).to_bytes(4, "little") + b"WEBP" + chunks
    assert examine_bytes(FORMAT, whole).outcome is Outcome.TOO_COMPLEX
    assert examine_bytes(FORMAT, MOVING).outcome is Outcome.OK


def test_picture_without_memory_for_its_decoder_is_too_complex(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: object, **_more: object) -> None:
        raise Corrupt("the picture does not decode: could not create decoder object")

    monkeypatch.setattr(webp, "decode_frames", refuse)
    assert examine_bytes(FORMAT, MOVING).outcome is Outcome.CORRUPT
    monkeypatch.setattr(webp, "_CANVAS_LEAST", 0)
    assert examine_bytes(FORMAT, MOVING).outcome is Outcome.TOO_COMPLEX
