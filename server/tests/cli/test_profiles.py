"""Profiles: `login` keeps an address and a key, other commands use them, and broken files are named by line."""

import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sluice_client.cli.app import run
from sluice_client.cli.profiles import DEFAULT_URL, read_profiles, target_of
from tests.cli.commands import Sluice, sluice_in
from tests.rows import each_row
from tests.service import ApiClient, cli_command

URL = "https://files.example.com"

# A keyring in memory of one process would forget; this one keeps its keys in a file, as a backend of the library would.
_KEYRING = """
import json, os, pathlib
STORE = pathlib.Path(os.environ["FAKE_KEYRING"])
class _Backend:
    priority = float(os.environ.get("FAKE_PRIORITY", "5"))
def get_keyring(): return _Backend()
def _all(): return json.loads(STORE.read_text()) if STORE.exists() else {}
def get_password(service, name): return _all().get(f"{service}/{name}")
def set_password(service, name, key): STORE.write_text(json.dumps(_all() | {f"{service}/{name}": key}))
def delete_password(service, name): STORE.write_text(json.dumps({n: k for n, k in _all().items() if n != f"{service}/{name}"}))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the configuration of this process."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("SLUICE_URL", "SLUICE_API_KEY", "SLUICE_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "sluice"
    folder.mkdir()
    return folder


PRINTED: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60}


def keep(folder: Path, name: str = "default", url: str = URL, key: str = "sl_live_kept") -> None:
    with (folder / "config.toml").open("a") as file:
        file.write(f'[profiles.{name}]\nurl = "{url}"\n')
    with (folder / "credentials.toml").open("a") as file:
        file.write(f'{name} = "{key}"\n')
    (folder / "credentials.toml").chmod(0o600)


def found(url: str | None = None, key: str | None = None, profile: str | None = None) -> tuple[str, str]:
    target = target_of(url, key, profile)
    return target.url, target.credential


def test_options_go_before_environment_and_that_before_profile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert target_of(None, None, None).url == DEFAULT_URL
    keep(folder)
    keep(folder, "trial", "http://trial.example.com", "sl_test_kept")
    assert found() == (URL, "sl_live_kept")
    monkeypatch.setenv("SLUICE_PROFILE", "trial")
    assert found() == ("http://trial.example.com", "sl_test_kept")
    monkeypatch.setenv("SLUICE_URL", "http://variable.example.com")
    monkeypatch.setenv("SLUICE_API_KEY", "sl_live_variable")
    assert found() == ("http://variable.example.com", "sl_live_variable")
    assert found("http://option.example.com", "sl_live_option") == ("http://option.example.com", "sl_live_option")
    assert found(profile="default") == (URL, "sl_live_kept")


def test_the_key_of_a_profile_is_sent_to_no_other_address(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(folder)
    assert found("https://other.example.com")[1] == ""
    monkeypatch.setenv("SLUICE_URL", "https://other.example.com")
    assert found()[1] == ""
    assert found(f"{URL}/")[1] == "sl_live_kept"


@each_row(
    "text, line, words",
    [
        (b"# one\n\xff\n", 2, "this is not UTF-8."),
        ('[profiles.a]\nurl = "http://a"\nurl = \n', 3, "Invalid value"),
        ('[profiles.a]\nurl = "http://a"\n\n[profiles.b]\nurl = 7\n', 5, "profiles.b.url: expected an address"),
        ('[profiles.a]\nurl = "http://a"\nkey = "pocket"\n', 3, "expected keyring or file"),
        ('[profiles.a]\nurl = "http://a"\n[profiles.b]\nurl = "x"\ntoken = "x"\n', 5, "profiles.b.token is unknown"),
        ("# mine\n[profiles.a]\n", 2, "profiles.a.url"),
        ('\nurl = "http://a"\n', 2, "url is unknown"),
        ("profiles = 3\n", 1, "expected [profiles.NAME]"),
        ("[profiles.a\n", 1, "Expected"),
    ],
)
def test_a_broken_file_is_named_with_its_line_in_one_sentence(
    text: str | bytes, line: int, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "config.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert run(["plan"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"sluice: {folder}/config.toml:{line}: ")
    assert words in printed
    assert printed.count("\n") == 1


def test_a_profile_that_is_missing_without_key_or_readable_by_others_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", "--profile", "nosuch"]) == 5
    assert "sluice login --profile nosuch" in capsys.readouterr().err
    assert run(["plan", "--profile", "no such"]) == 2
    (folder / "config.toml").write_text(f'[profiles.default]\nurl = "{URL}"\n')
    assert run(["plan"]) == 4
    assert "run `sluice login --profile default`" in capsys.readouterr().err
    (folder / "config.toml").unlink()
    keep(folder)
    (folder / "credentials.toml").chmod(0o644)
    assert run(["plan"]) == 1
    assert "chmod 600" in capsys.readouterr().err


def test_profiles_are_listed_as_a_table_and_as_lines_of_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profiles", "list", "--json"]) == 0
    assert capsys.readouterr().out == ""
    keep(folder)
    keep(folder, "trial", "http://trial.example.com")
    assert run(["profiles", "list", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["name"], row["key"]) for row in rows] == [("default", "file"), ("trial", "file")]
    assert run(["profiles", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["default", URL, "file", "yes"]


def logged_in(sluice: Sluice, key: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `login` with a key on standard input."""
    command = cli_command("login", "--with-key", *words)
    return subprocess.run(
        command, env=sluice.environment | variables, input=f"{key}\n", cwd=sluice.folder, check=False, **PRINTED
    )


