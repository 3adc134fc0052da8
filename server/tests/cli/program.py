"""A program `sluice` for shells, run by processes forked from the preloaded one: its start costs a tenth.

Each call connects to this process, and hands over its arguments, environment, folder and standard streams. Signals that
it gets are passed on; when it is killed, so is what it runs.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import connection
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, Final

from tests.cli.forked import PARENT, fork_zygote, run_with_streams

_REQUEST_BYTES: Final = 200_000
_CALL: Final = """\
#!{python} -IS
import json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect({address!r})
request = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()])
socket.send_fds(server, [request.encode()], [0, 1, 2])
process = int(server.recv(64))
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, _frame: os.kill(process, number))
code = int(server.recv(64) or 1)
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


@contextmanager
def forked_program() -> Iterator[Path]:
    """Yield a folder for PATH that has `sluice`; what still runs at the end is killed."""
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:  # its name is short enough for a socket's address
        yield from _program_in(Path(folder))


def _program_in(folder: Path) -> Iterator[Path]:
    address, program = folder / "socket", folder / "bin" / "sluice"
    program.parent.mkdir()
    program.write_text(_CALL.format(python=sys.executable, address=str(address)))
    program.chmod(0o755)
    calls: list[threading.Thread] = []
    stopped = threading.Event()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(address))
        listener.listen()

        def accept() -> None:
            while not stopped.is_set():
                call, _address = listener.accept()
                if not stopped.is_set():
                    calls.append(threading.Thread(target=_serve, args=(call,)))
                    calls[-1].start()
                else:
                    call.close()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield program.parent
        finally:
            stopped.set()
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as last:
                last.connect(str(address))
            for thread in (accepting, *calls):
                thread.join()


def _serve(call: socket.socket) -> None:
    """Run one call until it ends, or until its program is gone."""
    with call:
        request, fds, _flags, _address = socket.recv_fds(call, _REQUEST_BYTES, 3)
        arguments, environment, folder = json.loads(request)
        zygote = fork_zygote(arguments)
        process = PARENT.Process(
            target=_run, args=(arguments, environment, Path(folder), tuple(map(_Stream, fds)), zygote), daemon=True
        )
        process.start()
        for fd in fds:
            os.close(fd)
        if zygote is not None:
            zygote.close()
        call.send(str(process.pid).encode())
        ended = connection.wait([process.sentinel, call])
        if process.sentinel not in ended:
            process.kill()
        process.join()
        with contextlib.suppress(OSError):
            call.send(str(process.exitcode).encode())


class _Stream:
    """A descriptor that can be pickled into a process that is being started."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __getstate__(self) -> Any:
        return DupFd(self._fd)

    def __setstate__(self, state: Any) -> None:
        self._fd = state.detach()

    def fileno(self) -> int:
        return self._fd


def _run(
    arguments: list[str], environment: Mapping[str, str], folder: Path, streams: tuple[_Stream, ...], zygote: Any
) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    run_with_streams(arguments, environment, folder, tuple(stream.fileno() for stream in streams), zygote)
