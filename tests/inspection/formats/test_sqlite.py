import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.formats.kinds import sqlite
from sluice.formats.kinds.sqlite import KIND
from sluice.formats.verdict import Limits, Outcome
from tests.formats.judging import corpus, judge, needs_corpus

Edit = Callable[[sqlite3.Connection], object]


def database(*statements: str, edit: Edit | None = None) -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        if edit is not None:
            edit(opened)
        for statement in statements:
            opened.execute(statement)
        return opened.serialize()


def filled(opened: sqlite3.Connection) -> None:
    opened.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, size REAL)")
    opened.executemany("INSERT INTO people (name, size) VALUES (?, ?)", ((f"name {n} " * 4, n / 3) for n in range(900)))
    opened.execute("CREATE INDEX by_name ON people (name)")


DATABASE = database(edit=filled)


def test_a_database_is_sound_and_not_blank() -> None:
    judged = judge(KIND, DATABASE)
    assert judged.recognised
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


def test_a_zeroed_schema_is_corrupt_also_in_a_database_of_a_later_version() -> None:
    later = DATABASE[:96] + (999_999_999).to_bytes(4, "big") + DATABASE[100:]
    assert judge(KIND, later).passes
    assert judge(KIND, later[:200] + bytes(3896) + later[4096:]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("pragma", ["page_size = 512", "page_size = 65536", "encoding = 'UTF-16'", "auto_vacuum = FULL"])
def test_every_layout_passes(pragma: str) -> None:
    def laid_out(opened: sqlite3.Connection) -> None:
        opened.execute(f"PRAGMA {pragma}")
        filled(opened)

    assert judge(KIND, database(edit=laid_out)).outcome is Outcome.OK


def test_a_database_with_a_write_ahead_log_passes(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("PRAGMA journal_mode = WAL")
        filled(opened)
        opened.commit()
    assert path.read_bytes()[18] == 2
    assert judge(KIND, path.read_bytes()).outcome is Outcome.OK


@pytest.mark.parametrize("part", range(1, 20))
def test_a_cut_database_is_corrupt(part: int) -> None:
    assert judge(KIND, DATABASE[: len(DATABASE) * part // 20]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("page", range(1, 10))
def test_a_page_of_zeros_is_corrupt(page: int) -> None:
    assert judge(KIND, DATABASE[: page * 4096] + bytes(4096) + DATABASE[(page + 1) * 4096 :]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("header", [b"\x00\x07", b"\x11\x00"])
def test_an_impossible_page_size_is_corrupt(header: bytes) -> None:
    assert judge(KIND, DATABASE[:16] + header + DATABASE[18:]).outcome is Outcome.CORRUPT


def test_a_schema_that_is_no_text_is_corrupt() -> None:
    sound = database("CREATE TABLE t (value)", "INSERT INTO t VALUES (1)")
    torn = sound.replace(b"CREATE TABLE t", b"CREATE TAB\xad\xff t")
    verdict = judge(KIND, torn)
    assert verdict.outcome is Outcome.CORRUPT
    assert "malformed database schema" in verdict.detail


def test_an_index_that_misses_a_row_is_corrupt() -> None:
    at = DATABASE.index(b"name 500 name 500")
    assert judge(KIND, DATABASE[:at] + b"N" + DATABASE[at + 1 :]).outcome is Outcome.CORRUPT


def test_values_that_break_a_rule_of_their_table_are_no_damage() -> None:
    data = database(
        "CREATE TABLE a (b)",
        "INSERT INTO a VALUES (NULL)",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = 'CREATE TABLE a (b NOT NULL, CHECK (b > 0))'",
    )
    assert judge(KIND, data).outcome is Outcome.OK


def test_nothing_of_the_schema_is_run() -> None:
    data = database(
        "CREATE TABLE a (b)",
        "INSERT INTO a VALUES (1)",
        "CREATE VIEW endless AS WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n",
        "CREATE TRIGGER refusing BEFORE INSERT ON a BEGIN SELECT RAISE (FAIL, 'no'); END",
    )
    assert judge(KIND, data).outcome is Outcome.OK


def test_what_is_not_at_hand_cannot_be_judged() -> None:
    def foreign(opened: sqlite3.Connection) -> None:
        opened.create_collation("elsewhere", lambda one, other: (one > other) - (one < other))
        opened.execute("CREATE TABLE a (b TEXT COLLATE elsewhere)")
        opened.execute("CREATE INDEX c ON a (b)")
        opened.execute("INSERT INTO a VALUES ('x')")

    assert judge(KIND, database(edit=foreign)).outcome is Outcome.UNSUPPORTED


def test_only_the_header_of_a_large_database_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_WHOLE_MOST", 4096)
    damaged = DATABASE[:8192] + bytes(4096) + DATABASE[12288:]
    assert judge(KIND, damaged).outcome is Outcome.OK
    assert judge(KIND, damaged[:-4096]).outcome is Outcome.CORRUPT


def test_without_time_the_rest_is_believed() -> None:
    def large(opened: sqlite3.Connection) -> None:
        opened.execute("CREATE TABLE a (b)")
        opened.execute(
            "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 200000) INSERT INTO a SELECT x FROM n"
        )

    assert judge(KIND, database(edit=large), replace(Limits(), soft_seconds=0.0)).outcome is Outcome.OK


@pytest.mark.parametrize(
    "statements",
    [
        ["VACUUM"],
        ["CREATE TABLE a (b)"],
        ["CREATE TABLE a (b)", "INSERT INTO a VALUES (1)", "DELETE FROM a"],
        ["CREATE TABLE a (b INTEGER PRIMARY KEY AUTOINCREMENT)", "INSERT INTO a VALUES (NULL)", "DELETE FROM a"],
        ["CREATE TABLE a (b)", "CREATE VIEW c AS SELECT 1"],
    ],
)
def test_a_database_without_a_row_is_blank(statements: list[str]) -> None:
    judged = judge(KIND, database("PRAGMA user_version = 1", *statements))
    assert judged.outcome is Outcome.OK
    assert judged.blank


@pytest.mark.parametrize("table", ["a", 'a "quoted" name', "select"])
def test_one_row_is_content(table: str) -> None:
    quoted = '"' + table.replace('"', '""') + '"'
    data = database("CREATE TABLE other (x)", f"CREATE TABLE {quoted} (b)", f"INSERT INTO {quoted} VALUES (0)")
    judged = judge(KIND, data)
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@needs_corpus
def test_the_corpus_is_judged_as_labelled() -> None:
    assert [path.name for path in corpus("sqlite", "valid", "not_blank") if not judge(KIND, path.read_bytes()).passes] == []
    assert [path.name for path in corpus("sqlite", "blank") if not judge(KIND, path.read_bytes()).blank] == []
    assert [path.name for path in corpus("sqlite", "not_blank") if judge(KIND, path.read_bytes()).blank] == []
