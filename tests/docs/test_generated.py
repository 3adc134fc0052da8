"""What the code declares stands in the documentation: settings, reasons, errors, routes, commands; and no made page is stale."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import typer

from sluice.access import ROUTE_SCOPES, SIGNED_ROUTES
from sluice.api.app import make_app
from sluice.cli.command import app as command_line
from sluice.errors import SluiceError, catalogue
from sluice.settings import Settings
from sluice.uploads.reasons import WORDS, Reason
from tests.docs.pages import DOCS, anchors, blocks
from tests.scripts import run_alone, run_here

MADE = ("reasons.md", "errors.md", "settings.md", "cli.md", "metrics.md", "reference/api.md", "reference/openapi.json")
ERRORS = [*catalogue(), SluiceError]
DOCUMENT: dict[str, Any] = make_app().openapi()


def _page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def _section(page: str, heading: str) -> str:
    """Answer the lines from a heading to the next one."""
    found = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, f"no section {heading}"
    return found[1]


def test_no_made_page_is_stale() -> None:
    done = run_alone("docs", "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_check_names_every_stale_page_and_a_missing_one(tmp_path: Path) -> None:
    folder = shutil.copytree(DOCS, tmp_path / "docs")
    missing, *changed = MADE
    (folder / missing).unlink()
    for name in changed:
        (folder / name).write_text(_page(name) + "\n", encoding="utf-8")
    done = run_here("docs", "--check", "--root", str(folder))
    assert done.returncode == 1
    assert {line.split()[1] for line in done.stderr.splitlines()} == {f"docs/{name}" for name in MADE}


def test_missing_pages_are_made_as_they_stand_here(tmp_path: Path) -> None:
    assert run_here("docs", "--root", str(tmp_path)).returncode == 0
    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in MADE} == {name: _page(name) for name in MADE}


@pytest.mark.parametrize("name", Settings.model_fields)
@pytest.mark.asvs("5.1.1", "2.1.3")
def test_a_setting_has_a_row_with_its_meaning(name: str) -> None:
    row = re.search(rf"^\| `SLUICE_{name.upper()}` \|.*$", _page("settings.md"), re.MULTILINE)
    assert row
    meaning = Settings.model_fields[name].description
    assert meaning
    assert meaning in row[0]


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.asvs("5.1.1", "2.1.3")
def test_a_reason_is_told_to_developers_and_senders(reason: Reason) -> None:
    section = _section(_page("reasons.md"), reason.value)
    assert WORDS[reason].developer in section
    assert WORDS[reason].user in section


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
def test_an_error_has_its_status_an_advice_and_an_example(error: type[SluiceError]) -> None:
    section = _section(_page("errors.md"), error.code)
    assert f"- **Status:** {error.status}\n" in section
    assert re.search(r"- \*\*What to do:\*\* \S", section)
    example = json.loads(blocks(section, "json")[0])
    assert example["status"] == "ERROR"
    assert example["errors"]


@pytest.mark.parametrize("route", sorted({*ROUTE_SCOPES, *SIGNED_ROUTES}), ids=" ".join)
def test_a_route_is_in_the_reference(route: tuple[str, str]) -> None:
    assert f"`{' '.join(route)}`" in _page("reference/api.md")


def _operations() -> Iterator[Any]:
    for path, methods in DOCUMENT["paths"].items():
        for method, said in methods.items():
            yield pytest.param(method, path, said, id=f"{method} {path}")


def _endpoint(method: str, path: str) -> str:
    """Answer the part of the reference on one operation."""
    parts = re.split(r"^### ", _page("reference/api.md"), flags=re.MULTILINE)
    return next((part for part in parts if f"\n`{method.upper()} {path}`\n" in part), "")


@pytest.mark.parametrize(("method", "path", "said"), [one for one in _operations() if "/health" not in one.id])
@pytest.mark.asvs("8.1.1", "2.1.1", "8.1.2")
def test_an_operation_tells_scope_parameters_and_fields(method: str, path: str, said: dict[str, Any]) -> None:
    part = _endpoint(method, path)
    scope = ROUTE_SCOPES[method.upper(), path]
    assert (f"Scope: `{scope.value}`." if scope else "Scope: any valid credential.") in part
    for parameter in said.get("parameters", ()):
        assert f"| `{parameter['name']}` | {parameter['in']} |" in part
    for content in said.get("requestBody", {}).get("content", {}).values():
        schema = content["schema"]
        if "$ref" in schema:
            schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        for field in schema["properties"]:
            assert f"| `{field}` | {'yes' if field in schema.get('required', ()) else 'no'} |" in part


@pytest.mark.parametrize(("method", "path", "said"), [one for one in _operations() if "/health" not in one.id])
def test_an_operation_tells_every_status_that_it_can_answer(method: str, path: str, said: dict[str, Any]) -> None:
    part = _endpoint(method, path)
    told = {int(status) for status in re.findall(r"(\d{3}) \[`", part)} | {
        int(re.findall(r"^Answers (\d{3}) ", part, re.MULTILINE)[0])
    }
    documented = {int(status) for status in said["responses"]}
    # The document lists 403 and 422 everywhere; without a scope, or anything that could be wrong, they cannot happen.
    assert documented - told <= {403, 422}
    assert told <= documented
    assert (403 in told) == (ROUTE_SCOPES[method.upper(), path] is not None)


@pytest.mark.parametrize(("method", "path", "said"), [one for one in _operations() if "/health" not in one.id])
def test_the_example_of_a_reply_fits_its_schema(method: str, path: str, said: dict[str, Any]) -> None:
    example = json.loads(blocks(_endpoint(method, path), "json")[0])
    success = next(said for status, said in said["responses"].items() if status.startswith("2"))
    schema = {**success["content"]["application/json"]["schema"], "components": DOCUMENT["components"]}
    jsonschema_rs.validate(schema, example)


def _commands(command: Any, name: str = "sluice") -> Iterator[str]:
    if not hasattr(command, "list_commands"):
        yield name
        return
    for inner in command.list_commands(typer.Context(command)):
        yield from _commands(command.get_command(typer.Context(command), inner), f"{name} {inner}")


@pytest.mark.parametrize("command", list(_commands(typer.main.get_command(command_line))))
def test_a_command_is_in_the_page_of_commands(command: str) -> None:
    assert command.replace(" ", "-") in anchors(_page("cli.md"))
