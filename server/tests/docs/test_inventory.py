"""The lists of `docs/security/inventory.md` match the code: keys, algorithms, connections, columns and more."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import get_args

import pytest

from sluice.access import PUBLIC_ROUTES, ROUTE_SCOPES, SIGNED_ROUTES, TOKEN_ROUTES, Via
from sluice.db.schema import metadata
from sluice.receipts.service import PUBLIC_KEYS
from sluice.settings import Settings
from sluice.wiring.start import SECRET_FILES
from tests.docs.pages import DOCS, ROOT, openapi
from tests.repository import SOURCES
from tests.rows import each_row

PAGE = (DOCS / "security" / "inventory.md").read_text(encoding="utf-8")

CRYPTOGRAPHY = {"cryptography", "hashlib", "hmac", "secrets", "ssl", "jwt", "botocore.auth"}
NETWORK = {
    *("aiohttp", "asyncpg", "botocore.auth", "http.client", "httptools", "httpx", "obstore", "opentelemetry.exporter"),
    *("redis", "requests", "smtplib", "socket", "uvicorn"),
}
FORMATS = "sluice_inspect/formats/"
"""Formats compute the hashes that their specifications demand; these protect nothing."""
LOG_CALLS = {f"log.{level}" for level in ("debug", "info", "warning", "error", "exception", "critical")}
LEVELS = {"secret", "personal", "tenant", "internal"}


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def rows(title: str) -> list[list[str]]:
    """Return the cells of a section's tables, without their header rows."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    headers = {number for number, line in enumerate(lines) if re.fullmatch(r"[| -]+", line)}
    body = [line for number, line in enumerate(lines) if number not in headers and number + 1 not in headers]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in body]


