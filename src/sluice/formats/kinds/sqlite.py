"""SQLite databases: header, length, and SQLite's own check on a copy in memory. A database without a row in any table is blank.

The schema is never trusted: nothing in it is run, and what it asks for that is not at hand (modules, functions, collations) only means
that the database cannot be judged. Of databases over 128 MiB just the header and the length are checked.
"""

import re
import sqlite3
import struct
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Final
from weakref import WeakKeyDictionary

from sluice.formats.budget import Deadline
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Judgement, Limits, Measure, Unsupported

_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
_FRACTIONS: Final = b"\x40\x20\x20"
"""Constants of the format behind the page size, without which SQLite takes no file for a database."""
_VERSIONS_AT: Final = 18
_LEGACY: Final = b"\1\1"
"""A database with a write-ahead log is opened without one."""
_WHOLE_MOST: Final = 128 * 1024**2
_STEPS: Final = 100_000
"""Instructions of SQLite's machine between two looks at the clock."""
_FINDINGS_MOST: Final = 20
_COLUMNS_MOST: Final = 64
_HARMLESS: Final = re.compile(
    r"Page \d+ is never used|(?:Tree \d+ page \d+: )?Fragmentation of \d+ bytes|On page \d+ at right child: .* never used"
)
"""Room that is lost, which SQLite reads over."""
_STRUCTURE: Final = "*** in database"
_INDEX: Final = re.compile(r"missing from index|wrong # of entries in index")
_WANTING: Final = re.compile(
    r"no such (?:module|function|collation)|unknown (?:function|tokenizer)|unsafe use|unsupported|not authorized", re.IGNORECASE
)
_MALFORMED: Final = "malformed database schema"
_NAMELESS: Final = "malformed database schema (?)"
"""Said of an entry of the schema without a name, which no version writes."""
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
}
_SAFELY: Final = (
    "PRAGMA trusted_schema = OFF",
    "PRAGMA query_only = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cell_size_check = ON",
    "PRAGMA ignore_check_constraints = ON",
)

_holds_nothing: Final[WeakKeyDictionary[Source, str]] = WeakKeyDictionary()
"""Remembered from the one opening, since `check` and `blank` are asked apart."""


def _recognises(source: Source) -> bool:
    return source.head.startswith(_MAGIC)


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    measures = _check_header(source)
    if source.size > _WHOLE_MOST:
        return {**measures, "partially_checked": True}
    deadline = Deadline(limits.soft_seconds)
    try:
        with closing(_open(source)) as database:
            database.set_progress_handler(lambda: deadline.has_passed, _STEPS)
            _check_pages(database)
            tables = list(_tables(database))
            rows = sum(_count_rows(database, table) for table in tables)
            if not rows:
                _holds_nothing[source] = (
                    f"none of the database's {len(tables)} tables has a row" if tables else "the database has no table"
                )
    except sqlite3.Error as error:
        if deadline.has_passed:
            return {**measures, "partially_checked": True}
        is_damage = getattr(error, "sqlite_errorname", "").startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))
        raise _judge(str(error), source, is_damage=is_damage) from error
    except UnicodeDecodeError as error:  # where SQLite's complaint names something in bytes that are no text
        said = error.object.decode("utf-8", "replace")
        raise _judge(said, source, is_damage=said.startswith(_MALFORMED)) from error
    return {**measures, "tables": len(tables), "rows": rows}


def _check_header(source: Source) -> Mapping[str, Measure]:
    header = source.head[:_HEADER_BYTES]
    if len(header) < _HEADER_BYTES or header[21:24] != _FRACTIONS:
        raise Corrupt("the database's header is cut or damaged")
    stated = int.from_bytes(header[16:18], "big")
    page_bytes = 65536 if stated == 1 else stated
    if page_bytes < 512 or page_bytes & (page_bytes - 1):  # noqa: PLR2004  (the smallest page)
        raise Corrupt(f"the database's header is damaged: it states pages of {page_bytes} bytes")
    changes, pages, valid_for = struct.unpack(">24xLL60xL4x", header)
    if changes == valid_for and pages * page_bytes > source.size:
        raise Corrupt(f"the database is cut: {pages * page_bytes - source.size} of its bytes are missing")
    return {"pages": pages if changes == valid_for else source.size // page_bytes}


def _open(source: Source) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", isolation_level=None)
    if not hasattr(database, "deserialize"):
        raise Unsupported("this build of SQLite cannot open a database from memory")
    content = source.mapped()
    content[_VERSIONS_AT : _VERSIONS_AT + 2] = _LEGACY
    database.deserialize(content)
    content.release()
    database.text_factory = lambda text: text.decode("utf-8", "replace")
    for limit, value in _LIMITS.items():
        database.setlimit(limit, value)
    for pragma in _SAFELY:
        database.execute(pragma)
    return database


def _check_pages(database: sqlite3.Connection) -> None:
    """Raise `Corrupt` for what SQLite finds wrong with pages and indices. Values that break a rule of their table are no damage."""
    for (found,) in database.execute(f"PRAGMA integrity_check({_FINDINGS_MOST})"):
        said = str(found)
        damage = (
            [line for line in said.splitlines()[1:] if line and not _HARMLESS.match(line)] if said.startswith(_STRUCTURE) else []
        )
        if damage or _INDEX.search(said):
            raise Corrupt(f"the database is damaged: {damage[0] if damage else said}")


def _tables(database: sqlite3.Connection) -> Iterator[str]:
    """Yield the tables that are stored in the file, but for SQLite's own."""
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"):
        if not str(name).lower().startswith("sqlite_"):
            yield str(name)


def _count_rows(database: sqlite3.Connection, table: str) -> int:
    """Answer how many rows a table has, read to their last column: SQLite then finds rows that are not as long as they state."""
    quoted = _quoted(table)
    columns = [str(name) for _, name, *_ in database.execute(f"PRAGMA table_info({quoted})")]
    counts = ", ".join(f"count({_quoted(name)})" for name in columns[-_COLUMNS_MOST:])
    rows: int = database.execute(f"SELECT count(*), {counts} FROM {quoted}").fetchone()[0]  # noqa: S608  (quoted names of the schema)
    return rows


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _judge(said: str, source: Source, *, is_damage: bool) -> Judgement:
    written_by = int.from_bytes(source.head[96:100], "big")
    major, minor, patch = sqlite3.sqlite_version_info
    if _WANTING.search(said) or ("schema" in said and said != _NAMELESS and written_by > major * 1_000_000 + minor * 1000 + patch):
        return Unsupported(f"the database needs what is not at hand here: {said}")
    if is_damage:
        return Corrupt(f"the database is damaged: {said}")
    return Unsupported(f"the database cannot be judged here: {said}")


def _blank(source: Source, _limits: Limits) -> str | None:
    return _holds_nothing.get(source)


def _sample() -> bytes:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE sample (value)")
        database.execute("INSERT INTO sample VALUES (1)")
        database.commit()
        return database.serialize()


KIND: Final = Kind(
    name="sqlite",
    content_type="application/vnd.sqlite3",
    extensions=frozenset({"sqlite", "sqlite3"}),
    recognises=_recognises,
    check=_check,
    blank=_blank,
    sample=_sample,
)
