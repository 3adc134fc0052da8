"""The server's end of the zygote: births, kills, and how each child ended. Which child works for whom is decided in `pool`."""

import asyncio
import itertools
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from sluice.engines.sandbox.launch import Launched
from sluice.engines.sandbox.link import Answered, Late, Link, Reply
from sluice.engines.sandbox.program import Ending, Running
from sluice.engines.sandbox.protocol import Level, SandboxBroken

_PACKET_MAX: Final = 4096
_START_SECONDS: Final = 60.0
_BIRTH_SECONDS: Final = 10.0
_ENDING_SECONDS: Final = 5.0


class NoChild(Exception):
    """No child could be had. `str()` says why."""


@dataclass(eq=False, slots=True)
class Child:
    """One forked child. `tenant_id` is set with its first file and never changed; `served` counts its files."""

    number: int
    link: Link
    ended: "asyncio.Future[Ending | None]"
    pid: int = 0
    tenant_id: str | None = None
    served: int = 0
    idle_since: float = 0.0


class Nursery:
    """One zygote and its children, made by `of`. Of no more use once `alive` is False."""

    def __init__(self, program: Running, control: socket.socket, on_death: Callable[[], None]) -> None:
        self._program = program
        self._control = control
        self._on_death = on_death
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._endings: dict[int, asyncio.Future[Ending | None]] = {}
        self._ready: asyncio.Future[str] = self._loop.create_future()
        self.alive = True
        self.resident_bytes = 0
        """What the zygote held when it was ready, and so every child from its birth."""
        control.setblocking(False)
        self._loop.add_reader(control.fileno(), self._on_packets)

    @classmethod
    async def of(cls, launched: Launched, on_death: Callable[[], None]) -> "Nursery":
        """Wait until a zygote has loaded every parser. `on_death` is called once, when it ends before `aclose`.

        Raises `SandboxBroken` with what it said last.
        """
        nursery = cls(launched.program, launched.control, on_death)
        try:
            await nursery._wait_until_ready()
        except BaseException:
            launched.program.kill()
            await nursery.aclose()
            raise
        return nursery

    @property
    def pid(self) -> int:
        """The zygote's process id."""
        return self._program.pid

    async def birth(self, level: Level) -> Child:
        """Answer a new child that is locked at `level`. Raises `NoChild`; cancelled, it leaves none behind."""
        try:
            ours, theirs = socket.socketpair()
        except OSError as fault:
            raise NoChild(f"no socket for a new child: {fault}") from fault
        number, ended = self._fork(level, theirs)
        child = Child(number, Link(ours), ended)
        try:
            said = await child.link.hello(_BIRTH_SECONDS)
            if isinstance(said, Late):
                self._die()  # a fork takes milliseconds: one that has not happened by now never will, and only a new zygote helps
            child.pid = _pid_of(said, level)
        except BaseException:
            self.kill(child)
            raise
        return child

    def sample_maker(self) -> socket.socket:
        """Answer a socket from which the formats' samples can be read; the child behind it is not locked and ends by itself."""
        ours, theirs = socket.socketpair()
        self._fork("samples", theirs)
        return ours

    def kill(self, child: Child) -> None:
        """End a child for good; a no-op when it has ended."""
        child.link.close()
        if child.number in self._endings:
            self._tell({"kill": child.number})

    async def ending(self, child: Child) -> Ending | None:
        """End a child and answer how it ended, if it had ended by itself; None when the zygote ended first or does not answer."""
        self.kill(child)
        await asyncio.wait([child.ended], timeout=_ENDING_SECONDS)
        if not child.ended.done():
            self._die()
        return child.ended.result()

    async def aclose(self) -> None:
        """End the zygote and every child, and wait until they are gone. A second call is a no-op."""
        self._hang_up()
        await self._program.ended()

    def _fork(self, kind: Level | Literal["samples"], theirs: socket.socket) -> "tuple[int, asyncio.Future[Ending | None]]":
        number = next(self._numbers)
        ended = self._loop.create_future()
        if self.alive:
            self._endings[number] = ended
        else:
            ended.set_result(None)
        with theirs:
            self._tell({"fork": number, "level": kind}, theirs.fileno())
        return number, ended

    def _tell(self, order: dict[str, object], *fds: int) -> None:
        """Send one order. A zygote that takes no more orders is done with: its children end with it."""
        if not self.alive:
            return
        try:
            socket.send_fds(self._control, [json.dumps(order).encode()], fds)
        except OSError:
            self._die()

    def _on_packets(self) -> None:
        while self.alive:
            try:
                packet = self._control.recv(_PACKET_MAX)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if packet:
                self._hear(json.loads(packet))
            else:
                self._die()

    def _hear(self, news: dict[str, object]) -> None:
        match news:
            case {"ready": {"resident_bytes": int(resident)}}:
                self.resident_bytes = resident
                self._ready.set_result("")
            case {"failed": str(why)}:
                self._ready.set_result(why)
            case {"ended": int(number), "status": int(status), "cpu_seconds": float(cpu), "peak_bytes": int(peak)}:
                self._endings.pop(number).set_result(Ending(status, cpu, peak))

    def _die(self) -> None:
        if self.alive:
            self._hang_up()
            self._program.kill()
            self._on_death()

    def _hang_up(self) -> None:
        """Close the zygote's socket, at which it ends its children, reaps them and ends itself."""
        if not self.alive:
            return
        self.alive = False
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        if not self._ready.done():
            self._ready.set_result("")
        for ended in self._endings.values():
            ended.set_result(None)
        self._endings.clear()

    async def _wait_until_ready(self) -> None:
        await asyncio.wait([self._ready], timeout=_START_SECONDS)
        if not self._ready.done():
            raise SandboxBroken(f"the child program was not ready after {_START_SECONDS:.0f} s")
        if failure := self._ready.result():
            raise SandboxBroken(failure)
        if not self.alive:
            await self._program.ended()
            raise SandboxBroken(f"the child program ended before it was ready: {self._program.last_words()}")


def _pid_of(said: Reply, level: Level) -> int:
    match said:
        case Answered({"level": reached, "pid": int(pid)}) if reached == level:
            return pid
        case Answered({"failed": str(why)}):
            raise NoChild(why)
        case Late():
            raise NoChild(f"a new child was not ready after {_BIRTH_SECONDS:.0f} s")
    raise NoChild("a new child ended before it was ready")
