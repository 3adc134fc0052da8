"""SQLite databases: header, length, and SQLite's own check on a copy in memory. Blank if no table has a row."""
# The schema is never trusted: nothing in it is run. Of databases over 128 MiB only header and length are checked.

import contextlib
import re
import sqlite3
import struct
from collections.abc import Mapping
from contextlib import closing
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.format import Examination, Family, Format, has_no_flags, named
from sluice_inspect.report import Corrupt, InspectionError, Limits, Measure, Unsupported
from sluice_inspect.source import Source

_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
# The payload fractions at byte 21: constants without which SQLite does not open a file.
_PAYLOAD_FRACTIONS: Final = b"\x40\x20\x20"
# Write and read version of the format. Version 2 is a write-ahead log, which a database in memory cannot have.
_VERSIONS: Final = slice(18, 20)
_ROLLBACK_JOURNAL: Final = b"\1\1"
_MAX_CHECKED_BYTES: Final = 128 * 1024**2
_INSTRUCTIONS_PER_CHECK: Final = 100_000  # instructions of SQLite's virtual machine between two checks of the deadline
_MAX_FINDINGS: Final = 20
_MAX_COLUMNS: Final = 64
_ZEROED_BYTES: Final = 512
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
}
_PRAGMAS: Final = (
    "PRAGMA trusted_schema = OFF", "PRAGMA query_only = ON", "PRAGMA temp_store = MEMORY",
    "PRAGMA cell_size_check = ON", "PRAGMA ignore_check_constraints = ON",
)  # fmt: skip

# Texts of `PRAGMA integrity_check` and of SQLite's errors, which have no codes of their own.
_STRUCTURE_FINDING: Final = "*** in database"
_INDEX_FINDING: Final = re.compile(r"missing from index|wrong # of entries in index")
# Space that is lost, over which SQLite reads.
_HARMLESS_FINDING: Final = re.compile(
    r"Page \d+ is never used|(?:Tree \d+ page \d+: )?Fragmentation of \d+ bytes"
    r"|On page \d+ at right child: .* never used"
)
_MISSING_FEATURE: Final = re.compile(
    r"no such (?:module|function|collation)|unknown (?:function|tokenizer)|unsafe use|unsupported|not authorized",
    re.IGNORECASE,
)
_MALFORMED_SCHEMA: Final = "malformed database schema"
# For an entry of the schema without a name, which no version of SQLite writes.
_NAMELESS_ENTRY: Final = "malformed database schema (?)"


def _examine(source: Source, limits: Limits) -> Examination:
    measures: dict[str, Measure] = {"pages": _check_header(source)}
    if source.size > _MAX_CHECKED_BYTES:
        return Examination({**measures, "partially_checked": True})
    deadline = Deadline(limits.soft_seconds)
    try:
        with closing(_open(source)) as database:
            database.set_progress_handler(lambda: deadline.has_passed, _INSTRUCTIONS_PER_CHECK)
            _check_integrity(database)
            # With a root page they are stored in the file; without, they are virtual.
            names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0")
            tables = [str(name) for (name,) in names if not str(name).lower().startswith("sqlite_")]
            rows = sum(_count_rows(database, table) for table in tables)
            if not source.tail[-_ZEROED_BYTES:].strip(b"\0"):
                _refuse_zeroed_rows(database, tables)
    except sqlite3.Error as error:
        if deadline.has_passed:
            return Examination({**measures, "partially_checked": True})
        is_damage = getattr(error, "sqlite_errorname", "").startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))
        raise _inspection_error(str(error), source, is_damage=is_damage) from error
    except UnicodeDecodeError as error:  # raised where SQLite's message quotes bytes that are not UTF-8
        message = error.object.decode("utf-8", "replace")
        is_damage = message.startswith(_MALFORMED_SCHEMA)
        raise _inspection_error(message, source, is_damage=is_damage) from error
    blank: str | None = None
    if not tables:
        blank = "the database has no table"
    elif not rows:
        blank = f"none of the database's {len(tables)} tables has a row"
    return Examination({**measures, "tables": len(tables), "rows": rows}, lambda: blank)


def _check_header(source: Source) -> int:
    header = source.head[:_HEADER_BYTES]
    if len(header) < _HEADER_BYTES or header[21:24] != _PAYLOAD_FRACTIONS:
        raise Corrupt("the database's header is cut or damaged")
    stated = int.from_bytes(header[16:18], "big")
    page_bytes = 65536 if stated == 1 else stated
    if page_bytes < 512 or page_bytes & (page_bytes - 1):
        raise Corrupt(f"the database's header is damaged: it states pages of {page_bytes} bytes")
    # The number of pages is valid only if the change counter is the one it was written with: versions before 3.7.0 do
    # not update it (file format, 1.3.7).
    changes, pages, valid_for = struct.unpack(">24xLL60xL4x", header)
    if changes != valid_for:
        return source.size // page_bytes
    if pages * page_bytes > source.size:
        raise Corrupt(f"the database is cut: {pages * page_bytes - source.size} of its bytes are missing")
    return int(pages)


