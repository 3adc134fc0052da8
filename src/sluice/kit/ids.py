"""Identifiers: opaque strings with a prefix that names the noun, sortable by time of birth. No database keys, no secrets."""

from typing import Final

from uuid_utils import uuid7

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH: Final = 26


def new_id(prefix: str) -> str:
    """Answer `<prefix>_<26 characters>`: a UUIDv7 (RFC 9562) in Crockford base 32, as the TypeID specification writes it."""
    number = uuid7().int
    letters = [_ALPHABET[(number >> shift) & 31] for shift in range((_LENGTH - 1) * 5, -1, -5)]
    return f"{prefix}_{''.join(letters)}"
