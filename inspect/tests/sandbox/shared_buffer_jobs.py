"""Jobs for tests: correct and hostile uses of the shared buffer. They run in child processes only."""

import fcntl
import mmap
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from sluice_inspect.child.shared_buffer import SharedBufferWriter

PIECE: Final = bytes(range(256)) * 4096
_kept: list[object] = []


def _write_pieces(fd: int, name: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    """Write the file, then as many megabytes as the filename says."""
    accepted = [buffer.write(os.pread(fd, 1 << 20, 0)), *(buffer.write(PIECE) for _ in range(int(name)))]
    return {"accepted": accepted, "at": buffer.at}


def _keep_mapping(_fd: int, _name: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    buffer.write(b"harmless")
    _kept.append(mmap.mmap(buffer._fd, 4096))
    return {}


def _keep_descriptor(_fd: int, _name: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    buffer.write(b"harmless")
    _kept.append(os.dup(buffer._fd))
    return {}


def _die(_fd: int, _name: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    buffer.write(b"half of it")
    os.kill(os.getpid(), signal.SIGSEGV)
    os.abort()


def _raise_when_reused(_fd: int, _name: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    buffer.write(b"wrong" if _kept else b"right")
    if _kept:
        raise ValueError("an earlier file broke the parser")
    _kept.append("used")
    return {}


def _bypass_limits(_fd: int, _name: str, buffer: SharedBufferWriter) -> Mapping[str, object]:
    """Try to grow, shrink, seal or overrun the buffer."""

    def map_beyond() -> None:
        mmap.mmap(buffer._fd, os.fstat(buffer._fd).st_size + mmap.PAGESIZE).close()

    attempts: Mapping[str, Callable[[], object]] = {
        "write": lambda: os.write(buffer._fd, b"x"),
        "pwrite beyond": lambda: os.pwrite(buffer._fd, b"x", os.fstat(buffer._fd).st_size),
        "truncate": lambda: os.ftruncate(buffer._fd, 0),
        "grow": lambda: os.ftruncate(buffer._fd, 1 << 40),
        "seal": lambda: fcntl.fcntl(buffer._fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL),
        "map beyond": map_beyond,
        "punch": lambda: os.posix_fallocate(buffer._fd, 0, 1 << 40),
    }
    succeeded = []
    for name, attempt in attempts.items():
        try:
            attempt()
            succeeded.append(name)
        except (OSError, ValueError):
            continue
    return {"succeeded": succeeded}


JOBS: Mapping[str, Callable[..., Mapping[str, object]]] = {
    "check": lambda _fd, _name: {"format": "none", "outcome": "ok"},
    "scan": lambda _fd, _name: {},
    "write pieces": _write_pieces,
    "keep mapping": _keep_mapping,
    "keep descriptor": _keep_descriptor,
    "die": _die,
    "raise when reused": _raise_when_reused,
    "bypass limits": _bypass_limits,
}


def preload() -> None:
    """Load nothing."""


def samples() -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    yield "none", "good.bin", lambda: b"a sample"
