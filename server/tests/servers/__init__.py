"""Real servers for tests: how to start, await and stop them. Each server has a module of its own.

Every server listens on a free loopback port, keeps its data in a folder and dies with the test process.
"""

import itertools
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

START_SECONDS = 60.0
STOP_SECONDS = 15.0
_POLL_SECONDS = 0.02
# Below those of outgoing connections, which begin at 32768, and above 10080, which browsers refuse.
_FIRST_PORT, _PORTS_OF_A_WORKER, _SHARES = 10_100, 2_000, 11
# Suites that run at the same time begin at different ones, and threads that ask at the same time get different ones.
_numbers = itertools.count(secrets.randbelow(_PORTS_OF_A_WORKER))


class Process(Protocol):
    """The part of `subprocess.Popen` that these helpers need."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float, /) -> int: ...
    def send_signal(self, number: int, /) -> None: ...
    def kill(self) -> None: ...


def free_port() -> int:
    """Return a loopback TCP port that is free, and stays so until a server listens on it.

    The system gives it to no outgoing connection, and neither do other calls in this worker of xdist, or in others.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw-1").removeprefix("gw")) + 1
    first = _FIRST_PORT + worker % _SHARES * _PORTS_OF_A_WORKER
    for _ in range(_PORTS_OF_A_WORKER):
        port = first + next(_numbers) % _PORTS_OF_A_WORKER
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"no port from {first} to {first + _PORTS_OF_A_WORKER - 1} is free")


def listens(port: int) -> bool:
    """Return whether a server accepts connections on the loopback `port`."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def run(command: Sequence[str], *, environment: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a short program and return its output. Raises `RuntimeError` with its error output when it fails."""
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        env=environment,
        cwd=cwd or Path("/"),
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} responded with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


@contextmanager
def daemon(
    command: Sequence[str],
    log: Path,
    *,
    ready: Callable[[], bool],
    as_user: str | None = None,
    stop_with: signal.Signals = signal.SIGTERM,
    environment: dict[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `command` in the foreground of its own process until the block ends; its output goes to `log`.

    The block begins when `ready()` first returns true. Raises `RuntimeError` with the end of the log when the
    server dies before.
    Through `setpriv` the kernel sends `stop_with` to the server when the test process dies for any reason.
    """
    user = [f"--reuid={as_user}", f"--regid={as_user}", "--init-groups"] if as_user else []
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["setpriv", f"--pdeathsig={stop_with.name.removeprefix('SIG')}", *user, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd="/",
            start_new_session=True,  # Ctrl-C reaches only pytest, which then stops the servers in order
        )
    try:
        wait_until(ready, process, log)
        yield process
    finally:
        end(process, stop_with)


def wait_until(ready: Callable[[], bool], process: Process, log: Path) -> None:
    """Wait until `ready()` is true. Raises `RuntimeError` after `START_SECONDS`, or when the process has died."""
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            state = "is not ready in time" if process.poll() is None else f"ended with {process.returncode}"
            raise RuntimeError(f"the server {state}: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(_POLL_SECONDS)


def end(process: Process, stop_with: signal.Signals = signal.SIGTERM) -> None:
    """Send `stop_with` to the process, and kill it when it is still running after `STOP_SECONDS`."""
    if process.poll() is None:
        process.send_signal(stop_with)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)
