"""Identifiers: opaque strings with a prefix that names the noun, sortable by time of birth. No database keys, no secrets."""

import re
from typing import Final

from uuid_utils import uuid7

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH: Final = 26
FILE_ID: Final = re.compile(f"file_[0-9a-z]{{{_LENGTH}}}")
"""Every key of an object of ours holds the id of its file (contexts.templates)."""


def new_id(prefix: str) -> str:
    """Answer `<prefix>_<26 characters>`: a UUIDv7 (RFC 9562) in Crockford base 32, as the TypeID specification writes it."""
    number = uuid7().int
    letters = [_ALPHABET[(number >> shift) & 31] for shift in range((_LENGTH - 1) * 5, -1, -5)]
    return f"{prefix}_{''.join(letters)}"