def test_login_keeps_an_accepted_key_for_its_owner_and_logout_forgets_it(client: ApiClient, tmp_path: Path) -> None:
    sluice = sluice_in(tmp_path / "home")
    refused = logged_in(sluice, "sl_live_wrong", "--url", client.service.url)
    config = sluice.folder / "config" / "sluice"
    assert (refused.returncode, refused.stdout) == (4, "")
    assert not config.exists()
    done = logged_in(sluice, client.create_key("metadata").text, "--url", client.service.url)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert stat.S_IMODE((config / "credentials.toml").stat().st_mode) == 0o600
    assert [one.name for one in config.iterdir() if "toml." in one.name] == []
    assert sluice("plan", "--json").code == 0
    (config / "config.toml").write_text(f"# mine\n{(config / 'config.toml').read_text()}")
    assert sluice("logout").code == 0
    assert (config / "config.toml").read_text() == "# mine\n"
    assert "sl_live" not in (config / "credentials.toml").read_text()
    assert sluice("plan").code == 4
    assert sluice("logout").code == 5


def test_login_keeps_the_key_in_a_keyring_that_works(client: ApiClient, tmp_path: Path) -> None:
    sluice = sluice_in(tmp_path / "home")
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "keyring.py").write_text(_KEYRING)
    keyring = {"PYTHONPATH": str(tmp_path / "library"), "FAKE_KEYRING": str(tmp_path / "store")}
    key = client.create_key("metadata").text
    config = sluice.folder / "config" / "sluice"
    done = logged_in(sluice, key, "--url", client.service.url, **keyring)
    assert done.returncode == 0, done.stderr
    assert 'key = "keyring"' in (config / "config.toml").read_text()
    assert not (config / "credentials.toml").exists()
    assert json.loads((tmp_path / "store").read_text()) == {"sluice/default": key}
    used = subprocess.run(cli_command("plan"), env=sluice.environment | keyring, capture_output=True, check=False)
    assert used.returncode == 0
    poor = logged_in(sluice, key, "--url", client.service.url, **keyring, FAKE_PRIORITY="0")
    assert poor.returncode == 0
    assert 'key = "file"' in (config / "config.toml").read_text()


@each_row("words", [(), ("--url", URL)])
def test_login_never_asks_without_a_terminal(words: tuple[str, ...], folder: Path) -> None:
    command = [sys.executable, "-m", "sluice.cli", "login", *words]
    environment = {**os.environ, "XDG_CONFIG_HOME": str(folder.parent)}
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False, **PRINTED)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Cannot prompt" in done.stderr


def test_login_asks_on_a_terminal_and_does_not_show_the_key(client: ApiClient, tmp_path: Path) -> None:
    sluice = sluice_in(tmp_path / "home")
    key = client.create_key("metadata").text
    controller, terminal = pty.openpty()
    ends: dict[str, Any] = {"stdin": terminal, "stdout": terminal, "stderr": terminal}
    process = subprocess.Popen(cli_command("login"), env=sluice.environment, start_new_session=True, **ends)
    os.close(terminal)
    shown = b""
    for question, answer in ((b"Address of the service", client.service.url), (b"not shown", key)):
        while question not in shown:
            shown += os.read(controller, 4096)
        os.write(controller, answer.encode() + b"\n")
    while process.poll() is None:
        try:
            shown += os.read(controller, 4096)
        except OSError:  # the last writer has closed the terminal
            break
    os.close(controller)
    assert process.wait(60) == 0, shown
    assert key.encode() not in shown
    assert sluice("plan").code == 0


def test_names_and_comments_of_others_stay_as_they_were(folder: Path) -> None:
    mine = '# mine\n[profiles.a]\nurl = "http://a" # here\n'
    (folder / "config.toml").write_text(f'{mine}\n[profiles.b]\nurl = "http://b"\n')
    assert run(["logout", "--profile", "b"]) == 0
    assert (folder / "config.toml").read_text() == mine
    assert set(read_profiles()) == {"a"}
