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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError
from sqlalchemy.sql import Executable

import sluice
from sluice.access import Principal, Scope
from sluice.audit.entry import AuditEntry, AuditFilter
from sluice.buckets import Bucket
from sluice.db.schema import metadata
from sluice.db.statement import Statement
from sluice.decisions import DecisionFilter
from sluice.events.catalogue import FilePurged
from sluice.events.record import StoredEvent
from sluice.examples import Example
from sluice.files import FileFilter
from sluice.files.record import Hold, RetentionRule, Review
from sluice.files.repository import Ending
from sluice.hash_lists import EntryFilter, HashEntry
from sluice.idempotency_keys import KeyClaim
from sluice.kit.paging import PageRequest, SliceRequest
from sluice.resumable.resumable_upload import UploadState
from sluice.sessions.session import Secret
from sluice.sessions.user import Role, User
from sluice.storage import S3Settings
from sluice.users import Passkey
from sluice.webhooks.endpoint import Endpoint
from sluice_inspect.document_kinds import Features
from tests.rows import each_row
from tests.uploads.test_snapshot import CONTEXT

SOURCE: Final = Path(sluice.__file__).parent
TENANT_TABLES: Final = frozenset(name for name, table in metadata.tables.items() if "tenant_id" in table.c)
# Modules with SQL on no rows of tenants, or that only change the schema.
WITHOUT_TENANTS: Final = {
    "limiter.database": "takes of rate limits are rows of a context's id, which is not secret",
    "db.database": "opens transactions, sets the scope, and asks for versions",
    "db.sqlite": "pragmas; and `sluice backup` copies the files of all tenants",
    "db.postgres": "settings of a connection",
    "db.migrate": "locks, roles and rights",
    "db.triggers": "creates triggers, functions and policies",
    "db.rls": "sets the scope",
}
# Statements that read rows of all tenants, by reason: functions and constants. None of them changes a row.
_READS: Final = {
    "only what is found says whose it is": (
        "api_keys.repository._PRESENTED upload_tokens.repository._PRESENTED users.repository.find_passkey"
    ),
    "the worker looks for old rows of all tenants": (
        "audit.repository.forget decisions.repository.delete_expired decisions.repository.delete_old_marks"
        " idempotency_keys.repository.delete_expired jobs.repository.delete_old sessions.repository.delete_expired"
        " hash_lists.repository.delete_expired"
        " upload_tokens.repository.delete_expired events.repository.delete_old webhooks.repository.delete_old_deliveries"
    ),
    "the worker looks for due rows of all tenants": (
        "files.repository.due.expired_leases files.repository.due.expired_test_files"
        " files.repository.due.lock_due_purges files.repository.due.claim_retention"
        " files.repository.quarantine.find_asked_rescans files.repository.quarantine.find_stale_verdicts"
        " jobs.repository.find_due jobs.repository.list_exports_to_sweep resumable.repository.list_due"
        " events.repository.next_unnumbered_tenant worker.repository.find_expiring_keys"
        " worker.repository.claim_outages worker.repository.find_due webhooks.repository.find_endpoints_with_work"
    ),
    "the worker looks for parts whose upload has no row": "resumable.repository.list_known",
    "the worker measures its queues": "files.repository.due.load_waiting_times resumable.repository.count_waiting",
    "the worker compares limits of all tenants": (
        "worker.repository.find_changed_quotas worker.repository.find_changed_plans"
    ),
    "for the worker and the operator": "buckets.repository.list_of_all_tenants",
    "an operator may ask for all tenants": (
        "contexts.repository.largest_scanned files.repository.quarantine.list_quarantined tenants.repository.list_all"
    ),
    "the operator seals the secrets of all tenants again": (
        "webhooks.repository.list_of_all_tenants contexts.repository.list_with_checks"
    ),
    "the audit compares rows of all tenants": "files.repository.reading.list_stored",
    "an invariant over all tenants": (
        "buckets.repository.find_tenants_without_default files.repository.due.find_overdue"
        " files.repository.reading.find_wrong_quotas"
    ),
    "a signed link names a file or a job alone": "files.repository.reading.find_any_tenant jobs.repository.find_export",
    "an operator names a file alone": "files.repository.reading.find_tenant",
    "an object in the platform's store names a file alone": "files.repository.reading.object_keys",
    "a preflight names an origin and no tenant": "cors.repository.is_listed_anywhere",
    "whether there is any tenant": "tenants.repository.count",
}
READS_ALL_TENANTS: Final = {name for names in _READS.values() for name in names.split()}
# The statements that change rows of several tenants without naming each: they move deltas of all tenants, each into
# the sum of the tenant that it names.
CHANGES_ALL_TENANTS: Final = {"db.deltas.take"}
_VERBS: Final = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
_TABLES: Final = re.compile(r"\b(?:FROM|JOIN|UPDATE|INTO|,)\s+(?:ONLY\s+)?([a-z_]+)\b", re.IGNORECASE)
_TENANT: Final = re.compile(r"(?:\b([a-z_]+)\.)?\btenant_id\b", re.IGNORECASE)
_COMPARED: Final = re.compile(
    r"(?:\b([a-z_]+)\.)?\btenant_id (?:= (?:([a-z_]+)\.tenant_id\b|\S)|IN\s+⟨(?!\s*a_query))", re.IGNORECASE
)
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


