"""The zygote: load every parser once, read no file, and fork workers on request.

Runs in a process of its own, single-threaded.

Exchanges one JSON object per packet with the server's supervisor over a packet socket. In: `fork` (with the worker's
end of its socket), `kill`. Out: `ready` or `failed`, once; `exited` for every child that has ended, with its exit
status.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
from pathlib import Path
from typing import Final, Never, cast

from sluice_inspect.child import confinement, seccomp, worker
from sluice_inspect.child.protocol import Level

_PACKET_MAX: Final = 4096
# Exit status of a child that left its loop by an exception; deaths by the kernel show as signals.
_EXIT_BY_EXCEPTION: Final = 70


class Zygote:
    """Forks, kills and reaps the children of this process. `control` is the packet socket to the server."""

    def __init__(self, control: socket.socket, jobs: worker.JobModule, *, memory_bytes: int) -> None:
        self._control = control
        self._jobs = jobs
        self._address_space = worker.memory_in_use()[0] + memory_bytes
        self._numbers: dict[int, int] = {}  # by process id
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)

    def serve(self) -> None:
        """Fork, kill and reap until the server closes its end; then kill every child and reap it."""
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
                    serving = self._handle_order()
        for pid in self._numbers:
            os.kill(pid, signal.SIGKILL)
        for pid in self._numbers:
            os.waitpid(pid, 0)

    def _handle_order(self) -> bool:
        """Handle one packet; return False when the server is gone."""
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
            self._run_child(order, fd, zygote)
        os.close(fd)
        self._numbers[pid] = int(order["fork"])

    def _run_child(self, order: dict[str, str], fd: int, zygote: int) -> Never:
        """Run as a child, then exit. Never returns: an exception must not let the child go on as a second zygote."""
        status = _EXIT_BY_EXCEPTION
        try:
            confinement.die_with(zygote)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for ours in (self._control, self._wake_in, self._wake_out):
                ours.close()
            sock = socket.socket(fileno=fd)
            if order["level"] == "samples":
                worker.send_samples(sock, self._jobs)
            else:
                level = cast("Level", order["level"])  # the server sends nothing else
                worker.serve(sock, self._jobs, level=level, address_space=self._address_space)
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
            report = {
                "exited": self._numbers.pop(pid),
                "status": os.waitstatus_to_exitcode(status),
                "peak_bytes": usage.ru_maxrss * 1024,
            }
            with contextlib.suppress(
                BrokenPipeError, ConnectionResetError
            ):  # the server is gone: the next read says so
                self._control.send(json.dumps(report).encode())


def main(raw_arguments: str) -> None:
    """Run the zygote. The arguments are JSON: `socket`, `parent`, `jobs`, `memory_bytes`."""
    arguments = json.loads(raw_arguments)
    for interrupt in (signal.SIGINT, signal.SIGTERM):
        # A terminal or a service manager signals the whole group; the server ends us when it has drained.
        signal.signal(interrupt, signal.SIG_IGN)
    confinement.die_with(arguments["parent"])
    with contextlib.suppress(OSError):
        # Let the out-of-memory killer take us and our children first: better a parser than the server.
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    control = socket.socket(fileno=arguments["socket"])
    jobs = worker.load_jobs(arguments["jobs"])
    jobs.preload()
    threads = [task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]
    if threads:
        names = ", ".join((task / "comm").read_text().strip() for task in threads)
        failure = f"preloading left threads behind, which a fork would lose: {names}"
        control.send(json.dumps({"failed": failure}).encode())
        return
    worker.silence_output()
    seccomp.warm()
    zygote = Zygote(control, jobs, memory_bytes=arguments["memory_bytes"])
    control.send(json.dumps({"ready": {"resident_bytes": worker.memory_in_use()[1]}}).encode())
    # Keep the garbage collector off the pages that children share with us.
    gc.collect()
    gc.freeze()
    zygote.serve()
