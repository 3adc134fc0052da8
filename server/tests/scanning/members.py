"""Real scanners that a test can stop and start again, each always at the same address: clamds, and a c-icap before one."""

import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.servers import free_port
from tests.servers.c_icap import CIcap, running_c_icap
from tests.servers.clamd import Clamd, running_clamd


class Member:
    """A clamd, which is created by the first `start`."""

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
    def port(self) -> int:
        return self._port

    @property
    def log(self) -> str:
        return (self._folder / "clamd.log").read_text(errors="replace")

    def start(self) -> None:
        """Start it and wait until it responds. A no-op while it runs."""
        if self._clamd is None:
            self._clamd = self._running.enter_context(running_clamd(self._folder, self._options, port=self._port))

    def kill(self) -> None:
        """Kill it like a crash, so that its socket file stays. A no-op while it is stopped."""
        if self._clamd is not None:
            os.kill(self._clamd.pid, signal.SIGKILL)
            self._clean_up()

    def stop(self) -> None:
        """Stop it. A no-op while it is stopped."""
        self._clean_up()

    def send(self, command: str) -> bytes:
        """Send a short command, such as `RELOAD`, and return the response."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._folder / "clamd.sock"))
            connection.sendall(f"z{command}\0".encode())
            return connection.recv(100)

    def _clean_up(self) -> None:
        self._running.close()
        self._clamd = None


class IcapMember:
    """A c-icap that asks a clamd, which is created by the first `start`."""

    def __init__(self, folder: Path, behind: Member) -> None:
        self._folder = folder
        self._behind = behind
        self._port = free_port()
        self._running = ExitStack()
        self._server: CIcap | None = None

    @property
    def address(self) -> str:
        return f"icap://127.0.0.1:{self._port}/avscan"

    def start(self) -> None:
        """Start it and wait until it responds. A no-op while it runs."""
        if self._server is None:
            server = running_c_icap(self._folder, clamd_port=self._behind.port, port=self._port)
            self._server = self._running.enter_context(server)

    def kill(self) -> None:
        """Kill it and the processes that it forked, like a crash. A no-op while it is stopped."""
        if self._server is not None:
            pid = self._server.pid
            for each in (pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())):
                os.kill(each, signal.SIGKILL)
            self._running.close()
            self._server = None


@contextmanager
def running_members(folder: Path, count: int, options: Mapping[str, str] | None = None) -> Iterator[list[Member]]:
    """Run `count` clamds until the block ends."""
    members = [Member(folder / f"clamd-{number}", options) for number in range(count)]
    try:
        for member in members:
            member.start()
        yield members
    finally:
        for member in members:
            member.stop()
