"""First bytes of formats that hold or front other formats, so that a kind does not claim what is only carried. Tells no format by itself."""

from typing import Final

PROGRAMS: Final = (b"MZ", b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
"""Programs that unpack themselves end in an archive and are none."""

_CARRIERS: Final = (
    b"PK\x03\x04", b"PK\x05\x06", b"%PDF", b"\xd0\xcf\x11\xe0", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"II*\0", b"MM\0*",
    b"\0\0\0", b"ID3", b"OggS", b"fLaC", b"Rar!", b"7z\xbc\xaf", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"SQLite", b"PAR1",
    b"\x1aE\xdf\xa3", *PROGRAMS,
)  # fmt: skip
_TAR_MAGIC: Final = slice(257, 262)


def begins_otherwise(head: bytes) -> bool:
    """Whether these are the first bytes of a well-known binary format."""
    return head.startswith(_CARRIERS) or head[_TAR_MAGIC] == b"ustar"
