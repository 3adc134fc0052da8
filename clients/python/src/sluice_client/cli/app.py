"""The `sluice` command as a whole: all its commands, and the exit code and one sentence for everything that fails."""

# ruff: noqa: PLC0415  (a command loads what it needs when it runs)

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from sluice_client import __version__
from sluice_client.cli import output
from sluice_client.cli.output import CommandRefused, Exit
from sluice_client.cli.server_commands import server_commands

# Where the commands and groups are, as `module:name`, by the panels of the help.
PANELS: Final[Mapping[str, Mapping[str, str]]] = {
    "Files": {
        "upload": "upload:upload",
        "files": "files:group",
        "jobs": "jobs:group",
        "reports": "reports:group",
        "quarantine": "quarantine:group",
        "erasures": "erasures:group",
        "receipts": "receipts:group",
        "events": "events:group",
        "mcp": "mcp:mcp",
    },
    "Tenant": {
        "contexts": "contexts:group",
        "buckets": "buckets:group",
        "hashes": "hashes:group",
        "webhooks": "webhooks:group",
        "cors": "audit_log:cors_group",
        "usage": "usage:usage",
        "plan": "usage:plan",
        "audit-log": "audit_log:log_group",
    },
    "Access": {
        "login": "login:login",
        "logout": "login:logout",
        "profiles": "login:group",
        "keys": "keys:group",
        "upload-tokens": "upload_tokens:group",
    },
    "This command": {
        "completion": "shell:completion",
        "man": "shell:man",
    },
}


def _own_panels() -> Mapping[str, Mapping[str, str]]:
    return {
        panel: {name: f"sluice_client.cli.{place}" for name, place in places.items()}
        for panel, places in PANELS.items()
    }


@cache
def all_panels() -> Mapping[str, Mapping[str, str]]:
    """Return where the commands are, those of the server first if it is installed."""
    ours = _own_panels()
    added = server_commands()
    theirs = {} if added is None else added.panels
    return {panel: {**theirs.get(panel, {}), **ours.get(panel, {})} for panel in dict.fromkeys([*theirs, *ours])}


class _LazyGroup(TyperGroup):
    """A group that loads the module of a command when the command is asked for: a start costs one module, not all."""

    def get_params(self, ctx: Any) -> Any:
        return _params(super().get_params, ctx)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  (the name of the library)
        return [name for places in all_panels().values() for name in places]

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except typer.TyperException as fault:
            from difflib import get_close_matches

            # Typer compares with the commands that are loaded, which is none.
            near = get_close_matches(args[0], self.list_commands(ctx))
            if near:
                fault.message = f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, near))}?"
            raise

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        # The server's are looked up for a command of its own only.
        found = _place_of(cmd_name, _own_panels()) or _place_of(cmd_name, all_panels())
        if found is not None and cmd_name not in self.commands:
            self.commands[cmd_name] = _loaded(cmd_name, *found)
        return self.commands.get(cmd_name)


def _place_of(name: str, panels: Mapping[str, Mapping[str, str]]) -> tuple[str, str] | None:
    return next(((panel, places[name]) for panel, places in panels.items() if name in places), None)


def _loaded(name: str, panel: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        command = typer.main.get_command(found)
    else:
        alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        alone.command(name)(found)
        command = typer.main.get_command(alone)
    command.name = name
    vars(command)["rich_help_panel"] = panel
    _prepare(command)
    return command


def _prepare(command: Any) -> None:
    """Have a command and those below it take their parameters as `_params` does."""
    command.get_params = partial(_params, command.get_params)
    for one in getattr(command, "commands", {}).values():
        _prepare(one)


def _params(get_params: Callable[..., Any], ctx: Any) -> Any:
    """Return the parameters of a command, each with `_process_value`."""
    found = get_params(ctx)
    for parameter in found:
        if not isinstance(parameter.process_value, partial):
            parameter.process_value = partial(_process_value, parameter, parameter.process_value)
    return found


def _process_value(parameter: Any, process_value: Callable[..., Any], ctx: Any, value: Any) -> Any:
    """Take texts, switches, defaults, and paths of files that can be read as they are.

    Typer would load pydantic to look at them, a third of a command's start.
    """
    annotation = parameter.type_descriptor.annotation
    is_plain = (
        value is None
        or value is parameter.default
        or (isinstance(value, str) and annotation in {str, str | None})
        or (isinstance(value, bool) and annotation is bool)
    )
    if annotation == list[Path] and isinstance(value, list | tuple) and all(os.access(each, os.R_OK) for each in value):
        value, is_plain = [Path(each) for each in value], True
    if (parameter.required and parameter.value_is_missing(value)) or not is_plain:
        return process_value(ctx, value)
    return value if parameter.callback is None else parameter.callback(ctx, parameter, value)


app = typer.Typer(
    cls=_LazyGroup,
    add_completion=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["--help", "-h"]},
)


