"""The time of pages of files, reports, searches, quarantine, jobs and the console, with few and with millions of rows."""

import asyncio
import http.client
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from bench.cpu import cpu_seconds
from bench.servers import postmaster
from bench.sluice import Sluice, running_sluice
from sluice.db import counts
from sluice.db.database import Database
from sluice.db.postgres import PostgresOptions
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import decisions
from sluice.kit.ids import first_id
from tests.servers.postgres import Postgres, running_postgres

_SMALL = 10_000
_ROUNDS, _EACH = 6, 8
_CONTEXTS, _UPLOADERS = 4, 5
_TYPE = "content_type=application/pdf"
_CONTEXT_AND_UPLOADER = "context=c1&uploaded_by=u1"
_REJECTED_BY = "outcome=rejected&uploaded_by=u1"
_COLUMNS = (
    "file_id, tenant_id, context_id, context_key, state, original_filename, content_type, size_bytes, sha256, object_key, "
    "uploaded_by, uploaded_by_name, metadata, download_count, report_id, created_at, quarantined_at"
)
_AUDITED = 10  # an entry of the audit log for this many files
_IN_QUARANTINE = 50  # one of this many files is in quarantine
_JOBS = 10  # a job for this many files
_JOB_COLUMNS = (
    "job_id, tenant_id, kind, state, params, done, skipped, position, generation, failures, actor_id, actor_name, via, "
    "created_at"
)
_REJECTED = 10  # one of this many uploads is rejected
_YESTERDAY = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
_AUDIT_COLUMNS = "event_id, tenant_id, actor_id, actor_name, via, action, target, outcome, created_at"


@dataclass(frozen=True)
class _Request:
    """A page: its name, and its query for a list of that many rows. `screen` is one of the console, else the API."""

    name: str
    query: Callable[[int], str]
    path: str = "/files"
    screen: str = ""


