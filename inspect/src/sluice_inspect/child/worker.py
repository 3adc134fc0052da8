"""The main loop of a worker: confine this process, say hello, then run jobs until the server hangs up."""

import contextlib
import importlib
import json
import os
import resource
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from types import ModuleType
from typing import Final, Protocol, cast

from sluice_inspect.child import confinement, protocol
from sluice_inspect.child.protocol import Level
from sluice_inspect.child.shared_buffer import SharedBufferWriter

# Takes the file's descriptor, which it leaves open, the file's name and, if one was lent, a `SharedBufferWriter`;
# returns JSON values.
JobFunction = Callable[..., Mapping[str, object]]
# The name of a format, a file name, and a function that makes a small good file of that format.
SampleMaker = tuple[str, str, Callable[[], bytes]]

# A worker whose memory once grew by more is recycled: a fork is cheap beside the work that took so much.
_RECYCLE_AFTER_GROWTH_BYTES: Final = 128 * 1024**2
_ERROR_TEXT_MAX: Final = 300


class JobModule(Protocol):
    """What a jobs module holds."""

    JOBS: Mapping[str, JobFunction]

    def preload(self) -> None:
        """Import all that a job may need: a confined worker can open no file."""

    def load_checks(self, names: Sequence[str]) -> None:
        """Load the operator's own checks of these names. Raise whatever is wrong with them."""

    def load_ocr(self, names: Sequence[str]) -> None:
        """Load the models of OCR for languages of these names. Raise whatever is wrong with them."""

    def load_rules(self, serialized: bytes, version: str) -> None:
        """Use the operator's compiled rules from now on. Raise whatever is wrong with them."""

    def preload_for(self, extensions: Sequence[str], *, scanned: bool) -> None:
        """Import what good files with these extensions need. A job that needs more raises."""

    def samples(self) -> Iterable[SampleMaker]:
        """Yield the maker of one good file for each format."""


def load_jobs(name: str) -> JobModule:
    """Import the jobs module `name`. Raise `ImportError`."""
    module: ModuleType = importlib.import_module(name)
    return cast("JobModule", module)


def serve(sock: socket.socket, jobs: JobModule, *, level: Level, address_space: int, ocr: Sequence[str] = ()) -> None:
    """Confine this process to `level`, say hello, then reply to requests until the server hangs up or recycles it.

    With `ocr`, the models for languages of these names are loaded before.
    """
    try:
        if ocr:
            before = memory_in_use()[0]
            jobs.load_ocr(ocr)
            address_space += memory_in_use()[0] - before
        confinement.confine(level, address_space=address_space)
    except (OSError, AttributeError, confinement.ConfinementError) as error:
        protocol.send(sock, protocol.pack(protocol.HELLO, {"failed": str(error)[:_ERROR_TEXT_MAX]}))
        return
    protocol.send(sock, protocol.pack(protocol.HELLO, {"level": level, "pid": os.getpid()}))
    idle_peak = _peak_bytes()
    while (received := protocol.receive(sock)) is not None:
        for request, fds in received:
            reply = _run_request(jobs, request, fds)
            recycle = "result" not in reply or _peak_bytes() - idle_peak > _RECYCLE_AFTER_GROWTH_BYTES
            protocol.send(sock, _pack_reply(request.number, {**reply, "recycle": recycle}))
            if recycle:
                return


def _run_request(jobs: JobModule, request: protocol.JobRequest, fds: Sequence[int]) -> dict[str, object]:
    fd, *lent = fds
    confinement.allow_cpu(request.cpu_seconds)
    buffers = [SharedBufferWriter(buffer_fd) for buffer_fd in lent]
    reply: dict[str, object]
    try:
        reply = {"result": jobs.JOBS[request.job](fd, request.filename, *buffers)}
    except MemoryError:
        reply = {"over_limit": "memory"}
    except BaseException as error:  # noqa: BLE001  (a job that raises is reported, whatever it is)
        reply = {"raised": _describe(error)}
    for buffer in buffers:
        buffer.close()
    with contextlib.suppress(OSError):  # a parser may have closed it already
        os.close(fd)
    return reply


def send_samples(sock: socket.socket, jobs: JobModule, most: int | None) -> None:
    """Make every sample, or the first `most`, and send each: a line of JSON, then the bytes.

    Runs unconfined, on nothing but our own code.
    """
    with sock.makefile("wb") as out:
        for name, filename, make in islice(jobs.samples(), most):
            try:
                content = make()
                header: dict[str, object] = {"format": name, "filename": filename, "bytes": len(content)}
            except Exception as error:  # noqa: BLE001  (whatever a maker raises is reported with its format)
                content, header = b"", {"format": name, "failed": _describe(error)}
            out.write(json.dumps(header).encode() + b"\n" + content)
        out.write(b'{"end":true}\n')


def memory_in_use() -> tuple[int, int]:
    """Return the bytes that this process has mapped, and those that are resident."""
    with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123  (a kernel file; pathlib would be one more import)
        mapped, resident = statm.read().split()[:2]
    return int(mapped) * resource.getpagesize(), int(resident) * resource.getpagesize()


def silence_output() -> None:
    """Redirect the standard streams to /dev/null."""
    # What libraries print may hold bytes of an uploaded file, which must not reach the server's log.
    sys.stdout.flush()
    sys.stderr.flush()
    devnull = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(devnull, stream)
    os.close(devnull)


def _pack_reply(number: int, reply: dict[str, object]) -> bytes:
    try:
        frame = protocol.pack(number, reply)
    except (TypeError, ValueError, RecursionError) as error:
        why = f"a reply that JSON cannot represent: {_describe(error)}"
        return protocol.pack(number, {"raised": why, "recycle": True})
    if len(frame) - protocol.HEADER.size > protocol.REPLY_MAX:
        return protocol.pack(number, {"raised": f"a reply of {len(frame)} bytes", "recycle": True})
    return frame


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_ERROR_TEXT_MAX]
