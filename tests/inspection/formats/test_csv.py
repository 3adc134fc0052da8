import pytest

from sluice.formats.kinds.csv_text import KIND
from sluice.formats.verdict import Outcome
from tests.formats.judging import corpus, judge, needs_corpus


@pytest.mark.parametrize(
    "table",
    [
        "id,name\n1,Ann\n",
        "1;2;3\n",
        "alone\nin\none column\n",
        "Ann,Smith,London\n",
        "apple\tpear\tplum\n",
        '"id","name"\n"1","a ""quoted"" name"\n',
        "id,name,amount\n,,\n0,,\n",
        "name\n",
        "total,12\n",
    ],
)
def test_a_table_with_a_value_is_content(table: str) -> None:
    judged = judge(KIND, table.encode())
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@pytest.mark.parametrize(
    "table",
    [
        ",,,\n,,,\n",
        ';;\n"";" "\n',
        "\ufeff",
        "id,name,amount\r\n",
        'Name;City\r\n;\r\n"";\r\n',
        "\nName;Vorname;Ort\n\n",
        "firstName,lastName,e-mail\n",
        "User ID\tCreated at\tStatus",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_table_without_a_value_is_blank(table: str, encoding: str) -> None:
    assert judge(KIND, table.encode(encoding)).blank


def test_a_value_behind_megabytes_of_empty_rows_is_found() -> None:
    assert judge(KIND, b",,,\n" * 1_000_000 + b",x,,\n").blank is None


def test_a_zero_byte_is_corrupt() -> None:
    assert judge(KIND, b"id,name\n1,\0\n").outcome is Outcome.CORRUPT


@needs_corpus
def test_the_corpus_is_judged_right() -> None:
    assert [path.name for path in corpus("csv", "valid", "not_blank") if judge(KIND, path.read_bytes()).blank] == []
    assert [path.name for path in corpus("csv", "blank") if not judge(KIND, path.read_bytes()).blank] == []
