"""Files generated in code, valid and invalid, to be uploaded. The expected results are in the tests.

The libraries are loaded when the first file is made: most tests need none.
"""

import io
import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

TEXT = b"Sluice opens for clean water.\n"


@cache
def picture(form: str = "PNG", size: tuple[int, int] = (64, 48)) -> bytes:
    """Return an image with visible content: coloured squares from a fixed seed."""
    from PIL import Image  # noqa: PLC0415  (loaded when a test needs it)

    dice = random.Random(7)
    image = Image.new("RGB", size)
    for left in range(0, size[0], 8):
        for top in range(0, size[1], 8):
            image.paste(tuple(dice.randrange(256) for _ in range(3)), (left, top, left + 8, top + 8))
    return _saved(image, form)


@cache
def white_picture(form: str = "PNG") -> bytes:
    from PIL import Image  # noqa: PLC0415  (loaded when a test needs it)

    return _saved(Image.new("RGB", (64, 48), "white"), form)


def _saved(image: "Image.Image", form: str) -> bytes:
    out = io.BytesIO()
    image.save(out, form)
    return out.getvalue()


@cache
def huge_picture() -> bytes:
    """Return a PNG of a few bytes that declares 60,000 x 60,000 pixels."""
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def pdf(drawing: bytes = b"BT /F1 24 Tf 72 700 Td (Clean water) Tj ET") -> bytes:
    """Return a PDF of one page with its cross-reference table; an empty `drawing` makes an empty page."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%b\nendstream" % (len(drawing), drawing),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    body, offsets = b"%PDF-1.7\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    end = b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(body)
    return body + b"xref\n0 6\n0000000000 65535 f \n" + table + end


@cache
def docx_file(text: str = "Clean water") -> bytes:
    import docx  # noqa: PLC0415  (loaded when a test needs it)

    document, out = docx.Document(), io.BytesIO()
    if text:
        document.add_paragraph(text)
    document.save(out)
    return out.getvalue()


@cache
def xlsx_file(value: int | None = 42) -> bytes:
    import openpyxl  # noqa: PLC0415  (loaded when a test needs it)

    book, out = openpyxl.Workbook(), io.BytesIO()
    if value is not None:
        book["Sheet"]["A1"] = value
    book.save(out)
    return out.getvalue()


@cache
def pptx_file(text: str = "Clean water") -> bytes:
    import pptx  # noqa: PLC0415  (loaded when a test needs it)

    deck, out = pptx.Presentation(), io.BytesIO()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = text
    deck.save(out)
    return out.getvalue()


def zip_of(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


@cache
def zip_bomb() -> bytes:
    """Return an archive of about 200 KB that unpacks to 200 MB, a thousand times as much."""
    return zip_of(("zeros", bytes(200 * 1_048_576)))


@cache
def eicar() -> bytes:
    """Return the EICAR test file, assembled here so that no scanner reports this source."""
    halves = ("X5O!P%@AP[4\\PZX54(P^)7CC)7}$", "EICAR-STANDARD-ANTIVIRUS-", "TEST-FILE!$H+H*")
    return "".join(halves).encode()


@cache
def noise(size: int, seed: int = 1) -> bytes:
    """Return bytes of no known format."""
    return b"\x07\x1b" + random.Random(seed).randbytes(size - 2)


SOUND_FILES: Mapping[str, Callable[[], bytes]] = {
    "pdf": pdf,
    "png": picture,
    "jpg": partial(picture, "JPEG"),
    "gif": partial(picture, "GIF"),
    "webp": partial(picture, "WEBP"),
    "docx": docx_file,
    "xlsx": xlsx_file,
    "pptx": pptx_file,
    "zip": lambda: zip_of(("readme.txt", TEXT)),
    "csv": lambda: b"name,litres\nsluice,12\nweir,7\n",
    "json": lambda: b'{"water": "clean", "litres": 12}',
    "xml": lambda: b"<?xml version='1.0'?><sluice><gate litres='12'>open</gate></sluice>",
    "txt": lambda: TEXT,
}
"""What makes a good file, by its extension."""
