"""Pictures and pages that are nothing but pixels."""

import io
from collections.abc import Iterator

import pikepdf
import pypdfium2 as pdfium
import pytest
from PIL import Image, ImageChops, ImageSequence

from sluice_inspect.report import Outcome, TooComplex, Unsafe
from tests.inspection.formats.image_samples import animated, encoded, png_header
from tests.inspection.formats.pdf_samples import pdf, text
from tests.inspection.sanitise.cleaned import SECRET, cleaned, hides, inspected
from tests.inspection.sanitise.test_documents import _hostile_pdf
from tests.inspection.sanitise.test_metadata import _gif, _jpeg, _png, _tiff, _webp
from tests.rows import each_row

_CLEAR = Image.linear_gradient("L").resize((48, 32)).convert("LA").convert("RGBA")
_FRAMES = [Image.new("RGB", (48, 32), colour) for colour in ("red", "navy", "white")]


def _pictures() -> Iterator[tuple[str, bytes, int]]:
    """Yield pictures, and by how many levels a pixel may differ."""
    yield "a.png", _png(), 0
    yield "opacity.png", encoded(_CLEAR, "PNG"), 0
    yield "palette.png", encoded(_FRAMES[0].convert("P"), "PNG", transparency=0), 0
    yield "deep.png", encoded(Image.new("I;16", (40, 20), 0x8001), "PNG"), 0
    yield "moving.png", animated(_FRAMES, "PNG", duration=[70, 110, 90], loop=2), 0
    yield "beside.png", animated(_FRAMES, "PNG", duration=[70, 110], default_image=True), 0
    yield "a.jpg", _jpeg(), 40
    yield "cmyk.jpg", encoded(Image.new("CMYK", (40, 20), (9, 90, 200, 0)), "JPEG"), 4
    yield "still.webp", _webp(), 0
    yield "moving.webp", animated(_FRAMES, "WEBP", lossless=True, duration=80), 0
    yield "a.tiff", _tiff("<"), 0
    yield "fax.tiff", encoded(Image.new("1", (40, 20), 1), "TIFF", compression="group4"), 0
    yield "a.gif", _gif(), 0
    yield "moving.gif", animated(_FRAMES, "GIF", duration=[70, 110, 90], loop=2), 0
    yield "a.bmp", encoded(_FRAMES[1], "BMP"), 0
    yield "a.jp2", encoded(_FRAMES[1], "JPEG2000"), 0
    yield "a.avif", encoded(_FRAMES[1], "AVIF"), 8


@each_row(("name", "content", "most"), _pictures, ids=lambda value: value if isinstance(value, str) else "")
def test_picture_shows_the_same_and_has_nothing_else(name: str, content: bytes, most: int) -> None:
    left, removed = cleaned(content, name, "pixels")
    assert removed == {"all_but_pixels"}
    assert not hides(left)
    before, after = inspected(content, name), inspected(left, name)
    assert (after.integrity, after.finding, after.format) == (Outcome.OK, None, before.format)
    if name in {"a.jpg", "cmyk.jpg"}:
        return
    with Image.open(io.BytesIO(content)) as one, Image.open(io.BytesIO(left)) as other:
        times = [[frame.info.get("duration") for frame in ImageSequence.Iterator(each)] for each in (one, other)]
        assert times[0] == times[1]
        assert one.info.get("loop") == other.info.get("loop")
        for number, frame in enumerate(ImageSequence.Iterator(one)):
            other.seek(number)
            turned = frame.transpose(Image.Transpose.ROTATE_90) if name == "a.png" else frame
            turned = frame.transpose(Image.Transpose.ROTATE_180) if name == "still.webp" else turned
            difference = ImageChops.difference(turned.convert("RGBA"), other.convert("RGBA"))
            assert max(high for _low, high in difference.getextrema()) <= most, (name, number)  # type: ignore[misc]  # one pair for each band


def test_quality_of_a_jpeg_is_kept_and_it_is_turned() -> None:
    left, _removed = cleaned(_jpeg(6), "a.jpg", "pixels")
    with (
        Image.open(io.BytesIO(left)) as picture,
        Image.open(io.BytesIO(cleaned(_jpeg(1), "a.jpg", "metadata")[0])) as other,
    ):
        assert picture.size == (32, 48)
        assert set(picture.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
        upright = picture.convert("RGB").transpose(Image.Transpose.ROTATE_90)
        difference = ImageChops.difference(upright, other.convert("RGB")).convert("L")
        assert sum(difference.tobytes()) / len(difference.tobytes()) < 8


def test_pages_are_pictures_of_their_size() -> None:
    content = pdf(*(text(words, at=(9, 80), size=40) for words in ("A letter", "A page")), box=(0, 0, 300, 200))
    left, _removed = cleaned(content, "a.pdf", "pixels")
    with pikepdf.open(io.BytesIO(left)) as document:
        assert [[float(side) for side in page.MediaBox] for page in document.pages] == [[0, 0, 300, 200]] * 2
    assert inspected(left, "a.pdf").outcome is Outcome.OK
    pictures = []
    for each in (content, left):
        opened = pdfium.PdfDocument(each)
        pictures.append(opened[1].render(scale=1).to_pil().convert("L"))
        opened.close()
    difference = ImageChops.difference(*pictures).tobytes()
    assert sum(difference) / len(difference) < 2


def test_nothing_hidden_survives_in_a_document() -> None:
    left, removed = cleaned(_hostile_pdf(), "a.pdf", "pixels")
    assert removed == {"all_but_pixels"}
    assert not hides(left, {SECRET, b"A letter"})
    assert inspected(left, "a.pdf").flags == ()


def test_picture_that_is_too_large_is_refused() -> None:
    with pytest.raises(Unsafe, match="pixels"):
        cleaned(png_header(30_000, 30_000), "a.png", "pixels")
    with pytest.raises(TooComplex):
        cleaned(encoded(Image.new("RGBA", (9_000, 7_000)), "PNG", compress_level=1), "a.png", "pixels")
