"""What is wrong is said in one sentence, with the exit code that a script can tell it by, and never with a trace."""

import pytest

from sluice.cli.command import run
from sluice.cli.faults import worded
from sluice.cli.outcomes import CommandRefused, Exit
from sluice.db.database import DatabaseAway
from sluice.db.migrate import newest
from sluice.engines.sandbox import SandboxBroken
from sluice.engines.storage import StoreFault
from sluice.errors import NotFound, Unavailable
from sluice.kit.secret_files import SecretFileRefused
from sluice.wiring.start import StartRefused
from tests.cli.commands import Sluice

WRONG_LINES = [
    (("nonsense",), "No such command 'nonsense'. See `sluice --help`."),
    (("keys", "nonsense"), "No such command 'nonsense'. See `sluice keys --help`."),
    (("tenants", "create"), "Missing option '--name'. See `sluice tenants create --help`."),
    (("serve", "--fast"), "No such option: --fast"),
    (("keys", "create", "--tenant", "t", "--name", "a\nb", "--scope", "admin"), "expected 1 to 255 printable characters"),
    (("keys", "create", "--tenant", "t", "--name", "  ", "--scope", "admin"), "expected 1 to 255 printable characters"),
    (("keys", "create", "--tenant", "t", "--name", "n", "--scope", "root"), "'root' is not one of 'upload'"),
    (
        ("keys", "create", "--tenant", "t", "--name", "n", "--scope", "admin", "--expires-in-days", "366"),
        "less than or equal to 365",
    ),
    (("token", "--tenant", "t", "--subject", "s", "--scope", "admin", "--expires-in", "soon"), "valid integer"),
    (("check", "/nowhere/at/all"), "'/nowhere/at/all' does not exist"),
    (("check",), "Missing argument"),
    (("upload", "/", "--context", "c"), "is a directory"),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG_LINES)
def test_a_wrong_command_line_is_one_sentence(words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert sentence in said.err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "70000"),
        ("PORT", "http"),
        ("SANDBOX", "none"),
        ("PUBLIC_URL", "nowhere"),
        ("DRAIN_SECONDS", "0"),
        ("PRODUCTION", "maybe"),
    ],
)
def test_a_wrong_setting_is_named(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(f"SLUICE_{name}", value)
    assert run(["tenants", "list"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"sluice: The settings are wrong. SLUICE_{name}: ")
    assert said.count("\n") == 1


def test_every_wrong_setting_is_named_at_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SLUICE_PORT", "-1")
    monkeypatch.setenv("SLUICE_SCANNER", "all")
    run(["doctor"])
    said = capsys.readouterr().err
    assert "SLUICE_PORT: " in said
    assert "SLUICE_SCANNER: " in said


def test_a_secret_in_a_wrong_setting_is_not_repeated(sluice: Sluice) -> None:
    ended = sluice.with_settings(DATABASE_URL="mysql://admin:hunter2@db/sluice")("tenants", "list")
    assert ended.code == 3
    assert "SLUICE_DATABASE_URL" in ended.complaint
    assert "hunter2" not in ended.err


def test_a_folder_without_a_database_is_not_made_into_one(sluice: Sluice) -> None:
    ended = sluice("tenants", "list")
    assert ended.code == 3
    assert "run `sluice init` first" in ended.complaint
    assert not sluice.data_dir.exists()


def test_a_database_of_another_release_is_refused(sluice: Sluice) -> None:
    sluice.data_dir.mkdir()
    (sluice.data_dir / "sluice.db").touch()
    ended = sluice("tenants", "list")
    assert ended.code == 3
    assert f"is at schema none and this release needs {newest()}: run `sluice migrate`." in ended.complaint


def test_a_database_that_does_not_answer_is_said_to_be_away(sluice: Sluice) -> None:
    ended = sluice.with_settings(DATABASE_URL="postgresql://postgres@127.0.0.1:1/sluice")("tenants", "list")
    assert ended.code == 3
    assert ended.complaint.startswith("The database is away: ")


def test_a_data_folder_that_cannot_be_made_is_named(sluice: Sluice) -> None:
    (sluice.folder / "data").write_text("a file")
    ended = sluice("init")
    assert ended.code == 3
    assert str(sluice.data_dir) in ended.complaint


def test_an_open_key_file_is_refused(sluice: Sluice) -> None:
    sluice("init", "--json")
    (sluice.data_dir / "keys" / "jwt.pem").chmod(0o644)
    ended = sluice("init")
    assert ended.code == 3
    assert "chmod 600" in ended.complaint


@pytest.mark.parametrize(
    ("fault", "sentence", "code"),
    [
        (CommandRefused("No.", Exit.USAGE), "No.", Exit.USAGE),
        (StartRefused("Start clamd."), "Start clamd.", Exit.FAILED),
        (SecretFileRefused("It is open."), "It is open.", Exit.FAILED),
        (SandboxBroken("no seccomp"), "The sandbox cannot be trusted on this machine: no seccomp.", Exit.FAILED),
        (StoreFault("the disk fails"), "The store fails: the disk fails.", Exit.FAILED),
        (DatabaseAway("gone"), "The database is away: gone.", Exit.FAILED),
        (NotFound(), "Resource not found: Not found.", Exit.REFUSED),
        (Unavailable("file checker"), "The file checker is unavailable", Exit.FAILED),
        (PermissionError(13, "Permission denied", "/x"), "/x: Permission denied.", Exit.FAILED),
        (ExceptionGroup("several", [ValueError("?"), StartRefused("Start clamd.")]), "Start clamd.", Exit.FAILED),
    ],
)
def test_a_known_fault_has_its_sentence_and_code(fault: Exception, sentence: str, code: Exit) -> None:
    known = worded(fault)
    assert known is not None
    assert sentence in known[0]
    assert known[1] is code


def test_an_unexpected_fault_is_one_sentence_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sluice.cli.configured.read_settings", lambda: 1 // 0)
    assert run(["doctor"]) == 3
    said = capsys.readouterr().err
    assert said.startswith("sluice: Something unexpected happened: ZeroDivisionError")
    assert said.count("\n") == 1
