"""Every statement on rows of tenants names the tenant in its own conditions, or is listed here with a reason.

All functions that send SQL are called with a connection that records it; a call of `execute` in the source that was
not reached fails the test, so that no statement can be forgotten.
"""

import ast
import asyncio
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError
from sqlalchemy.sql import Executable

import sluice
from sluice.access import Principal, Scope
from sluice.audit.entry import AuditEntry
from sluice.db.schema import metadata
from sluice.db.statement import Statement
from sluice.decisions import DecisionFilter
from sluice.events.catalogue import FilePurged
from sluice.events.record import StoredEvent
from sluice.files import FileFilter
from sluice.files.record import Hold, RetentionRule, Review
from sluice.idempotency_keys import KeyClaim
from sluice.kit.paging import PageRequest, SliceRequest
from sluice.resumable.resumable_upload import UploadState
from sluice.sessions.session import Secret
from sluice.webhooks.endpoint import Endpoint
from tests.rows import each_row
from tests.uploads.test_snapshot import CONTEXT

SOURCE: Final = Path(sluice.__file__).parent
TENANT_TABLES: Final = frozenset(name for name, table in metadata.tables.items() if "tenant_id" in table.c)
# Modules with SQL on no rows of tenants, or that only change the schema.
WITHOUT_TENANTS: Final = {
    "limiter.database": "takes of rate limits are rows of a context's id, which is a secret of nobody",
    "db.database": "opens transactions, sets the scope, and asks for versions",
    "db.sqlite": "pragmas; and `sluice backup` copies the files of all tenants",
    "db.postgres": "settings of a connection",
    "db.migrate": "locks, roles and rights",
    "db.rls": "sets the scope",
}
# Statements that read rows of all tenants, by function, each with its reason. None of them changes a row.
READS_ALL_TENANTS: Final = {
    "api_keys.repository._PRESENTED": "only the found key says whose it is",
    "audit.repository.forget": "the worker looks for old entries of all tenants",
    "buckets.repository.list_of_all_tenants": "for the worker and the operator",
    "buckets.repository.find_tenants_without_default": "an invariant over all tenants",
    "contexts.repository.scanned_beyond": "the operator asks for contexts of all tenants",
    "decisions.repository.delete_expired": "the worker looks for old decisions of all tenants",
    "decisions.repository.delete_old_marks": "the worker looks for old marks of all tenants",
    "files.repository.reading.find_any_tenant": "a signed link names a file alone",
    "files.repository.reading.find_tenant": "an operator names a file alone",
    "files.repository.due.expired_leases": "the worker looks for due rows of all tenants",
    "files.repository.due.expired_test_files": "the worker looks for due rows of all tenants",
    "files.repository.due.lock_due_purges": "the worker looks for due rows of all tenants",
    "files.repository.due.claim_retention": "the worker looks for due contexts of all tenants",
    "files.repository.quarantine.find_asked_rescans": "the worker looks for due rows of all tenants",
    "files.repository.due.load_waiting_times": "the worker measures its queues",
    "files.repository.quarantine.find_stale_verdicts": "the worker looks for due rows of all tenants",
    "files.repository.quarantine.list_quarantined": "an operator may ask for all tenants",
    "files.repository.reading.list_stored": "the audit compares rows of all tenants",
    "files.repository.reading.object_keys": "an object in the platform's store names a file alone",
    "files.repository.due.find_overdue": "an invariant over all tenants",
    "files.repository.reading.find_wrong_quotas": "an invariant over all tenants",
    "idempotency_keys.repository.delete_expired": "the worker looks for old keys of all tenants",
    "jobs.repository.find_due": "the worker looks for due jobs of all tenants",
    "jobs.repository.list_exports_to_sweep": "the worker looks for exports of all tenants whose time is over",
    "jobs.repository.find_export": "a signed link names no tenant",
    "jobs.repository.delete_old": "the worker looks for old jobs of all tenants",
    "sessions.repository.delete_expired": "the worker looks for old sessions of all tenants",
    "cors.repository.is_listed_anywhere": "a preflight names an origin and no tenant",
    "resumable.repository.list_due": "the worker looks for due rows of all tenants",
    "resumable.repository.list_known": "the worker looks for parts whose upload has no row",
    "resumable.repository.count_waiting": "the worker measures what waits",
    "upload_tokens.repository._PRESENTED": "only the found token says whose it is",
    "upload_tokens.repository.delete_expired": "the worker looks for old tokens of all tenants",
    "events.repository.next_unnumbered_tenant": "the worker looks for events of all tenants",
    "events.repository.delete_old": "the worker looks for old events of all tenants",
    "worker.repository.find_changed_quotas": "the worker compares limits of all tenants",
    "worker.repository.find_changed_plans": "the worker compares limits of all tenants",
    "worker.repository.find_expiring_keys": "the worker looks for keys of all tenants",
    "worker.repository.claim_outages": "the worker looks for buckets of all tenants",
    "webhooks.repository.list_of_all_tenants": "the operator seals the secrets of all tenants anew",
    "webhooks.repository.find_endpoints_with_work": "the worker looks for endpoints of all tenants",
    "webhooks.repository.delete_old_deliveries": "the worker looks for old deliveries of all tenants",
    "tenants.repository.list_all": "an operator lists the tenants",
    "tenants.repository.count": "whether there is any tenant",
}
# The statements that change rows of several tenants without naming each.
CHANGES_ALL_TENANTS: Final = {
    "usage.repository.fold": "moves deltas of all tenants, each into the sum of the tenant that it names",
    "db.counts.fold": "moves deltas of all tenants, each into the sum of the tenant that it names",
}
_VERBS: Final = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
_TABLES: Final = re.compile(r"\b(?:FROM|JOIN|UPDATE|INTO|,)\s+(?:ONLY\s+)?([a-z_]+)\b", re.IGNORECASE)
_TENANT: Final = re.compile(r"(?:\b([a-z_]+)\.)?\btenant_id\b", re.IGNORECASE)
_COMPARED: Final = re.compile(r"(?:\b([a-z_]+)\.)?\btenant_id = (?:([a-z_]+)\.tenant_id\b|\S)", re.IGNORECASE)
_BRACKETS: Final = re.compile(r"\(([^()]*)\)")


