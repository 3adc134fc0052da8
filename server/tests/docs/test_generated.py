"""The generated pages: they document every setting, reason, error, route and command, and none of them is stale."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import typer

from sluice.access import PUBLIC_ROUTES, ROUTE_SCOPES, SIGNED_ROUTES, TOKEN_ROUTES
from sluice.errors import SluiceError, catalogue
from sluice.messages import LOCALES, render
from sluice.settings import Settings
from sluice.uploads.reasons import WORDS, Reason
from sluice_client.cli.app import app as command_line
from sluice_inspect.catalogue import FACTS, FLAGS
from sluice_inspect.registry import FORMATS
from tests.docs.pages import DOCS, anchors, blocks, openapi
from tests.rows import each_row
from tests.scripts import run_in_process

GENERATED = (
    *("reasons.md", "messages.md", "errors.md", "facts.md", "events.md", "settings.md", "cli.md", "metrics.md"),
    *("blank.md", "not-blank.md", "reference/api.md", "reference/openapi.json"),
)
ERRORS = [*catalogue(), SluiceError]


def _page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def _section(page: str, heading: str) -> str:
    found = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, f"no section {heading}"
    return found[1]


def test_check_reports_stale_and_missing_pages(tmp_path: Path) -> None:
    folder = shutil.copytree(DOCS, tmp_path / "docs")
    current, missing, *changed = GENERATED
    (folder / missing).unlink()
    for name in changed:
        (folder / name).write_text(_page(name) + "\n", encoding="utf-8")
    done = run_in_process("docs", "--check", "--root", str(folder))
    assert done.returncode == 1
    assert {line.split()[1] for line in done.stderr.splitlines()} == {f"docs/{name}" for name in (missing, *changed)}
    assert current not in done.stderr


def test_generates_missing_pages_and_no_page_is_stale(tmp_path: Path) -> None:
    assert run_in_process("docs", "--root", str(tmp_path)).returncode == 0
    for name in GENERATED:
        assert (tmp_path / name).read_text(encoding="utf-8") == _page(name), name


@each_row("name", Settings.model_fields)
@pytest.mark.asvs("5.1.1", "2.1.3")
def test_setting_has_a_row_with_its_description(name: str) -> None:
    row = re.search(rf"^\| `SLUICE_{name.upper()}` \|.*$", _page("settings.md"), re.MULTILINE)
    assert row
    meaning = Settings.model_fields[name].description
    assert meaning
    assert meaning in row[0]


@each_row("reason", Reason)
@pytest.mark.asvs("5.1.1", "2.1.3")
def test_reason_has_a_text_for_developers_and_for_users(reason: Reason) -> None:
    section = _section(_page("reasons.md"), reason.value)
    assert WORDS[reason].developer in section
    assert render(f"{reason.value}.plain", {}, "en") in section


@each_row("reason", Reason)
def test_reason_has_a_rejection_with_its_report_and_a_sentence_in_every_language(reason: Reason) -> None:
    section = _section(_page("reasons.md"), reason.value)
    report = json.loads(blocks(section, "json")[-1])
    outcome = "quarantined" if reason in {Reason.CHECK_UNANSWERED, Reason.ORIGINAL_KEPT} else "rejected"
    assert (report["outcome"], report["reason"]) == (outcome, reason.value)
    assert [check["code"] for check in report["checks"]] == [reason.value]
    for locale in LOCALES:
        assert f"| `{locale}` | {render(report['message_key'], report['params'], locale)} |" in section


def test_fact_and_flag_have_a_row_with_their_meaning() -> None:
    facts, flags = (_section(_page("facts.md"), heading) for heading in ("Facts", "Flags"))
    for name, fact in FACTS.items():
        row = next(line for line in facts.splitlines() if line.startswith(f"| `{name}` |"))
        assert row.startswith(f"| `{name}` | {fact.unit.value} | {fact.meaning} |")
        given_for = row.removesuffix(" |").rpartition(" | ")[2]
        formats = {each.name for each in FORMATS if name in each.gives}
        assert given_for.endswith(fact.limits)
        named = set(given_for.removesuffix(fact.limits).removesuffix("; ").split(", "))
        assert named == ({"every file"} if len(formats) == len(FORMATS) else formats)
    for name, meaning in FLAGS.items():
        assert f"| `{name}` | {meaning} |" in flags


@each_row("error", ERRORS)
def test_error_has_a_status_advice_and_an_example(error: type[SluiceError]) -> None:
    section = _section(_page("errors.md"), error.code)
    assert f"- **Status:** {error.status}\n" in section
    assert re.search(r"- \*\*What to do:\*\* \S", section)
    example = json.loads(blocks(section, "json")[0])
    assert example["status"] == "ERROR"
    assert example["errors"]


@each_row("route", sorted({*ROUTE_SCOPES, *SIGNED_ROUTES, *TOKEN_ROUTES, *PUBLIC_ROUTES}))
def test_route_is_in_the_reference(route: tuple[str, str]) -> None:
    assert f"`{' '.join(route)}`" in _page("reference/api.md")


def documented_operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in openapi()["paths"].items()
        for method, operation in methods.items()
        if not re.search(r"/health|/\.well-known", path)
    ]


def _endpoint(method: str, path: str) -> str:
    parts = re.split(r"^### ", _page("reference/api.md"), flags=re.MULTILINE)
    return next((part for part in parts if f"\n`{method.upper()} {path}`\n" in part), "")


def _scope_words(method: str, path: str) -> str:
    route = method.upper(), path
    if route in PUBLIC_ROUTES:
        return "none, and no credential"
    scope = ROUTE_SCOPES[route]
    return f"`{scope.value}`" if scope else "any valid credential"


@each_row("method, path, operation", documented_operations)
@pytest.mark.asvs("8.1.1", "2.1.1", "8.1.2")
def test_operation_documents_scope_parameters_and_fields(method: str, path: str, operation: dict[str, Any]) -> None:
    section = _endpoint(method, path)
    assert f"Scope: {_scope_words(method, path)}." in section
    for parameter in operation.get("parameters", ()):
        assert f"| `{parameter['name']}` | {parameter['in']} |" in section
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schema = content["schema"]
        if "$ref" in schema:
            schema = openapi()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        for field in schema.get("properties", ()):  # bytes have none
            assert f"| `{field}` | {'yes' if field in schema.get('required', ()) else 'no'} |" in section


@each_row("method, path, operation", documented_operations)
def test_operation_documents_every_possible_status(method: str, path: str, operation: dict[str, Any]) -> None:
    section = _endpoint(method, path)
    success = re.findall(r"^Returns (\d{3}) ", section, re.MULTILINE)[:1]
    assert success
    listed = {int(status) for status in [*success, *re.findall(r"(\d{3}) \[`", section)]}
    declared = {int(status) for status in operation["responses"]}
    # OpenAPI declares 403 and 422 everywhere. Without a credential there is no 403, without input no 422. 304 is no error,
    # and a second success is in the notes.
    assert declared - listed <= {204, 304, 403, 422}
    assert (204 in declared - listed) == ("gets 204" in section)
    assert (304 in declared) == ("gets 304" in section)
    assert listed <= declared
    assert (403 in listed) == ((method.upper(), path) in ROUTE_SCOPES)


@each_row("method, path, operation", documented_operations)
def test_response_example_matches_its_schema(method: str, path: str, operation: dict[str, Any]) -> None:
    success = next(response for status, response in operation["responses"].items() if status.startswith("2"))
    if "content" not in success:
        assert " without a body." in _endpoint(method, path)
        return
    if "application/json" not in success["content"]:
        assert "with the bytes of a file." in _endpoint(method, path)
        return
    example = json.loads(blocks(_endpoint(method, path), "json")[0])
    schema = {**success["content"]["application/json"]["schema"], "components": openapi()["components"]}
    jsonschema_rs.validate(schema, example)


def _commands(command: Any, name: str = "sluice") -> Iterator[str]:
    if not hasattr(command, "list_commands"):
        yield name
        return
    for inner in command.list_commands(typer.Context(command)):
        yield from _commands(command.get_command(typer.Context(command), inner), f"{name} {inner}")


@each_row("command", lambda: _commands(typer.main.get_command(command_line)))
def test_command_is_on_the_cli_page(command: str) -> None:
    assert command.replace(" ", "-") in anchors(_page("cli.md"))


def test_options_of_contexts_are_the_fields_of_the_api() -> None:
    done = run_in_process("context_fields", "--check")
    assert done.returncode == 0, done.stderr
