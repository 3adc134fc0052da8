"""A jobs module for tests: honest and hostile uses of the memory that the server lends. Runs inside children only."""

import fcntl
import mmap
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from sluice.engines.sandbox.tray import TrayWriter

PIECE: Final = bytes(range(256)) * 4096
_kept: list[object] = []


def _lays(fd: int, name: str, tray: TrayWriter) -> Mapping[str, object]:
    """Lay down the file, then as many megabytes as the name says."""
    laid = [tray.lay(os.pread(fd, 1 << 20, 0)), *(tray.lay(PIECE) for _ in range(int(name)))]
    return {"laid": laid, "at": tray.at}


def _keeps_a_mapping(_fd: int, _name: str, tray: TrayWriter) -> Mapping[str, object]:
    tray.lay(b"harmless")
    _kept.append(mmap.mmap(tray._fd, 4096))
    return {}


def _keeps_the_descriptor(_fd: int, _name: str, tray: TrayWriter) -> Mapping[str, object]:
    tray.lay(b"harmless")
    _kept.append(os.dup(tray._fd))
    return {}


def _dies(_fd: int, _name: str, tray: TrayWriter) -> Mapping[str, object]:
    tray.lay(b"half of it")
    os.kill(os.getpid(), signal.SIGSEGV)
    os.abort()


def _raises_when_used(_fd: int, _name: str, tray: TrayWriter) -> Mapping[str, object]:
    tray.lay(b"wrong" if _kept else b"right")
    if _kept:
        raise ValueError("an earlier file broke the parser")
    _kept.append("used")
    return {}


def _ways_around(_fd: int, _name: str, tray: TrayWriter) -> Mapping[str, object]:
    """Try what would make the memory grow, shrink, or end its use by others."""

    def mapped_beyond() -> None:
        mmap.mmap(tray._fd, os.fstat(tray._fd).st_size + mmap.PAGESIZE).close()

    ways: Mapping[str, Callable[[], object]] = {
        "write": lambda: os.write(tray._fd, b"x"),
        "pwrite beyond": lambda: os.pwrite(tray._fd, b"x", os.fstat(tray._fd).st_size),
        "truncate": lambda: os.ftruncate(tray._fd, 0),
        "grow": lambda: os.ftruncate(tray._fd, 1 << 40),
        "seal": lambda: fcntl.fcntl(tray._fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL),
        "map beyond": mapped_beyond,
        "punch": lambda: os.posix_fallocate(tray._fd, 0, 1 << 40),
    }
    done = []
    for name, way in ways.items():
        try:
            way()
            done.append(name)
        except (OSError, ValueError):
            continue
    return {"done": done}


JOBS: Mapping[str, Callable[..., Mapping[str, object]]] = {
    "check": lambda _fd, _name: {"format": "none", "outcome": "ok"},
    "scan": lambda _fd, _name: {},
    "lays": _lays,
    "keeps a mapping": _keeps_a_mapping,
    "keeps the descriptor": _keeps_the_descriptor,
    "dies": _dies,
    "raises when used": _raises_when_used,
    "ways around": _ways_around,
}


def preload() -> None:
    """Load nothing."""


def samples() -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    yield "none", "good.bin", lambda: b"a sample"
