"""The output of commands: lines, tables, JSON, progress, exit codes, and a sentence for each known fault.

Text of strangers (file names, names of tenants, details) is escaped before it reaches a terminal.
"""

# ruff: noqa: PLC0415  (what draws on terminals and the faults of engines are slow to load; most commands need neither)

import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import IntEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

_T = TypeVar("_T")
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

_ANSI: Final[Mapping[str, str]] = {"green": "32", "yellow": "33", "red": "31"}

Advance = Callable[[int], None]

_bars: list["Progress"] = []  # that are shown now: a process has one terminal


class Exit(IntEnum):
    """Exit codes, the same for every command. `EXIT_CODES` has their meanings."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    REJECTED = 3
    CREDENTIALS = 4
    NOT_FOUND = 5
    UNAVAILABLE = 6
    INTERRUPTED = 130  # as shells count it


EXIT_CODES: Final[Mapping[Exit, str]] = {
    Exit.DONE: "done",
    Exit.ERROR: "it failed, or the result is not the expected one: conflicts (409), a check that does not match, a "
    "file that cannot be read, what is not confirmed with --yes",
    Exit.USAGE: "the command line, a setting, a file of settings or a value is wrong (422); nothing was changed",
    Exit.REJECTED: "a file was rejected, or is larger than the service takes (413); others were sent",
    Exit.CREDENTIALS: "the credential is missing, not accepted (401), or lacks a scope (403)",
    Exit.NOT_FOUND: "what was named does not exist (404)",
    Exit.UNAVAILABLE: "try again: no service responds, the connection broke, too many requests (429), or an engine is "
    "unavailable (502, 503, 504, 507)",
    Exit.INTERRUPTED: "ended by Ctrl-C",
}

_EXIT_OF_STATUS: Final[Mapping[int, Exit]] = {
    HTTPStatus.UNAUTHORIZED: Exit.CREDENTIALS,
    HTTPStatus.FORBIDDEN: Exit.CREDENTIALS,
    HTTPStatus.NOT_FOUND: Exit.NOT_FOUND,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: Exit.REJECTED,
    HTTPStatus.UNPROCESSABLE_ENTITY: Exit.USAGE,
    HTTPStatus.TOO_MANY_REQUESTS: Exit.UNAVAILABLE,
    HTTPStatus.BAD_GATEWAY: Exit.UNAVAILABLE,
    HTTPStatus.SERVICE_UNAVAILABLE: Exit.UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT: Exit.UNAVAILABLE,
    HTTPStatus.INSUFFICIENT_STORAGE: Exit.UNAVAILABLE,
}


def exit_of(status: int, error_code: str | None = None) -> Exit:
    """Return the exit code for a response that is no success, by its status and its error code."""
    return Exit.REJECTED if error_code == "file_rejected" else _EXIT_OF_STATUS.get(status, Exit.ERROR)


class CommandRefused(Exception):
    """A command cannot do what was asked. `str()` is one sentence that says what to do.

    `error_code` is that of the service's response, for scripts.
    """

    def __init__(self, sentence: str, code: Exit = Exit.ERROR, *, error_code: str | None = None) -> None:
        super().__init__(sentence)
        self.code = code
        self.error_code = error_code


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


def say(sentence: str) -> None:
    """Print one sentence for people to standard error: what was done, beside the data on standard output."""
    with _without_bar():
        sys.stderr.write(f"{escaped(sentence)}\n")
        sys.stderr.flush()


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is destroyed, unless `yes`. Raise `CommandRefused` without a terminal, or if it is not "y".

    `question` is what would be done, such as "Delete the file file_1".
    """
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CommandRefused(f"Nothing was done. {question}? Add --yes to do it.")
    sys.stderr.write(f"{escaped(question)}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CommandRefused("Nothing was done.")


def fail(sentence: str, code: int, *, json_lines: bool, error_code: str | None = None) -> int:
    """Print why a command ends, as one line of JSON if its output is JSON too, and return its exit code."""
    if json_lines:
        with _without_bar():
            sys.stderr.write(f"{json.dumps({'error': sentence, 'code': error_code, 'exit_code': int(code)})}\n")
            sys.stderr.flush()
    else:
        complain(sentence)
    return code


def listing(found: Iterable[_T], headings: Sequence[str], row: Callable[[_T], Sequence[str]], *, json: bool) -> None:
    """Print a list: for people a table under its headings, for scripts a line of JSON for each, none for none."""
    if json:
        for one in found:
            as_json(one)
    else:
        table(headings, [row(one) for one in found])


def fields(found: Mapping[str, object], *, json: bool) -> None:
    """Print one thing: for people its fields, one on each line, for scripts one line of JSON."""
    if json:
        as_json(found)
        return
    width = max(map(len, found), default=0)
    line(*(f"{name:<{width}}  {plain(value)}" for name, value in found.items()))


def done(found: Mapping[str, object], sentence: str, *, json: bool) -> None:
    """Print that something was done: for people a sentence on standard error, for scripts what it is now, as JSON."""
    if json:
        as_json(found)
    else:
        say(sentence)


def plain(value: object) -> str:
    """Return a value of JSON for people."""
    if value is None or value in ("", [], (), {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        return " ".join(value)
    return str(value) if isinstance(value, (str, int, float)) else json.dumps(value, ensure_ascii=False)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, most: int = sys.maxsize) -> None:
    """Print rows under their headings, wrapped at the width of the terminal, or at `most` columns, and never cut."""
    cells = [[escaped(text) for text in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(headings, *cells, strict=True)]
    is_terminal = sys.stdout.isatty()
    room = int(os.environ["COLUMNS"]) if os.environ.get("COLUMNS", "").isdecimal() else 0
    if not room:
        room = shutil.get_terminal_size().columns if is_terminal else most
    if sum(widths) + 2 * (len(widths) - 1) > room:
        _folded_table(headings, cells, min(room, most))
        return
    styled = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    lines = []
    for number, row in enumerate([list(headings), *cells]):
        padded = [text + " " * (width - _width(text)) for text, width in zip(row, widths, strict=True)]
        if styled:
            styles = ["1" if number == 0 else _ANSI.get(_COLOURS.get(text, ""), "") for text in row]
            padded = [
                f"\x1b[{style}m{text}\x1b[0m" if style else text for text, style in zip(padded, styles, strict=True)
            ]
        lines.append("  ".join(padded).rstrip())
    with _without_bar():
        sys.stdout.write("".join(f"{one}\n" for one in lines))
        sys.stdout.flush()


def _width(text: str) -> int:
    """Return the columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )


def _folded_table(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> None:
    """Print a table that is wider than `width`: its columns share the width and are folded."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        shown.add_column(heading, overflow="fold")
    for row in rows:
        shown.add_row(*(Text(text, style=_COLOURS.get(text, "")) for text in row))
    with _without_bar():
        Console(highlight=False, width=width).print(shown)


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
def progress(
    what: str, total: int, *, unit: Literal["items", "bytes"], quiet: bool = False, then: str = ""
) -> Iterator[Advance]:
    """Show a progress bar on standard error until the block ends, if that is a terminal.

    Its text is `what`, and `then` (if given) once the total is reached and the block has not ended.
    With `quiet` no bar is shown if standard output is a terminal too: its lines are progress enough.
    """
    if not sys.stderr.isatty() or (quiet and sys.stdout.isatty()):
        yield lambda _amount: None
        return
    from rich.console import Console
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
    with Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bar:
        task = bar.add_task(what, total=total)
        _bars.append(bar)

        def advance(amount: int) -> None:
            bar.advance(task, amount)
            if then:
                bar.update(task, description=then if bar.tasks[0].finished else what)

        try:
            yield advance
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
    if isinstance(fault, CommandRefused):
        return str(fault), fault.code
    if isinstance(fault, OSError):
        what = fault.strerror or type(fault).__name__
        return (f"{fault.filename}: {what}." if fault.filename else f"{what}."), Exit.ERROR
    return None


def _plain_value(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    raise TypeError(f"{type(value).__name__} has no form in JSON")
