"""`docs/cli.md`: every command of `sluice`. The commands and their help are declared in `sluice.cli`."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from docs_pages.markdown import anchor, fenced, made_from, page, table
from sluice.cli.app import app
from sluice.cli.output import EXIT_CODES
from sluice.cli.shell import ENVIRONMENT, FILES, leaves

_INTRO = """
# The command `sluice`

The same text as `sluice COMMAND --help`. Commands read the [settings](settings.md) from the environment, as the service
does, and work on the same data folder. `upload` is the exception: it sends requests to a running service over HTTP.
"""


def cli_page() -> str:
    """Return the page."""
    root: Any = typer.main.get_command(app)
    commands = list(leaves(root, typer.Context(root), "sluice"))
    rows = [(f"[`{name}`](#{anchor(name)})", _first_sentence(command)) for name, command, _ in commands]
    sections = [block for name, command, context in commands for block in _section(name, command, context)]
    return page(
        made_from("src/sluice/cli"), _INTRO, root.help or "", table(("Command", "What it does"), rows), *sections
    )


def _section(name: str, command: Any, context: typer.Context) -> Iterator[str]:
    yield f"## {name}"
    yield command.help or ""
    yield fenced("sh", f"{name} {' '.join(command.collect_usage_pieces(context))}")
    records = [record for parameter in command.get_params(context) if (record := parameter.get_help_record(context))]
    rows = [(f"`{words}`", meaning) for words, meaning in records if "--help" not in words]
    if rows:
        yield table(("Argument or option", "Meaning"), rows)


def _first_sentence(command: Any) -> str:
    return re.split(r"(?<=[.?!])\s", str(command.help or ""))[0]
