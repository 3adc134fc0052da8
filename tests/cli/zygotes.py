"""Zygotes for servers of tests, forked from one that has loaded every parser. What they do then is the sandbox's own; that the real
start loads all that it must is proved in `tests.engines.sandbox`, and by every server of a test that starts it from nothing.

The loaded process is `zygote_template`, one for each process of tests.
"""

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
from functools import cache
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, Final

from sluice.engines.sandbox.judge import Budget
from sluice.engines.sandbox.launch import Launched
from sluice.engines.sandbox.program import Ending, Program, private_file

ROOT: Final = str(Path(__file__).parents[2])
_SECONDS: Final = 60
_WORDS_BYTES: Final = 4096


class Begun:
    """A zygote that was forked for a sandbox, on its way into the process of that, if it is another one.

    `memory_bytes` as in `launch_zygote`.
    """

    def __init__(self, memory_bytes: int = Budget().memory_bytes) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with private_file() as words, theirs:
            self._pid = _template().fork(memory_bytes, theirs.fileno(), words.fileno())
            self._words = os.dup(words.fileno())
        self._control = ours

    def let_go(self) -> None:
        """Close what the server's process has by now."""
        self._control.close()
        os.close(self._words)

    def __getstate__(self) -> tuple[int, Any, Any]:
        """Travel to a process that is just being started, descriptors and all."""
        return self._pid, DupFd(self._control.fileno()), DupFd(self._words)

    def __setstate__(self, state: tuple[int, Any, Any]) -> None:
        self._pid, control, words = state
        self._control = socket.socket(fileno=control.detach())
        self._words = words.detach()

    def launched(self) -> Launched:
        """Answer it as the server's sandbox wants it."""
        return Launched(_Forked(self._pid, self._words), self._control)


class _Forked:
    """A process that is nobody's child here, held by its descriptor; `words` is the file behind its error stream."""

    def __init__(self, pid: int, words: int) -> None:
        self.pid: Final = pid
        self._process = os.pidfd_open(pid)
        self._words = words

    def kill(self) -> None:
        """End it at once; a no-op when it has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def last_words(self) -> str:
        """Answer the last line that it wrote to its error stream."""
        lines = os.pread(self._words, _WORDS_BYTES, 0).decode("utf-8", "replace").splitlines()
        return lines[-1].strip() if lines else ""

    async def ended(self) -> Ending | None:
        """Wait until it has ended; how it ended is told to its parent alone."""
        deadline = asyncio.get_running_loop().time() + _SECONDS
        while not select.select([self._process], [], [], 0)[0]:
            if asyncio.get_running_loop().time() > deadline:
                self.kill()
            await asyncio.sleep(0.002)  # as `Program` waits for its own
        return None

    def __del__(self) -> None:
        os.close(self._process)
        os.close(self._words)


class _Template:
    """The loaded process, and our end of its socket."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._orders.settimeout(_SECONDS)
        with theirs:
            self._program = Program("tests.cli.zygote_template", {}, theirs, import_path=[ROOT])

    def fork(self, memory_bytes: int, control: int, words: int) -> int:
        """Answer the process id of a zygote that talks over `control`, its error stream in the file `words`."""
        order = json.dumps({"memory_bytes": memory_bytes})
        socket.send_fds(self._orders, [order.encode()], [control, words])
        answer = self._orders.recv(64)
        if not answer:
            raise RuntimeError(f"the template of zygotes has ended: {self._program.last_words()}")
        return int(answer)


@cache
def _template() -> _Template:
    """Answer that of this process; it ends with us."""
    return _Template()
