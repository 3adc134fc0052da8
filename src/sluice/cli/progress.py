"""How far long work has come, shown on standard error and only to a person who watches."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

Advance = Callable[[int], None]


@contextmanager
def counted(what: str, total: int, *, quiet: bool = False) -> Iterator[Advance]:
    """Show a bar that counts things until the block ends."""
    with _bar(what, total, MofNCompleteColumn(), quiet=quiet) as advance:
        yield advance


@contextmanager
def in_bytes(what: str, total: int, *, quiet: bool = False) -> Iterator[Advance]:
    """Show a bar that counts bytes until the block ends."""
    with _bar(what, total, DownloadColumn(), quiet=quiet) as advance:
        yield advance


@contextmanager
def _bar(what: str, total: int, amount: ProgressColumn, *, quiet: bool) -> Iterator[Advance]:
    console = Console(stderr=True)
    # Lines of JSON that scroll past on the same terminal say enough.
    if not console.is_terminal or (quiet and sys.stdout.isatty()):
        yield lambda _amount: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
        task = progress.add_task(what, total=total)
        yield lambda amount: progress.advance(task, amount)
