"""What shells and `man` know of the command: completion, the manual page, and how fast it starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.cli.app import run
from tests.cli.test_help import commands
from tests.rows import each_row
from tests.servers import free_port, require
from tests.service import cli_command

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


def shell(name: str, script: str) -> list[str]:
    """Run a script in a shell that finds the command, and return the lines that it prints."""
    require(name, name, apt=name)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [name, "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout.splitlines()


@each_row(
    "words, found",
    [
        ("sluice conte", ["contexts"]),
        ("sluice contexts u", ["update"]),
        ("sluice files list --uploaded", ["--uploaded-by"]),
        ("sluice completion f", ["fish"]),
    ],
)
def test_bash_completes_commands_and_options(words: str, found: list[str]) -> None:
    assert [line for line in shell("bash", _BASH.format(words=words)) if line] == found


def test_zsh_takes_the_completion() -> None:
    assert shell("zsh", _ZSH) == ["_sluice_completion"]


def test_fish_completes_commands() -> None:
    assert [line.split()[0] for line in shell("fish", _FISH)] == ["contexts"]


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
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8"], input=page, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""


def test_a_command_on_a_service_starts_about_as_fast_as_the_http_library_alone() -> None:
    command = cli_command("contexts", "list", "--json", "--url", f"http://127.0.0.1:{free_port()}", "--api-key", "x")
    library = [sys.executable, "-c", "import httpx"]
    ours, theirs = (min(cpu_seconds(words) for _ in range(5)) for words in (command, library))
    print(f"start: {ours * 1000:.0f} ms of processor time; import httpx: {theirs * 1000:.0f} ms")  # noqa: T201
    assert ours < 1.3 * theirs


def cpu_seconds(command: list[str]) -> float:
    """Return the processor time of a process, which other work on the machine hardly changes."""
    before = os.times()
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system
