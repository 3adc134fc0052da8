"""7z archives: headers, every file by its checksum, and what is packed in those. How archives are walked is in `sevenzip_walk`."""

import struct
import zlib
from functools import partial
from typing import Final

from sluice.formats.archives.nested import blank_archive, check_archive
from sluice.formats.archives.sevenzip_walk import MAGIC, SEVEN_ZIP
from sluice.formats.kind import Kind

_CONTENT: Final = b"A sluice is a gate.\n"


def sample() -> bytes:
    """Answer an archive of one file that is stored as it is."""
    name = "sluice.txt\0".encode("utf-16-le")
    size = bytes([len(_CONTENT)])
    packed = b"\x06\x00\x01\x09" + size + b"\x00"
    folder = b"\x07\x0b\x01\x00\x01\x01\x00\x0c" + size + b"\x0a\x01" + struct.pack("<L", zlib.crc32(_CONTENT)) + b"\x00"
    files = b"\x05\x01\x11" + bytes([len(name) + 1]) + b"\x00" + name + b"\x00"
    header = b"\x01\x04" + packed + folder + b"\x08\x00\x00" + files + b"\x00"
    start = struct.pack("<QQL", len(_CONTENT), len(header), zlib.crc32(header))
    return MAGIC + b"\x00\x04" + struct.pack("<L", zlib.crc32(start)) + start + _CONTENT + header


KIND: Final = Kind(
    name="7z",
    content_type="application/x-7z-compressed",
    extensions=frozenset({"7z", "cb7"}),
    recognises=lambda source: source.head.startswith(MAGIC),
    check=partial(check_archive, SEVEN_ZIP),
    blank=blank_archive,
    sample=sample,
)
