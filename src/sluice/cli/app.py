"""The `sluice` command as a whole: all its commands, and the exit code and one sentence for everything that fails."""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sluice import __version__
from sluice.cli import (
    console,
    erasures,
    events,
    files,
    jobs,
    keys,
    output,
    quarantine,
    receipts,
    reports,
    secrets,
    tenants,
    webhooks,
)
from sluice.cli.apply import apply
from sluice.cli.check import check
from sluice.cli.demo import demo
from sluice.cli.doctor import doctor
from sluice.cli.health import health
from sluice.cli.init import init, migrate
from sluice.cli.maintenance import audit, backup, migrate_bucket, restore
from sluice.cli.mcp import mcp
from sluice.cli.output import CommandRefused, Exit
from sluice.cli.serve import serve, work
from sluice.cli.take_in import import_files
from sluice.cli.upload import upload
from sluice.cli.usage import plan, usage

if TYPE_CHECKING:
    from sluice.wiring.prestart import Launch

app = typer.Typer(
    add_completion=False, rich_markup_mode="markdown", context_settings={"help_option_names": ["--help", "-h"]}
)
for service_command in (serve, work, init, migrate, health, doctor, audit, backup, restore, migrate_bucket, demo):
    app.command(rich_help_panel="Service")(service_command)
for file_command in (check, upload):
    app.command(rich_help_panel="Files")(file_command)
app.command("import", rich_help_panel="Files")(import_files)
app.add_typer(files.group, name="files", rich_help_panel="Files")
app.add_typer(jobs.group, name="jobs", rich_help_panel="Files")
app.add_typer(reports.group, name="reports", rich_help_panel="Files")
app.add_typer(files.group, name="files", rich_help_panel="Files")
app.add_typer(quarantine.group, name="quarantine", rich_help_panel="Files")
app.add_typer(erasures.group, name="erasures", rich_help_panel="Files")
app.add_typer(receipts.group, name="receipts", rich_help_panel="Files")
app.add_typer(events.group, name="events", rich_help_panel="Files")
app.command(rich_help_panel="Files")(mcp)
for usage_command in (usage, plan, apply):
    app.command(rich_help_panel="Access")(usage_command)
app.add_typer(webhooks.group, name="webhooks", rich_help_panel="Access")
app.add_typer(tenants.group, name="tenants", rich_help_panel="Access")
app.add_typer(keys.group, name="keys", rich_help_panel="Access")
app.add_typer(console.group, name="console", rich_help_panel="Access")
app.command(rich_help_panel="Access")(keys.token)
app.add_typer(secrets.group, name="secrets", rich_help_panel="Access")


@app.callback(invoke_without_command=True)
def sluice(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Check every file against the rules of its context before anything is stored: an upload gate.

    Start with **sluice serve**: it sets itself up, shows a first key, and serves. Settings are environment variables,
    SLUICE_*.

    Every command exits with 0 when done, 1 when the answer is no, 2 for a wrong command line or setting, 3 when it
    could not work here.
    """
    if version:
        output.line(f"sluice {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


def main() -> None:
    """Run the command line of this process and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str], launch: "Launch | None" = None) -> int:
    """Run one command and return its exit code; print what went wrong to standard error.

    `launch` starts the sandbox's zygote of a command that has one, instead of `launch_early`.
    """
    json_lines = "--json" in arguments
    # What a command writes is for its own user alone, from the first byte on: databases, keys, backups, bookmarks.
    umask = os.umask(0o077)
    try:
        code = app(args=arguments, prog_name="sluice", standalone_mode=False, obj=launch)
        sys.stdout.flush()
    except typer.TyperException as fault:
        command = getattr(getattr(fault, "ctx", None), "command_path", "sluice")
        sentence = " ".join(fault.format_message().replace("Value error, ", "").split()).rstrip(".")
        return output.fail(f"{sentence}. See `{command} --help`.", fault.exit_code, json_lines=json_lines)
    except CommandRefused as fault:
        return output.fail(str(fault), fault.code, json_lines=json_lines)
    except typer.Abort:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe (`sluice check … | head`). Python's own flush at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.REFUSED
    except Exception as fault:  # noqa: BLE001  (the last handler before the user, who must not see a traceback)
        sentence, exit_code = _explain(fault)
        return output.fail(sentence, exit_code, json_lines=json_lines)
    finally:
        os.umask(umask)
    return code if isinstance(code, int) else Exit.DONE


def _explain(fault: Exception) -> tuple[str, int]:
    """Return a sentence for what went wrong, and the exit code."""
    if isinstance(fault, ImportError):
        return f"This installation is broken: {fault}. Install it again as README.md describes.", Exit.FAILED
    known = output.describe_fault(fault)
    if known is not None:
        return known
    if os.environ.get("SLUICE_LOG_LEVEL") == "debug":
        traceback.print_exception(fault)
    happened = f"{type(fault).__name__}: {fault}"
    return (
        f"Something unexpected happened: {happened}. SLUICE_LOG_LEVEL=debug shows where; please report it.",
        Exit.FAILED,
    )
