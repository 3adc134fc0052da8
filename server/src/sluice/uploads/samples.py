"""Small files of the service itself, for the demo and for test uploads."""

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Final

from sluice.contexts import Context
from sluice.contexts.policies import Mode

_TEXT: Final = "A test upload from the console of Sluice, number {number}. It can be deleted at any time.\n"


Sample = tuple[str, Callable[[int], bytes]]
"""The name of a file, and what makes its content: other bytes for another number."""


def passing_sample(context: Context) -> Sample | None:
    """Return a file that a context accepts, unless a policy refuses it.

    None if there is no sample with an extension that it allows.
    """
    extension = next(
        (each for each in _MAKERS if not context.allowed_extensions or each in context.allowed_extensions), None
    )
    return None if extension is None else (f"test-upload.{extension}", _MAKERS[extension])


def failing_sample(context: Context) -> Sample | None:
    """Return a file that a context rejects. None if its rules reject no sample.

    It is an empty file, a PDF that ends too early, or one with an extension that is not allowed.
    """
    allowed, modes = context.allowed_extensions, context.check_modes
    if context.reject_blank_files and modes.blank is Mode.ENFORCE:
        return f"empty.{(*allowed, 'pdf')[0]}", lambda _number: b""
    if context.reject_corrupt_files and modes.integrity is Mode.ENFORCE and (not allowed or "pdf" in allowed):
        return "cut-off.pdf", lambda _number: make_pdf("A page that was cut off on its way.")[:180]
    return ("test-upload.not-allowed", lambda _number: b"MZ") if allowed else None


def make_pdf(text: str) -> bytes:
    """Return a document of one page with one line of text, blank if there is none."""
    shown = text.replace("\\", " ").replace("(", "[").replace(")", "]")
    drawing = f"BT /F1 14 Tf 60 720 Td ({shown}) Tj ET" if text else ""
    objects = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        (
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R"
            " /Resources << /Font << /F1 5 0 R >> >> >>"
        ),
        f"<< /Length {len(drawing)} >>\nstream\n{drawing}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    body, places = "%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{one}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = (
        f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\n"
    )
    return f"{body}{end}startxref\n{len(body)}\n%%EOF\n".encode("latin-1")


def make_picture(width: int, height: int, seed: int) -> bytes:
    """Return a PNG of coloured stripes."""
    rows = b"".join(
        b"\0" + bytes(byte for x in range(width) for byte in ((x * seed + y) & 255, (x // 3) & 255, (y * 2) & 255))
        for y in range(height)
    )
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


# By extension, the preferred one first.
_MAKERS: Final[Mapping[str, Callable[[int], bytes]]] = {
    "pdf": lambda number: make_pdf(_TEXT.format(number=number).strip()),
    "png": lambda number: make_picture(640, 480, number % 251 + 2),
    "txt": lambda number: _TEXT.format(number=number).encode(),
    "csv": lambda number: f"number,word\n{number},test\n".encode(),
    "json": lambda number: json.dumps({"test": _TEXT.format(number=number)}).encode(),
}
