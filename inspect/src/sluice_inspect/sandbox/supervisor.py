"""The server's end of the zygote: start it, spawn and kill workers, and learn how each of them exited."""

import asyncio
import itertools
import json
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from sluice_inspect.child.protocol import Level
from sluice_inspect.sandbox.channel import Channel, JobReply, Reply, TimedOut
from sluice_inspect.sandbox.launch import LaunchedZygote
from sluice_inspect.sandbox.outcome import ExitStatus
from sluice_inspect.sandbox.protocol import FewFiles, OperatorRules, SandboxBroken

T = TypeVar("T")

_PACKET_MAX: Final = 4096
_START_SECONDS: Final = 60.0
_SPAWN_SECONDS: Final = 60.0
_EXIT_SECONDS: Final = 5.0


class WorkerUnavailable(Exception):
    """No worker is available. `str()` says why."""


@dataclass(eq=False, slots=True)
class Worker:
    """One forked worker. `tenant_id` is set with its first file and never changed; `served` counts its files.

    `generation` is that of the pool when it was forked.
    """

    number: int
    channel: Channel
    exited: "asyncio.Future[ExitStatus | None]"
    pid: int = 0
    tenant_id: str | None = None
    served: int = 0
    generation: int = 0
    idle_since: float = 0.0


class Supervisor:
    """One zygote and its workers, created by `start`. Unusable once `is_alive` is False."""

    def __init__(self, launched: LaunchedZygote, on_exit: Callable[[], None]) -> None:
        self._process = launched.process
        self._control = launched.control
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._exits: dict[int, asyncio.Future[ExitStatus | None]] = {}
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._loaded: asyncio.Future[bool] = self._loop.create_future()
        self._has_rules: asyncio.Future[str] = self._loop.create_future()
        self.is_alive = True
        # What the zygote held when it had loaded, and so every worker from its start.
        self.resident_bytes = 0
        self._control.setblocking(False)
        self._loop.add_reader(self._control.fileno(), self._on_readable)

    @classmethod
    async def start(cls, launched: LaunchedZygote, on_exit: Callable[[], None]) -> "Supervisor":
        """Wait until the zygote takes orders. `on_exit` is called once if it exits before `aclose`.

        Raise `SandboxBroken` with its last error.
        """
        supervisor = cls(launched, on_exit)
        try:
            await supervisor._wait_for(supervisor._ready)
        except BaseException:
            launched.process.kill()
            await supervisor.aclose()
            raise
        return supervisor

    @property
    def pid(self) -> int:
        """The zygote's process id."""
        return self._process.pid

    async def load(self, *, test: bool = True, only: FewFiles | None = None, checks: Sequence[str] = ()) -> bool:
        """Have every parser loaded, in some second. Return whether they have to be tested, and `report_test` called.

        Without `test` they have not, and no test of another process is waited for. With `only`, those parsers alone are
        loaded that these files need. `checks` are the operator's own.

        Raise `SandboxBroken`, also if another process has tested them and found one that fails.
        """
        if self._loaded.done():
            self._loaded = self._loop.create_future()
        few = None if only is None else {"extensions": sorted(only.extensions), "scanned": only.scanned}
        self._send({"load": True, "test": test, "only": few, "checks": list(checks)})
        return await self._wait_for(self._loaded)

    async def load_rules(self, rules: OperatorRules) -> str:
        """Have workers that are spawned later apply the operator's rules. Return what is wrong with them, or nothing.

        Raise `SandboxBroken` if the zygote ends meanwhile. Not to be called again before it has returned.
        """
        if self._has_rules.done():
            self._has_rules = self._loop.create_future()
        self._send({"rules": rules.version}, rules.fd)
        return await self._wait_for(self._has_rules)

    def report_test(self, fault: str) -> None:
        """Report what is wrong with the parsers, empty if nothing is: other processes need not test them."""
        self._send({"tested": fault})

    async def try_level(self, level: Level) -> None:
        """Confine a child that has loaded no parser, and end it. Raise `WorkerUnavailable` if that is not possible."""
        self.kill(await self.spawn(level, unloaded=True))

    async def spawn(self, level: Level, *, unloaded: bool = False, ocr: Sequence[str] = ()) -> Worker:
        """Return a new worker, confined to `level`; `unloaded`, it need not have a parser. Raise `WorkerUnavailable`.

        With `ocr`, it has loaded the models of OCR for languages of these names. If cancelled, it leaves no worker.
        """
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise WorkerUnavailable(f"no socket for a new worker: {error}") from error
        number, exited = self._fork(level, theirs, unloaded=unloaded, ocr=ocr)
        worker = Worker(number, Channel(ours), exited)
        try:
            hello = await worker.channel.hello(_SPAWN_SECONDS)
            if isinstance(hello, TimedOut):
                # A fork takes milliseconds: one that has not happened by now never will, and only a new zygote helps.
                self._fail()
            worker.pid = _pid_in(hello, level)
        except BaseException:
            self.kill(worker)
            raise
        return worker

    def open_samples(self, most: int | None = None) -> socket.socket:
        """Return a socket that delivers the samples of the formats, or of the first `most`.

        The unconfined child behind it makes them and exits.
        """
        ours, theirs = socket.socketpair()
        self._fork("samples", theirs, most=most)
        return ours

    def kill(self, worker: Worker) -> None:
        """Kill a worker; a no-op when it has exited."""
        worker.channel.close()
        if worker.number in self._exits:
            self._send({"kill": worker.number})

    async def exit_status(self, worker: Worker) -> ExitStatus | None:
        """Kill a worker and return how it exited, on its own or by this.

        Return None if the zygote is gone or does not reply.
        """
        self.kill(worker)
        await asyncio.wait([worker.exited], timeout=_EXIT_SECONDS)
        if not worker.exited.done():
            self._fail()
        return worker.exited.result()

    async def aclose(self) -> None:
        """End the zygote and every worker, and wait until they are gone. A second call is a no-op."""
        self._disconnect()
        await self._process.wait()

    def _fork(
        self,
        level: Level | Literal["samples"],
        theirs: socket.socket,
        *,
        unloaded: bool = False,
        most: int | None = None,
        ocr: Sequence[str] = (),
    ) -> "tuple[int, asyncio.Future[ExitStatus | None]]":
        number = next(self._numbers)
        exited = self._loop.create_future()
        if self.is_alive:
            self._exits[number] = exited
        else:
            exited.set_result(None)
        with theirs:
            order: dict[str, object] = {
                "fork": number,
                "level": level,
                "unloaded": unloaded,
                "most": most,
                "ocr": list(ocr),
            }
            self._send(order, theirs.fileno())
        return number, exited

    def _send(self, order: dict[str, object], *fds: int) -> None:
        if not self.is_alive:
            return
        try:
            socket.send_fds(self._control, [json.dumps(order).encode()], fds)
        except OSError:
            self._fail()

    def _on_readable(self) -> None:
        while self.is_alive:
            try:
                packet = self._control.recv(_PACKET_MAX)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self._fail()
                return
            match json.loads(packet):
                case {"ready": int(pid)}:
                    self._process.identify(pid)
                    self._ready.set_result(None)
                case {"loaded": {"resident_bytes": int(resident), "test": bool(needs_test)}}:
                    self.resident_bytes = resident
                    self._loaded.set_result(needs_test)
                case {"failed": str(why)} if not self._loaded.done():
                    self._loaded.set_exception(SandboxBroken(why))
                case {"rules": str(), "fault": str(fault), "resident_bytes": int(resident)}:
                    self.resident_bytes = resident
                    self._has_rules.set_result(fault)
                case {"exited": int(number), "status": int(status), "peak_bytes": int(peak)}:
                    self._exits.pop(number).set_result(ExitStatus(status, peak))

    def _fail(self) -> None:
        """Give up a zygote that exited or no longer replies; its workers die with it."""
        if self.is_alive:
            self._disconnect()
            self._process.kill()
            self._on_exit()

    def _disconnect(self) -> None:
        """Close the zygote's socket, upon which it kills and reaps its workers and exits."""
        if not self.is_alive:
            return
        self.is_alive = False
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        for awaited in (self._ready, self._loaded, self._has_rules):
            awaited.cancel()
        for exited in self._exits.values():
            exited.set_result(None)
        self._exits.clear()

    async def _wait_for(self, awaited: "asyncio.Future[T]") -> T:
        """Return what the zygote says. Raise `SandboxBroken` if it says that it failed, nothing in time, or exits."""
        await asyncio.wait([awaited], timeout=_START_SECONDS)
        if not awaited.done():
            self._fail()
            raise SandboxBroken(f"the zygote was not ready after {_START_SECONDS:.0f} s")
        if awaited.cancelled():
            await self._process.wait()
            raise SandboxBroken(f"the zygote ended before it was ready: {self._process.last_error_line()}")
        return awaited.result()


def _pid_in(hello: Reply, level: Level) -> int:
    match hello:
        case JobReply({"level": reached, "pid": int(pid)}) if reached == level:
            return pid
        case JobReply({"failed": str(why)}):
            raise WorkerUnavailable(why)
        case TimedOut():
            raise WorkerUnavailable(f"a new worker was not ready after {_SPAWN_SECONDS:.0f} s")
    raise WorkerUnavailable("a new worker ended before it was ready")