def blocks(sql: str) -> Iterator[str]:
    """Yield each SELECT, INSERT, UPDATE and DELETE of a statement by itself, the innermost first."""
    text = re.sub(r"'[^']*'", "''", " ".join(sql.split()))
    while (found := _BRACKETS.search(text)) is not None:
        inner = found[1]
        if re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE)\b", inner, re.IGNORECASE):
            yield inner
            inner = " a_query "
        text = f"{text[: found.start()]} ⟨{inner}⟩ {text[found.end() :]}"
    yield text


def unscoped(sql: str) -> Iterator[str]:
    """Yield each tenant's table of a statement whose rows are not narrowed to a tenant where it is used."""
    for block in blocks(sql):
        begin = _VERBS.search(block)
        if begin is None:
            continue
        body = block[begin.start() :]
        if begin[1].upper() == "INSERT":
            table = re.match(r"INSERT INTO ([a-z_]+)", body, re.IGNORECASE)
            assert table is not None
            if table[1] in TENANT_TABLES and "tenant_id" not in body.partition("⟩")[0]:
                yield table[1]
            body = body.partition("⟩")[2]  # what is selected in order to be inserted
        tables = set(_TABLES.findall(body)) & TENANT_TABLES
        # Where rows are chosen: behind WHERE, and behind each ON of a join.
        chosen = " ".join(re.split(r"\b(?:WHERE|ON)\b", body, flags=re.IGNORECASE)[1:])
        chosen = re.split(r"\b(?:RETURNING|ORDER BY|GROUP BY)\b", chosen, flags=re.IGNORECASE)[0]
        names = {found[1] for found in _TENANT.finditer(chosen)}
        # Tables that are joined by their tenant still hold all tenants, unless one is compared with something else.
        is_anchored = any(
            found[2] is None or found[2] not in tables for found in _COMPARED.finditer(chosen)
        ) or re.search(r"\btenant_id\b[^⟨⟩]*⟩\s+IN\b", chosen)
        for table_name in sorted(tables):
            is_named = table_name in names or (None in names and len(tables) == 1)
            if not (is_named and is_anchored):
                yield table_name


