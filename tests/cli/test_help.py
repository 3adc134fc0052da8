"""The help: every command and option says what it is for."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from sluice import __version__
from sluice.cli.command import app, run


def commands(group: Any, path: str = "sluice") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


EVERY = dict(commands(typer.main.get_command(app)))


def test_the_commands_are_those_of_the_documentation() -> None:
    words = "serve work init migrate doctor audit backup restore migrate-bucket check upload token tenants.create tenants.list tenants.suspend tenants.resume"
    words += " keys.create keys.list keys.revoke secrets.rotate secrets.retire quarantine.list quarantine.release"
    assert set(EVERY) == {f"sluice {word.replace('.', ' ')}" for word in words.split()}


@pytest.mark.parametrize("path", EVERY)
def test_a_command_says_what_it_does_and_what_each_word_means(path: str) -> None:
    command = EVERY[path]
    assert command.help.strip().splitlines()[0].rstrip().endswith((".", ":", "?", ",")) or len(command.help) > 30
    assert [parameter.name for parameter in command.params if not getattr(parameter, "help", None)] == []


@pytest.mark.parametrize("words", [("--help",), ("-h",), (), ("keys",), ("tenants", "--help"), ("check", "--help")])
def test_help_is_shown_on_standard_output(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 0
    said = capsys.readouterr()
    assert "Usage: sluice" in said.out
    assert said.err == ""


def test_the_version_is_printed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"sluice {__version__}\n"
