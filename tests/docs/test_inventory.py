"""The lists of `docs/security/inventory.md` are those of the code: keys, algorithms, connections, columns, log lines, bounds, ways in."""

import ast
import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from sluice.access import ROUTE_SCOPES, SIGNED_ROUTES, Via
from sluice.api.app import make_app
from sluice.db.schema import metadata
from sluice.settings import Settings
from sluice.wiring.secrets import KEYRING, LINK_SECRET, SIGNING_KEY
from tests.docs.pages import DOCS, ROOT

PAGE = (DOCS / "security" / "inventory.md").read_text(encoding="utf-8")
DOCUMENT: dict[str, Any] = make_app().openapi()
SOURCE = ROOT / "src" / "sluice"
TREES = {str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}

CRYPTOGRAPHY = {"cryptography", "hashlib", "hmac", "secrets", "ssl", "jwt", "botocore.auth"}
NETWORK = {
    "aiohttp",
    "asyncpg",
    "botocore.auth",
    "httpx",
    "obstore",
    "opentelemetry.exporter",
    "redis",
    "requests",
    "smtplib",
    "socket",
    "uvicorn",
}
HASHES_OF_FORMATS = ("formats/", "threats/")
SAID = {f"log.{level}" for level in ("debug", "info", "warning", "error", "exception", "critical")}
LEVELS = {"secret", "personal", "tenant", "internal"}


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def rows(title: str) -> list[list[str]]:
    """Answer the cells of a section's tables, without their heads."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    heads = {number for number, line in enumerate(lines) if re.fullmatch(r"[| -]+", line)}
    kept = [line for number, line in enumerate(lines) if number not in heads and number + 1 not in heads]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in kept]


def coded(text: str) -> set[str]:
    """Answer what stands between backticks."""
    return set(re.findall(r"`([^`]+)`", text))


def modules_that_import(names: set[str]) -> set[str]:
    return {path for path, tree in TREES.items() if any(_is_of(module, names) for module in _imports(tree))}


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _is_of(module: str, names: set[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)


def variables(*, ending: str) -> set[str]:
    return {f"SLUICE_{name.upper()}" for name in Settings.model_fields if re.search(ending, name)}


@pytest.mark.asvs("6.1.3")
def test_every_way_in_is_told_with_its_strength_and_its_end() -> None:
    told = rows("Ways in")
    assert all(all(row) and len(row) == 5 for row in told)
    known = {name for row in told for name in coded(row[1])}
    assert known == {*get_args(Via), "signature", "SLUICE_METRICS_TOKEN"}
    assert all(path in section("Ways in") for _, path in SIGNED_ROUTES)


@pytest.mark.asvs("6.1.3")
def test_what_is_open_to_everybody_is_told() -> None:
    guarded = {path for _, path in {*ROUTE_SCOPES, *SIGNED_ROUTES}}
    told = coded(section("Ways in").partition("Open to everybody")[2])
    assert {path for path in DOCUMENT["paths"] if path not in guarded} <= told
    assert told <= {"/health/live", "/health/ready", "/docs", "/docs/start.js", "/docs/{name}", "/openapi.json"}


@pytest.mark.asvs("11.1.1")
def test_every_key_is_told_with_who_holds_it_what_for_and_how_it_is_replaced() -> None:
    told = rows("Keys")
    assert all(all(row) and len(row) == 6 for row in told)
    kept = {name for row in told for name in coded(row[1])}
    secrets = {f"SLUICE_{name.upper()}" for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)}
    assert kept - {"deploy/"} == secrets | {KEYRING, LINK_SECRET, SIGNING_KEY}


@pytest.mark.asvs("11.1.2")
def test_every_place_of_cryptography_is_told_with_its_algorithm() -> None:
    told = rows("Algorithms")
    listed = {name for row in told for name in coded(row[2])}
    used = {path for path in modules_that_import(CRYPTOGRAPHY) if not path.startswith(HASHES_OF_FORMATS)}
    assert listed == used
    assert all(row[0] and row[3] for row in told)


@pytest.mark.asvs("11.2.3")
def test_no_algorithm_of_ours_has_fewer_than_128_bits() -> None:
    for name, bits, *_ in rows("Algorithms"):
        least = int(bits.split()[0]) if bits else 128
        assert least >= 128 or name.startswith("RSA"), name
    assert "`SLUICE_OIDC_RSA_BITS=3072`" in section("Algorithms")


@pytest.mark.asvs("13.1.1")
def test_every_connection_is_told_with_what_sets_it_and_how_the_other_side_is_known() -> None:
    told = rows("Connections")
    assert all(row[0] and row[2] and row[3] and row[4] for row in told)
    listed = {name for row in told for name in coded(row[4])}
    assert listed == modules_that_import(NETWORK)
    named = coded(section("Connections"))
    assert variables(ending=r"_url$|_issuer$|endpoint|^clamd$|^host$|_bucket$|_port$|proxies$") <= named


@pytest.mark.asvs("13.1.1")
def test_where_a_tenant_may_name_the_other_side_is_told() -> None:
    (row,) = [row for row in rows("Connections") if "the tenant names it" in row[0]]
    assert {"endpoint_url", "SLUICE_BUCKET_ENDPOINT_HOSTS"} <= coded(row[1])
    bodies = DOCUMENT["components"]["schemas"]
    addresses = {
        field for schema in bodies.values() for field in schema.get("properties", {}) if re.search(r"url|uri|host|webhook", field)
    }
    assert addresses == {"endpoint_url", "download_url"}


@pytest.mark.asvs("14.1.1")
def test_every_column_has_a_level_of_protection() -> None:
    told: dict[str, list[str]] = {}
    for row in rows("Data"):
        if len(row) == 3:
            assert row[1] in LEVELS
            told.setdefault(row[0].strip("`"), []).extend(sorted(coded(row[2])))
    assert {name: sorted(columns) for name, columns in told.items()} == {
        table.name: sorted(column.name for column in table.columns) for table in metadata.sorted_tables
    }


@pytest.mark.asvs("14.1.2")
def test_every_level_of_protection_says_what_it_asks_for() -> None:
    told = {row[0].partition("**")[2].partition("**")[0]: row for row in rows("Data") if len(row) == 6}
    assert told.keys() == LEVELS
    assert all(all(row) for row in told.values())
    kept = variables(ending=r"(purge_after|decision|audit)_days$")
    assert len(kept) == 3
    assert kept <= coded(section("Data"))


@pytest.mark.asvs("16.1.1")
def test_every_line_of_the_log_is_told() -> None:
    told = {name for row in rows("Log lines") for name in coded(row[1]) if not name.startswith("SLUICE_")}
    assert told == set(_events())


def _events() -> Iterator[str]:
    for tree in TREES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in SAID:
                said = ast.walk(node.args[0])  # a constant, or one of two
                yield from (one.value for one in said if isinstance(one, ast.Constant) and isinstance(one.value, str))


@pytest.mark.asvs("15.1.3")
def test_what_bounds_costly_work_is_told_with_what_the_caller_sees() -> None:
    told = rows("What is costly")
    assert all(all(row) for row in told)
    bounds = variables(
        ending=r"_seconds$|_workers$|per_tenant$|connections$|concurrency$|pool_size$|per_second$|per_worker$|_mb$|_kb$"
    )
    assert bounds - {"SLUICE_VERDICT_CACHE_PER_TENANT"} <= coded(section("What is costly"))
    assert len(bounds) > 25


@pytest.mark.asvs("15.1.3")
@pytest.mark.parametrize(("proxy", "words"), [("haproxy.cfg", "timeout server 900s"), ("nginx.conf", "proxy_read_timeout 900s;")])
def test_a_proxy_waits_as_long_as_the_longest_answer_may_take(proxy: str, words: str) -> None:
    assert words in (ROOT / "deploy" / proxy).read_text(encoding="utf-8")
    given = Settings(_env_file=None)
    waits = (
        given.upload_wait_seconds,
        given.sandbox_wait_seconds,
        max(given.sandbox_wall_seconds, given.clamd_scan_seconds),
        given.database_wait_seconds + given.database_statement_seconds,
    )
    assert sum(waits) < 900


@pytest.mark.asvs("2.1.2")
def test_fields_that_must_agree_are_told() -> None:
    told = [coded(row[0]) for row in rows("Fields that must agree")]
    held_together = [
        {field for field in _fields() if f"'{field}'" in ast.unparse(check.body[0])}
        for path, tree in TREES.items()
        if path.startswith("api/schemas/")
        for check in ast.walk(tree)
        if isinstance(check, ast.FunctionDef) and any("model_validator" in ast.unparse(mark) for mark in check.decorator_list)
    ]
    assert held_together
    assert all(fields in told for fields in held_together), held_together
    rate = DOCUMENT["components"]["schemas"]["UploadRateLimit"]
    assert {f"upload_rate_limit.{field}" for field in rate["required"]} in told


def _fields() -> set[str]:
    return {field for schema in DOCUMENT["components"]["schemas"].values() for field in schema.get("properties", {})}
