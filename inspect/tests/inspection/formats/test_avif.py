"""AVIF: integrity, limits and blankness."""

from collections.abc import Iterable
from functools import partial

import pytest
from PIL import AvifImagePlugin, Image

from sluice_inspect.formats.heif import avif
from sluice_inspect.formats.heif.avif import FORMAT
from sluice_inspect.report import Limits, Outcome
from tests.inspection.formats.examining import Row, cuts, examine_bytes, verdicts
from tests.inspection.formats.heif_samples import item_file
from tests.inspection.formats.image_samples import animated, chess_board, encoded, plain_picture

examine = partial(examine_bytes, FORMAT)
GOOD = encoded(chess_board(128, 16).convert("RGB"), "AVIF")


def without_size_of_transparency(data: bytes) -> bytes:
    """Return a picture whose second item, its transparency, declares no size, as early writers left it out."""
    at, index = data.index(b"ipco") + 4, 1
    while data[at + 4 : at + 8] != b"ispe":
        at, index = at + int.from_bytes(data[at : at + 4], "big"), index + 1
    entry = data.index(b"ipma") + 12
    entry += 3 + data[entry + 2]  # behind the first item: its number, a count and a byte for each property
    place = next(place for place in range(entry + 3, entry + 3 + data[entry + 2]) if data[place] & 0x7F == index)
    return data[:place] + b"\0" + data[place + 1 :]


@verdicts(FORMAT)
def test_picture_that_decodes_passes_although_libavif_refuses_its_lists() -> Iterable[Row]:
    odd = without_size_of_transparency(encoded(chess_board().convert("RGBA").rotate(30), "AVIF"))
    yield "transparency without a size", odd, "unsupported"
    yield from cuts(odd, 0.5, 0.95, 0.999)
    yield "no list of pictures", odd.replace(b"pict", b"vide", 1), "corrupt"
    begin = odd.index(b"mdat") + 40
    yield "zeroed data", odd[:begin] + bytes(60) + odd[begin + 60 :], "corrupt"


@verdicts(FORMAT)
def test_every_picture_gets_its_verdict() -> Iterable[Row]:
    for mode in ("L", "RGB", "RGBA"):
        yield f"mode {mode}", encoded(chess_board().convert(mode), "AVIF"), "ok"
    yield "good", GOOD, "ok"
    yield from cuts(GOOD, 0.1, 0.5, 0.95, 0.999)
    yield "empty", encoded(plain_picture().convert("RGB"), "AVIF"), "blank"
    moving = animated([chess_board(64, 4 + number).convert("RGB") for number in range(5)], "AVIF")
    yield "animation", moving, "ok"
    yield "animation without a primary item", moving.replace(b"pitm", b"free"), "ok"
    yield "too many frames", moving, "image_too_large", Limits(max_frames=4)
    yield "zeroed frame", moving[:-120] + bytes(100) + moving[-20:], "corrupt"
    yield "too many pixels to decode", item_file(b"av01", b"x", brand=b"avif", size=(30_000, 30_000)), "image_too_large"
    picture = encoded(Image.effect_noise((256, 256), 60).convert("RGB"), "AVIF", quality=80)
    for seed in range(8):
        damaged = bytearray(picture)
        for place in range(picture.index(b"mdat") + 100 + seed * 37, len(picture) - 8, 500):
            damaged[place] ^= 0x55
        yield f"changed pixels that one decoder accepts, {seed}", bytes(damaged), "corrupt"


def test_feature_that_the_decoder_lacks_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("Failed to decode image: Not implemented")

    monkeypatch.setattr(avif, "decode_frames", fail)
    assert examine(GOOD).outcome is Outcome.UNSUPPORTED


def test_good_picture_passes_without_the_second_decoder_and_the_first_has_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(avif, "_INSTALLED", False)
    assert examine(GOOD).outcome is Outcome.OK
    assert examine(GOOD[:-30]).outcome is Outcome.CORRUPT
    assert AvifImagePlugin.DEFAULT_MAX_THREADS == 1