@cache
def unscoped(sql: str) -> tuple[str, ...]:
    """Return each tenant's table of a statement whose rows are not narrowed to a tenant where it is used."""
    return tuple(_unscoped(sql))


def _unscoped(sql: str) -> Iterator[str]:
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
        is_compared = any(found[2] is None or found[2] not in tables for found in _COMPARED.finditer(chosen))
        is_anchored = is_compared or re.search(r"\btenant_id\b[^⟨⟩]*⟩\s+IN\b", chosen)
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
        ("SELECT * FROM files WHERE tenant_id IN (1, 2)", []),
        ("SELECT * FROM files WHERE tenant_id IN (SELECT tenant_id FROM tenants)", ["tenants", "files"]),
        ("SELECT * FROM rate_takes", []),
    ],
)  # fmt: skip
def test_statement_without_its_tenant_is_noticed(sql: str, tables: list[str]) -> None:
    assert list(unscoped(sql)) == tables


# --- Statements written as text


@cache
def modules_with_sql() -> list[str]:
    """Return the modules that send SQL, by their names below `sluice`."""
    paths = {".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in sorted(SOURCE.rglob("*.py"))}
    sends = re.compile(r"\bexecute\(|\bStatement\(|\bexec_driver_sql\(")
    return [name for name, path in paths.items() if "migrations" not in name and sends.search(path.read_text())]


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
    names = (
        "_ADD _DUPLICATE _LISTED _SNAPSHOT _RESERVE _RESERVE_WITH_KEY _RECORD _PRESENTED _LOG _REJECT _REPEATED _GROW"
    )
    assert {name.rpartition(".")[2] for name, _sql in found} == set(names.split())
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
        self._rows: list[Any] = [] if row is None else [row]
        self.rowcount = len(self._rows)

    def mappings(self) -> "Rows":
        return self

    def scalars(self) -> "Rows":
        return self

    def all(self) -> list[Any]:
        return self._rows

    def one(self) -> Any:
        return self._row

    one_or_none = one

    def scalar_one(self) -> Any:
        return self._scalar

    def scalar_one_or_none(self) -> Any:
        return None if self._row is None else self._scalar


_COLUMNS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("change", "rows", "number", "bytes", "length"), -1),
    **dict.fromkeys(("metadata", "scopes", "allowed_extensions"), ()),
    "upload_rate_limit": None,
    "last_probe": None,
    "expires_at": NOW,
    "scanned_at": NOW,
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


