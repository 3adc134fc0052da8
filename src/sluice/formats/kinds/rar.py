"""RAR archives of versions 1.5 to 7: headers, members as far as they can be unpacked, and what is packed in those. How archives are walked is in `rar_walk`."""

import struct
import zlib
from functools import partial
from typing import Final

from sluice.formats.archives import rar5
from sluice.formats.archives.nested import blank_archive, check_archive
from sluice.formats.archives.rar_walk import FIRST_MAGIC, MAGICS, RAR
from sluice.formats.kind import Kind

_CONTENT: Final = b"A sluice is a gate.\n"


def sample() -> bytes:
    """Answer an archive of one file that is stored as it is."""
    size, name = bytes([len(_CONTENT)]), b"sluice.txt"
    file = (
        b"\x02\x02"
        + size
        + b"\x04"
        + size
        + b"\x00"
        + struct.pack("<L", zlib.crc32(_CONTENT))
        + b"\x00\x01"
        + bytes([len(name)])
        + name
    )
    return rar5.MAGIC + _block(b"\x01\x00\x00") + _block(file) + _CONTENT + _block(b"\x05\x00\x00")


def _block(header: bytes) -> bytes:
    whole = bytes([len(header)]) + header
    return struct.pack("<L", zlib.crc32(whole)) + whole


KIND: Final = Kind(
    name="rar",
    content_type="application/vnd.rar",
    extensions=frozenset({"rar"}),
    recognises=lambda source: source.head.startswith((*MAGICS, FIRST_MAGIC)),
    check=partial(check_archive, RAR),
    blank=blank_archive,
    sample=sample,
)
