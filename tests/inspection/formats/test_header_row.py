"""Rows of column headings are distinguished from data."""

from sluice_inspect.text.header_row import is_heading
from tests.rows import each_row


@each_row(
    ("cells", "heading"),
    [
        (["id", "name"], True),
        (["First Name", "Last Name", "E-Mail"], True),
        (["invoiceNumber", "totalAmount", "VAT"], True),
        (["Datum", "Betrag", "Bemerkung"], True),
        (["created_at", "updated_at", "foo"], True),
        (["name"], False),
        ([], False),
        (["Ann", "Smith", "London"], False),
        (["id", ""], False),
        (["id", "id"], False),
        (["total", "12"], False),
        (
            [
                "Please send the invoice to our new address in town",
                "and the date of the order as a note to the customer",
            ],
            False,
        ),
    ],
)
def test_column_names_are_a_heading_and_possible_data_is_none(cells: list[str], *, heading: bool) -> None:
    assert is_heading(cells) is heading