_NOT_SET: Final = ("description", "disabled_reason", "old_secret_sealed", "old_secret_until", "updated_at")
_ENDPOINT: Final[dict[str, Any]] = (
    dict.fromkeys((*_NOT_SET, "failing_since"))
    | dict.fromkeys(("url", "status", "secret_sealed"), "x")
    | {"endpoint_id": "whk_1", "tenant_id": "ten_1", "event_types": ("*",), "context_keys": ()}
    | {"created_at": NOW, "sequence": 0}
)
ENDPOINT: Final = Endpoint(**_ENDPOINT)
_PURGED: Final = FilePurged(file_id="f", context_key="c", original_filename="a", size_bytes=3)
_ENTRY: Final = AuditEntry("e", "t", "a", "n", "v", "a", "t", "done", None, None, NOW)
ACTION: Final = SimpleNamespace(entry=lambda _target, _at, **_more: _ENTRY)
_DELIVERY: Final = ("state", "attempts", "attempted_at", "response_status", "response_headers", "response_body")
_ERASED: Final = ("id", "event_id", "job_id", "actor_id", "actor_name", "target", "reason")
_TIMES: Final = ("at", "before", "since", "failing_since", "refused_since", "previous_expires_at")
_SPANS: Final = ("life", "lease", "pause", "kept_for", "again_after", "purge_after", "within", "wait", "until")
_SIZES: Final = (
    "limit",
    "most",
    "size_mb",
    "size_bytes",
    "size",
    "offset",
    "most_bytes",
    "sequence",
    "after",
    "number",
)
# By the name of the parameter.
_PLAIN: Final[dict[str, Any]] = (
    dict.fromkeys(_TIMES, NOW)
    | dict.fromkeys(_SPANS, timedelta(1))
    | dict.fromkeys(_SIZES, 3)
    | dict.fromkeys(("file_ids", "targets", "failed"), ("f",))
    | dict.fromkeys(("sources", "states"), ("stored",))
    | dict.fromkeys(("only", "context_keys", "terms"), ("x",))
    | dict.fromkeys(("browser_hash", "secret_hash", "invitation_hash", "challenge_hash", "credential_id"), b"x")
    | {"upload_ids": ["u"], "report_ids": ["r"], "group_ids": ["g"], "token_ids": ["t"], "conditions": [], "values": {}}
    | {"total": 5, "uploads_per_month": 500, "level": 80, "announced": 0, "sign_count": 1, "expires_at": NOW}
    | {"queue": "purge", "engine": "another", "kind": "bulk_delete", "grouping": "day", "of": "files", "held": "file"}
    | {"pairs": [("n", "v"), ("m", "w")], "digest": bytes(32), "digests": [bytes(32)]}
    | {"order": "-size_bytes", "types": ["file.stored"], "actions": ["context.changed"]}
)
ARGUMENTS: Final[dict[str, Any]] = _PLAIN | {
    "request": PageRequest(1, 20),
    "wanted": DecisionFilter("c", "rejected", "r", "a", "f", NOW, NOW, among_newest=3),
    "context": CONTEXT,
    "owned": [("ten_1", "f")],
    "parts": [SimpleNamespace(start=0, size=1, object_key="k")],
    "claim": KeyClaim("ten_1", "00", "11", "rep_1", timedelta(1)),
    "state": UploadState.OPEN,
    "rows": [dict.fromkeys((*_DELIVERY, "error", "duration_ms", "delivery_id", "wait_seconds"))],
    "between": (NOW, NOW),
    "endpoint": ENDPOINT,
    "sent": [StoredEvent("evt_1", "ten_1", "file.purged", NOW, {}, 1)],
    "event": _PURGED,
    "happened": [("ten_1", _PURGED)],
    "used": {("ten_1", "key_1"): NOW},
    "by": ACTION,
    "ending": Ending(frozenset({"stored"}), "deleted", retention_starts="last_downloaded"),
    "rule": RetentionRule("ten_1", "ctx_1", "c", 1, 1, "last_downloaded", None, NOW, None, NOW),
    "hold": Hold("file", NOW, "u", "r"),
    "review": Review("release", "u", NOW),
    "is_current": lambda version: version == "y",
    "fields": {"status": ("active", "inactive")},
    "listed": [{"file_id": "f", "sha256": "00", "size_bytes": 3, "outcome": "erased"}],
    "changed": {"evt_1": {}},
    "blanked": [{**dict.fromkeys(_ERASED, "x"), **{name: {} for name in ("actor", "facts", "params")}}],
    "entry": _ENTRY,
    "example": Example("exm_1", "f", "00", 3, "text/plain", NOW, Features({}, ())),
    "entries": [HashEntry("ten_1", bytes(32), "deny", None, "a", "n", NOW, None)],
    "sums": Counter({("deny", 32): 1}),
    "passkey": Passkey(b"x", "ten_1", "usr_1", b"x", 0, NOW),
    "user": User("usr_1", "ten_1", "n", Role.VIEWER, "active", NOW),
    "uploader": Principal("ten_1", "key_1", "n", frozenset({Scope.UPLOAD}), via="api_key", key_id="key_1"),
}


