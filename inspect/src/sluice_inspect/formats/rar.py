"""RAR archives, versions 1.5 to 7: headers, members as far as they can be unpacked, and what is packed in those."""

import struct
import zlib
from functools import partial
from typing import Final

from sluice_inspect.archives.nested import examine_archive
from sluice_inspect.archives.rar.headers import RAR1_MAGIC, RAR4_MAGIC, RAR5_MAGIC
from sluice_inspect.archives.rar.walk import RAR
from sluice_inspect.format import Format

_CONTENT: Final = b"A sluice is a gate.\n"


def sample() -> bytes:
    """Return an archive of one stored file."""
    size, name = bytes([len(_CONTENT)]), b"sluice.txt"
    crc = struct.pack("<L", zlib.crc32(_CONTENT))
    file = b"\x02\x02" + size + b"\x04" + size + b"\x00" + crc + b"\x00\x01" + bytes([len(name)]) + name
    return RAR5_MAGIC + _block(b"\x01\x00\x00") + _block(file) + _CONTENT + _block(b"\x05\x00\x00")


def _block(fields: bytes) -> bytes:
    header = bytes([len(fields)]) + fields
    return struct.pack("<L", zlib.crc32(header)) + header


FORMAT: Final = Format(
    name="rar",
    content_type="application/vnd.rar",
    extensions=frozenset({"rar"}),
    matches=lambda source: source.head.startswith((RAR1_MAGIC, RAR4_MAGIC, RAR5_MAGIC)),
    examine=partial(examine_archive, RAR),
    sample=sample,
)