_REQUESTS = (
    _Request("page 1", lambda _rows: "page=1&page_size=10"),
    _Request("page 1,000", lambda _rows: "page=1000&page_size=10"),
    _Request("the last page", lambda rows: f"page={rows // 10}&page_size=10"),
    _Request("by context, page 1", lambda _rows: "context=c1&page=1&page_size=10"),
    _Request("by context, page 100", lambda _rows: "context=c1&page=100&page_size=10"),
    _Request("by uploader, page 1", lambda _rows: "uploaded_by=u1&page=1&page_size=10"),
    _Request("by uploader, page 100", lambda _rows: "uploaded_by=u1&page=100&page_size=10"),
    _Request("by both, page 1", lambda _rows: f"{_CONTEXT_AND_UPLOADER}&page=1&page_size=10"),
    _Request("by both, page 50", lambda _rows: f"{_CONTEXT_AND_UPLOADER}&page=50&page_size=10"),
    _Request("by a context without files", lambda _rows: "context=none&page=1&page_size=10"),
    _Request("contexts, page 1", lambda _rows: "page=1", "/contexts"),
    _Request("search by type", lambda _rows: "content_type=application/pdf"),
    _Request("search by checksum", lambda rows: f"sha256={rows // 2:064}"),
    _Request("search by a part of the name", lambda _rows: "filename=report-77"),
    _Request("search by type and context, the largest", lambda _rows: f"{_TYPE}&context=c1&sort=-size_bytes"),
    _Request("search for quarantined files of a context", lambda _rows: "status=quarantined&context=c1"),
    _Request("quarantine", lambda _rows: "limit=100", "/quarantine"),
    _Request("quarantine of a context", lambda _rows: "limit=100&context=c1", "/quarantine"),
    _Request("quarantine of a context without any", lambda _rows: "limit=100&context=c0", "/quarantine"),
    _Request("jobs, page 1", lambda _rows: "page=1", "/jobs"),
    _Request("jobs that are done, page 10", lambda _rows: "status=done&page=10&page_size=10", "/jobs"),
    _Request("console: overview", lambda _rows: "days=14", screen="overview"),
    _Request("console: files", lambda _rows: "", screen="files"),
    _Request("console: files of a context", lambda _rows: "context=c1", screen="files"),
    _Request("console: files older than the middle", lambda rows: f"before=file_{rows // 2:026}", screen="files"),
    _Request("console: name searched", lambda _rows: "q=report-77", screen="files"),
    _Request("console: name not found", lambda _rows: "q=nothing", screen="files"),
    _Request("console: deleted files", lambda _rows: "", screen="files/deleted"),
    _Request("console: quarantine", lambda _rows: "", screen="quarantine"),
    _Request("console: rejections", lambda _rows: "", screen="rejections"),
    _Request("console: rejections of a context", lambda _rows: "context=c1", screen="rejections"),
    _Request("console: reports", lambda _rows: "", screen="reports"),
    _Request("console: rejected reports", lambda _rows: "outcome=rejected", screen="reports"),
    _Request("console: rejected reports of a context", lambda _rows: "outcome=rejected&context=c2", screen="reports"),
    _Request("console: undecided reports", lambda _rows: "outcome=undecided", screen="reports"),
    _Request("console: name searched in reports", lambda _rows: "q=report-77", screen="reports"),
    _Request("console: name not found in reports", lambda _rows: "q=nothing", screen="reports"),
    _Request("console: contexts", lambda _rows: "", screen="contexts"),
    _Request("console: one context", lambda _rows: "", screen="contexts/c1"),
    _Request("console: jobs", lambda _rows: "", screen="jobs"),
    _Request("console: delete all of a context?", lambda _rows: "action=delete&context=c1", screen="files/all"),
    _Request("console: audit", lambda _rows: "", screen="audit"),
    _Request("console: audit of an action", lambda _rows: "action=file.deleted", screen="audit"),
    _Request("console: audit of a thing", lambda _rows: f"target=file_{_AUDITED:026}", screen="audit"),
    _Request("console: files of an uploader, since", lambda _rows: "uploaded_by=u1&from=2d", screen="files"),
    _Request("console: reports of an uploader", lambda _rows: "uploaded_by=u1", screen="reports"),
    _Request("console: reports of an uploader without any", lambda _rows: "uploaded_by=none", screen="reports"),
    _Request("console: rejected reports of an uploader", lambda _rows: _REJECTED_BY, screen="reports"),
    _Request("console: files with a reason", lambda _rows: "reason=blank_document", screen="files"),
    _Request("console: files with a reason that none has", lambda _rows: "reason=virus_detected", screen="files"),
    _Request("console: audit of an actor without entries", lambda _rows: "actor=none", screen="audit"),
    _Request("console: reports of a day", lambda _rows: f"from={_YESTERDAY:%Y-%m-%d}", screen="reports"),
    _Request("console: all of one person", lambda _rows: "id=u1", screen="actor"),
    _Request("console: all of a person without anything", lambda _rows: "id=none", screen="actor"),
    _Request("console: search", lambda _rows: "q=report-77", screen="find"),
    _Request("console: erase a person?", lambda _rows: "uploaded_by=u1", screen="erasures/new"),
)
_LARGE_ONLY = (
    _Request("100 a page, page 1", lambda _rows: "page=1&page_size=100"),
    _Request("100 a page, page 1,000", lambda _rows: "page=1000&page_size=100"),
    _Request("the page in the middle", lambda rows: f"page={rows // 20}&page_size=10"),
)


def measure(folder: Path, *, rows: int, sqlite_rows: int) -> dict[str, Any]:
    """Return the milliseconds of each page on both databases, and the ratio of the large list to the small one."""
    with running_postgres(folder / "postgres") as postgres:
        on_postgres = _compared(
            folder / "on-postgres",
            rows,
            (postmaster(postgres),),
            lambda _name: PostgresRows(postgres, postgres.createdb()),
        )
    on_sqlite = _compared(
        folder / "on-sqlite", sqlite_rows, (), lambda name: SqliteRows(folder / "on-sqlite" / name / "sluice.db")
    )
    return {"postgresql": on_postgres, "sqlite": on_sqlite}


