"""How tables of good and bad values are written down. The tables stand in the tests that walk them."""

from typing import Any

Row = tuple[str, Any, str]
"""A field, a value for it, and the field that the refusal must name."""


def bad(field: str, *values: Any, named: str = "") -> list[Row]:
    """Answer a row for each bad value of one field."""
    return [(field, value, named or field) for value in values]


def show(value: object) -> str:
    """Name a value in the id of a test."""
    return repr(value)[:30]
