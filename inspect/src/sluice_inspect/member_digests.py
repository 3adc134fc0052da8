"""The records of the digests of a file's members, as a worker writes them and the server reads them."""

from typing import Final

MOST_MEMBERS: Final = 100_000
RECORD_BYTES: Final = 256
_MD5, _SHA1, _SHA256 = 16, 20, 32
_DIGESTS: Final = _MD5 + _SHA1 + _SHA256
_NAME_BYTES: Final = RECORD_BYTES - _DIGESTS


def pack_member(name: str, md5: bytes, sha1: bytes, sha256: bytes) -> bytes:
    """Return the record of a member; an empty MD5 or SHA-1 was not asked for."""
    text = name.encode("utf-8", "replace")[-_NAME_BYTES:]
    return md5.ljust(_MD5, b"\0") + sha1.ljust(_SHA1, b"\0") + sha256 + text.ljust(_NAME_BYTES, b"\0")


def digests_in(record: bytes, *, weak: bool) -> tuple[bytes, ...]:
    """Return the digests of the member of a record: SHA-256, and with `weak` SHA-1 and MD5."""
    md5, sha1, sha256 = record[:_MD5], record[_MD5 : _MD5 + _SHA1], record[_MD5 + _SHA1 : _DIGESTS]
    return (sha256, sha1, md5) if weak else (sha256,)


def name_of(record: bytes) -> str:
    """Return the name of the member of a record, cut to what it holds, with `\ufffd` for what cannot be printed.

    The bytes come from a child that a file may have taken over.
    """
    name = record[_DIGESTS:].rstrip(b"\0").decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in name)
