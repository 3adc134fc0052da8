"""The command in a process of its own that need not load Python and every library first: forked from one that has loaded them.

What starts from nothing, as people start it, is tried by the tests that run a server, a pipe or a terminal.
"""

import asyncio
import contextlib
import ctypes
import faulthandler
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

import sluice.cli.auditing
import sluice.cli.backing_up
import sluice.cli.checking
import sluice.cli.diagnosing
import sluice.cli.faults
import sluice.cli.initialising
import sluice.cli.keys
import sluice.cli.moving
import sluice.cli.serving
import sluice.cli.uploading
import sluice.cli.working  # noqa: F401  (all of these are loaded for the children)
from sluice.cli.command import run
from tests.cli.zygotes import Begun

_SECONDS: Final = 60
_DUMP_SECONDS: Final = 5
_PR_SET_PDEATHSIG: Final = 1
PARENT: Final = multiprocessing.get_context("forkserver")
PARENT.set_forkserver_preload([__name__])
"""Makes processes of the loaded one: for other things than commands, too."""


def run_forked(words: Sequence[str], environment: Mapping[str, str], folder: Path, out: Path, err: Path) -> int:
    """Run `sluice` with `words` in `folder`, its output in files, and answer its exit code.

    Raises `TimeoutError` when it does not end, with the stacks of its threads and tasks: what it waited for is the question then.
    """
    for path in (out, err):
        path.unlink(missing_ok=True)
    begun = _begun(words)
    process = PARENT.Process(target=_run, args=(words, dict(environment), folder, (out, err), begun))
    process.start()
    if begun is not None:
        begun.let_go()
    process.join(_SECONDS)
    if process.exitcode is None:
        assert process.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGUSR1)
        process.join(_DUMP_SECONDS)  # `_tell_where` ends it
        process.kill()
        process.join()
        raise TimeoutError(f"sluice {' '.join(words)} did not end: {err.read_text(errors='replace')[-8000:]}")
    return process.exitcode


class ForkedServer:
    """`sluice serve` (or other `words`) forked from a process that has loaded it, which is most of its start; and so is its zygote.

    With `bears` its zygote is its own child, started from nothing as in production: for tests that look at it from outside.
    Told and waited for as `subprocess.Popen` is; `daemon` of `tests.servers` ends it. It dies with the tests, however they end.
    """

    def __init__(
        self, environment: Mapping[str, str], folder: Path, log: Path, words: Sequence[str] = ("serve",), *, bears: bool = False
    ) -> None:
        log.touch()
        begun = None if bears else _begun(words)
        self._process = PARENT.Process(target=_serve, args=(words, dict(environment), folder, log, begun), daemon=True)
        self._process.start()
        if begun is not None:
            begun.let_go()

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Answer the exit code, if it has ended."""
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Wait for its end, at most so many seconds, and answer the exit code. Raises `TimeoutExpired`."""
        self._process.join(timeout)
        code = self.returncode
        if code is None:
            raise subprocess.TimeoutExpired("sluice", timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended: its parent, which reaps it, may say so a moment after."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it, however it is."""
        self.send_signal(signal.SIGKILL)


def _begun(words: Sequence[str]) -> Begun | None:
    """Answer the zygote that a command starts with, for one that has any."""
    return Begun() if words[0] in {"serve", "work", "check", "doctor"} else None


def _run(words: Sequence[str], environment: dict[str, str], folder: Path, output: tuple[Path, Path], begun: Begun | None) -> None:
    signal.signal(signal.SIGUSR1, _tell_where)
    _become(words, environment, folder, output, begun)


def _tell_where(_number: int, _frame: FrameType | None) -> None:
    """Write what every thread and every task is at to standard error, and end."""
    faulthandler.dump_traceback(sys.__stderr__ or sys.stderr)
    with contextlib.suppress(RuntimeError):  # no loop runs
        for task in asyncio.all_tasks():
            task.print_stack(file=sys.stderr)
    sys.stderr.flush()
    os._exit(1)


def _serve(words: Sequence[str], environment: dict[str, str], folder: Path, log: Path, begun: Begun | None) -> None:
    os.setsid()  # Ctrl-C reaches pytest only, which then ends the servers in order
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    _become(words, environment, folder, (log, log), begun)


def _become(
    words: Sequence[str], environment: dict[str, str], folder: Path, output: tuple[Path, Path], begun: Begun | None
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, path in enumerate(output, start=1):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(fd, number)
        os.close(fd)
    sys.exit(run(words, None if begun is None else begun.launched))