def coded(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def modules_that_import(names: set[str]) -> set[str]:
    """Return the files that import one of these modules, by their paths below `src`."""
    found = trees("|".join(re.escape(name.partition(".")[0]) for name in sorted(names)))
    return {path for path, tree in found if any(_is_within(module, names) for module in _imports(tree))}


@cache
def texts() -> Mapping[str, str]:
    return {
        str(path.relative_to(source)): path.read_text(encoding="utf-8")
        for source in (*SOURCES, ROOT / "clients" / "python" / "src")
        for path in sorted(source.rglob("*.py"))
    }


def trees(words: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the path and the syntax tree of each module with one of these words: to parse all takes seconds."""
    pattern = re.compile(rf"\b(?:{words})\b")
    yield from ((path, ast.parse(text)) for path, text in texts().items() if pattern.search(text))


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _is_within(module: str, names: set[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)


def variables(*, ending: str) -> set[str]:
    """Return the environment variables of the settings whose names match the expression `ending`."""
    return {f"SLUICE_{name.upper()}" for name in Settings.model_fields if re.search(ending, name)}


@pytest.mark.asvs("6.1.3")
def test_page_lists_every_way_in() -> None:
    ways = rows("Ways in")
    assert all(all(row) and len(row) == 5 for row in ways)
    known = {name for row in ways for name in coded(row[1])}
    assert known == {*get_args(Via), "signature", "SLUICE_METRICS_TOKEN"}
    assert all(path in section("Ways in") for _, path in SIGNED_ROUTES | TOKEN_ROUTES)


@pytest.mark.asvs("6.1.3")
def test_page_lists_every_public_route() -> None:
    guarded = {path for _, path in {*ROUTE_SCOPES, *SIGNED_ROUTES}}
    listed = coded(section("Ways in").partition("Open to everybody")[2])
    assert {path for path in openapi()["paths"] if path not in guarded} <= listed
    known = {"/health/live", "/health/ready", "/docs", "/docs/start.js", "/docs/{name}", "/openapi.json"}
    known |= {"/static/words.json", "/static/{name}", PUBLIC_KEYS}
    assert listed <= known | {path for _, path in PUBLIC_ROUTES}


@pytest.mark.asvs("11.1.1")
def test_page_lists_every_secret_with_holder_purpose_and_replacement() -> None:
    keys = rows("Keys")
    assert all(all(row) and len(row) == 6 for row in keys)
    places = {name for row in keys for name in coded(row[1])}
    settings = Settings.model_fields.items()
    secrets = {f"SLUICE_{name.upper()}" for name, field in settings if "SecretStr" in str(field.annotation)}
    assert places - {"deploy/"} == secrets | set(SECRET_FILES)


@pytest.mark.asvs("11.1.2")
def test_page_lists_every_module_that_uses_cryptography() -> None:
    algorithms = rows("Algorithms")
    listed = {name for row in algorithms for name in coded(row[2])}
    used = {path for path in modules_that_import(CRYPTOGRAPHY) if not path.startswith(FORMATS)}
    assert listed == used
    assert all(row[0] and row[3] for row in algorithms)


@pytest.mark.asvs("11.2.3")
def test_algorithms_have_at_least_128_bits_of_security() -> None:
    for name, bits, *_ in rows("Algorithms"):
        least = int(bits.split()[0]) if bits else 128
        assert least >= 128 or name.startswith("RSA"), name
    assert "`SLUICE_OIDC_RSA_BITS=3072`" in section("Algorithms")


@pytest.mark.asvs("13.1.1")
def test_page_lists_every_connection_with_its_settings_and_authentication() -> None:
    connections = rows("Connections")
    assert all(row[0] and row[2] and row[3] and row[4] for row in connections)
    listed = {name for row in connections for name in coded(row[4])}
    assert listed == modules_that_import(NETWORK) | {path for path, _tree in trees("open_connection")}
    settings = coded(section("Connections"))
    assert variables(ending=r"_url$|_issuer$|endpoint|^clamd$|^icap$|^host$|_bucket$|_port$|proxies$") <= settings


@pytest.mark.asvs("13.1.1")
def test_page_names_the_only_addresses_that_a_tenant_can_set() -> None:
    bucket, receiver = [coded(row[1]) for row in rows("Connections") if "the tenant names it" in row[0]]
    assert {"endpoint_url", "SLUICE_BUCKET_ENDPOINT_HOSTS"} <= bucket
    assert {"url", "SLUICE_WEBHOOK_HOSTS"} <= receiver
    bodies = openapi()["components"]["schemas"]
    made_by_us = {"form_url", "upload_url", "tus_url", "download_url", "preview_url", "doc_url"}
    addresses = {field for field in _fields() if re.search(r"url|uri|host|webhook", field)}
    assert addresses - made_by_us == {"endpoint_url", "url"}
    sent = [schema for name, schema in bodies.items() if name.startswith(("Create", "Update", "Add"))]
    assert all(made_by_us.isdisjoint(schema.get("properties", {})) for schema in sent)


@pytest.mark.asvs("14.1.1")
def test_every_column_has_a_protection_level() -> None:
    listed: dict[str, list[str]] = {}
    for row in rows("Data"):
        if len(row) == 3:
            assert row[1] in LEVELS
            listed.setdefault(row[0].strip("`"), []).extend(sorted(coded(row[2])))
    known = {table.name: sorted(column.name for column in table.columns) for table in metadata.sorted_tables}
    assert {name: sorted(columns) for name, columns in listed.items()} == known


@pytest.mark.asvs("14.1.2")
def test_every_protection_level_is_described() -> None:
    levels = {row[0].partition("**")[2].partition("**")[0]: row for row in rows("Data") if len(row) == 6}
    assert levels.keys() == LEVELS
    assert all(all(row) for row in levels.values())
    retention = variables(ending=r"(purge_after|decision|audit)_days$")
    assert len(retention) == 3
    assert retention <= coded(section("Data"))


@pytest.mark.asvs("16.1.1")
def test_page_lists_every_log_event() -> None:
    listed = {name for row in rows("Log lines") for name in coded(row[1]) if not name.startswith("SLUICE_")}
    assert listed == set(_events())


def _events() -> Iterator[str]:
    for _path, tree in trees("log"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in LOG_CALLS:
                inner = ast.walk(node.args[0])  # a constant, or a choice between two
                constants = (each.value for each in inner if isinstance(each, ast.Constant))
                yield from (value for value in constants if isinstance(value, str))


@pytest.mark.asvs("15.1.3")
def test_page_lists_every_limit_of_costly_work() -> None:
    assert all(all(row) for row in rows("What is costly"))
    endings = r"_seconds$|_workers$|per_tenant$|connections$|concurrency$|pool_size$|per_second$|per_worker$|_mb$|_kb$"
    limits = variables(ending=endings)
    assert limits - {"SLUICE_VERDICT_CACHE_PER_TENANT"} <= coded(section("What is costly"))
    assert len(limits) > 25


@pytest.mark.asvs("15.1.3")
@each_row("proxy, directive", [("haproxy.cfg", "timeout server 900s"), ("nginx.conf", "proxy_read_timeout 900s;")])
def test_proxy_timeout_exceeds_the_longest_response(proxy: str, directive: str) -> None:
    assert directive in (ROOT / "deploy" / proxy).read_text(encoding="utf-8")
    defaults = Settings(_env_file=None)
    waits = (
        defaults.upload_wait_seconds,
        defaults.sandbox_wait_seconds,
        max(defaults.sandbox_wall_seconds, defaults.clamd_scan_seconds),
        defaults.database_wait_seconds + defaults.database_statement_seconds,
    )
    assert sum(waits) < 900


@pytest.mark.asvs("2.1.2")
def test_page_lists_fields_that_must_agree() -> None:
    listed = [coded(row[0]) for row in rows("Fields that must agree")]
    checked_together = [
        {field for field in _fields() if f"'{field}'" in ast.unparse(check.body[0])}
        for path, tree in trees("model_validator")
        if path.startswith(("sluice/api/schemas/", "sluice/api/routes/"))
        for check in ast.walk(tree)
        if isinstance(check, ast.FunctionDef)
        and any("model_validator" in ast.unparse(decorator) for decorator in check.decorator_list)
    ]
    assert checked_together
    assert all(fields in listed for fields in checked_together), checked_together
    rate = openapi()["components"]["schemas"]["UploadRateLimit"]
    assert {f"upload_rate_limit.{field}" for field in rate["required"]} in listed


def _fields() -> set[str]:
    return {field for schema in openapi()["components"]["schemas"].values() for field in schema.get("properties", {})}
