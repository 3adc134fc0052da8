"""Errors: one sentence on standard error, an exit code that scripts can test, and no traceback."""

import json
import re
from pathlib import Path

import pytest
from pydantic import SecretStr

import sluice as sluice_package
from sluice.cli.faults import explain
from sluice.db.database import DatabaseUnavailable
from sluice.db.migrate import newest
from sluice.errors import NotFound, ServiceUnavailable
from sluice.kit.secret_files import SecretFileRefused
from sluice.settings import Settings, unknown_variables
from sluice.storage import StoreError
from sluice.wiring.refusal import StartRefused
from sluice_client.cli.app import run
from sluice_client.cli.output import CommandRefused, Exit
from sluice_inspect.sandbox import SandboxBroken
from tests.cli.commands import Sluice
from tests.rows import each_row

KEY = ("keys", "create", "--tenant", "t")
TOKEN = ("token", "--tenant", "t", "--subject", "s")
INVALID_COMMAND_LINES = [
    (("nonsense",), "No such command 'nonsense'. See `sluice --help`."),
    (("contxts", "list"), "No such command 'contxts'. Did you mean 'contexts'? See `sluice --help`."),
    (("keys", "lst"), "No such command 'lst'. Did you mean 'list'? See `sluice keys --help`."),
    (("keys", "nonsense"), "No such command 'nonsense'. See `sluice keys --help`."),
    (("tenants", "create"), "Missing option '--name'. See `sluice tenants create --help`."),
    (("serve", "--fast"), "No such option: --fast"),
    ((*KEY, "--name", "a\nb", "--scope", "admin"), "expected 1 to 255 printable characters"),
    *(
        ((*words, tenant), "expected 1 to 64 letters, digits, hyphens and underscores")
        for words in (("tenants", "suspend"), ("keys", "list", "--tenant"), ("quarantine", "list", "--tenant"))
        for tenant in ("..", "a/b", "x" * 65, "ten_1\n")
    ),
    (
        ("token", "--tenant", "../t", "--subject", "s", "--scope", "admin"),
        "expected 1 to 64 letters, digits, hyphens and underscores",
    ),
    ((*KEY, "--name", "  ", "--scope", "admin"), "expected 1 to 255 printable characters"),
    ((*KEY, "--name", "n", "--scope", "root"), "'root' is not one of 'upload'"),
    ((*KEY, "--name", "n", "--scope", "admin", "--expires-in-days", "366"), "less than or equal to 365"),
    ((*TOKEN, "--scope", "admin", "--expires-in", "soon"), "valid integer"),
    (("check", "/nowhere/at/all"), "'/nowhere/at/all' does not exist"),
    (("check",), "Missing argument"),
    (TOKEN, "Missing option '--scope'"),
]