# By a word of the annotation, where the name alone is not enough.
ANNOTATED: Final[Mapping[str, Any]] = {
    "SliceRequest": SliceRequest(20, before=f"{NOW.isoformat()}~x"),
    "AuditFilter": AuditFilter("a", "x", NOW, NOW, "done", "r", "t"),
    "EntryFilter": EntryFilter("deny", "sha256", None, "a"),
    "FileFilter": FileFilter("c", "u", "s", "f", "t", NOW, NOW, 1, "quarantined", (("n", "v"),), reason="r"),
    "Secret": Secret("ten_1", "ses_1", "x"),
    "Bucket": Bucket("x", "ten_1", "x", S3Settings("x", "x"), "x", "x", "x", True, NOW, None),
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


def modules_of_tenants() -> list[str]:
    return [name for name in modules_with_sql() if name not in WITHOUT_TENANTS]


@cache
def senders() -> list[tuple[Callable[..., Any], list[inspect.Parameter]]]:
    """Return every function with a connection among its parameters, of the modules that send SQL."""
    found = []
    for module in (importlib.import_module(f"sluice.{name}") for name in modules_of_tenants()):
        for function in vars(module).values():
            if not inspect.iscoroutinefunction(function) or function.__module__ != module.__name__:
                continue
            parameters = list(inspect.signature(function).parameters.values())
            if any("Connection" in str(one.annotation) for one in parameters):
                found.append((function, parameters))
    return found


async def call_all(connection: Recorder, *, optional: bool) -> None:
    for function, parameters in senders():
        given: dict[str, Any] = {}
        for parameter in parameters:
            is_connection = "Connection" in str(parameter.annotation)
            given[parameter.name] = connection if is_connection else argument(parameter, optional=optional)
        if function.__name__ == "add_pending" and "values" in given:
            given["values"] = {"file_id": "f", "tenant_id": "ten_1"}
        connection.left = 10
        # Where a function cannot use the row, what it sent before is recorded.
        with suppress(AttributeError, TypeError, KeyError, ValueError, ArgumentError):
            await function(**given)


def calls_of_execute() -> set[tuple[str, int]]:
    """Return the line of each call of `execute` in these modules."""
    found = set()
    for name in modules_of_tenants():
        tree = ast.parse((SOURCE / Path(*name.split("."))).with_suffix(".py").read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "execute":
                found.add((name, node.lineno))
    return found


Sent = set[tuple[str, int, str, str]]


@pytest.fixture(scope="module")
def sent() -> Sent:
    """Return module, line, function and text of every statement that was sent, on both databases."""
    recorded: Sent = set()
    texts: dict[object, str] = {}
    rows = ((None, 0), (AnyColumns(), 5), (AnyColumns(), "x"))
    for dialect, (row, scalar), optional in product((_POSTGRES, _SQLITE), rows, (False, True)):
        connection = Recorder(dialect, row, scalar)
        asyncio.run(call_all(connection, optional=optional))
        for module, line, function, statement in connection.sent:
            known = statement._generate_cache_key()  # type: ignore[attr-defined]
            key = (dialect.name, statement if known is None else known.key)
            if key not in texts:
                texts[key] = str(statement.compile(dialect=dialect))  # type: ignore[attr-defined]
            recorded.add((module, line, function, texts[key]))
    return recorded


def test_every_call_of_execute_was_reached(sent: Sent) -> None:
    assert calls_of_execute() - {(module, line) for module, line, _function, _sql in sent} == set()


@pytest.mark.asvs("8.2.2")
def test_every_built_statement_names_the_tenant(sent: Sent) -> None:
    wrong = {
        (f"{module}.{function}", table, sql)
        for module, _line, function, sql in sent
        for table in unscoped(sql)
        if not is_exempt(f"{module}.{function}")
    }
    assert wrong == set()


@pytest.mark.asvs("8.2.2")
def test_no_listed_statement_changes_a_row_and_each_is_needed(sent: Sent) -> None:
    exempt = {f"{module}.{function}": sql for module, _line, function, sql in sent if any(unscoped(sql))} | {
        name: sql for name, sql in text_statements() if any(unscoped(sql))
    }
    assert exempt.keys() == READS_ALL_TENANTS | CHANGES_ALL_TENANTS
    changed = {
        f"{module}.{function}"
        for module, _line, function, sql in sent
        if any(unscoped(sql)) and re.match(r"\s*(UPDATE|DELETE|INSERT|WITH)\b", sql)
    }
    assert changed == CHANGES_ALL_TENANTS
