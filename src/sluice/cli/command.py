"""The `sluice` command as a whole: its groups put together, and every fault turned into one sentence. What commands do is in their modules."""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sluice import __version__
from sluice.cli import file_commands, key_commands, quarantine_commands, secret_commands, service_commands, show, tenant_commands
from sluice.cli.outcomes import CommandRefused, Exit

if TYPE_CHECKING:  # it is loaded by what launches: `--help` needs none of it
    from sluice.wiring.ahead import Launch

app = typer.Typer(add_completion=False, rich_markup_mode="markdown", context_settings={"help_option_names": ["--help", "-h"]})
service_commands.add_to(app)
file_commands.add_to(app)
quarantine_commands.add_to(app)
tenant_commands.add_to(app)
key_commands.add_to(app)
secret_commands.add_to(app)


@app.callback(invoke_without_command=True)
def sluice(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """A gate for files: every upload is inspected under the rules of its context before anything is stored.

    Start with **sluice serve**: it sets itself up, shows a first key, and serves. Settings are environment variables, SLUICE_*.

    Every command ends with 0 when done, 1 when the answer is no, 2 for a wrong command line or setting, 3 when it could not work here.
    """
    if version:
        show.line(f"sluice {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


def main() -> None:
    """Run the command of this process and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str], launch: "Launch | None" = None) -> int:
    """Run one command and answer its exit code; what went wrong is said on standard error.

    `launch` begins the zygote of a command that has one, where that is to be another than `launch_ahead`.
    """
    try:
        code = app(args=arguments, prog_name="sluice", standalone_mode=False, obj=launch)
        sys.stdout.flush()
    except typer.TyperException as fault:
        show.complain(_usage_sentence(fault))
        return fault.exit_code
    except CommandRefused as fault:
        show.complain(str(fault))
        return fault.code
    except typer.Abort:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`sluice check … | head`): the rest goes nowhere, and Python's own flush at exit must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.REFUSED
    except Exception as fault:  # noqa: BLE001  (the last place before a person: no trace may pass it)
        return _explain(fault)
    return code if isinstance(code, int) else Exit.DONE


def _usage_sentence(fault: typer.TyperException) -> str:
    command = getattr(getattr(fault, "ctx", None), "command_path", "sluice")
    sentence = fault.format_message().replace("Value error, ", "").rstrip(".")
    return f"{sentence}. See `{command} --help`."


def _explain(fault: Exception) -> int:
    if isinstance(fault, ImportError):
        show.complain(f"This installation is broken: {fault}. Install it anew, as README.md says.")
        return Exit.FAILED
    from sluice.cli.faults import worded  # noqa: PLC0415  (knows every engine's faults, which a command that went well never loads)

    known = worded(fault)
    if known is not None:
        sentence, code = known
        show.complain(sentence)
        return code
    show.complain(
        f"Something unexpected happened: {type(fault).__name__}: {fault}. SLUICE_LOG_LEVEL=debug shows where; please report it."
    )
    if os.environ.get("SLUICE_LOG_LEVEL") == "debug":
        traceback.print_exception(fault)
    return Exit.FAILED
