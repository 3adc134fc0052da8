"""SQLite databases: integrity and blankness."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sluice_inspect.formats import sqlite
from sluice_inspect.formats.sqlite import FORMAT
from sluice_inspect.report import Limits, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.rows import each_row

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


def test_database_is_sound_and_not_blank() -> None:
    result = examine_bytes(FORMAT, DATABASE)
    assert result.recognised
    assert result.outcome is Outcome.OK
    assert result.blank is None


def test_zeroed_schema_is_corrupt_in_a_later_version_too() -> None:
    later = DATABASE[:96] + (999_999_999).to_bytes(4, "big") + DATABASE[100:]
    assert examine_bytes(FORMAT, later).passes
    assert examine_bytes(FORMAT, later[:200] + bytes(3896) + later[4096:]).outcome is Outcome.CORRUPT


def test_zeros_in_place_of_the_only_row_are_corrupt() -> None:
    data = database("CREATE TABLE a (name TEXT, size REAL)", "INSERT INTO a VALUES ('a name', 3)")
    assert examine_bytes(FORMAT, data).outcome is Outcome.OK
    assert examine_bytes(FORMAT, data[:-600] + bytes(600)).outcome is Outcome.CORRUPT


def test_zeros_in_a_row_zero_and_in_a_blob_pass() -> None:
    statements = "CREATE TABLE a (id INTEGER PRIMARY KEY, data BLOB)", "INSERT INTO a VALUES (0, zeroblob(9000))"
    assert examine_bytes(FORMAT, database(*statements)).outcome is Outcome.OK


@each_row("rows", ["one table", "two tables", "large values"])
@each_row("tail", [2048, 4096, 16384])
def test_zeros_in_place_of_the_end_are_corrupt(rows: str, tail: int) -> None:
    def fill(opened: sqlite3.Connection) -> None:
        opened.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, name TEXT)")
        opened.execute("CREATE TABLE b (name TEXT)")
        size = 9000 if rows == "large values" else 40
        for number in range(30_000 // size * 2):
            opened.execute("INSERT INTO a (name) VALUES (?)", (f"name {number} ".ljust(size, "x"),))
            if rows != "one table":
                opened.execute("INSERT INTO b VALUES (?)", (f"value {number} ".ljust(size, "y"),))

    data = database(edit=fill)
    assert examine_bytes(FORMAT, data).outcome is Outcome.OK
    assert examine_bytes(FORMAT, data[:-tail] + bytes(tail)).outcome is Outcome.CORRUPT


@each_row("pragma", ["page_size = 512", "page_size = 65536", "encoding = 'UTF-16'", "auto_vacuum = FULL"])
def test_every_layout_passes(pragma: str) -> None:
    def with_pragma(opened: sqlite3.Connection) -> None:
        opened.execute(f"PRAGMA {pragma}")
        filled(opened)

    assert examine_bytes(FORMAT, database(edit=with_pragma)).outcome is Outcome.OK


def test_database_with_a_write_ahead_log_passes(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("PRAGMA journal_mode = WAL")
        filled(opened)
        opened.commit()
    assert path.read_bytes()[18] == 2
    assert examine_bytes(FORMAT, path.read_bytes()).outcome is Outcome.OK


@each_row("part", range(1, 20))
def test_truncated_database_is_corrupt(part: int) -> None:
    assert examine_bytes(FORMAT, DATABASE[: len(DATABASE) * part // 20]).outcome is Outcome.CORRUPT


@each_row("page", range(1, 10))
def test_page_of_zeros_is_corrupt(page: int) -> None:
    assert (
        examine_bytes(FORMAT, DATABASE[: page * 4096] + bytes(4096) + DATABASE[(page + 1) * 4096 :]).outcome
        is Outcome.CORRUPT
    )


@each_row("header", [b"\x00\x07", b"\x11\x00"])
def test_impossible_page_size_is_corrupt(header: bytes) -> None:
    assert examine_bytes(FORMAT, DATABASE[:16] + header + DATABASE[18:]).outcome is Outcome.CORRUPT


def test_schema_that_is_not_text_is_corrupt() -> None:
    sound = database("CREATE TABLE t (value)", "INSERT INTO t VALUES (1)")
    damaged = sound.replace(b"CREATE TABLE t", b"CREATE TAB\xad\xff t")
    result = examine_bytes(FORMAT, damaged)
    assert result.outcome is Outcome.CORRUPT
    assert "malformed database schema" in result.detail


def test_index_that_misses_a_row_is_corrupt() -> None:
    at = DATABASE.index(b"name 500 name 500")
    assert examine_bytes(FORMAT, DATABASE[:at] + b"N" + DATABASE[at + 1 :]).outcome is Outcome.CORRUPT


def test_values_that_violate_a_constraint_pass() -> None:
    data = database(
        "CREATE TABLE a (b)",
        "INSERT INTO a VALUES (NULL)",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = 'CREATE TABLE a (b NOT NULL, CHECK (b > 0))'",
    )
    assert examine_bytes(FORMAT, data).outcome is Outcome.OK


def test_views_and_triggers_are_not_executed() -> None:
    data = database(
        "CREATE TABLE a (b)",
        "INSERT INTO a VALUES (1)",
        "CREATE VIEW endless AS WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n",
        "CREATE TRIGGER refusing BEFORE INSERT ON a BEGIN SELECT RAISE (FAIL, 'no'); END",
    )
    assert examine_bytes(FORMAT, data).outcome is Outcome.OK


def test_unknown_collation_is_unsupported() -> None:
    def foreign(opened: sqlite3.Connection) -> None:
        opened.create_collation("elsewhere", lambda one, other: (one > other) - (one < other))
        opened.execute("CREATE TABLE a (b TEXT COLLATE elsewhere)")
        opened.execute("CREATE INDEX c ON a (b)")
        opened.execute("INSERT INTO a VALUES ('x')")

    assert examine_bytes(FORMAT, database(edit=foreign)).outcome is Outcome.UNSUPPORTED


def test_only_the_header_of_a_large_database_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_MAX_CHECKED_BYTES", 4096)
    damaged = DATABASE[:8192] + bytes(4096) + DATABASE[12288:]
    assert examine_bytes(FORMAT, damaged).outcome is Outcome.OK
    assert examine_bytes(FORMAT, damaged[:-4096]).outcome is Outcome.CORRUPT


def test_check_past_the_time_limit_passes() -> None:
    def large(opened: sqlite3.Connection) -> None:
        opened.execute("CREATE TABLE a (b)")
        opened.execute(
            "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 200000) "
            "INSERT INTO a SELECT x FROM n"
        )

    assert examine_bytes(FORMAT, database(edit=large), replace(Limits(), soft_seconds=0.0)).outcome is Outcome.OK


@each_row(
    "statements",
    [
        ["VACUUM"],
        ["CREATE TABLE a (b)"],
        ["CREATE TABLE a (b)", "INSERT INTO a VALUES (1)", "DELETE FROM a"],
        ["CREATE TABLE a (b INTEGER PRIMARY KEY AUTOINCREMENT)", "INSERT INTO a VALUES (NULL)", "DELETE FROM a"],
        ["CREATE TABLE a (b)", "CREATE VIEW c AS SELECT 1"],
    ],
)
def test_database_without_a_row_is_blank(statements: list[str]) -> None:
    result = examine_bytes(FORMAT, database("PRAGMA user_version = 1", *statements))
    assert result.outcome is Outcome.OK
    assert result.blank


@each_row("table", ["a", 'a "quoted" name', "select"])
def test_one_row_is_not_blank(table: str) -> None:
    quoted = '"' + table.replace('"', '""') + '"'
    data = database("CREATE TABLE other (x)", f"CREATE TABLE {quoted} (b)", f"INSERT INTO {quoted} VALUES (0)")
    result = examine_bytes(FORMAT, data)
    assert result.outcome is Outcome.OK
    assert result.blank is None
