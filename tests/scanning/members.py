"""Several real clamds that a test ends and starts again, each always at the same address."""

import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.servers import free_port
from tests.servers.clamd import Clamd, running_clamd


class Member:
    """One clamd; the first `start` sets it up."""

    def __init__(self, folder: Path, options: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._options = options
        self._port = free_port()
        self._running = ExitStack()
        self._clamd: Clamd | None = None

    @property
    def address(self) -> str:
        return f"unix:{self._folder / 'clamd.sock'}"

    @property
    def log(self) -> str:
        return (self._folder / "clamd.log").read_text(errors="replace")

    def start(self) -> None:
        """Return when it answers. A no-op while it runs."""
        if self._clamd is None:
            self._clamd = self._running.enter_context(running_clamd(self._folder, self._options, port=self._port))

    def kill(self) -> None:
        """End it as a crash does: its socket stays behind. A no-op while it is away."""
        if self._clamd is not None:
            os.kill(self._clamd.pid, signal.SIGKILL)
            self._gone()

    def end(self) -> None:
        """Ask it to end. A no-op while it is away."""
        self._gone()

    def say(self, command: str) -> bytes:
        """Answer what it says to a short command, such as `RELOAD`."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._folder / "clamd.sock"))
            connection.sendall(f"z{command}\0".encode())
            return connection.recv(100)

    def _gone(self) -> None:
        self._running.close()
        self._clamd = None


@contextmanager
def running_members(folder: Path, count: int, options: Mapping[str, str] | None = None) -> Iterator[list[Member]]:
    """Run that many until the block ends."""
    members = [Member(folder / f"clamd-{number}", options) for number in range(count)]
    try:
        for member in members:
            member.start()
        yield members
    finally:
        for member in members:
            member.end()
