"""Second formats in every shape that some reader opens, and carriers to hide them in."""

import io
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import pikepdf

from sluice_inspect.inspection import inspect_file
from sluice_inspect.registry import format_of
from sluice_inspect.report import Finding, Report
from tests.inspection.formats.image_samples import chess_board, encoded, png_chunk, with_chunk
from tests.inspection.formats.pdf_samples import pdf, text

WORDS: Final = (b"", b"/EmbeddedFile stream\n", b"9 0 obj\n<< /Type /EmbeddedFile /Params 1 >>\nstream\r\n")
PHP: Final = b"<?php system($_GET['c']); ?>"
PAGE: Final = b"<!DOCTYPE html><html><script>alert(1)</script></html>"


@dataclass(frozen=True)
class ZipShape:
    """How an archive of one stored member is written; every shape is opened by some reader."""

    comment: int = 0
    zip64: bool = False
    bogus_entries: int = 0  # in front of the one that holds, leading nowhere
    base: int = 0  # what all offsets count from: 0 is the start of the archive
    counted: bool = True  # the end record tells how many entries there are
    sized: bool = True  # … and how long the directory is; else it is found by its offset


def zip_of(shape: ZipShape, content: bytes = b"payload") -> bytes:
    name, crc = b"member.txt", zlib.crc32(content)
    sizes = (crc, len(content), len(content), len(name))
    local = struct.pack("<4s5H3L2H", b"PK\x03\x04", 45, 0, 0, 0, 33, *sizes, 0) + name + content
    directory = b""
    for offset in [0x00FFFFF0] * shape.bogus_entries + [shape.base]:
        extra = struct.pack("<2HQ", 1, 8, offset) if shape.zip64 else b""
        stated = 0xFFFFFFFF if shape.zip64 else offset
        fields = (45, 45, 0, 0, 0, 33, *sizes, len(extra), 0, 0, 0, 0, stated)
        directory += struct.pack("<4s6H3L5H2L", b"PK\x01\x02", *fields) + name + extra
    count = 1 + shape.bogus_entries if shape.counted else 0
    size, at = len(directory) if shape.sized else 0, shape.base + len(local)
    end = b""
    if shape.zip64:
        end = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, at)
        end += struct.pack("<4sLQL", b"PK\x06\x07", 0, at + len(directory), 1)
        count, size, at = 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF
    end += struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, size, at, shape.comment)
    return local + directory + end + b"c" * shape.comment


def rar4() -> bytes:
    header = b"\x73\0\0" + struct.pack("<H", 13) + bytes(6)
    return b"Rar!\x1a\x07\0" + struct.pack("<H", zlib.crc32(header) & 0xFFFF) + header + bytes(9)


def rar5(*, checksum: bool = True, long_size: bool = False, encrypted: bool = False) -> bytes:
    header = (b"\x83\x00" if long_size else b"\x03") + (b"\x04" if encrypted else b"\x01") + b"\0\0"
    crc = zlib.crc32(header) if checksum else 1
    return b"Rar!\x1a\x07\x01\0" + struct.pack("<L", crc) + header + bytes(20)


def seven_zip() -> bytes:
    start = struct.pack("<QQL", 0, 0, 0)
    return b"7z\xbc\xaf\x27\x1c\0\x04" + struct.pack("<L", zlib.crc32(start)) + start


def cabinet() -> bytes:
    folder = struct.pack("<LHH", 36 + 8 + 16 + 6, 1, 0)
    file = struct.pack("<2L4H", 4, 0, 0, 0, 0, 0) + b"a.txt\0"
    data = struct.pack("<L2H", 0, 4, 4) + b"text"
    size = 36 + len(folder) + len(file) + len(data)
    header = struct.pack("<4s5LBB5H", b"MSCF", 0, size, 0, 36 + len(folder), 0, 3, 1, 1, 1, 0, 0, 0)
    return header + folder + file + data


ARCHIVES: Final[Mapping[str, bytes]] = MappingProxyType({
    "zip": zip_of(ZipShape()),
    "zip64": zip_of(ZipShape(zip64=True)),
    "zip without counts": zip_of(ZipShape(counted=False)),
    "rar4": rar4(),
    "rar5": rar5(),
    "rar5, wrong checksum": rar5(checksum=False),
    "rar5, long size": rar5(long_size=True),
    "rar5, encrypted": rar5(encrypted=True),
    "7z": seven_zip(),
    "cab": cabinet(),
})  # fmt: skip

_BOARD: Final = chess_board()
_PDF: Final = pdf(text("words"))


@cache
def carriers() -> dict[str, bytes]:
    """Return a good file of each format that is never an archive, by extension."""
    samples = {name: format_of(name) for name in ("wav", "flac", "mp3", "ttf", "html", "rtf")}
    return {
        "png": encoded(_BOARD, "PNG"),
        "jpg": encoded(_BOARD, "JPEG"),
        "gif": encoded(_BOARD, "GIF"),
        "webp": encoded(_BOARD.convert("RGB"), "WEBP"),
        "bmp": encoded(_BOARD.convert("RGB"), "BMP"),
        "pdf": _PDF,
        **{name: each.sample() for name, each in samples.items() if each is not None},
    }


def inside(extension: str, hidden: bytes) -> bytes:
    """Return a good file with `hidden` in its middle, where its readers skip it."""
    data = carriers()[extension]
    if extension == "png":
        return with_chunk(data, png_chunk(b"prVt", hidden))
    if extension == "jpg":
        pieces = [hidden[at : at + 60_000] for at in range(0, len(hidden), 60_000)]
        return data[:2] + b"".join(b"\xff\xfe" + struct.pack(">H", len(each) + 2) + each for each in pieces) + data[2:]
    if extension == "pdf":
        return with_stream(hidden)
    raise NotImplementedError(extension)


INSIDE: Final = ("png", "jpg", "pdf")


def with_stream(data: bytes, **entries: Any) -> bytes:
    """Return a PDF with a stream that no reader lists as a file, as it is written in the file."""
    document = pikepdf.open(io.BytesIO(_PDF))
    stream = pikepdf.Stream(document, data)
    for key, value in entries.items():
        stream["/" + key] = value
    document.Root["/Piece"] = document.make_indirect(stream)
    return saved(document)


def with_attachment(data: bytes, **saving: Any) -> bytes:
    """Return a PDF with an attachment, as it is written in the file."""
    document = pikepdf.open(io.BytesIO(_PDF))
    attach(document, data)
    return saved(document, **saving)


def attach(document: pikepdf.Pdf, data: bytes) -> None:
    document.attachments["a.bin"] = pikepdf.AttachedFileSpec(
        document, data, filename="a.bin", description="", mime_type="", creation_date="", mod_date=""
    )


def saved(document: pikepdf.Pdf, **saving: Any) -> bytes:
    out = io.BytesIO()
    document.save(out, compress_streams=False, stream_decode_level=pikepdf.StreamDecodeLevel.none, **saving)
    return out.getvalue()


def report_of(data: bytes, extension: str) -> Report:
    return inspect_file(io.BytesIO(data), filename=f"upload.{extension}")


def is_polyglot(data: bytes, extension: str) -> bool:
    return report_of(data, extension).finding is Finding.POLYGLOT
