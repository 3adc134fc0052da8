"""Run the command in a process forked from a preloaded one, which saves loading Python and every library.

Tests that need a server, a pipe or a terminal cover the start in a new interpreter.
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

from sluice_client.cli.app import main, run
from tests.cli.zygotes import ForkedZygote

_SECONDS: Final = 60
_DUMP_SECONDS: Final = 5
_PR_SET_PDEATHSIG: Final = 1
os.environ["PYTHONPATH"] = os.pathsep.join(
    path for path in sys.path if path
)  # the process from which it forks loads tests
PARENT: Final = multiprocessing.get_context("forkserver")
"""Multiprocessing context that forks from the preloaded process; not limited to commands."""
PRELOADED: Final = (__name__, "tests.cli.preload")
PARENT.set_forkserver_preload([*PRELOADED])


def run_forked(arguments: Sequence[str], environment: Mapping[str, str], folder: Path, out: Path, err: Path) -> int:
    """Run `sluice` with `arguments` in `folder` with its output in files, and return its exit code.

    Raise `TimeoutError` if it does not exit, with the stacks of its threads and tasks to show what it waited for.
    """
    for path in (out, err):
        path.unlink(missing_ok=True)
    zygote = fork_zygote(arguments)
    process = PARENT.Process(target=_run, args=(arguments, dict(environment), folder, (out, err), zygote))
    process.start()
    if zygote is not None:
        zygote.close()
    process.join(_SECONDS)
    if process.exitcode is None:
        assert process.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGUSR1)
        process.join(_DUMP_SECONDS)  # `_dump_stacks` exits the process
        process.kill()
        process.join()
        raise TimeoutError(f"sluice {' '.join(arguments)} did not exit: {err.read_text(errors='replace')[-8000:]}")
    return process.exitcode


class ForkedServer:
    """`sluice serve` (or other `arguments`) and its zygote, each forked from a preloaded process to shorten the start.

    With `own_zygote` the server starts its own zygote as in production, for tests that inspect it from outside.
    The methods follow `subprocess.Popen`; `daemon` of `tests.servers` stops it. It terminates with the test process.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
        arguments: Sequence[str] = ("serve",),
        *,
        own_zygote: bool = False,
    ) -> None:
        log.touch()
        zygote = None if own_zygote else fork_zygote(arguments)
        self._process = PARENT.Process(
            target=_serve, args=(arguments, dict(environment), folder, log, zygote), daemon=True
        )
        self._process.start()
        if zygote is not None:
            zygote.close()

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Wait at most `timeout` seconds and return the exit code. Raise `TimeoutExpired` if it still runs."""
        self._process.join(timeout)
        code = self.returncode
        if code is None:
            raise subprocess.TimeoutExpired("sluice", timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal unless the process has exited. The parent that reaps it may report the exit later."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def fork_zygote(arguments: Sequence[str]) -> ForkedZygote | None:
    """Fork a zygote for a command that uses one; return None for other commands."""
    return ForkedZygote() if {*arguments[:1]} & {"serve", "work", "check", "doctor"} else None


def _run(
    arguments: Sequence[str],
    environment: dict[str, str],
    folder: Path,
    output: tuple[Path, Path],
    zygote: ForkedZygote | None,
) -> None:
    signal.signal(signal.SIGUSR1, _dump_stacks)
    _run_command(arguments, environment, folder, output, zygote)


def _dump_stacks(_number: int, _frame: FrameType | None) -> None:
    """Write the stacks of all threads and tasks to standard error, and exit."""
    faulthandler.dump_traceback(sys.__stderr__ or sys.stderr)
    with contextlib.suppress(RuntimeError):  # no event loop is running
        for task in asyncio.all_tasks():
            task.print_stack(file=sys.stderr)
    sys.stderr.flush()
    os._exit(1)


def _serve(
    arguments: Sequence[str], environment: dict[str, str], folder: Path, log: Path, zygote: ForkedZygote | None
) -> None:
    signal.signal(signal.SIGUSR1, _dump_stacks)
    os.setsid()  # Ctrl-C reaches pytest only, which then stops the servers in order
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    _run_command(arguments, environment, folder, (log, log), zygote)


def _run_command(
    arguments: Sequence[str],
    environment: dict[str, str],
    folder: Path,
    output: tuple[Path, Path],
    zygote: ForkedZygote | None,
) -> None:
    out, err = (os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for path in output)
    run_with_streams(arguments, environment, folder, (0, out, err), zygote)


def run_with_streams(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    streams: Sequence[int],
    zygote: ForkedZygote | None,
) -> None:
    """Run `sluice` in this process, which was forked for it, and exit. `streams` become its standard streams."""
    # multiprocessing hides an import that fails, and each process would load all by itself
    assert "tests.cli.preload" in sys.modules
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, fd in enumerate(streams):
        if fd != number:
            os.dup2(fd, number)
            os.close(fd)
    if zygote is None:
        sys.argv = ["sluice", *arguments]
        main()
    else:
        sys.exit(run(arguments, zygote.launched))
