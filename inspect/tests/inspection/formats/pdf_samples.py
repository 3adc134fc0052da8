"""Make PDFs object by object, so that each part can be damaged separately."""

import io
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import pikepdf

HELVETICA = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"


def stream(content: bytes, entries: str = "", *, packed: bool = False) -> bytes:
    data = zlib.compress(content) if packed else content
    flate = "/Filter/FlateDecode" if packed else ""
    return f"<<{entries}{flate}/Length {len(data)}>>stream\n".encode() + data + b"\nendstream"


def pdf(
    *contents: bytes | str,
    resources: str = "",
    page: str = "",
    box: Sequence[float] = (0, 0, 595, 842),
    catalog: str = "",
    objects: Mapping[int, bytes | str] | None = None,
    packed: bool = False,
) -> bytes:
    """Return a PDF with a page per content stream.

    The font /F is Helvetica; further `objects` have numbers from 100 on.
    """
    numbered: dict[int, bytes] = {5: HELVETICA.encode()}
    kids = []
    for index, content in enumerate(contents):
        number = 10 + 2 * index
        kids.append(f"{number} 0 R")
        numbered[number] = (
            f"<</Type/Page/Parent 2 0 R/MediaBox[{' '.join(map(str, box))}]/Contents {number + 1} 0 R"
            f"/Resources<</Font<</F 5 0 R>>{resources}>>{page}>>"
        ).encode()
        numbered[number + 1] = stream(content.encode() if isinstance(content, str) else content, packed=packed)
    numbered[1] = f"<</Type/Catalog/Pages 2 0 R{catalog}>>".encode()
    numbered[2] = f"<</Type/Pages/Kids[{' '.join(kids)}]/Count {len(kids)}>>".encode()
    for number, thing in (objects or {}).items():
        numbered[number] = thing.encode() if isinstance(thing, str) else thing
    return assembled(numbered)


def assembled(objects: Mapping[int, bytes]) -> bytes:
    body, offsets = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", {}
    for number in sorted(objects):
        offsets[number] = len(body)
        body += b"%d 0 obj\n%b\nendobj\n" % (number, objects[number])
    table = b"".join(b"%d 1\n%010d 00000 n \n" % (number, offset) for number, offset in offsets.items())
    size = max(objects) + 1
    return body + b"xref\n0 1\n0000000000 65535 f \n%btrailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (
        table,
        size,
        len(body),
    )


def text(words: str, *, at: tuple[float, float] = (100, 500), size: float = 12, before: str = "") -> str:
    return f"BT {before} /F {size} Tf {at[0]} {at[1]} Td ({words}) Tj ET"


def resaved(data: bytes, **saving: Any) -> bytes:
    """Return the document as pikepdf writes it."""
    file = io.BytesIO()
    with pikepdf.open(io.BytesIO(data)) as document:
        document.save(file, **saving)
    return file.getvalue()
