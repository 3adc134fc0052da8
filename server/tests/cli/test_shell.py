"""What shells and `man` know of the command: completion, the manual page, and how fast it starts."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice_client.cli.app import run
from tests.cli.program import forked_program
from tests.cli.test_help import commands
from tests.required import require
from tests.rows import each_row
from tests.servers import free_port
from tests.service import ApiClient, cli_command

_BASH = """
eval "$(sluice completion bash)"
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_sluice_completion sluice
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
_ZSH = """
autoload -U compinit && compinit -D
eval "$(sluice completion zsh)"
print -l ${_comps[sluice]}
"""
_FISH = """
sluice completion fish | source
complete -C "sluice conte"
"""


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    with forked_program() as folder:
        yield folder


def shell(name: str, script: str, program: Path) -> list[str]:
    """Run a script in a shell that finds the command, and return the lines that it prints."""
    require(name, name, apt=name)
    path = f"{program}{os.pathsep}{os.environ['PATH']}"
    words, environment = [name, "-c", script], {**os.environ, "PATH": path}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.splitlines()


@each_row(
    "name, script, found",
    [
        ("bash", _BASH.format(words="sluice conte"), ["contexts"]),
        ("bash", _BASH.format(words="sluice contexts u"), ["update"]),
        ("bash", _BASH.format(words="sluice files list --uploaded"), ["--uploaded-by"]),
        ("bash", _BASH.format(words="sluice completion f"), ["fish"]),
        ("zsh", _ZSH, ["_sluice_completion"]),
        ("fish", _FISH, ["contexts"]),
    ],
)
def test_shell_completes_commands_and_options(name: str, script: str, found: list[str], program: Path) -> None:
    assert [line.split()[0] for line in shell(name, script, program) if line] == found


def test_keys_of_contexts_are_completed_and_nothing_where_no_service_responds(
    client: ApiClient, monkeypatch: pytest.MonkeyPatch, program: Path
) -> None:
    key = client.create_context()
    monkeypatch.setenv("SLUICE_API_KEY", client.create_key("metadata").text)
    for url, found in ((client.service.url, [key]), (f"http://127.0.0.1:{free_port()}", [])):
        monkeypatch.setenv("SLUICE_URL", url)
        for words in ("sluice upload --context contex", "sluice contexts show contex"):
            assert [line for line in shell("bash", _BASH.format(words=words), program) if line] == found


@each_row("name", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_each_shell(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", name]) == 0
    printed = capsys.readouterr()
    assert f"complete_{name}" in printed.out
    assert printed.err == ""


def test_the_manual_page_has_every_command_and_is_well_formed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["man"]) == 0
    page = capsys.readouterr().out
    for command in commands():
        assert f".SS {command}\n".replace("-", r"\-") in page
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "ENVIRONMENT", "FILES"):
        assert f".SH {section}\n" in page
    require("groff", "groff", apt="groff-base")
    groff = ["groff", "-man", "-ww", "-Tutf8"]
    assert subprocess.run(groff, input=page, capture_output=True, text=True, timeout=60, check=True).stderr == ""


def test_a_command_on_a_service_costs_less_than_twice_the_http_library_alone() -> None:
    command = cli_command("contexts", "list", "--json", "--url", f"http://127.0.0.1:{free_port()}", "--api-key", "x")
    library = [sys.executable, "-c", "import httpx"]
    rounds = [(cpu_seconds(command), cpu_seconds(library)) for _ in range(5)]
    ours, theirs = (min(seconds) for seconds in zip(*rounds, strict=True))
    print(f"start: {ours * 1000:.0f} ms of processor time; import httpx: {theirs * 1000:.0f} ms")  # noqa: T201
    assert ours < 2 * theirs


def cpu_seconds(command: list[str]) -> float:
    """Return the processor time of a process, to the microsecond (`os.times` counts hundredths of a second)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
