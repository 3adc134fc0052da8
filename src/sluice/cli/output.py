"""What commands print and how they end: lines, tables, JSON, progress, exit codes, and a sentence for each known fault.

Text of strangers (file names, names of tenants, details) is escaped before it reaches a terminal.
"""

# ruff: noqa: PLC0415  (progress bars and the faults of engines are slow to load, and `--help` needs none of them)

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import IntEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import Progress

# Columns when the output is a pipe or a file: no edge at which a line must break.
_UNLIMITED_COLUMNS: Final = 10_000

_COLOURS: Final[Mapping[str, str]] = {
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

Advance = Callable[[int], None]

_bars: list["Progress"] = []  # that are shown now: a process has one terminal


class Exit(IntEnum):
    """Exit codes, the same for every command."""

    DONE = 0
    # The command worked and the answer is no: a file was rejected, an engine is down, a tenant does not exist.
    REFUSED = 1
    # The command line or a setting is wrong; nothing was tried.
    USAGE = 2
    # The command could not work here: no server, no database, no sandbox.
    FAILED = 3
    # Ended by Ctrl-C, as shells count it.
    INTERRUPTED = 130


class CommandRefused(Exception):
    """A command cannot do what was asked. `str()` is one sentence that says what to do."""

    def __init__(self, sentence: str, code: Exit = Exit.REFUSED) -> None:
        super().__init__(sentence)
        self.code = code


def line(*texts: str) -> None:
    """Print each text on a line of its own, escaped and never wrapped: it may be pasted or read by a program."""
    with _without_bar():
        sys.stdout.write("".join(f"{escaped(text)}\n" for text in texts))
        sys.stdout.flush()


def as_json(value: object) -> None:
    """Print a value as one line of JSON in ASCII: file names may contain bytes that are no characters."""
    line(json.dumps(value, default=_plain_value))


def complain(sentence: str) -> None:
    """Print one sentence to standard error."""
    with _without_bar():
        sys.stderr.write(f"sluice: {escaped(sentence)}\n")
        sys.stderr.flush()


def fail(sentence: str, code: int, *, json_lines: bool) -> int:
    """Print why a command ends, as one line of JSON if its output is JSON too, and return its exit code."""
    if json_lines:
        sys.stderr.write(f"{json.dumps({'error': sentence, 'exit_code': int(code)})}\n")
        sys.stderr.flush()
    else:
        complain(sentence)
    return code


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under their headings, wrapped at the width of the terminal and never cut."""
    shown = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        shown.add_column(heading, overflow="fold")
    for row in rows:
        shown.add_row(*(Text(escaped(text), style=_COLOURS.get(text, "")) for text in row))
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _UNLIMITED_COLUMNS
    console.print(shown)


def escaped(text: str) -> str:
    r"""Return `text` with everything escaped that a terminal acts upon or hides, as in `\x1b` or `\u202e`.

    `str.isprintable` is false for controls and for format characters (Unicode Cf): bidirectional overrides reorder what
    a reader sees, zero-width characters make two names look the same.
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def moment(value: datetime | None) -> str:
    """Return a time to the second in UTC; a dash for None."""
    return "-" if value is None else value.strftime("%Y-%m-%d %H:%M:%SZ")


@contextmanager
def progress(what: str, total: int, *, unit: Literal["items", "bytes"], quiet: bool = False) -> Iterator[Advance]:
    """Show a progress bar on standard error until the block ends, if that is a terminal.

    With `quiet` no bar is shown if standard output is a terminal too: its lines are progress enough.
    """
    console = Console(stderr=True)
    if not console.is_terminal or (quiet and sys.stdout.isatty()):
        yield lambda _amount: None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    amount_column = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount_column, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task(what, total=total)
        _bars.append(bar)
        try:
            yield lambda amount: bar.advance(task, amount)
        finally:
            _bars.remove(bar)


@contextmanager
def _without_bar() -> Iterator[None]:
    """Take the progress bar away while the block prints: both may be shown on the same terminal."""
    for bar in _bars:
        bar.stop()
    try:
        yield
    finally:
        for bar in _bars:
            bar.start()


def describe_fault(fault: BaseException) -> tuple[str, Exit] | None:
    """Return one sentence and the exit code for a known fault, None for an unexpected one."""
    from sluice.db.database import DatabaseUnavailable
    from sluice.errors import SluiceError
    from sluice.kit.secret_files import SecretFileRefused
    from sluice.sandbox import SandboxBroken
    from sluice.storage import StoreError
    from sluice.wiring.start import StartRefused

    code = Exit.FAILED
    match fault:
        case BaseExceptionGroup():
            return next((known for inner in fault.exceptions if (known := describe_fault(inner)) is not None), None)
        case CommandRefused():
            sentence, code = str(fault), fault.code
        case SluiceError():
            sentence = f"{fault.message}: {'; '.join(fault.errors)}."
            # 5xx: an engine that the command needed is unavailable. Everything else is a refusal.
            code = Exit.FAILED if fault.status >= HTTPStatus.INTERNAL_SERVER_ERROR else Exit.REFUSED
        case StartRefused() | SecretFileRefused():
            sentence = str(fault)
        case SandboxBroken():
            sentence = f"The sandbox cannot be trusted on this machine: {fault}."
        case DatabaseUnavailable():
            sentence = f"The database is unavailable: {fault}. Check SLUICE_DATABASE_URL and SLUICE_DATA_DIR."
        case StoreError():
            sentence = f"The store fails: {str(fault).rstrip('.')}. Check the SLUICE_STORAGE_ settings of the store."
        case OSError():
            what = fault.strerror or type(fault).__name__
            sentence = f"{fault.filename}: {what}." if fault.filename else f"{what}."
        case _:
            return None
    return sentence, code


def _plain_value(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    raise TypeError(f"{type(value).__name__} has no form in JSON")