def _compared(folder: Path, rows: int, shared: tuple[int, ...], make: "Callable[[str], Filled]") -> dict[str, Any]:
    folder.mkdir()
    small, large = make("small"), make("large")
    with (
        running_sluice(folder / "small", small.url, WORKER_INSIDE="false", DATABASE_STATEMENT_SECONDS="300") as few,
        running_sluice(folder / "large", large.url, WORKER_INSIDE="false", DATABASE_STATEMENT_SECONDS="300") as many,
    ):
        filled: dict[str, float] = {}
        for sluice, store, number in ((few, small, _SMALL), (many, large, rows)):
            for context in range(_CONTEXTS):
                sluice.context(f"c{context}")
            models = (upload(sluice, b"Good day. " * 20, 201), upload(sluice, b"", 400))
            began = time.perf_counter()
            store.fill(sluice.tenant_id, number, models)
            between = time.perf_counter()
            asyncio.run(recount(store.url, sluice.tenant_id))
            filled = {"fill": between - began, "count_anew": time.perf_counter() - between}
        print(
            f"\n{type(small).__name__.removesuffix('Rows')}: {_SMALL:,} and {rows:,} rows; median of {_ROUNDS * _EACH} requests in turn"
        )
        print("| Page | small, ms | large, ms | ratio | small, CPU ms | large, CPU ms |\n|---|---|---|---|---|---|")
        figures = {request.name: _pair(request, few, many, rows, shared) for request in _REQUESTS}
        alone = {request.name: _large_only(request, many, rows) for request in _LARGE_ONLY}
    print(f"filled in {filled['fill']:.0f} s, recounted in {filled['count_anew']:.1f} s")
    return {"rows": rows, "pages": figures, "large_alone_ms": alone, "seconds": filled}


def _pair(request: _Request, few: Sluice, many: Sluice, rows: int, shared: tuple[int, ...]) -> dict[str, float]:
    """Measure both in turn, so that other load on the machine affects both. CPU includes server and database."""
    clients = (_Client(few, request, _SMALL), _Client(many, request, rows))
    waited: tuple[list[float], list[float]] = ([], [])
    used = [0.0, 0.0]
    for _ in range(_ROUNDS):
        for which, (client, sluice) in enumerate(zip(clients, (few, many), strict=True)):
            client.reconnect()  # a server closes a connection that is idle while the other one is measured
            client.milliseconds()
            before = cpu_seconds((sluice.pid, *shared))
            waited[which].extend(client.milliseconds() for _ in range(_EACH))
            used[which] += (cpu_seconds((sluice.pid, *shared)) - before) * 1000 / _ROUNDS / _EACH
    first, second = map(median, waited)
    print(
        f"| {request.name} | {first:.1f} | {second:.1f} | {second / first:.2f} | {used[0]:.1f} | {used[1]:.1f} |",
        flush=True,
    )
    return {
        "small_ms": first,
        "large_ms": second,
        "ratio": second / first,
        "small_cpu_ms": used[0],
        "large_cpu_ms": used[1],
    }


def _large_only(request: _Request, many: Sluice, rows: int) -> float:
    client = _Client(many, request, rows)
    found = median([client.milliseconds() for _ in range(12)][2:])
    print(f"| {request.name} | | {found:.1f} | | | |", flush=True)
    return found


class _Client:
    """A persistent connection that requests one page repeatedly."""

    def __init__(self, sluice: Sluice, request: _Request, rows: int) -> None:
        query = request.query(rows)
        if request.screen:
            self._path = f"/console/{request.screen}?{query}"
            self._headers = {"Cookie": _signed_in(sluice.port, sluice.tenant_id, tuple(sluice.environment.items()))}
        else:
            self._path = f"/api/v1{request.path}?{query}"
            self._headers = {"Authorization": f"Bearer {sluice.key}"}
        self._connection = http.client.HTTPConnection("127.0.0.1", sluice.port)

    def reconnect(self) -> None:
        """Open a new connection with the next request."""
        self._connection.close()

    def milliseconds(self) -> float:
        began = time.perf_counter()
        self._connection.request("GET", self._path, headers=self._headers)
        response = self._connection.getresponse()
        body = response.read()
        if response.status != http.client.OK:
            raise RuntimeError(body.decode())
        return (time.perf_counter() - began) * 1000


