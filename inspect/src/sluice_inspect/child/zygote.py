"""The zygote: load every parser once, read no file, and fork workers on request.

Runs in a process of its own, single-threaded. It serves one server process over a packet socket, or all processes of a
server, which connect to a listening one: the parsers are loaded once, and tested once.

Exchanges one JSON object per packet with each client. In: `fork` (with the worker's end of its socket), `kill`, `load`,
`tested`. Out: `ready`, at once; `loaded` or `failed`, when `load` has been done; `exited` for every child that has
ended, with its exit status.

`rules` brings the operator's compiled YARA rules in a sealed file in memory: children that are forked later apply them.
Out: `rules`, with what is wrong with them, if anything is.

Parsers are loaded by the first order that needs them: `load`, or a `fork` that is not only `unloaded`. A `load` with
`only` loads what a few files need, which is all that its children have until the next `load` without. Of several
clients that order `load` with `test`, the first has to test the parsers, and the others get their `loaded` when it has
sent `tested` with what is wrong, or has left. After a fault, the next `load` tests again. Without `test`, from a client
that has tested the parsers in an earlier zygote, `loaded` comes at once.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Never, cast

from sluice_inspect.child import confinement, seccomp, worker
from sluice_inspect.child.protocol import Level

_PACKET_MAX: Final = 4096
# Exit status of a child that left its loop by an exception; deaths by the kernel show as signals.
_EXIT_BY_EXCEPTION: Final = 70
_FAULT_MAX: Final = 300


@dataclass(eq=False, slots=True)
class _Client:
    """A process of the server: our end of its packet socket, and its children by process id."""

    control: socket.socket
    numbers: dict[int, int] = field(default_factory=dict)

    def send(self, packet: dict[str, object]) -> None:
        # A client that is gone is noticed at the next read, and one that does not read must not stop the others.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, BlockingIOError):
            self.control.send(json.dumps(packet).encode())


class Zygote:
    """Forks, kills and reaps the children of this process for its clients.

    `control` is the packet socket to the only client, or `listener` the socket to which clients connect.
    """

    def __init__(
        self,
        jobs: worker.JobModule,
        *,
        memory_bytes: int,
        control: socket.socket | None = None,
        listener: socket.socket | None = None,
    ) -> None:
        self._jobs = jobs
        self._memory_bytes = memory_bytes
        self._listener = listener
        self._clients: dict[int, _Client] = {}  # by descriptor
        self._is_loaded = self._is_partly_loaded = False
        self._tester: _Client | None = None
        self._waiting: list[_Client] = []  # for the tester's result
        self._fault: str | None = None  # what the tester found wrong: empty if nothing, None before it is known
        self._address_space = worker.memory_in_use()[0] + memory_bytes
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._poll = select.poll()
        if control is not None:
            self._welcome(control)

    def serve(self) -> None:
        """Fork, kill and reap until the only client closes its end; then kill every child and reap it.

        With a listener, serve until this process is killed.
        """
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(self._wake_in.fileno(), warn_on_full_buffer=False)
        self._poll.register(self._wake_out, select.POLLIN)
        if self._listener is not None:
            self._poll.register(self._listener, select.POLLIN)
        while self._clients or self._listener is not None:
            for fd, _events in self._poll.poll():
                if fd == self._wake_out.fileno():
                    self._reap()
                elif self._listener is not None and fd == self._listener.fileno():
                    self._accept(self._listener)
                elif not self._handle_order(self._clients[fd]):
                    self._part(self._clients[fd])

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the client has left, or there is no descriptor for it
            control, _address = listener.accept()
            control.setblocking(False)
            self._welcome(control)

    def _welcome(self, control: socket.socket) -> None:
        client = self._clients[control.fileno()] = _Client(control)
        self._poll.register(control, select.POLLIN)
        client.send({"ready": os.getpid()})

    def _part(self, client: _Client) -> None:
        """Forget a client that is gone; kill its children and reap them."""
        self._poll.unregister(client.control)
        del self._clients[client.control.fileno()]
        client.control.close()
        for pid in client.numbers:
            os.kill(pid, signal.SIGKILL)
        for pid in client.numbers:
            os.waitpid(pid, 0)
        if client in self._waiting:
            self._waiting.remove(client)
        if client is self._tester:
            self._tester = None
            if self._waiting:
                self._reply_load(self._waiting.pop(0))

    def _handle_order(self, client: _Client) -> bool:  # noqa: C901, PLR0912  (one branch for each order)
        """Handle one packet; return False when the client is gone."""
        try:
            packet, fds, _flags, _address = socket.recv_fds(client.control, _PACKET_MAX, 1)
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False
        if not packet:
            return False
        order = json.loads(packet)
        if "fork" in order:
            if not order.get("unloaded") and not self._is_partly_loaded:
                self._load()
            self._fork(client, order, fds[0])
        elif "kill" in order:
            for pid in [pid for pid, number in client.numbers.items() if number == order["kill"]]:
                os.kill(pid, signal.SIGKILL)
        elif "load" in order:
            if fault := self._load_checks(order["checks"]):
                client.send({"failed": fault})
                return True
            self._load(order.get("only"))
            self._reply_load(client, may_test=order["test"])
        elif "rules" in order:
            self._load_rules(client, order["rules"], fds[0])
        elif "tested" in order and client is self._tester:
            self._fault = order["tested"]
            for waiting in self._waiting:
                self._reply_load(waiting)
            self._waiting.clear()
            if self._fault:
                self._fault = self._tester = None  # the next `load` tests again
        return True

    def _load(self, only: dict[str, Any] | None = None) -> None:
        """Load every parser, once, or `only` those for a few files. Raise what that raises; exit if a thread stays."""
        if self._is_loaded:
            return
        gc.disable()
        if only is None:
            self._jobs.preload()
        else:
            self._jobs.preload_for(only["extensions"], scanned=only["scanned"])
        threads = [task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]
        if threads:
            names = ", ".join((task / "comm").read_text().strip() for task in threads)
            for client in self._clients.values():
                client.send({"failed": f"preloading left threads behind, which a fork would lose: {names}"})
            os._exit(_EXIT_BY_EXCEPTION)
        worker.silence_output()
        self._address_space = worker.memory_in_use()[0] + self._memory_bytes
        self._is_partly_loaded = True
        # Keep the garbage collector off the pages that children share with us.
        if only is None:
            gc.collect()
        gc.freeze()
        gc.enable()
        self._is_loaded = only is None

    def _load_checks(self, names: list[str]) -> str:
        """Load the operator's own checks, before the parsers. Return what is wrong with them, or nothing."""
        if not names:
            return ""
        try:
            self._jobs.load_checks(names)
        except BaseException as error:  # noqa: BLE001  (a module of the operator may raise anything)
            return f"SLUICE_PYTHON_CHECKS: {type(error).__name__}: {error}"[:_FAULT_MAX]
        return ""

    def _load_rules(self, client: _Client, version: str, fd: int) -> None:
        fault = ""
        try:
            with open(fd, "rb") as file:
                self._jobs.load_rules(os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0), version)
        except BaseException as error:  # noqa: BLE001  (a panic of the library is no `Exception`)
            fault = f"{type(error).__name__}: {error}"[:_FAULT_MAX]
        self._address_space = worker.memory_in_use()[0] + self._memory_bytes
        gc.freeze()
        client.send({"rules": version, "fault": fault, "resident_bytes": worker.memory_in_use()[1]})

    def _reply_load(self, client: _Client, *, may_test: bool = True) -> None:
        if self._fault:
            client.send({"failed": self._fault})
        elif may_test and self._fault is None and self._tester is not None and client is not self._tester:
            self._waiting.append(client)
        else:
            is_tester = may_test and self._fault is None
            self._tester = client if is_tester else self._tester
            client.send({"loaded": {"resident_bytes": worker.memory_in_use()[1], "test": is_tester}})

    def _fork(self, client: _Client, order: dict[str, object], fd: int) -> None:
        zygote = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._run_child(order, fd, zygote)
        os.close(fd)
        client.numbers[pid] = cast("int", order["fork"])

    def _run_child(self, order: dict[str, object], fd: int, zygote: int) -> Never:
        """Run as a child, then exit. Never returns: an exception must not turn the child into a second zygote."""
        status = _EXIT_BY_EXCEPTION
        try:
            confinement.die_with(zygote)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            clients = [client.control for client in self._clients.values()]
            listeners = [] if self._listener is None else [self._listener]
            for ours in (*clients, *listeners, self._wake_in, self._wake_out):
                ours.close()
            sock = socket.socket(fileno=fd)
            if order["level"] == "samples":
                worker.send_samples(sock, self._jobs, cast("int | None", order["most"]))
            else:
                level = cast("Level", order["level"])  # the server sends nothing else
                ocr = cast("list[str]", order.get("ocr", []))
                worker.serve(sock, self._jobs, level=level, address_space=self._address_space, ocr=ocr)
            status = 0
        finally:
            os._exit(status)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_out.recv(512):
                pass
        owners = {pid: client for client in self._clients.values() for pid in client.numbers}
        while owners:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if not pid:
                return
            client = owners.pop(pid)
            client.send(
                {
                    "exited": client.numbers.pop(pid),
                    "status": os.waitstatus_to_exitcode(status),
                    "peak_bytes": usage.ru_maxrss * 1024,
                }
            )


def main(raw_arguments: str) -> None:
    """Run the zygote. The arguments are JSON: `socket`, whether it is `shared`, `parent`, `jobs`, `memory_bytes`."""
    arguments = json.loads(raw_arguments)
    for interrupt in (signal.SIGINT, signal.SIGTERM):
        # A terminal or a service manager signals the whole group; the server ends us when it has drained.
        signal.signal(interrupt, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the supervisor of several processes blocks what it waits for
    confinement.die_with(arguments["parent"])
    with contextlib.suppress(OSError):
        # Let the out-of-memory killer take us and our children first: better a parser than the server.
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    jobs = worker.load_jobs(arguments["jobs"])
    seccomp.warm()
    sock = socket.socket(fileno=arguments["socket"])
    memory_bytes = arguments["memory_bytes"]
    if arguments.get("shared"):
        Zygote(jobs, memory_bytes=memory_bytes, listener=sock).serve()
    else:
        Zygote(jobs, memory_bytes=memory_bytes, control=sock).serve()
