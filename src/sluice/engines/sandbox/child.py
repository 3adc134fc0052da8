"""The life of a child: lock itself, say so, then work on one file after another. How it is held lives in `lock`, what it does in `jobs`.

Runs in the child only. `main` is the program of a child that was spawned and not forked.
"""

import contextlib
import importlib
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Final, Protocol, cast

from sluice.engines.sandbox import lock, wire
from sluice.engines.sandbox.protocol import Level
from sluice.engines.sandbox.tray import TrayWriter

JobFunction = Callable[..., Mapping[str, object]]
"""Takes a descriptor, which it leaves open, the file's name and, where one was lent, a `TrayWriter`; answers JSON values."""

SampleMaker = tuple[str, str, Callable[[], bytes]]
"""The name of a format, a file name, and what makes a small good file of it."""

_WORN_AFTER_BYTES: Final = 128 * 1024**2
"""A child whose memory once grew by more is replaced: a fork is cheap beside the work that took so much."""
_WHY_MAX: Final = 300


class Jobs(Protocol):
    """What a jobs module holds."""

    JOBS: Mapping[str, JobFunction]

    def preload(self) -> None:
        """Import all that a job could need: a locked child can open nothing."""

    def samples(self) -> Iterable[SampleMaker]:
        """Answer a maker of one good file for each format."""


def load_jobs(name: str) -> Jobs:
    """Answer the jobs module `name`; raises `ImportError`."""
    module: ModuleType = importlib.import_module(name)
    return cast("Jobs", module)


def work(sock: socket.socket, jobs: Jobs, *, level: Level, address_space: int) -> None:
    """Lock this process at `level`, say hello, then answer requests until the server closes the socket."""
    try:
        lock.lock(level, address_space=address_space)
    except lock.LockFailed as fault:
        wire.send(sock, wire.pack(wire.HELLO, {"failed": str(fault)}))
        return
    wire.send(sock, wire.pack(wire.HELLO, {"level": level, "pid": os.getpid()}))
    rested = _peak_bytes()
    while (received := wire.receive(sock)) is not None:
        for request, fds in received:
            answer = _worked_on(jobs, request, fds)
            worn = "raised" in answer or "overran" in answer or _peak_bytes() - rested > _WORN_AFTER_BYTES
            wire.send(sock, _frame(request.number, {**answer, "worn": worn}))
            if worn:
                return


def _worked_on(jobs: Jobs, request: wire.Request, fds: Sequence[int]) -> dict[str, object]:
    fd, *lent = fds
    lock.allow_cpu(request.cpu_seconds)
    trays = [TrayWriter(tray) for tray in lent]
    answer = _answer(jobs, request, fd, trays)
    for tray in trays:
        tray.close()
    with contextlib.suppress(OSError):  # a parser that closed it has done no harm
        os.close(fd)
    return answer


def show_samples(sock: socket.socket, jobs: Jobs) -> None:
    """Make every sample and send it: a line of JSON, then the bytes. Runs without a lock, on nothing but our own code."""
    with sock.makefile("wb") as out:
        for name, filename, make in jobs.samples():
            try:
                content = make()
                about: dict[str, object] = {"format": name, "filename": filename, "bytes": len(content)}
            except Exception as fault:  # noqa: BLE001  (whatever a maker raises names its format)
                content, about = b"", {"format": name, "failed": _described(fault)}
            out.write(json.dumps(about).encode() + b"\n" + content)
        out.write(b'{"end":true}\n')


def memory_in_use() -> tuple[int, int]:
    """Answer the bytes that this process has mapped and those that are resident, 0 and 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123  (a kernel file, before the lock; pathlib would be one more import)
            mapped, resident = statm.read().split()[:2]
    except OSError:
        return 0, 0
    return int(mapped) * resource.getpagesize(), int(resident) * resource.getpagesize()


def main(raw_arguments: str) -> None:
    """Serve one spawned child. Arguments as JSON: `socket`, `parent`, `jobs`, `memory_bytes`, `role` (`worker` or `samples`).

    Nothing is preloaded: limits leave the file system readable, and one file needs few of the parsers.
    """
    arguments = json.loads(raw_arguments)
    for interrupt in (signal.SIGINT, signal.SIGTERM):
        signal.signal(interrupt, signal.SIG_IGN)
    lock.die_with(arguments["parent"])
    sock = socket.socket(fileno=arguments["socket"])
    jobs = load_jobs(arguments["jobs"])
    if arguments["role"] == "samples":
        show_samples(sock, jobs)
        return
    hush()
    work(sock, jobs, level="limits-only", address_space=memory_in_use()[0] + arguments["memory_bytes"])


def hush() -> None:
    """Send what libraries write to the standard streams nowhere: the parent's streams are not a stranger's to write to."""
    sys.stdout.flush()
    sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)


def _answer(jobs: Jobs, request: wire.Request, fd: int, trays: Sequence[TrayWriter]) -> dict[str, object]:
    try:
        return {"ran": jobs.JOBS[request.job](fd, request.filename, *trays)}
    except MemoryError:
        return {"overran": "memory"}
    except BaseException as fault:  # noqa: BLE001  (a job that raises is reported, whatever it is)
        return {"raised": _described(fault)}


def _frame(number: int, answer: dict[str, object]) -> bytes:
    try:
        frame = wire.pack(number, answer)
    except (TypeError, ValueError, RecursionError) as fault:
        return wire.pack(number, {"raised": f"an answer that JSON cannot say: {_described(fault)}", "worn": True})
    if len(frame) - wire.HEADER.size > wire.ANSWER_MAX:
        return wire.pack(number, {"raised": f"an answer of {len(frame)} bytes", "worn": True})
    return frame


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _described(fault: BaseException) -> str:
    return f"{type(fault).__name__}: {fault}"[:_WHY_MAX]
