"""SQLite databases: integrity and blankness."""

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from sluice_inspect.formats import sqlite
from sluice_inspect.formats.sqlite import FORMAT
from sluice_inspect.report import Limits, Outcome
from tests.inspection.formats.examining import Row, cuts, examine_bytes, replaced, verdicts

examine = partial(examine_bytes, FORMAT)
Edit = Callable[[sqlite3.Connection], object]


def database(*statements: str, edit: Edit | None = None) -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        for statement in statements:
            opened.execute(statement)
        if edit is not None:
            edit(opened)
        return opened.serialize()


def filled(opened: sqlite3.Connection) -> None:
    opened.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, size REAL)")
    opened.executemany("INSERT INTO people (name, size) VALUES (?, ?)", ((f"name {n} " * 4, n / 3) for n in range(900)))
    opened.execute("CREATE INDEX by_name ON people (name)")


DATABASE = database(edit=filled)
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


@verdicts(FORMAT)
def test_only_damage_is_corrupt() -> Iterable[Row]:
    yield "rows and an index", DATABASE, "ok"
    yield from cuts(DATABASE)
    for page in range(1, 10):
        data = DATABASE[: page * 4096] + bytes(4096) + DATABASE[(page + 1) * 4096 :]
        yield f"zeros for page {page}", data, "corrupt"
    later = DATABASE[:96] + (999_999_999).to_bytes(4, "big") + DATABASE[100:]
    yield "later version", later, "ok"
    yield "zeros for the schema of a later version", later[:200] + bytes(3896) + later[4096:], "corrupt"
    one_row = database("CREATE TABLE a (name TEXT, size REAL)", "INSERT INTO a VALUES ('a name', 3)")
    yield "one row", one_row, "ok"
    yield "zeros for the only row", one_row[:-600] + bytes(600), "corrupt"
    zeros = ["CREATE TABLE a (id INTEGER PRIMARY KEY, data BLOB)", "INSERT INTO a VALUES (0, zeroblob(9000))"]
    yield "zeros in a row with the number zero and in a blob", database(*zeros), "ok"
    yield "values that violate a constraint", database(*VIOLATING), "ok"
    yield "views and triggers, which are not executed", database(*PROGRAMMED), "ok"
    yield "index that misses a row", replaced(DATABASE, b"name 500 name 500", b"Name 500 name 500"), "corrupt"
    yield "page size 7", DATABASE[:16] + b"\x00\x07" + DATABASE[18:], "corrupt"
    yield "page size 4352", DATABASE[:16] + b"\x11\x00" + DATABASE[18:], "corrupt"
    yield "damaged header", DATABASE[:21] + bytes(3) + DATABASE[24:], "corrupt", "cut or damaged"
    yield "unknown collation", database(edit=with_foreign_collation), "unsupported"
    for pragma in ("page_size = 512", "page_size = 65536", "encoding = 'UTF-16'", "auto_vacuum = FULL"):
        yield pragma, database(f"PRAGMA {pragma}", edit=filled), "ok"
    schema = replaced(
        database("CREATE TABLE t (value)", "INSERT INTO t VALUES (1)"), b"CREATE TABLE t", b"CREATE TAB\xad\xff t"
    )
    yield "schema that is not text", schema, "corrupt", "malformed database schema"
    numbers = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 200000)"
    large = database("CREATE TABLE a (b)", f"{numbers} INSERT INTO a SELECT x FROM n")
    yield "past the time limit", large, "ok", replace(Limits(), soft_seconds=0.0)


@verdicts(FORMAT)
def test_zeros_in_place_of_the_end_are_corrupt() -> Iterable[Row]:
    for tables, size in (("a", 40), ("ab", 40), ("ab", 9000)):

        def fill(opened: sqlite3.Connection, tables: str = tables, size: int = size) -> None:
            opened.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, name TEXT)")
            opened.execute("CREATE TABLE b (id INTEGER, name TEXT)")
            for number, table in product(range(30_000 // size * 2), tables):
                opened.execute(f"INSERT INTO {table} (name) VALUES (?)", (f"{table} {number} ".ljust(size, table),))

        data = database(edit=fill)
        yield f"{tables} {size}", data, "ok"
        for tail in (2048, 4096, 16384):
            yield f"{tables} {size} {tail}", data[:-tail] + bytes(tail), "corrupt"


def test_database_with_a_write_ahead_log_passes(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("PRAGMA journal_mode = WAL")
        filled(opened)
        opened.commit()
    assert path.read_bytes()[18] == 2
    assert examine(path.read_bytes()).outcome is Outcome.OK


def test_only_the_header_of_a_large_database_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_MAX_CHECKED_BYTES", 4096)
    damaged = DATABASE[:8192] + bytes(4096) + DATABASE[12288:]
    assert examine(damaged).outcome is Outcome.OK
    assert examine(damaged[:-4096]).outcome is Outcome.CORRUPT


@verdicts(FORMAT)
def test_database_without_a_row_is_blank() -> Iterable[Row]:
    quoted = '"a ""quoted"" name"'
    auto = "CREATE TABLE a (b INTEGER PRIMARY KEY AUTOINCREMENT)"
    for statements in (
        ["VACUUM"],
        ["CREATE TABLE a (b)"],
        ["CREATE TABLE a (b)", "INSERT INTO a VALUES (1)", "DELETE FROM a"],
        [auto, "INSERT INTO a VALUES (NULL)", "DELETE FROM a"],
        ["CREATE TABLE a (b)", "CREATE VIEW c AS SELECT 1"],
    ):
        yield str(statements), database("PRAGMA user_version = 1", *statements), "blank"
    for table in ("a", quoted, '"select"'):
        filled_one = ["CREATE TABLE other (x)", f"CREATE TABLE {table} (b)", f"INSERT INTO {table} VALUES (0)"]
        yield table, database("PRAGMA user_version = 1", *filled_one), "ok"
