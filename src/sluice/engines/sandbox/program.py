"""A Python program started beside the server: isolated, with an environment of our own and one socket. What it does is its own module's affair."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

import sluice

_BOOT: Final = """\
import sys
for folder in sys.argv[1].split(":"):
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
from importlib import import_module
import_module(sys.argv[2]).main(sys.argv[3])
"""
_ENVIRONMENT: Final[Mapping[str, str]] = {
    # nothing of the server's: no secrets, no paths. Libraries stay on one thread (a fork keeps only one), and on one malloc
    # arena (each reserves 64 MB of address space); local time needs no file.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VIPS_CONCURRENCY": "1",
    "MALLOC_ARENA_MAX": "1",
    "TZ": "UTC0",
}
_COMPLAINT_BYTES: Final = 4096
_END_SECONDS: Final = 5.0
_NO_PEAK: Final = 0
"""A peak is kept across exec, so the kernel's figure may be the server's own from before it."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended: exit status, or minus the signal; processor seconds; the peak of its resident memory, 0 where unknown."""

    status: int
    cpu_seconds: float
    peak_bytes: int


def private_file() -> IO[bytes]:
    """Answer an empty file without a name, in memory where the system can: a hardened container has no place to write to."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("private"), "w+b")
    return tempfile.TemporaryFile()


class Running(Protocol):
    """A process as it is waited for and ended, however it was begun."""

    @property
    def pid(self) -> int:
        """The process id."""

    def kill(self) -> None:
        """End it at once; a no-op when it has ended."""

    def last_words(self) -> str:
        """Answer the last line that it wrote to its error stream, empty when there is none."""

    async def ended(self) -> Ending | None:
        """Wait until it has ended, and kill it when that takes long. None when nobody tells how it ended."""


class Program:
    """One running program, whose standard streams go nowhere but to a private file for its last words."""

    def __init__(
        self, module: str, arguments: Mapping[str, object], sock: socket.socket, *, import_path: Sequence[str] = ()
    ) -> None:
        """Start `module.main(arguments)`. `sock` is handed over as the argument `socket`; `import_path` is searched besides site-packages.

        Raises `OSError` when no process can be had.
        """
        folders = ":".join([*import_path, str(Path(sluice.__file__).parent.parent)])
        full = {**arguments, "socket": sock.fileno(), "parent": os.getpid()}
        self._last_words = ""
        self._words = private_file()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-X", "utf8", "-c", _BOOT, folders, module, json.dumps(full)],
                env=_ENVIRONMENT,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._words,
                pass_fds=(sock.fileno(),),
                start_new_session=True,  # a Ctrl-C at the terminal is the server's to handle
            )
        except BaseException:
            self._words.close()
            raise

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def kill(self) -> None:
        """End it at once; a no-op when it has ended."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    def last_words(self) -> str:
        """Answer the last line that it wrote to its error stream, empty when there is none."""
        if self._words.closed:
            return self._last_words
        size = os.fstat(self._words.fileno()).st_size
        tail = os.pread(self._words.fileno(), _COMPLAINT_BYTES, max(0, size - _COMPLAINT_BYTES)).decode("utf-8", "replace")
        return next((line.strip() for line in reversed(tail.splitlines()) if line.strip()), "")

    async def ended(self, seconds: float = _END_SECONDS) -> Ending | None:
        """Wait until it has ended and reap it; kills it after `seconds`. None when the kernel keeps how it ended to itself."""
        deadline = asyncio.get_running_loop().time() + seconds
        pause = 0.0005
        ending: Ending | None = None
        while self._process.returncode is None:
            ending = self._reap()
            if ending is None and self._process.returncode is None:
                if asyncio.get_running_loop().time() > deadline:
                    self.kill()
                await asyncio.sleep(pause)  # a process is no awaitable without a thread or a child watcher of the whole program
                pause = min(pause * 2, 0.02)
        self._last_words = self.last_words()
        self._words.close()
        return ending

    def _reap(self) -> Ending | None:
        try:
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        except ChildProcessError:  # somebody else's wait was first
            self._process.returncode = 0
            return None
        if not pid:
            return None
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return Ending(self._process.returncode, usage.ru_utime + usage.ru_stime, _NO_PEAK)
