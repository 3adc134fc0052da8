"""Help output: every command and option has a description."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from sluice import __version__
from sluice.cli.app import app, run


def commands(group: Any, path: str = "sluice") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


COMMANDS = dict(commands(typer.main.get_command(app)))


def test_app_registers_the_documented_commands() -> None:
    names = "serve work init migrate health doctor audit backup restore migrate-bucket check upload token"
    names += " tenants.update tenants.delete tenants.create tenants.list tenants.suspend tenants.resume"
    names += " keys.create keys.list keys.limit keys.rotate keys.revoke secrets.keyring secrets.rotate secrets.retire"
    names += " quarantine.list quarantine.release"
    names += (
        " files.list files.bulk-delete files.bulk-restore files.export jobs.download jobs.list jobs.show jobs.cancel"
    )
    names += " quarantine.download quarantine.refuse quarantine.rescan files.restore files.hold files.unhold"
    names += " usage plan apply import receipts.get receipts.verify receipts.rotate"
    names += " erasures.create erasures.show"
    names += " reports.list reports.show console.login demo events.tail events.forward"
    names += " webhooks.add webhooks.list webhooks.test webhooks.rotate-secret webhooks.deliveries webhooks.remove"
    names += " webhooks.update webhooks.recover webhooks.redeliver"
    assert set(COMMANDS) == {f"sluice {name.replace('.', ' ')}" for name in names.split()}


@pytest.mark.parametrize("path", COMMANDS)
def test_command_has_help_text_for_itself_and_each_parameter(path: str) -> None:
    command = COMMANDS[path]
    assert command.help.strip().splitlines()[0].rstrip().endswith((".", ":", "?", ",")) or len(command.help) > 30
    assert [parameter.name for parameter in command.params if not getattr(parameter, "help", None)] == []


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), (), ("keys",), ("tenants", "--help"), ("check", "--help")])
def test_help_is_printed_to_standard_output(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    captured = capsys.readouterr()
    assert "Usage: sluice" in captured.out
    assert captured.err == ""


def test_version_option_prints_only_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"sluice {__version__}\n"
