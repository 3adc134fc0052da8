"""Zygotes for test servers, forked from a process that has loaded every parser. They run production code.

`tests.sandbox`, and every test that starts a server in a new interpreter, prove that the production start loads all
parsers. The preloaded process is `zygote_template`, one per test process.
"""

import asyncio
import atexit
import contextlib
import json
import os
import select
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, Final

from sluice_inspect.sandbox.launch import IsolatedProcess, LaunchedZygote, private_file
from sluice_inspect.sandbox.protocol import JobLimits

ROOT: Final = str(Path(__file__).parents[2])
_SECONDS: Final = 60
_ERROR_BYTES: Final = 4096
_ONE_AT_A_TIME: Final = threading.Lock()
_LAUNCHER: Final = ThreadPoolExecutor(1)
"""A thread that lives as long as this process. The kernel ends what a thread has launched with that thread, and the first
server may be started by a thread of a test."""


class ForkedZygote:
    """A forked zygote that can be pickled into the process of its sandbox.

    `memory_bytes` as in `launch_zygote`.
    """

    def __init__(self, memory_bytes: int = JobLimits().memory_bytes) -> None:
        parent_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Threads of a test may start servers: without the lock each could get the reply to another.
        with private_file() as errors, child_end, _ONE_AT_A_TIME:
            self._pid = _template().fork(memory_bytes, child_end.fileno(), errors.fileno())
            self._errors = os.dup(errors.fileno())
        self._control = parent_end

    def close(self) -> None:
        """Close the descriptors of this process, after the server process has received its copies."""
        self._control.close()
        os.close(self._errors)

    def __getstate__(self) -> tuple[int, Any, Any]:
        """Pickle the process id and the descriptors for a process that is being started."""
        return self._pid, DupFd(self._control.fileno()), DupFd(self._errors)

    def __setstate__(self, state: tuple[int, Any, Any]) -> None:
        self._pid, control, errors = state
        self._control = socket.socket(fileno=control.detach())
        self._errors = errors.detach()

    def launched(self) -> LaunchedZygote:
        """Return the zygote in the form that a sandbox expects."""
        return LaunchedZygote(_ZygoteProcess(self._pid, self._errors), self._control)


class _ZygoteProcess:
    """A process that is not a child of this one, held by a pidfd; `errors` is the file behind its error stream."""

    def __init__(self, pid: int, errors: int) -> None:
        self.pid: Final = pid
        self._process = os.pidfd_open(pid)
        self._errors = errors

    def identify(self, pid: int) -> None:
        """Do nothing: its process id is known."""

    def kill(self) -> None:
        """Send SIGKILL; a no-op when it has exited."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def last_error_line(self) -> str:
        """Return the last line of its error stream."""
        lines = os.pread(self._errors, _ERROR_BYTES, 0).decode("utf-8", "replace").splitlines()
        return lines[-1].strip() if lines else ""

    async def wait(self) -> None:
        """Wait until it has exited, and kill it after a deadline."""
        deadline = asyncio.get_running_loop().time() + _SECONDS
        while not select.select([self._process], [], [], 0)[0]:
            if asyncio.get_running_loop().time() > deadline:
                self.kill()
            await asyncio.sleep(0.002)  # the interval of `IsolatedProcess`

    def __del__(self) -> None:
        os.close(self._process)
        os.close(self._errors)


class _Template:
    """The preloaded process and this end of its socket."""

    def __init__(self) -> None:
        self._requests, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.settimeout(_SECONDS)
        with child_end:
            launched = _LAUNCHER.submit(IsolatedProcess, "tests.cli.zygote_template", {}, child_end, import_path=[ROOT])
            self._program = launched.result()

    def fork(self, memory_bytes: int, control: int, errors: int) -> int:
        """Fork a zygote connected to `control` that writes errors to the file `errors`. Return its process id."""
        request = json.dumps({"memory_bytes": memory_bytes})
        socket.send_fds(self._requests, [request.encode()], [control, errors])
        reply = self._requests.recv(64)
        if not reply:
            raise RuntimeError(f"the zygote template has exited: {self._program.last_error_line()}")
        return int(reply)

    def end(self, launched_by: int) -> None:
        """End it at the exit of the process that launched it; do nothing in a fork of that process."""
        if os.getpid() == launched_by:
            self._program.end()
            self._requests.close()


@cache
def _template() -> _Template:
    """Return the template of this test process; it ends with the process."""
    template = _Template()
    atexit.register(template.end, os.getpid())
    return template
