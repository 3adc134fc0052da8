"""The zygote: loads every parser once, reads no stranger's byte, and forks children on request. Runs in its own process, single-threaded.

Talks with `nursery` over a packet socket, one JSON object a packet. In: `fork` (with the child's end of its socket), `kill`.
Out: `ready` or `failed`, once; `ended` for every child that is gone, with what the kernel says of it.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
from pathlib import Path
from typing import Final, Never

from sluice.engines.sandbox import child, lock, seccomp

_PACKET_MAX: Final = 4096
_LOST: Final = 70
"""Exit status of a child that left its loop by an exception; the kernel's reasons come as signals."""


class Zygote:
    """Children by process id. `control` is the packet socket to the server."""

    def __init__(self, control: socket.socket, jobs: child.Jobs, *, memory_bytes: int) -> None:
        self._control = control
        self._jobs = jobs
        self._address_space = child.memory_in_use()[0] + memory_bytes
        self._numbers: dict[int, int] = {}
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)

    def serve(self) -> None:
        """Fork, kill and reap until the server closes its end; then end every child and wait for them."""
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(self._wake_in.fileno(), warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_out, select.POLLIN)
        serving = True
        while serving:
            for fd, _events in poll.poll():
                if fd == self._wake_out.fileno():
                    self._reap()
                else:
                    serving = self._obey()
        for pid in self._numbers:
            os.kill(pid, signal.SIGKILL)
        for pid in self._numbers:
            os.waitpid(pid, 0)

    def _obey(self) -> bool:
        try:
            packet, fds, _flags, _address = socket.recv_fds(self._control, _PACKET_MAX, 1)
        except ConnectionResetError:
            return False
        if not packet:
            return False
        order = json.loads(packet)
        if "fork" in order:
            self._fork(order, fds[0])
        else:
            for pid in [pid for pid, number in self._numbers.items() if number == order["kill"]]:
                os.kill(pid, signal.SIGKILL)
        return True

    def _fork(self, order: dict[str, str], fd: int) -> None:
        zygote = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_child(order, fd, zygote)
        os.close(fd)
        self._numbers[pid] = int(order["fork"])

    def _become_child(self, order: dict[str, str], fd: int, zygote: int) -> Never:
        """Be a child until its work ends. Never returns: an exception must not let it run on as a second zygote."""
        status = _LOST
        try:
            lock.die_with(zygote)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for ours in (self._control, self._wake_in, self._wake_out):
                ours.close()
            sock = socket.socket(fileno=fd)
            if order["level"] == "samples":
                child.show_samples(sock, self._jobs)
            else:
                child.work(sock, self._jobs, level=order["level"], address_space=self._address_space)  # type: ignore[arg-type]  # the server names levels only
            status = 0
        finally:
            os._exit(status)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_out.recv(512):
                pass
        while self._numbers:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if not pid:
                return
            self._tell({
                "ended": self._numbers.pop(pid),
                "status": os.waitstatus_to_exitcode(status),
                "cpu_seconds": usage.ru_utime + usage.ru_stime,
                "peak_bytes": usage.ru_maxrss * 1024,
            })  # fmt: skip

    def _tell(self, message: dict[str, object]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the server is gone: the next read says so
            self._control.send(json.dumps(message).encode())


def main(raw_arguments: str) -> None:
    """Be the zygote. Arguments as JSON: `socket`, `parent`, `jobs`, `memory_bytes`."""
    arguments = json.loads(raw_arguments)
    for interrupt in (signal.SIGINT, signal.SIGTERM):
        # a terminal's or a service manager's signal goes to the whole group; the server ends us when it has drained
        signal.signal(interrupt, signal.SIG_IGN)
    lock.die_with(arguments["parent"])
    _offer_to_the_out_of_memory_killer()
    control = socket.socket(fileno=arguments["socket"])
    jobs = child.load_jobs(arguments["jobs"])
    jobs.preload()
    if threads := _other_threads():
        control.send(json.dumps({"failed": f"preloading left threads behind, which a fork would lose: {threads}"}).encode())
        return
    child.hush()
    seccomp.warm()
    zygote = Zygote(control, jobs, memory_bytes=arguments["memory_bytes"])
    control.send(json.dumps({"ready": {"resident_bytes": child.memory_in_use()[1]}}).encode())
    _freeze()
    zygote.serve()


def _other_threads() -> str:
    tasks = [task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]
    return ", ".join((task / "comm").read_text().strip() for task in tasks)


def _offer_to_the_out_of_memory_killer() -> None:
    """Stand first when the machine runs out of memory, and with us every child: better a parser than the server."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _freeze() -> None:
    """Keep the collector off the pages that children share with us."""
    gc.collect()
    gc.freeze()
