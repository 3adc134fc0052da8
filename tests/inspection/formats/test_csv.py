"""CSV: a table without a value is blank."""

from sluice_inspect.formats.csv import FORMAT
from sluice_inspect.report import Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.rows import each_row


@each_row(
    "table",
    [
        "id,name\n1,Ann\n", "1;2;3\n", "alone\nin\none column\n", "Ann,Smith,London\n", "apple\tpear\tplum\n",
        '"id","name"\n"1","a ""quoted"" name"\n', "id,name,amount\n,,\n0,,\n", "name\n", "total,12\n",
    ],
)  # fmt: skip
def test_table_with_a_value_is_not_blank(table: str) -> None:
    result = examine_bytes(FORMAT, table.encode())
    assert (result.outcome, result.blank) == (Outcome.OK, None)


@each_row(
    "table",
    [
        ",,,\n,,,\n", ';;\n"";" "\n', "\ufeff", "id,name,amount\r\n", 'Name;City\r\n;\r\n"";\r\n',
        "\nName;Vorname;Ort\n\n", "firstName,lastName,e-mail\n", "User ID\tCreated at\tStatus",
    ],
)  # fmt: skip
@each_row("encoding", ["utf-8", "utf-16"])
def test_table_without_a_value_is_blank(table: str, encoding: str) -> None:
    assert examine_bytes(FORMAT, table.encode(encoding)).blank


def test_value_after_megabytes_of_empty_rows_is_not_blank() -> None:
    assert examine_bytes(FORMAT, b",,,\n" * 1_000_000 + b",x,,\n").blank is None


def test_zero_byte_is_corrupt() -> None:
    assert examine_bytes(FORMAT, b"id,name\n1,\0\n").outcome is Outcome.CORRUPT
