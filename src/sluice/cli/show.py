"""Printing for people and for programs: tables, JSON, and texts of strangers made harmless. What is printed is decided by the commands."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDE = 10_000
"""Columns where nobody watches: a pipe or a file has no edge at which a line would have to break."""


def line(text: str = "") -> None:
    """Print one line as it is, never broken: it may be pasted or read by a program."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def as_json(value: object) -> None:
    """Print one value as one line of JSON in ASCII: file names may hold bytes that are no characters."""
    line(json.dumps(value, default=_plain_value))


def complain(sentence: str) -> None:
    """Say one sentence on standard error."""
    sys.stderr.write(f"sluice: {harmless(sentence)}\n")
    sys.stderr.flush()


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under their headings, broken to the terminal's width and never cut."""
    shown = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        shown.add_column(heading, overflow="fold")
    for row in rows:
        shown.add_row(*(_cell(text) for text in row))
    out().print(shown)


def out() -> Console:
    """Answer the console of standard output."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDE
    return console


def notices() -> Console:
    """Answer the console of standard error: progress goes there, and only where somebody watches (`is_terminal`)."""
    return Console(stderr=True, highlight=False)


def harmless(text: str) -> str:
    """Answer `text` with everything escaped that a terminal would act upon: file names and details come from strangers."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text)


def moment(value: datetime | None) -> str:
    """Answer a time to the second, in UTC; a dash where there is none."""
    return "-" if value is None else value.strftime("%Y-%m-%d %H:%M:%SZ")


_COLOURS: Mapping[str, str] = {
    "accepted": "green",
    "up": "green",
    "active": "green",
    "degraded": "yellow",
    "disabled": "yellow",
    "rejected": "red",
    "down": "red",
    "revoked": "red",
    "suspended": "red",
    "failed": "red",
}


def _cell(text: str) -> Text:
    return Text(harmless(text), style=_COLOURS.get(text, ""))


def _plain_value(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    raise TypeError(f"{type(value).__name__} has no form in JSON")
