"""Previews of PDF documents: the first page as other readers draw it."""

import subprocess
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pikepdf
import pytest
from PIL import Image

from sluice_inspect.previews.preview import draw_preview
from sluice_inspect.report import Encrypted
from sluice_inspect.source import MemoryBacked
from tests.inspection.formats.image_samples import encoded
from tests.inspection.formats.pdf_samples import pdf, resaved, stream, text
from tests.required import require
from tests.rows import each_row

_RED_SQUARE = "1 0 0 rg 20 20 60 60 re f"
_LOOK = stream(b"0 0 1 rg 0 0 40 40 re f", "/Type/XObject/Subtype/Form/BBox[0 0 40 40]")
_BOX = (0, 0, 200, 100)


def _drawn(content: bytes, side: int = 200) -> Image.Image:
    with MemoryBacked(content) as source:
        drawing = draw_preview(source, "a.pdf", side)
    assert drawing.kind == "page"
    return drawing.picture


def _field() -> bytes:
    field = "<</Type/Annot/Subtype/Widget/FT/Tx/T(a)/Rect[140 40 180 80]/F 4/AP<</N 101 0 R>>>>"
    return pdf(
        _RED_SQUARE,
        box=_BOX,
        page="/Annots[100 0 R]",
        catalog="/AcroForm<</Fields[100 0 R]>>",
        objects={100: field, 101: _LOOK},
    )


def _note() -> bytes:
    note = "<</Type/Annot/Subtype/Stamp/Rect[140 40 180 80]/F 4/AP<</N 101 0 R>>>>"
    return pdf(_RED_SQUARE, box=_BOX, page="/Annots[100 0 R]", objects={100: note, 101: _LOOK})


@each_row(
    ("name", "content", "size", "colours"),
    [
        (
            "plain",
            pdf(_RED_SQUARE, "0 g 0 0 200 100 re f", box=_BOX),
            (200, 100),
            {(50, 50): "red", (160, 40): "white"},
        ),
        ("field of a form", _field(), (200, 100), {(50, 50): "red", (160, 40): "blue"}),
        ("annotation", _note(), (200, 100), {(50, 50): "red", (160, 40): "blue"}),
        ("turned", pdf(_RED_SQUARE, box=_BOX, page="/Rotate 90"), (100, 200), {(50, 50): "red", (50, 160): "white"}),
        ("long", pdf(_RED_SQUARE, box=(0, 0, 10, 14400)), (1, 200), {}),
        ("small", pdf("1 0 0 rg 0 0 9 9 re f", box=(0, 0, 3, 3)), (200, 200), {(100, 100): "red"}),
        (
            "without a password",
            resaved(pdf(_RED_SQUARE, box=_BOX), encryption=pikepdf.Encryption(owner="secret")),
            (200, 100),
            {(50, 50): "red"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_first_page_is_drawn_on_white_with_fields_and_annotations(
    name: str, content: bytes, size: tuple[int, int], colours: dict[tuple[int, int], str]
) -> None:
    picture = _drawn(content)
    assert picture.size == size, name
    assert {place: picture.getpixel(place) for place in colours} == {
        place: {"red": (255, 0, 0), "blue": (0, 0, 255), "white": (255, 255, 255)}[colour]
        for place, colour in colours.items()
    }


def test_document_behind_a_password_is_encrypted() -> None:
    locked = resaved(pdf(_RED_SQUARE), encryption=pikepdf.Encryption(owner="secret", user="secret"))
    with pytest.raises(Encrypted):
        _drawn(locked)


def _documents() -> Iterator[tuple[str, bytes]]:
    photo = encoded(Image.linear_gradient("L").resize((300, 200)), "JPEG")
    image = stream(
        photo,
        "/Type/XObject/Subtype/Image/Width 300/Height 200/ColorSpace/DeviceGray/BitsPerComponent 8/Filter/DCTDecode",
    )
    yield "text", pdf("\n".join(text(f"Line {number} of a letter", at=(70, 800 - 14 * number)) for number in range(50)))
    yield "picture", pdf("400 0 0 300 90 300 cm /I Do", resources="/XObject<</I 100 0 R>>", objects={100: image})
    yield "shapes", pdf("0 0.5 0 rg 0 0 595 300 re f 20 w 1 0 0 RG 0 842 m 595 0 l S 0 0 1 rg 300 600 200 100 re f*")
    yield "form", _field()


@each_row("side", [200, 1200])
def test_first_page_looks_as_in_another_reader(side: int, tmp_path: Path) -> None:
    require("Poppler", "pdftoppm", apt="poppler-utils")
    for name, content in _documents():
        (tmp_path / "a.pdf").write_bytes(content)
        command = ["pdftoppm", "-singlefile", "-png", "-scale-to", str(side), str(tmp_path / "a.pdf")]
        rendered = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
        difference = _thumbnail(_drawn(content, side)) - _thumbnail(Image.open(BytesIO(rendered)))
        assert np.abs(difference).mean() < 6, name


def _thumbnail(picture: Image.Image) -> "np.ndarray[tuple[int, ...], np.dtype[np.int16]]":
    return np.asarray(picture.convert("L").resize((32, 32), Image.Resampling.BOX), dtype=np.int16)
