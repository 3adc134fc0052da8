"""`sluice completion` and `sluice man`: what shells and `man` know of the command."""

# ruff: noqa: PLC0415  (the whole command is loaded only to describe it)

import re
import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import typer

from sluice_client import __version__
from sluice_client.cli import output
from sluice_client.cli.output import EXIT_CODES, CommandRefused, Exit


class _Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[_Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print what makes a shell complete the commands and options of `sluice`.

    For bash: **eval "$(sluice completion bash)"** in ~/.bashrc. For zsh: the same in ~/.zshrc, behind compinit. For
    fish: **sluice completion fish | source** in ~/.config/fish/config.fish.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # not exported

    names = {"prog_name": "sluice", "complete_var": "_SLUICE_COMPLETE", "shell": shell.value}
    output.line(*get_completion_script(**names).splitlines())


def man() -> None:
    """Print the manual page, for **sluice man | man -l -**, or a file such as ~/.local/share/man/man1/sluice.1."""
    if sys.stdout.isatty():
        raise CommandRefused("This is the source of the page: `sluice man | man -l -` shows it.", Exit.USAGE)
    output.line(*_page())


def _page() -> Iterator[str]:
    from sluice_client.cli.app import app

    root: Any = typer.main.get_command(app)
    yield f'.TH SLUICE 1 "" "sluice {__version__}" "User Commands"'
    yield from (".SH NAME", r"sluice \- check every file before it is stored")
    yield from (".SH SYNOPSIS", ".B sluice", r"[\fB\-\-version\fR] \fICOMMAND\fR [\fIOPTION\fR]...")
    yield ".SH DESCRIPTION"
    yield from _paragraphs(root.help or "")
    yield ".SH COMMANDS"
    for name, command, context in leaves(root, typer.Context(root), "sluice"):
        yield f".SS {_escaped(name)}"
        yield from (".B", _escaped(f"{name} {' '.join(command.collect_usage_pieces(context))}"), ".PP")
        yield from _paragraphs(command.help or "")
        for parameter in command.get_params(context):
            record = parameter.get_help_record(context)
            if record is not None and "--help" not in record[0]:
                yield from (".TP", rf"\fB{_escaped(record[0])}\fR", *_text(record[1]))
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES.items():
        yield from (".TP", rf"\fB{int(code)}\fR", *_text(meaning))
    yield ".SH ENVIRONMENT"
    for variable, meaning in ENVIRONMENT.items():
        yield from (".TP", rf"\fB{variable}\fR", *_text(meaning))
    yield ".SH FILES"
    for file, meaning in FILES.items():
        yield from (".TP", rf"\fI{_escaped(file)}\fR", *_text(meaning))


ENVIRONMENT = {
    "SLUICE_URL": "Address of the service. Without it: that of the profile, then http://127.0.0.1:8000.",
    "SLUICE_API_KEY": "API key or token for the service.",
    "SLUICE_PROFILE": "The profile to use, unless --profile names one. Without both: default.",
    "NO_COLOR": "If it is set, tables have no colours.",
    "SLUICE_*": "The settings of the service itself: docs/settings.md.",
}
FILES = {
    "~/.config/sluice/config.toml": "The profiles. XDG_CONFIG_HOME names another folder than ~/.config.",
    "~/.config/sluice/credentials.toml": "Keys of profiles that are in no keyring; readable by their owner only.",
    "~/.local/state/sluice/": "What `sluice upload --resume` has begun. XDG_STATE_HOME names another folder.",
}


def leaves(command: Any, context: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield every command with its full name and a context; groups only hold others."""
    if not hasattr(command, "list_commands"):
        yield name, command, context
        return
    for inner in command.list_commands(context):
        yield from leaves(command.get_command(context, inner), context, f"{name} {inner}")


def _paragraphs(words: str) -> Iterator[str]:
    for number, paragraph in enumerate(re.split(r"\n\s*\n", words.strip())):
        if number:
            yield ".PP"
        yield from _text(paragraph)


def _text(words: str) -> Iterator[str]:
    """Yield running text: Markdown's bold and code are bold, and no line begins with a control character."""
    whole = _escaped(" ".join(words.split()))
    yield re.sub(r"\*\*(.+?)\*\*|`(.+?)`", lambda found: rf"\fB{found[1] or found[2]}\fR", whole)


def _escaped(words: str) -> str:
    escaped = words.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq")
    escaped = "".join(one if one.isascii() else rf"\[u{ord(one):04X}]" for one in escaped)
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