@cache
def _signed_in(port: int, tenant_id: str, environment: tuple[tuple[str, str], ...]) -> str:
    """Return the cookie of an admin of the console."""
    command = [sys.executable, "-m", "sluice.cli", "console", "login", "--tenant", tenant_id]
    printed = subprocess.run(command, env=dict(environment), check=True, capture_output=True, text=True).stdout
    path = f"/console{printed.strip().partition('/console')[2]}"
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    opened = connection.getresponse()
    opened.read()
    mark = str(opened.getheader("Set-Cookie")).partition(";")[0]
    connection.request("POST", path, headers={"Cookie": mark, "Sec-Fetch-Site": "same-origin", "Content-Length": "0"})
    begun = connection.getresponse()
    begun.read()
    cookies = [value.partition(";")[0] for name, value in begun.getheaders() if name.lower() == "set-cookie"]
    return next(cookie for cookie in cookies if cookie.startswith("sluice_session="))


def upload(sluice: Sluice, content: bytes, status: int) -> str:
    """Upload a text; return the id of its report."""
    head = '--b\r\nContent-Disposition: form-data; name="context"\r\n\r\nc0\r\n'
    part = '--b\r\nContent-Disposition: form-data; name="file"; filename="note.txt"\r\n\r\n'
    connection = http.client.HTTPConnection("127.0.0.1", sluice.port)
    headers = {"Authorization": f"Bearer {sluice.key}", "Content-Type": "multipart/form-data; boundary=b"}
    body = f"{head}{part}".encode() + content + b"\r\n--b--\r\n"
    connection.request("POST", "/api/v1/files/upload", body, headers)
    response = connection.getresponse()
    content_read = response.read()
    if response.status != status:
        raise RuntimeError(content_read.decode())
    return str(response.getheader("Sluice-Report-Id"))


async def recount(url: str, tenant_id: str) -> None:
    """Recount the files and audit entries of a tenant, which were inserted without triggers."""
    database = Database(url, postgres=PostgresOptions(statement_seconds=None))
    async with database.transaction(ALL_TENANTS) as connection:
        for name in ("files", "audit_events"):
            await counts.recount(connection, tenant_id, name)
    await database.aclose()


def _row(number: str, text: str, now: str) -> str:
    """Return the SQL values of a file. `number` is an SQL expression, `text` one that formats it as 26 characters."""
    context, uploader = f"'c' || ({number} % {_CONTEXTS})", f"'u' || ({number} / {_CONTEXTS} % {_UPLOADERS})"
    return (
        f"'file_' || {text}, c.tenant_id, c.context_id, c.context_key, 'stored', 'report-' || {number} || '.pdf', 'application/pdf', "
        f"10000, '{'0' * 38}' || {text}, c.tenant_id || '/' || c.context_key || '/2026/01/file_' || {text} || '.pdf', {uploader}, 'Scanner 3', "
        f"'{{}}', 0, 'rep_' || {text}, {now}, CASE WHEN {number} % {_IN_QUARANTINE} = 1 THEN {now} END FROM contexts c WHERE c.context_key = {context}"
    )


def _job_row(text: str, now: str, tenant: str) -> str:
    return f"'job_' || {text}, {tenant}, 'bulk_delete', 'done', '{{}}', 1, 0, '', 1, 0, 'a', 'a', 'api_key', {now}"


