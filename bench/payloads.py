"""Payloads: valid files with a stamp of 16 bytes, so that every upload is unique and no cache helps."""

import io
import random
import struct
import zipfile
import zlib
from dataclasses import dataclass

_STAMP = 16


@dataclass(frozen=True)
class Payload:
    """Bytes of a file named `name`, and the offset of its stamp. A PNG's stamp is in a chunk with a checksum."""

    name: str
    data: bytes
    at: int
    checked_from: int | None = None

    def stamped(self, number: int) -> list[bytes | memoryview]:
        """Return the file with a new stamp, in pieces, so that large files are not copied."""
        stamp, data = f"{number:016x}".encode(), memoryview(self.data)
        if self.checked_from is None:
            return [data[: self.at], stamp, data[self.at + _STAMP :]]
        checksum = zlib.crc32(stamp, zlib.crc32(data[self.checked_from : self.at]))
        return [data[: self.at], stamp, struct.pack(">I", checksum), data[self.at + _STAMP + 4 :]]


def png(size: int) -> Payload:
    """Return a PNG of noise of about `size` bytes."""
    width = int((size / 3) ** 0.5)
    rows = b"".join(b"\0" + random.Random(row).randbytes(width * 3) for row in range(width))
    header = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, width, 8, 2, 0, 0, 0))
    comment = _chunk(b"tEXt", b"Comment\0" + b"0" * _STAMP)
    data = header + comment + _chunk(b"IDAT", zlib.compress(rows, 6)) + _chunk(b"IEND", b"")
    return Payload("small.png", data, at=len(header) + 16, checked_from=len(header) + 4)


def binary(size: int) -> Payload:
    """Return noise."""
    return Payload("large.bin", random.Random(2).randbytes(size), at=0)


def archive(size: int) -> Payload:
    """Return a ZIP of about `size` bytes: a quarter stored noise, the rest deflated text. Its comment is the stamp."""
    source, target = random.Random(3), io.BytesIO()
    words = [f"{source.getrandbits(40):x}".encode() for _ in range(4000)]
    with zipfile.ZipFile(target, "w") as bundle:
        for number in range(1_000_000):
            if target.tell() >= size:
                break
            if number % 4 == 0:
                bundle.writestr(f"bin/{number}.bin", source.randbytes(1 << 20), zipfile.ZIP_STORED)
            else:
                bundle.writestr(
                    f"txt/{number}.txt", b" ".join(source.choices(words, k=200_000)), zipfile.ZIP_DEFLATED, 1
                )
        bundle.comment = b"0" * _STAMP
    data = target.getvalue()
    return Payload("large.zip", data, at=len(data) - _STAMP)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
