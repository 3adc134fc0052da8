"""Launch the zygote, an isolated Python process with an environment of its own and one socket, or connect to one.

`supervisor` waits for it and uses it.

Launching is separate from supervising so that the zygote starts while the server loads itself. The processes of one
server share a zygote: `launch_shared_zygote` gives it the socket at which it serves them, and each connects.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol, TypeAlias

import sluice_inspect

DEFAULT_JOBS: Final = "sluice_inspect.child.jobs"
_MODULE: Final = "sluice_inspect.child.zygote"

_BOOT: Final = """\
import sys
for folder in sys.argv[1].split(":"):
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
from importlib import import_module
import_module(sys.argv[2]).main(sys.argv[3])
"""
_ENVIRONMENT: Final[Mapping[str, str]] = {
    # Nothing of the server's environment: no secrets, no paths. Libraries stay on one thread (a fork keeps only one)
    # and on one malloc arena (each reserves 64 MB of address space); local time needs no file.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VIPS_CONCURRENCY": "1",
    "MALLOC_ARENA_MAX": "1",
    "TZ": "UTC0",
}
_ERROR_OUTPUT_BYTES: Final = 4096
_WAIT_SECONDS: Final = 5.0


class ZygoteProcess(Protocol):
    """A process that can be killed and waited for, however it was started."""

    @property
    def pid(self) -> int:
        """The process id."""

    def identify(self, pid: int) -> None:
        """Take the process id that it has sent."""

    def kill(self) -> None:
        """Kill it; a no-op when it has exited."""

    def last_error_line(self) -> str:
        """Return the last line that it wrote to its error stream, empty if there is none."""

    async def wait(self) -> None:
        """Wait until it has exited; kill it if that takes too long."""


@dataclass(frozen=True, slots=True)
class LaunchedZygote:
    """A zygote that is still loading, and our end of its packet socket. It exits with the thread that launched it."""

    process: ZygoteProcess
    control: socket.socket

    def kill(self) -> None:
        """Kill it before it was used."""
        self.control.close()
        self.process.kill()


# A zygote that was launched before, or the socket of a shared one.
EarlyZygote: TypeAlias = LaunchedZygote | Path


def launch_zygote(*, memory_bytes: int, jobs: str = DEFAULT_JOBS, import_path: Sequence[str] = ()) -> LaunchedZygote:
    """Start a zygote. The arguments are those of `ZygoteSandbox`. Raise `OSError` when no process can be started."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    arguments = {"jobs": jobs, "memory_bytes": memory_bytes}
    try:
        process = IsolatedProcess(_MODULE, arguments, theirs, import_path=import_path)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return LaunchedZygote(process, ours)


def launch_shared_zygote(
    listener: socket.socket, *, memory_bytes: int, jobs: str = DEFAULT_JOBS, import_path: Sequence[str] = ()
) -> "IsolatedProcess":
    """Start a zygote that serves every client of `listener` until it is killed. Raise `OSError`."""
    arguments = {"jobs": jobs, "memory_bytes": memory_bytes, "shared": True}
    return IsolatedProcess(_MODULE, arguments, listener, import_path=import_path)


def open_zygote_socket(path: Path) -> socket.socket:
    """Return a socket, not inherited, at which a shared zygote listens; `connect_zygote` may be called at once."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(path))
    listener.listen()
    return listener


def connect_zygote(path: Path) -> LaunchedZygote:
    """Return a connection to the shared zygote that listens, or will, at `path`. Raise `OSError`."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        control.connect(str(path))
    except BaseException:
        control.close()
        raise
    return LaunchedZygote(SharedZygote(), control)


class SharedZygote:
    """A zygote that the supervisor of the server's processes has launched, and starts again when it has exited."""

    def __init__(self) -> None:
        self._pid = 0
        self._process = -1

    @property
    def pid(self) -> int:
        """The process id; 0 before it is known."""
        return self._pid

    def identify(self, pid: int) -> None:
        """Take the process id that it has sent."""
        self._pid = pid
        with contextlib.suppress(OSError):  # it has exited
            self._process = os.pidfd_open(pid)

    def kill(self) -> None:
        """Kill it: to be called only if it does not reply, since it serves other processes too."""
        if self._process >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def last_error_line(self) -> str:
        """Return nothing: its supervisor has its error stream."""
        return ""

    async def wait(self) -> None:
        """Close the handle; the zygote continues to serve other processes."""
        if self._process >= 0:
            os.close(self._process)
            self._process = -1


def private_file() -> IO[bytes]:
    """Return an empty nameless file in memory: a hardened container has no writable folder."""
    return os.fdopen(os.memfd_create("private"), "w+b")


class IsolatedProcess:
    """A Python process whose standard streams go nowhere, except errors, which go to a private file."""

    def __init__(
        self, module: str, arguments: Mapping[str, object], sock: socket.socket, *, import_path: Sequence[str] = ()
    ) -> None:
        """Start `module.main(arguments)`.

        `sock` is passed as the argument `socket`; `import_path` is searched besides site-packages.

        Raise `OSError` when no process can be started.
        """
        folders = ":".join([*import_path, str(Path(sluice_inspect.__file__).parent.parent)])
        full_arguments = {**arguments, "socket": sock.fileno(), "parent": os.getpid()}
        self._last_error_line = ""
        self._errors = private_file()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-X", "utf8", "-c", _BOOT, folders, module, json.dumps(full_arguments)],
                env=_ENVIRONMENT,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=(sock.fileno(),),
                start_new_session=True,  # a Ctrl-C at the terminal is the server's to handle
            )
        except BaseException:
            self._errors.close()
            raise

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def identify(self, pid: int) -> None:
        """Do nothing: its process id is known."""

    def poll(self) -> int | None:
        """Reap it if it has exited. Return its exit code, None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """Kill it; a no-op when it has exited."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill it and reap it."""
        self.kill()
        self._process.wait()
        self._errors.close()

    def last_error_line(self) -> str:
        """Return the last line that it wrote to its error stream, empty if there is none."""
        if self._errors.closed:
            return self._last_error_line
        size = os.fstat(self._errors.fileno()).st_size
        raw = os.pread(self._errors.fileno(), _ERROR_OUTPUT_BYTES, max(0, size - _ERROR_OUTPUT_BYTES))
        lines = raw.decode("utf-8", "replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    async def wait(self) -> None:
        """Wait until it has exited and reap it; kill it after some seconds."""
        deadline = asyncio.get_running_loop().time() + _WAIT_SECONDS
        pause = 0.0005
        # Polled: asyncio can wait for a process only with a thread, or with a child watcher for the whole program.
        while self._process.poll() is None:
            if asyncio.get_running_loop().time() > deadline:
                self.kill()
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.02)
        self._last_error_line = self.last_error_line()
        self._errors.close()
