"""JPEG: integrity, limits and blankness."""

from collections.abc import Iterable
from itertools import product

import pytest

from sluice_inspect.formats import jpeg
from sluice_inspect.formats.jpeg import FORMAT
from sluice_inspect.report import Limits, Outcome
from tests.inspection.formats.examining import Row, cuts, examine_bytes, verdicts
from tests.inspection.formats.image_samples import chess_board, encoded, noise_picture, plain_picture

GOOD = encoded(noise_picture(200, 150, 128, 40), "JPEG", quality=80)
START, APP5, END = b"\xff\xd8", b"\xff\xe5", b"\xff\xd9"


@verdicts(FORMAT)
def test_every_picture_gets_its_verdict() -> Iterable[Row]:
    for mode, progressive in product(("L", "RGB", "CMYK"), (False, True)):
        yield f"{mode} {progressive}", encoded(chess_board().convert(mode), "JPEG", progressive=progressive), "ok"
    yield "empty", encoded(plain_picture(), "JPEG"), "blank"
    yield "empty, past the time limit", encoded(plain_picture(), "JPEG"), "blank", Limits(soft_seconds=-1)
    yield from cuts(GOOD, 0.2, 0.5, 0.95, 0.99)
    yield from cuts(encoded(noise_picture(200, 150, 128, 40), "JPEG", progressive=True), 0.2, 0.5, 0.95, 0.99)
    yield "no end marker", GOOD.removesuffix(END), "ok"
    yield "zeros before the end marker", GOOD.removesuffix(END) + bytes(64) + END, "ok"
    yield "bytes after the end", GOOD + b"a preview of the maker", "ok"
    yield "APP5", START + APP5 + b"\x00\x02" + GOOD[2:], "ok"
    yield "short APP0", START + b"\xff\xe0\x00\x02" + GOOD[2:], "ok"
    yield "Adobe", START + b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x02" + GOOD[2:], "ok"
    yield "fill bytes", START + b"\xff\xff\xff" + APP5 + b"\x00\x04ab" + GOOD[2:], "ok"
    yield "Exif", START + b"\xff\xe1\x00\x10Exif\x00\x00II*\x00\xff\xff\xff\xff" + GOOD[2:], "ok"
    middle, frame = len(GOOD) // 2, GOOD.index(b"\xff\xc0")
    yield "zeros in the scan", GOOD[:middle] + bytes(1000) + GOOD[middle + 1000 :], "corrupt"
    yield "segment past the end", START + APP5 + b"\xff\xff" + GOOD[2:], "corrupt"
    yield "markers without a picture", START + b"\xff\xe0\x00\x04ab" + END, "corrupt", "no frame header"
    yield "lossless", GOOD[:frame] + b"\xff\xc3" + GOOD[frame + 2 :], "unsupported"
    yield "too many pixels", GOOD, "image_too_large", Limits(max_pixels=29_999)
    yield "too many pixels to decode", GOOD[: frame + 5] + b"\xfa" * 4 + GOOD[frame + 9 :], "image_too_large"
    wide = GOOD[: frame + 5] + b"\x36\xb0\x36\xb0" + GOOD[frame + 9 :]
    scan = wide[wide.index(b"\xff\xda") : wide.index(b"\xff\xda") + 40]
    yield "many scans", wide[:-2] + scan * 30 + END, "too_complex"


def test_too_many_segments_are_too_complex(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jpeg, "_SEGMENTS_MAX", 1000)
    assert examine_bytes(FORMAT, START + (APP5 + b"\0\2") * 1001 + GOOD[2:]).outcome is Outcome.TOO_COMPLEX
    assert examine_bytes(FORMAT, START + (APP5 + b"\0\2") * 900 + GOOD[2:]).outcome is Outcome.OK