@each_row(
    "sql, tables",
    [
        ("SELECT * FROM files WHERE file_id = 1", ["files"]),
        ("SELECT tenant_id FROM files WHERE file_id = 1 ORDER BY tenant_id", ["files"]),
        ("SELECT * FROM files WHERE tenant_id = 1", []),
        ("SELECT * FROM files JOIN contexts ON contexts.context_id = files.context_id WHERE files.tenant_id = 1", ["contexts"]),
        ("SELECT * FROM files JOIN tenants ON tenants.tenant_id = files.tenant_id WHERE files.tenant_id = 1", []),
        ("UPDATE files SET tenant_id = 1 WHERE file_id = 1", ["files"]),
        ("UPDATE files SET x = 1 WHERE file_id = 1 RETURNING tenant_id", ["files"]),
        ("UPDATE files SET x = 1 WHERE tenant_id = 2 AND file_id IN (SELECT file_id FROM files)", ["files"]),
        ("DELETE FROM files WHERE (files.tenant_id, files.file_id) IN ((1, 2))", []),
        ("INSERT INTO files (file_id) VALUES (1)", ["files"]),
        ("WITH x AS (UPDATE contexts SET y = 1 WHERE context_id = 1) INSERT INTO files (tenant_id) SELECT 1", ["contexts"]),
        ("SELECT * FROM files JOIN tenants ON tenants.tenant_id = files.tenant_id", ["files", "tenants"]),
        ("SELECT * FROM files WHERE tenant_id = 1 AND EXISTS (SELECT 1 FROM api_keys)", ["api_keys"]),
        ("SELECT * FROM rate_takes", []),
    ],
)  # fmt: skip
def test_statement_without_its_tenant_is_noticed(sql: str, tables: list[str]) -> None:
    assert list(unscoped(sql)) == tables


# --- Statements written as text


