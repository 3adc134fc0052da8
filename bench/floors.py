"""The limits that no service can exceed: clamd alone, hashing, and writing to this disk."""

import hashlib
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from bench import payloads
from bench.servers import Bench

_MB = 1_000_000


def measure(bench: Bench, folder: Path, *, quick: bool) -> dict[str, str]:
    """Return each limit by its name."""
    data = payloads.archive((20 if quick else 100) * _MB).data
    found = {
        "sha256": f"{_rate(len(data), lambda: hashlib.sha256(data)):.0f} MB/s",
        "written and flushed to this disk": f"{_rate(len(data), lambda: _write(folder / 'floor', data)):.0f} MB/s",
    }
    if bench.clamd is not None:
        path = str(bench.clamd.socket)
        large = _seconds(lambda: _scan(path, data))
        picture = payloads.png(10_000)
        small = _seconds(lambda: _scan_many(path, picture, 200)) / 200
        found |= {
            "clamd alone, that zip": f"{large:.2f} s",
            "clamd alone, 10 KB PNG": f"{small * 1000:.2f} ms, one at a time",
        }
    return found


def _rate(size: int, work: Callable[[], object]) -> float:
    return size / _MB / _seconds(work)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _scan(path: str, data: bytes) -> None:
    fd = os.memfd_create("floor")
    try:
        _write_all(fd, data)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            connection.sendall(b"zFILDES\0")
            socket.send_fds(connection, [b"\0"], [fd])
            reply = connection.recv(4096)
        if not reply.rstrip(b"\0").endswith(b"OK"):
            raise SystemExit(f"clamd replied {reply!r}")
    finally:
        os.close(fd)


def _scan_many(path: str, payload: payloads.Payload, times: int) -> None:
    for number in range(times):
        _scan(path, b"".join(payload.stamped(number)))


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