def _open(source: Source) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", isolation_level=None)
    if not hasattr(database, "deserialize"):
        raise Unsupported("this build of SQLite cannot open a database from memory")
    content = source.mapped()
    content[_VERSIONS] = _ROLLBACK_JOURNAL
    database.deserialize(content)
    content.release()
    database.text_factory = lambda text: text.decode("utf-8", "replace")
    for limit, value in _LIMITS.items():
        database.setlimit(limit, value)
    for pragma in _PRAGMAS:
        database.execute(pragma)
    return database


def _check_integrity(database: sqlite3.Connection) -> None:
    """Raise `Corrupt` for damaged pages and indices. Values that break a constraint of their table are no damage."""
    for (finding,) in database.execute(f"PRAGMA integrity_check({_MAX_FINDINGS})"):
        message = str(finding)
        damage: list[str] = []
        if message.startswith(_STRUCTURE_FINDING):
            damage = [line for line in message.splitlines()[1:] if line and not _HARMLESS_FINDING.match(line)]
        if damage or _INDEX_FINDING.search(message):
            raise Corrupt(f"the database is damaged: {damage[0] if damage else message}")


def _count_rows(database: sqlite3.Connection, table: str) -> int:
    quoted = _quote(table)
    columns = [str(name) for _, name, *_ in database.execute(f"PRAGMA table_info({quoted})")]
    # Counting the last columns makes SQLite read each row to its end, and find those shorter than they state.
    counts = ", ".join(f"count({_quote(name)})" for name in columns[-_MAX_COLUMNS:])
    rows: int = database.execute(f"SELECT count(*), {counts} FROM {quoted}").fetchone()[0]  # noqa: S608  (quoted names)
    return rows


def _refuse_zeroed_rows(database: sqlite3.Connection, tables: list[str]) -> None:
    """Raise `Corrupt` if a row consists of the zeros that took the place of the end of the file, or a text has them."""
    # SQLite reads both without an error: the first is row 0 with no value, the second the rest of a long value, which
    # is in pages of its own. In a blob they are data.
    for table in tables:
        described = database.execute(f"PRAGMA table_info({_quote(table)})").fetchall()
        columns = [_quote(str(name)) for _, name, *_ in described]
        values = [_quote(str(name)) for _, name, _, _, _, key in described if not key]
        if values:
            nothing = " AND ".join(f"{name} IS NULL" for name in values[-_MAX_COLUMNS:])
            with contextlib.suppress(sqlite3.OperationalError):  # a table without numbers of rows
                rows = database.execute(f"SELECT 1 FROM {_quote(table)} WHERE rowid = 0 AND {nothing}")  # noqa: S608
                if rows.fetchone():
                    raise Corrupt("the end of the database is missing: a row of it is zeros")
        zeroed = " OR ".join(
            f"(typeof({name}) = 'text' AND instr(CAST({name} AS BLOB), zeroblob({_ZEROED_BYTES})) > 0)"
            for name in columns[-_MAX_COLUMNS:]
        )
        found = database.execute(f"SELECT 1 FROM {_quote(table)} WHERE {zeroed} LIMIT 1")  # noqa: S608  (quoted names)
        if found.fetchone():
            raise Corrupt("the end of the database is missing: a text in it is zeros")


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _inspection_error(message: str, source: Source, *, is_damage: bool) -> InspectionError:
    version = int.from_bytes(source.head[96:100], "big")
    major, minor, patch = sqlite3.sqlite_version_info
    is_newer = version > major * 1_000_000 + minor * 1000 + patch
    # A newer SQLite may write a schema that this one calls malformed.
    if _MISSING_FEATURE.search(message) or ("schema" in message and message != _NAMELESS_ENTRY and is_newer):
        return Unsupported(f"the database needs a feature that is not available here: {message}")
    if is_damage:
        return Corrupt(f"the database is damaged: {message}")
    return Unsupported(f"the database cannot be checked here: {message}")


def _sample() -> bytes:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE sample (value)")
        database.execute("INSERT INTO sample VALUES (1)")
        database.commit()
        return database.serialize()


def _content_end(source: Source, measures: Mapping[str, Measure]) -> int:
    stated = int.from_bytes(source.head[16:18], "big")
    return int(measures.get("pages", 0)) * (65536 if stated == 1 else stated)


FORMAT: Final = Format(
    name="sqlite",
    family=Family.DOCUMENT,
    content_type="application/vnd.sqlite3",
    extensions=frozenset({"sqlite", "sqlite3"}),
    begins=(_MAGIC,),
    matches=lambda source: source.head.startswith(_MAGIC),
    examine=_examine,
    facts=has_no_flags,
    sample=_sample,
    names=named("SQLite", "sqlite sqlite3 application/x-sqlite3 application/vnd.sqlite3"),
    content_end=_content_end,
)
