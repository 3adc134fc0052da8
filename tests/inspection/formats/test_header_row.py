"""Rows of column headings are distinguished from data."""

from sluice_inspect.text.header_row import is_heading
from tests.rows import each_row


@each_row(
    "cells",
    [
        ["id", "name"],
        ["First Name", "Last Name", "E-Mail"],
        ["invoiceNumber", "totalAmount", "VAT"],
        ["Datum", "Betrag", "Bemerkung"],
        ["created_at", "updated_at", "foo"],
    ],
)
def test_column_names_are_a_heading(cells: list[str]) -> None:
    assert is_heading(cells)


@each_row(
    "cells",
    [
        ["name"],
        [],
        ["Ann", "Smith", "London"],
        ["id", ""],
        ["id", "id"],
        ["total", "12"],
        ["Please send the invoice to our new address in town", "and the date of the order as a note to the customer"],
    ],
)
def test_possible_data_is_not_a_heading(cells: list[str]) -> None:
    assert not is_heading(cells)