@each_row("arguments, sentence", INVALID_COMMAND_LINES)
def test_mistake_is_explained(arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert sentence in captured.err


@each_row(
    "settings",
    [
        {"PORT": "70000"},
        {"PORT": "http"},
        {"SANDBOX": "none"},
        {"PUBLIC_URL": "nowhere"},
        {"DRAIN_SECONDS": "0"},
        {"PRODUCTION": "maybe"},
        {"PORT": "-1", "SCANNER": "all"},
    ],
)
def test_invalid_settings_are_named_together(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"SLUICE_{name}", value)
    assert run(["tenants", "list"]) == 2
    captured = capsys.readouterr().err
    assert captured.startswith("sluice: The settings are wrong. ")
    assert [name for name in settings if f" SLUICE_{name}: " not in captured] == []
    assert captured.count("\n") == 1


@each_row(
    "name, sentence",
    [
        ("SLUICE_PUBLICURL", "SLUICE_PUBLICURL (did you mean SLUICE_PUBLIC_URL?)"),
        ("SLUICE_METRIC_TOKEN", "SLUICE_METRIC_TOKEN (did you mean SLUICE_METRICS_TOKEN?)"),
        ("SLUICE_XYZZY", "SLUICE_XYZZY"),
    ],
)
def test_a_variable_that_is_no_setting_is_named_with_the_one_that_was_meant(
    name: str, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, "1")
    assert run(["serve"]) == 2
    wrong = f"sluice: These variables are no settings: {sentence}. Correct or remove them.\n"
    assert capsys.readouterr().err == wrong


def test_variables_of_the_code_of_clients_tests_and_kubernetes_are_no_mistakes() -> None:
    names = (
        "URL",
        "API_KEY",
        "TEST_LONG",
        "SERVICE_HOST",
        "SERVICE_PORT_HTTP",
        "PORT_8000_TCP_ADDR",
        "DATABASE_URL_FILE",
    )
    assert not unknown_variables(["SLUICEGATE", *(f"SLUICE_{name}" for name in names)])
    source = "".join(path.read_text() for path in Path(sluice_package.__file__).parent.rglob("*.py"))
    named = set(re.findall(r"\bSLUICE_[A-Z0-9_]*[A-Z0-9]\b", source))
    assert named
    assert not set(unknown_variables(named)) - {"SLUICE_STORAGE"}  # the beginning of several


def test_a_secret_setting_is_read_from_the_file_that_a_variable_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "token"
    path.write_text("0123456789abcdef\n")
    path.chmod(0o400)
    monkeypatch.setenv("SLUICE_METRICS_TOKEN_FILE", str(path))
    assert Settings().metrics_token == SecretStr("0123456789abcdef")
    path.chmod(0o644)
    assert run(["tenants", "list"]) == 1
    assert "can be used by others" in capsys.readouterr().err


def test_production_needs_a_public_url(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SLUICE_PRODUCTION", "true")
    assert run(["serve"]) == 2
    assert "SLUICE_PRODUCTION needs SLUICE_PUBLIC_URL" in capsys.readouterr().err


@each_row(
    "url, code, sentence",
    [
        (None, 1, "run `sluice init` first"),
        ("mysql://admin:hunter2@db/sluice", 1, "SLUICE_DATABASE_URL"),
        ("postgresql://postgres:hunter2@127.0.0.1:1/sluice", 6, "The database is unavailable: "),
    ],
)
def test_tenants_list_names_an_unusable_database(url: str | None, code: int, sentence: str, sluice: Sluice) -> None:
    result = sluice.with_settings(**{"DATABASE_URL": url} if url else {})("tenants", "list")
    assert result.code == code
    assert sentence in result.error_line
    assert "hunter2" not in result.err
    assert url or not sluice.data_dir.exists()


def test_tenants_list_refuses_a_database_with_another_schema_version(sluice: Sluice) -> None:
    sluice.data_dir.mkdir()
    (sluice.data_dir / "sluice.db").touch()
    result = sluice("tenants", "list")
    assert result.code == 1
    assert f"is at schema none and this release needs {newest()}: run `sluice migrate`." in result.error_line


def test_init_names_a_data_folder_and_a_key_file_that_cannot_be_used(sluice: Sluice) -> None:
    sluice.data_dir.write_text("a file")
    result = sluice("init")
    assert result.code == 1
    assert str(sluice.data_dir) in result.error_line
    sluice.data_dir.unlink()
    sluice("init", "--json")
    (sluice.data_dir / "keys" / "jwt.pem").chmod(0o644)
    result = sluice("init")
    assert result.code == 1
    assert "chmod 600" in result.error_line


@each_row(
    "exception, sentence, code",
    [
        (CommandRefused("No.", Exit.USAGE), "No.", Exit.USAGE),
        (StartRefused("Start clamd."), "Start clamd.", Exit.ERROR),
        (SecretFileRefused("It is open."), "It is open.", Exit.ERROR),
        (SandboxBroken("no seccomp"), "The sandbox cannot be trusted on this machine: no seccomp.", Exit.ERROR),
        (StoreError("the disk fails"), "The store fails: the disk fails.", Exit.UNAVAILABLE),
        (DatabaseUnavailable("gone"), "The database is unavailable: gone.", Exit.UNAVAILABLE),
        (NotFound(), "Resource not found: Not found.", Exit.NOT_FOUND),
        (ServiceUnavailable("file checker"), "The file checker is unavailable", Exit.UNAVAILABLE),
        (PermissionError(13, "Permission denied", "/x"), "/x: Permission denied.", Exit.ERROR),
        (ExceptionGroup("several", [ValueError("?"), StartRefused("Start clamd.")]), "Start clamd.", Exit.ERROR),
    ],
)
def test_known_exception_has_its_sentence_and_exit_code(exception: Exception, sentence: str, code: Exit) -> None:
    described = explain(exception)
    assert described is not None
    assert sentence in described[0]
    assert described[1] is code


def test_unexpected_error_prints_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sluice.cli.environment.read_settings", lambda: 1 // 0)
    assert run(["doctor"]) == 1
    captured = capsys.readouterr().err
    assert captured.startswith("sluice: Something unexpected happened: ZeroDivisionError")
    assert captured.count("\n") == 1


@each_row("word, code, words", [("list", 1, "There is no database at"), ("create", 2, "Missing option '--name'")])
def test_with_json_the_reason_of_a_failure_is_json_too(word: str, code: int, words: str, sluice: Sluice) -> None:
    result = sluice("tenants", word, "--json")
    failure = json.loads(result.err)
    assert (result.code, result.out, failure["exit_code"]) == (code, "", code)
    assert words in failure["error"]
