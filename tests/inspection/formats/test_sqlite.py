"""SQLite databases: integrity and blankness."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from sluice_inspect.formats import sqlite
from sluice_inspect.formats.sqlite import FORMAT
from sluice_inspect.report import Limits, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)
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
LATER = DATABASE[:96] + (999_999_999).to_bytes(4, "big") + DATABASE[100:]
ONE_ROW = database("CREATE TABLE a (name TEXT, size REAL)", "INSERT INTO a VALUES ('a name', 3)")
INDEXED = DATABASE.index(b"name 500 name 500")
ZEROS = ["CREATE TABLE a (id INTEGER PRIMARY KEY, data BLOB)", "INSERT INTO a VALUES (0, zeroblob(9000))"]
VIOLATING = [
    "CREATE TABLE a (b)",
    "INSERT INTO a VALUES (NULL)",
    "PRAGMA writable_schema = ON",
    "UPDATE sqlite_master SET sql = 'CREATE TABLE a (b NOT NULL, CHECK (b > 0))'",
]
PROGRAMMED = [
    "CREATE TABLE a (b)",
    "INSERT INTO a VALUES (1)",
    "CREATE VIEW endless AS WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n",
    "CREATE TRIGGER refusing BEFORE INSERT ON a BEGIN SELECT RAISE (FAIL, 'no'); END",
]


def with_foreign_collation(opened: sqlite3.Connection) -> None:
    opened.create_collation("elsewhere", lambda one, other: (one > other) - (one < other))
    opened.execute("CREATE TABLE a (b TEXT COLLATE elsewhere)")
    opened.execute("CREATE INDEX c ON a (b)")
    opened.execute("INSERT INTO a VALUES ('x')")


@each_row(
    ("case", "data", "outcome"),
    [
        ("rows and an index", DATABASE, Outcome.OK),
        ("later version", LATER, Outcome.OK),
        ("zeros for the schema of a later version", LATER[:200] + bytes(3896) + LATER[4096:], Outcome.CORRUPT),
        ("one row", ONE_ROW, Outcome.OK),
        ("zeros for the only row", ONE_ROW[:-600] + bytes(600), Outcome.CORRUPT),
        ("zeros in a row with the number zero and in a blob", database(*ZEROS), Outcome.OK),
        ("values that violate a constraint", database(*VIOLATING), Outcome.OK),
        ("views and triggers, which are not executed", database(*PROGRAMMED), Outcome.OK),
        ("index that misses a row", DATABASE[:INDEXED] + b"N" + DATABASE[INDEXED + 1 :], Outcome.CORRUPT),
        ("page size 7", DATABASE[:16] + b"\x00\x07" + DATABASE[18:], Outcome.CORRUPT),
        ("page size 4352", DATABASE[:16] + b"\x11\x00" + DATABASE[18:], Outcome.CORRUPT),
        ("unknown collation", database(edit=with_foreign_collation), Outcome.UNSUPPORTED),
        *((f"cut {part}", DATABASE[: len(DATABASE) * part // 20], Outcome.CORRUPT) for part in range(1, 20)),
        *(
            (f"zeros for page {page}", DATABASE[: page * 4096] + bytes(4096) + DATABASE[(page + 1) * 4096 :], Outcome.CORRUPT)
            for page in range(1, 10)
        ),
    ],
)  # fmt: skip
def test_only_damage_is_corrupt(case: str, data: bytes, outcome: Outcome) -> None:
    assert examine(data).outcome is outcome


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
    assert examine(data).outcome is Outcome.OK
    assert examine(data[:-tail] + bytes(tail)).outcome is Outcome.CORRUPT


@each_row("pragma", ["page_size = 512", "page_size = 65536", "encoding = 'UTF-16'", "auto_vacuum = FULL"])
def test_every_layout_passes(pragma: str) -> None:
    def with_pragma(opened: sqlite3.Connection) -> None:
        opened.execute(f"PRAGMA {pragma}")
        filled(opened)

    assert examine(database(edit=with_pragma)).outcome is Outcome.OK


def test_database_with_a_write_ahead_log_passes(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("PRAGMA journal_mode = WAL")
        filled(opened)
        opened.commit()
    assert path.read_bytes()[18] == 2
    assert examine(path.read_bytes()).outcome is Outcome.OK


def test_schema_that_is_not_text_is_corrupt() -> None:
    sound = database("CREATE TABLE t (value)", "INSERT INTO t VALUES (1)")
    result = examine(sound.replace(b"CREATE TABLE t", b"CREATE TAB\xad\xff t"))
    assert result.outcome is Outcome.CORRUPT
    assert "malformed database schema" in result.detail


def test_only_the_header_of_a_large_database_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_MAX_CHECKED_BYTES", 4096)
    damaged = DATABASE[:8192] + bytes(4096) + DATABASE[12288:]
    assert examine(damaged).outcome is Outcome.OK
    assert examine(damaged[:-4096]).outcome is Outcome.CORRUPT


def test_check_past_the_time_limit_passes() -> None:
    numbers = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 200000)"
    large = database("CREATE TABLE a (b)", f"{numbers} INSERT INTO a SELECT x FROM n")
    assert examine(large, replace(Limits(), soft_seconds=0.0)).outcome is Outcome.OK


QUOTED = '"a ""quoted"" name"'


@each_row(
    ("statements", "blank"),
    [
        (["VACUUM"], True),
        (["CREATE TABLE a (b)"], True),
        (["CREATE TABLE a (b)", "INSERT INTO a VALUES (1)", "DELETE FROM a"], True),
        (["CREATE TABLE a (b INTEGER PRIMARY KEY AUTOINCREMENT)", "INSERT INTO a VALUES (NULL)", "DELETE FROM a"],
         True),
        (["CREATE TABLE a (b)", "CREATE VIEW c AS SELECT 1"], True),
        (["CREATE TABLE other (x)", "CREATE TABLE a (b)", "INSERT INTO a VALUES (0)"], False),
        (["CREATE TABLE other (x)", f"CREATE TABLE {QUOTED} (b)", f"INSERT INTO {QUOTED} VALUES (0)"], False),
        (["CREATE TABLE other (x)", 'CREATE TABLE "select" (b)', 'INSERT INTO "select" VALUES (0)'], False),
    ],
)  # fmt: skip
def test_database_without_a_row_is_blank(statements: list[str], *, blank: bool) -> None:
    result = examine(database("PRAGMA user_version = 1", *statements))
    assert (result.outcome, bool(result.blank)) == (Outcome.OK, blank)