def modules_with_sql() -> Iterator[str]:
    """Yield the modules that send SQL, by their names below `sluice`."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        if "migrations" not in name and re.search(r"\bexecute\(|\bStatement\(|\bexec_driver_sql\(", path.read_text()):
            yield name


def is_exempt(function: str) -> bool:
    return function in READS_ALL_TENANTS or function in CHANGES_ALL_TENANTS


def text_statements() -> Iterator[tuple[str, str]]:
    for module in modules_with_sql():
        for name, value in vars(importlib.import_module(f"sluice.{module}")).items():
            if isinstance(value, Statement):
                texts = [value.postgres.text, *value.sqlite, *([] if value.batch is None else [value.batch.text])]
                yield from ((f"{module}.{name}", text) for text in texts)


@pytest.mark.asvs("8.2.2")
def test_statements_of_the_upload_path_name_the_tenant() -> None:
    found = list(text_statements())
    assert {name.rpartition(".")[2] for name, _sql in found} == {
        "_DUPLICATE",
        "_SNAPSHOT",
        "_RESERVE",
        "_RECORD",
        "_PRESENTED",
        "_LOG",
        "_REJECT",
        "_REPEATED",
        "_GROW",
    }
    assert [(name, table) for name, sql in found for table in unscoped(sql) if not is_exempt(name)] == []


# --- Statements built with SQLAlchemy


NOW: Final = datetime(2026, 1, 2, tzinfo=UTC)
_POSTGRES: Final[Any] = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it untyped
_SQLITE: Final[Any] = sqlite.dialect()


class Rows:
    """The result of a statement: no row, or one whose only column is `scalar`."""

    def __init__(self, row: object | None, scalar: Any) -> None:
        self._row = row
        self._scalar = scalar

    def mappings(self) -> "Rows":
        return self

    def scalars(self) -> "Rows":
        return self

    def all(self) -> list[Any]:
        return [] if self._row is None else [self._row]

    @property
    def rowcount(self) -> int:
        return len(self.all())

    def one_or_none(self) -> Any:
        return self._row

    def one(self) -> Any:
        return self._row

    def scalar_one(self) -> Any:
        return self._scalar

    def scalar_one_or_none(self) -> Any:
        return None if self._row is None else self._scalar


_COLUMNS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("change", "rows", "number", "bytes"), -1),
    **dict.fromkeys(("metadata", "scopes", "allowed_extensions"), ()),
    "upload_rate_limit": None,
    "length": -1,
    "expires_at": NOW,
    "row": lambda: {"report_id": "rep_1", "tenant_id": "ten_1"},
}


class AnyColumns(SimpleNamespace):
    """A row that has whatever column is asked for."""

    def __getattr__(self, name: str) -> Any:
        return _COLUMNS.get(name, name)

    def __iter__(self) -> Iterator[Any]:
        return iter((NOW, NOW))


class Recorder:
    """A connection that keeps each statement with the function and the line that sent it."""

    def __init__(self, dialect: Any, row: object | None, scalar: Any) -> None:
        self.dialect = dialect
        self.left = 0
        self._row = row
        self._scalar = scalar
        self.sent: list[tuple[str, int, str, Executable]] = []

    async def execute(self, statement: Executable, _values: object = None) -> Rows:
        self.left -= 1
        if self.left < 0:  # a loop that ends when nothing is left, which here never happens
            raise ValueError("enough")
        frame = sys._getframe(1)
        module = frame.f_globals["__name__"].removeprefix("sluice.")
        self.sent.append((module, frame.f_lineno, frame.f_code.co_name, statement))
        return Rows(self._row, self._scalar)


ENDPOINT: Final = Endpoint(
    endpoint_id="whk_1",
    tenant_id="ten_1",
    url="https://a.example",
    event_types=("*",),
    context_keys=(),
    description=None,
    status="active",
    disabled_reason=None,
    secret_sealed="s",
    old_secret_sealed=None,
    old_secret_until=None,
    created_at=NOW,
    updated_at=None,
    sequence=0,
    failing_since=None,
)
ACTION: Final = SimpleNamespace(
    entry=lambda _target, _at, **_more: AuditEntry("e", "t", "a", "n", "v", "a", "t", "done", None, None, NOW)
)
ARGUMENTS: Final[Mapping[str, Any]] = {
    "request": PageRequest(1, 20),
    "wanted": DecisionFilter("c", "rejected", "r", "a", "f", NOW, NOW),
    "context": CONTEXT,
    "total": 5,
    "limit": 3,
    "most": 3,
    "size_mb": 3,
    "size_bytes": 3,
    "size": 3,
    "file_ids": ["f"],
    "targets": ["f"],
    "owned": [("ten_1", "f")],
    "sources": ["stored"],
    "queue": "purge",
    "offset": 3,
    "most_bytes": 3,
    "upload_ids": ["u"],
    "parts": [SimpleNamespace(start=0, size=1, object_key="k")],
    "failed": ["f"],
    "values": {},
    "engine": "another",
    "life": timedelta(1),
    "lease": timedelta(1),
    "claim": KeyClaim("ten_1", "00", "11", "rep_1", timedelta(1)),
    "pause": timedelta(1),
    "state": UploadState.OPEN,
    "kind": "bulk_delete",
    "grouping": "day",
    "order": "-size_bytes",
    "kept_for": timedelta(1),
    "again_after": timedelta(1),
    "purge_after": timedelta(1),
    "at": NOW,
    "sequence": 3,
    "failing_since": NOW,
    "rows": [
        {
            **dict.fromkeys(("state", "attempts", "attempted_at", "response_status", "response_headers"), None),
            **dict.fromkeys(("response_body", "error", "duration_ms", "delivery_id", "wait_seconds"), None),
        }
    ],
    "refused_since": NOW,
    "previous_expires_at": NOW,
    "only": ["x"],
    "context_keys": ["x"],
    "within": timedelta(1),
    "uploads_per_month": 500,
    "level": 80,
    "announced": 0,
    "after": 3,
    "between": (NOW, NOW),
    "endpoint": ENDPOINT,
    "sent": [StoredEvent("evt_1", "ten_1", "file.purged", NOW, {}, 1)],
    "wait": timedelta(1),
    "types": ["file.stored"],
    "event": FilePurged(file_id="f", context_key="c", original_filename="a", size_bytes=3),
    "told": [("ten_1", FilePurged(file_id="f", context_key="c", original_filename="a", size_bytes=3))],
    "browser_hash": b"x",
    "before": NOW,
    "used": {("ten_1", "key_1"): NOW},
    "of": "files",
    "secret_hash": b"x",
    "by": ACTION,
    "done": [(ACTION, "f")],
    "conditions": [],
    "rule": RetentionRule("ten_1", "ctx_1", "c", 1, 1, "last_downloaded", None, NOW, None, NOW),
    "hold": Hold("file", NOW, "u", "r"),
    "review": Review("release", "u", NOW),
    "states": ["stored"],
    "until": timedelta(1),
    "report_ids": ["r"],
    "group_ids": ["g"],
    "actions": ["context.changed"],
    "fields": {"status": ("active", "inactive")},
    "since": NOW,
    "number": 3,
    "token_ids": ["t"],
    "terms": ["x"],
    "listed": [{"file_id": "f", "sha256": "00", "size_bytes": 3, "outcome": "erased"}],
    "changed": {"evt_1": {}},
    "blanked": [
        {
            **dict.fromkeys(("id", "event_id", "job_id", "actor_id", "actor_name", "target", "reason"), "x"),
            **{name: {} for name in ("actor", "facts", "params")},
        }
    ],
    "entry": AuditEntry("e", "t", "a", "n", "v", "a", "t", "done", None, None, NOW),
    "uploader": Principal("ten_1", "key_1", "n", frozenset({Scope.UPLOAD}), via="api_key", key_id="key_1"),
}  # fmt: skip


# By a word of the annotation, where the name alone is not enough.
ANNOTATED: Final[Mapping[str, Any]] = {
    "SliceRequest": SliceRequest(20, before="x"),
    "FileFilter": FileFilter("c", "u", "s", "f", "t", NOW, NOW, 1, "quarantined", (("n", "v"),)),
    "Secret": Secret("ten_1", "ses_1", "x"),
}


def argument(parameter: inspect.Parameter, *, optional: bool) -> Any:
    """Return a value for a parameter; `optional`: None where that is allowed."""
    if optional and "None" in str(parameter.annotation):
        return None
    if parameter.annotation is bool:
        return optional
    for word, value in ANNOTATED.items():
        if word in str(parameter.annotation):
            return value
    if parameter.name in ARGUMENTS:
        return ARGUMENTS[parameter.name]
    return AnyColumns() if "str" not in str(parameter.annotation) else "x"


async def call(function: Callable[..., Any], connection: Recorder, *, optional: bool) -> None:
    given: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        is_connection = "Connection" in str(parameter.annotation)
        given[parameter.name] = connection if is_connection else argument(parameter, optional=optional)
    if function.__name__ == "add_pending" and "values" in given:
        given["values"] = {"file_id": "f", "tenant_id": "ten_1"}
    connection.left = 10
    try:
        await function(**given)
    except (AttributeError, TypeError, KeyError, ValueError, ArgumentError):
        return  # the function could not use the row; what it sent before is recorded


async def call_all(connection: Recorder, *, optional: bool) -> None:
    for function in senders():
        await call(function, connection, optional=optional)


def senders() -> Iterator[Callable[..., Any]]:
    """Yield every function with a connection among its parameters, of the modules that send SQL."""
    for name in modules_with_sql():
        if name in WITHOUT_TENANTS:
            continue
        module = importlib.import_module(f"sluice.{name}")
        for function in vars(module).values():
            if not inspect.iscoroutinefunction(function) or function.__module__ != module.__name__:
                continue
            if any("Connection" in str(one.annotation) for one in inspect.signature(function).parameters.values()):
                yield function


def calls_of_execute() -> set[tuple[str, int]]:
    """Return the line of each call of `execute` in these modules."""
    found = set()
    for name in modules_with_sql():
        if name in WITHOUT_TENANTS:
            continue
        tree = ast.parse((SOURCE / Path(*name.split("."))).with_suffix(".py").read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "execute":
                found.add((name, node.lineno))
    return found


@pytest.fixture(scope="module")
def sent() -> list[tuple[str, int, str, str]]:
    """Return module, line, function and text of every statement that was sent, on both databases."""
    recorded: list[tuple[str, int, str, str]] = []
    for dialect in (_POSTGRES, _SQLITE):
        for row, scalar in ((None, 0), (AnyColumns(), 5), (AnyColumns(), "x")):
            for optional in (False, True):
                connection = Recorder(dialect, row, scalar)
                asyncio.run(call_all(connection, optional=optional))
                recorded += [
                    (module, line, function, str(statement.compile(dialect=dialect)))  # type: ignore[attr-defined]
                    for module, line, function, statement in connection.sent
                ]
    return recorded


def test_every_call_of_execute_was_reached(sent: list[tuple[str, int, str, str]]) -> None:
    assert calls_of_execute() - {(module, line) for module, line, _function, _sql in sent} == set()


@pytest.mark.asvs("8.2.2")
def test_every_built_statement_names_the_tenant(sent: list[tuple[str, int, str, str]]) -> None:
    wrong = {
        (f"{module}.{function}", table, sql)
        for module, _line, function, sql in sent
        for table in unscoped(sql)
        if not is_exempt(f"{module}.{function}")
    }
    assert wrong == set()


@pytest.mark.asvs("8.2.2")
def test_no_listed_statement_changes_a_row_and_each_is_needed(sent: list[tuple[str, int, str, str]]) -> None:
    exempt = {f"{module}.{function}": sql for module, _line, function, sql in sent if any(unscoped(sql))} | {
        name: sql for name, sql in text_statements() if any(unscoped(sql))
    }
    assert exempt.keys() == READS_ALL_TENANTS.keys() | CHANGES_ALL_TENANTS.keys()
    changed = {
        f"{module}.{function}"
        for module, _line, function, sql in sent
        if any(unscoped(sql)) and re.match(r"\s*(UPDATE|DELETE|INSERT|WITH)\b", sql)
    }
    assert changed == CHANGES_ALL_TENANTS.keys()
