"""Help output: every command and option has a description."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import typer.main

from sluice import __version__
from sluice_client.cli.app import app, run
from sluice_client.cli.shell import leaves
from tests.rows import each_row


@cache
def commands() -> Mapping[str, Any]:
    """Return all commands by their names."""
    root: Any = typer.main.get_command(app)
    return {name: command for name, command, _ in leaves(root, typer.Context(root), "sluice")}


def test_app_registers_the_documented_commands() -> None:
    names = "serve work init migrate health doctor audit backup restore migrate-bucket check upload token import demo"
    names += " usage plan apply login logout profiles.list completion man console.login"
    names += " contexts.list contexts.show contexts.create contexts.update contexts.replay contexts.rotate-check-secret"
    names += " contexts.examples.add contexts.examples.list contexts.examples.remove"
    names += " files.list files.show files.download files.preview files.delete files.restore files.hold files.unhold"
    names += " files.bulk-delete files.bulk-restore files.export jobs.download jobs.list jobs.show jobs.cancel"
    names += " reports.list reports.show events.list events.tail events.forward"
    names += " buckets.list buckets.show buckets.create buckets.update buckets.set-default buckets.delete"
    names += " keys.create keys.list keys.show keys.update keys.limit keys.rotate keys.revoke"
    names += " upload-tokens.create upload-tokens.list upload-tokens.show upload-tokens.revoke"
    names += " webhooks.create webhooks.list webhooks.show webhooks.update webhooks.delete webhooks.test"
    names += " webhooks.rotate-secret webhooks.deliveries webhooks.recover webhooks.redeliver"
    names += (
        " quarantine.list quarantine.download quarantine.preview quarantine.release quarantine.refuse quarantine.rescan"
    )
    names += " tenants.create tenants.list tenants.show tenants.update tenants.delete tenants.suspend tenants.resume"
    names += " secrets.rotate secrets.retire secrets.keyring receipts.get receipts.verify receipts.rotate"
    names += " hashes.add hashes.remove hashes.list hashes.import hashes.check hashes.quarantine"
    names += " mcp erasures.create erasures.show cors.show cors.set audit-log.list"
    assert set(commands()) == {f"sluice {name.replace('.', ' ')}" for name in names.split()}


@each_row("path", commands)
def test_command_has_help_text_for_itself_and_each_parameter(path: str) -> None:
    command = commands()[path]
    assert command.help.strip().splitlines()[0].rstrip().endswith((".", ":", "?", ",")) or len(command.help) > 30
    assert [parameter.name for parameter in command.params if not getattr(parameter, "help", None)] == []


@each_row("arguments", [("--help",), ("-h",), (), ("keys",), ("tenants", "--help"), ("check", "--help")])
def test_help_is_printed_to_standard_output(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    captured = capsys.readouterr()
    assert "Usage: sluice" in captured.out
    assert captured.err == ""


def test_version_option_prints_only_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"sluice {__version__}\n"
