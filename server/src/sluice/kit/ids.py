"""Identifiers: opaque strings with a prefix for the noun, sortable by creation time. They are not secret."""

import re
from datetime import UTC, datetime
from typing import Final

from uuid_utils import uuid7

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS: Final = [first + second for first in _ALPHABET for second in _ALPHABET]
_LENGTH: Final = 26
_SHIFTS: Final = range((_LENGTH - 2) * 5, -1, -10)
# Every object key of this service contains the id of its file (contexts.templates).
FILE_ID: Final = re.compile(f"file_[0-9a-z]{{{_LENGTH}}}")


def first_id(prefix: str, at: datetime) -> str:
    """Return the smallest id that can have been made at the moment `at` or later."""
    number = max(0, int(at.timestamp() * 1000)) << 80
    return f"{prefix}_{''.join([_PAIRS[(number >> shift) & 1023] for shift in _SHIFTS])}"


def made_at(row_id: str) -> datetime:
    """Return the moment at which an id was made, to the millisecond."""
    number = 0
    for character in row_id.partition("_")[2]:
        number = number << 5 | _ALPHABET.index(character)
    return datetime.fromtimestamp((number >> 80) / 1000, UTC)


def new_id(prefix: str, at: datetime | None = None) -> str:
    """Return `<prefix>_<26 characters>`: a UUIDv7 (RFC 9562) in Crockford base 32, as in the TypeID specification.

    With `at` it is an id of that moment, so that a search by id and one by a column that keeps the moment agree.
    """
    number = uuid7(nanoseconds=None if at is None else int(at.timestamp() * 1000) * 1_000_000).int
    return f"{prefix}_{''.join([_PAIRS[(number >> shift) & 1023] for shift in _SHIFTS])}"
