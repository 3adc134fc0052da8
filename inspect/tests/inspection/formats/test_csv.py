"""CSV: a table without a value is blank, also one with headings, which are distinguished from data."""

from collections.abc import Iterable

from sluice_inspect.formats.csv import FORMAT
from sluice_inspect.text.header_row import is_heading
from tests.inspection.formats.examining import Row, verdicts
from tests.rows import each_row


@verdicts(FORMAT)
def test_table_without_a_value_is_blank() -> Iterable[Row]:
    for table in (
        "id,name\n1,Ann\n", "1;2;3\n", "alone\nin\none column\n", "Ann,Smith,London\n", "apple\tpear\tplum\n",
        '"id","name"\n"1","a ""quoted"" name"\n', "id,name,amount\n,,\n0,,\n", "name\n", "total,12\n",
    ):  # fmt: skip
        yield table, table.encode(), "ok"
    for table in (
        ",,,\n,,,\n", ';;\n"";" "\n', "\ufeff", "id,name,amount\r\n", 'Name;City\r\n;\r\n"";\r\n',
        "\nName;Vorname;Ort\n\n", "firstName,lastName,e-mail\n", "User ID\tCreated at\tStatus",
    ):  # fmt: skip
        yield table, table.encode(), "blank"
        yield f"{table} in UTF-16", table.encode("utf-16"), "blank"
    yield "value after megabytes of empty rows", b",,,\n" * 1_000_000 + b",x,,\n", "ok"
    yield "zero byte", b"id,name\n1,\0\n", "corrupt"


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
        (["Please send the invoice to our new address in town", "and the date of the order as a note to the customer"], False),
    ],
)  # fmt: skip
def test_column_names_are_a_heading_and_possible_data_is_none(cells: list[str], *, heading: bool) -> None:
    assert is_heading(cells) is heading