def _decisions(number: str, text: str, models: tuple[str, str], moment: str, numbers: str) -> str:
    """Return the statement that copies the decisions on two real uploads, with a reason of one in ten, of yesterday."""
    accepted, rejected = models
    failed = f"({number} % {_REJECTED} = 0 OR {number} % {_IN_QUARANTINE} = 1)"
    outcome = f"CASE WHEN {number} % {_REJECTED} = 0 THEN 'rejected' ELSE 'quarantined' END"
    changed = {
        "report_id": f"'{first_id('rep', _YESTERDAY)[: len('rep_') + 10]}' || {text}",
        "file_id": f"CASE WHEN {number} % {_IN_QUARANTINE} = 1 THEN 'file_{'0' * 10}' || {text} END",
        "context_key": f"'c' || ({number} % {_CONTEXTS})",
        "outcome": f"CASE WHEN {failed} THEN {outcome} ELSE 'accepted' END",
        "created_at": moment,
        "original_filename": f"'report-' || {number} || '.pdf'",
        "actor_id": f"'u' || ({number} / {_CONTEXTS} % {_UPLOADERS})",
        "duration_ms": f"{number} % 200",
        "repeat_key": "NULL",
    }
    names = [column.name for column in decisions.c]
    values = ", ".join(changed.get(name, f"d.{name}") for name in names)
    return (
        f"INSERT INTO decisions ({', '.join(names)}) SELECT {values} FROM {numbers} "  # noqa: S608  (constants)
        f"JOIN decisions d ON d.report_id = CASE WHEN {failed} THEN '{rejected}' ELSE '{accepted}' END"
    )


