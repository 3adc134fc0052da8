"""Identifiers: opaque strings with a prefix that names the noun, sortable by time of birth. No database keys, no secrets."""

import re
from typing import Final

from uuid_utils import uuid7

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS: Final = [first + second for first in _ALPHABET for second in _ALPHABET]
_LENGTH: Final = 26
_SHIFTS: Final = range((_LENGTH - 2) * 5, -1, -10)
FILE_ID: Final = re.compile(f"file_[0-9a-z]{{{_LENGTH}}}")
"""Every key of an object of ours holds the id of its file (contexts.templates)."""


def new_id(prefix: str) -> str:
    """Answer `<prefix>_<26 characters>`: a UUIDv7 (RFC 9562) in Crockford base 32, as the TypeID specification writes it."""
    number = uuid7().int
    return f"{prefix}_{''.join([_PAIRS[(number >> shift) & 1023] for shift in _SHIFTS])}"
