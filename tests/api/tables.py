"""Helpers for tables of valid and invalid values. The tables are in the tests that use them."""

from typing import Any

Row = tuple[str, Any, str]
"""A field, a value for it, and the field that the error must name."""


def bad_values(field: str, *values: Any, named: str = "") -> list[Row]:
    """Return a row for each invalid value of one field."""
    return [(field, value, named or field) for value in values]