@app.callback(invoke_without_command=True)
def sluice(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Check every file against the rules of its context before anything is stored: an upload gate.

    Start with **sluice serve**: it sets itself up, shows a first key, and serves. Settings are environment variables,
    SLUICE_*. Commands that reach a running service find it by **--url** and **--api-key**, by SLUICE_URL and
    SLUICE_API_KEY, or by what **sluice login** keeps.

    Data go to standard output, what is said about them to standard error. With **--json** both are JSON: a list is one
    object on each line, an error is {"error", "code", "exit_code"}. Nothing is asked without a terminal: what destroys
    needs **--yes** there.

    Every command exits with 0 when done, 1 for an error, 2 for a wrong command line, setting or value, 3 when a file
    was rejected, 4 for a credential or scope that is missing, 5 when something was not found, 6 when the service is
    unavailable: try again.
    """
    if version:
        added = server_commands()
        output.line(f"sluice {__version__ if added is None else added.version}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help(), nl=False)


def main() -> None:
    """Run the command line of this process, or complete it for a shell, and exit."""
    if "_SLUICE_COMPLETE" in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]  # used there, not exported

        completion_init()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str], given: object = None) -> int:
    """Run one command and return its exit code; print what went wrong to standard error.

    `given` is for the commands of the server: what launches the sandbox's zygote, instead of `launch_early`.
    """
    json_lines = "--json" in arguments
    # What a command writes is for its own user alone, from the first byte on: databases, keys, backups, bookmarks.
    umask = os.umask(0o077)
    try:
        code = app(args=arguments, prog_name="sluice", standalone_mode=False, obj=given)
        sys.stdout.flush()
    except typer.TyperException as fault:
        command = getattr(getattr(fault, "ctx", None), "command_path", "sluice")
        sentence = " ".join(fault.format_message().replace("Value error, ", "").split()).rstrip(".")
        end = "" if sentence.endswith("?") else "."
        return output.fail(f"{sentence}{end} See `{command} --help`.", fault.exit_code, json_lines=json_lines)
    except CommandRefused as fault:
        return output.fail(str(fault), fault.code, json_lines=json_lines, error_code=fault.error_code)
    except (typer.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe (`sluice check … | head`). Python's own flush at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.ERROR
    except Exception as fault:  # noqa: BLE001  (the last handler before the user, who must not see a traceback)
        sentence, exit_code = _explain(fault)
        return output.fail(sentence, exit_code, json_lines=json_lines)
    finally:
        os.umask(umask)
    return code if isinstance(code, int) else Exit.DONE


def _explain(fault: Exception) -> tuple[str, int]:
    """Return a sentence for what went wrong, and the exit code."""
    if isinstance(fault, ImportError):
        return f"This installation is broken: {fault}. Install it again.", Exit.ERROR
    added = server_commands()
    known = output.describe_fault(fault) if added is None else added.explain(fault)
    if known is not None:
        return known
    if os.environ.get("SLUICE_LOG_LEVEL") == "debug":
        import traceback

        traceback.print_exception(fault)
    happened = f"{type(fault).__name__}: {fault}"
    return (
        f"Something unexpected happened: {happened}. SLUICE_LOG_LEVEL=debug shows where; please report it.",
        Exit.ERROR,
    )