def _usage(tenant_id: str, rows: int) -> str:
    """Return the statement with the sums of these decisions, as triggers would have written them."""
    each = rows // _CONTEXTS
    numbers = {"upload": each * 9 // 10, "rejected:blank_document": each // 10, "quarantined": each // 50}
    values = ", ".join(
        f"('{tenant_id}', '{_YESTERDAY:%Y-%m-%d}', 'c{context}', '{kind}', {number}, 0)"
        for context in range(_CONTEXTS)
        for kind, number in numbers.items()
    )
    return f"INSERT INTO usage_days (tenant_id, day, context_key, kind, number, bytes) VALUES {values}"  # noqa: S608


def _audit_row(text: str, now: str, tenant: str) -> str:
    return f"'aud_' || {text}, {tenant}, 'a', 'Ada', 'api_key', 'file.deleted', 'file_' || {text}, 'done', {now}"


class Filled(Protocol):
    """A database that can be filled with the rows of stored files."""

    url: str

    def fill(self, tenant_id: str, rows: int, models: tuple[str, str] | None = None) -> None:
        """Insert files into the contexts `c0` to `c3` of a tenant, and decisions like those of `models`."""
        ...


class PostgresRows:
    """A PostgreSQL database, filled in bulk; its indexes are created afterwards, as in a restore."""

    def __init__(self, server: Postgres, url: str) -> None:
        self.url = url.replace("+asyncpg", "")
        self._server = server
        self._database = url.rpartition("/")[2]

    def fill(self, tenant_id: str, rows: int, models: tuple[str, str] | None = None) -> None:
        """Insert the files in bulk."""
        indexes = self._psql(
            "SELECT indexname || '=' || indexdef FROM pg_indexes "
            "WHERE tablename IN ('files', 'decisions') AND indexname NOT LIKE 'pk%'"
        ).splitlines()
        for line in indexes:
            self._psql(f"DROP INDEX {line.partition('=')[0]}")
        values = _row("n.n", "lpad(n.n::text, 26, '0')", "now()").replace(
            "FROM contexts c", "FROM generate_series({}, {}) n (n), contexts c"
        )
        for first in range(1, rows + 1, 100_000):
            last = min(rows, first + 99_999)
            self._insert(
                f"INSERT INTO files ({_COLUMNS}) SELECT {values.replace('{}, {}', f'{first}, {last}', 1)} AND c.tenant_id = '{tenant_id}'"
            )
            if models is not None:
                some = f"generate_series({first}, {last}) n (n)"
                self._insert(_decisions("n.n", "lpad(n.n::text, 16, '0')", models, f"'{_YESTERDAY.isoformat()}'", some))
            print(f"\r{last:,} rows ", end="", flush=True)
        self._insert(_usage(tenant_id, rows))
        entry = _audit_row("lpad(n::text, 26, '0')", "now()", f"'{tenant_id}'")
        self._insert(
            f"INSERT INTO audit_events ({_AUDIT_COLUMNS}) SELECT {entry} FROM generate_series(1, {rows // _AUDITED}) n"  # noqa: S608  (constants)
        )
        job = _job_row("lpad(n::text, 26, '0')", "now()", f"'{tenant_id}'")
        self._insert(f"INSERT INTO jobs ({_JOB_COLUMNS}) SELECT {job} FROM generate_series(1, {rows // _JOBS}) n")  # noqa: S608  (constants)
        for line in indexes:
            self._execute_long(line.partition("=")[2])
        for table in ("files", "jobs", "decisions", "audit_events"):
            self._execute_long(f"VACUUM ANALYZE {table}")

    def _psql(self, statement: str) -> str:
        return self._server.psql(statement, database=self._database)

    def _insert(self, statement: str) -> None:
        """Insert rows without triggers and foreign keys."""
        asyncio.run(execute(self.url, "SET session_replication_role = replica", statement))

    def _execute_long(self, statement: str) -> None:
        asyncio.run(execute(self.url, statement))


async def execute(url: str, *statements: str) -> None:
    """Run statements, each in a transaction of its own."""
    database = Database(url, postgres=PostgresOptions(statement_seconds=None))
    async with database.engine.connect() as connection:
        outside = await connection.execution_options(isolation_level="AUTOCOMMIT")
        for statement in statements:
            await outside.exec_driver_sql(statement)
    await database.aclose()


class SqliteRows:
    """A SQLite file, filled by one statement without its triggers."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self._path = path

    def fill(self, tenant_id: str, rows: int, models: tuple[str, str] | None = None) -> None:
        """Insert the files by one statement."""
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            connection.execute("PRAGMA busy_timeout = 60000")
            connection.execute("BEGIN IMMEDIATE")
            triggers = connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' "
                "AND tbl_name IN ('files', 'decisions', 'audit_events')"
            ).fetchall()
            for name, _sql in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            values = _row("n", "printf('%026d', n)", "'2026-01-02 03:04:05.000000'").replace(
                "FROM contexts c", "FROM numbers, contexts c"
            )
            numbers = f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {rows})"  # noqa: S608  (an integer)
            connection.execute(
                f"INSERT INTO files ({_COLUMNS}) {numbers} SELECT {values} AND c.tenant_id = ?", (tenant_id,)
            )
            job = _job_row("printf('%026d', n)", "'2026-01-02 03:04:05.000000'", "?")
            connection.execute(
                f"INSERT INTO jobs ({_JOB_COLUMNS}) {numbers} SELECT {job} FROM numbers WHERE n % {_JOBS} = 0",  # noqa: S608  (constants)
                (tenant_id,),
            )
            moment = f"'{_YESTERDAY:%Y-%m-%d %H:%M:%S.%f}'"
            if models is not None:
                copied = _decisions("n", "printf('%016d', n)", models, moment, "numbers")
                begin, _, copy = copied.partition(" SELECT ")
                connection.execute(f"{begin} {numbers} SELECT {copy}")
            connection.execute(_usage(tenant_id, rows))
            entry = _audit_row("printf('%026d', n)", "'2026-01-02 03:04:05.000000'", "?")
            connection.execute(
                f"INSERT INTO audit_events ({_AUDIT_COLUMNS}) {numbers} SELECT {entry} FROM numbers WHERE n % {_AUDITED} = 0",  # noqa: S608  (constants)
                (tenant_id,),
            )
            for _name, sql in triggers:
                connection.execute(sql)
            connection.execute("COMMIT")
            connection.execute("ANALYZE")
