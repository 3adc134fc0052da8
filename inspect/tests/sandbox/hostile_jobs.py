"""Jobs for tests: what a parser taken over by a hostile file would try. They run in locked child processes only."""

import ctypes
import errno
import json
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long
_AARCH64 = os.uname().machine == "aarch64"


def _call(x86_64: int, aarch64: int, *arguments: object) -> None:
    """Make a system call by number, without the checks of Python. Raise OSError when the kernel refuses it."""
    if _LIBC.syscall(aarch64 if _AARCH64 else x86_64, *arguments) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _attempt(action: Callable[[], object]) -> Mapping[str, object]:
    try:
        action()
    except OSError as fault:
        return {"refused": errno.errorcode.get(fault.errno or 0, "?")}
    except RuntimeError as fault:
        return {"refused": str(fault)}
    return {"refused": ""}


def _find_server_socket() -> int:
    """Return the descriptor of the only socket that a child has."""
    for fd in range(3, 64):
        try:
            if os.fstat(fd).st_mode & 0o170000 == 0o140000:
                return fd
        except OSError:
            continue
    raise LookupError("no socket")


def _frame(number: int, body: bytes) -> bytes:
    return struct.pack("!II", len(body), number) + body


def _describe_file(fd: int, _name: str) -> Mapping[str, object]:
    return {"bytes": os.fstat(fd).st_size, "first": os.pread(fd, 16, 0).hex(), "pid": os.getpid()}


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _raise_memory_limit() -> None:
    try:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except ValueError as fault:
        raise PermissionError(errno.EPERM, str(fault)) from fault


ACTIONS: Mapping[str, Callable[[], object]] = {
    "open for reading": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "open for writing": lambda: os.open("/tmp/sluice-escaped", os.O_WRONLY | os.O_CREAT),
    "reopen own file for writing": lambda: os.open("/proc/self/fd/4", os.O_RDWR),
    "list a folder": lambda: list(Path("/").iterdir()),
    "remove a file": lambda: Path("/tmp/sluice-never-there").unlink(),
    "rename a file": lambda: Path("/tmp/sluice-a").rename("/tmp/sluice-b"),
    "make a folder": lambda: Path("/tmp/sluice-escaped").mkdir(),
    "stat a path": lambda: Path("/etc/passwd").stat(),
    "make a memory file": lambda: os.memfd_create("x"),
    "internet socket": lambda: socket.socket(socket.AF_INET).close(),
    "unix socket": lambda: socket.socket(socket.AF_UNIX).close(),
    "socket pair": socket.socketpair,
    "exec": lambda: os.execv("/bin/true", ["true"]),
    "fork": _fork,
    "thread": lambda: threading.Thread(target=time.sleep, args=(0,)).start(),
    "trace the parent": lambda: _call(101, 117, 16, os.getppid(), None, None),
    "signal the parent": lambda: os.kill(os.getppid(), signal.SIGTERM),
    "signal every process": lambda: os.kill(-1, signal.SIGTERM),
    "read memory of another process": lambda: _call(310, 270, os.getppid(), None, 0, None, 0, 0),
    "clear the parent death signal": lambda: _call(157, 167, 1, 0, 0, 0, 0),
    "raise the memory limit": _raise_memory_limit,
    "limit another process": lambda: _call(302, 261, os.getppid(), 9, None, None),
    "io_uring": lambda: _call(425, 425, 1, None),
    "bpf": lambda: _call(321, 280, 0, None, 0),
    "change identity": lambda: os.setuid(65534),
    "change root": lambda: os.chroot("/"),
    "mount": lambda: _call(165, 40, None, b"/", None, 0, None),
    "new namespace": lambda: _call(272, 97, 0x10000000),
}
"""What the confinement refuses with an error, so that a library that only tries it can continue."""


def _exhaust_memory_and_abort(_fd: int, _name: str) -> Mapping[str, object]:
    """Use memory like a C library that aborts when an allocation fails."""
    blocks = []
    try:
        while True:
            blocks.append(b"x" * (16 * 1024**2))
    except MemoryError:
        os.abort()


def _spin(_fd: int, _name: str) -> Mapping[str, object]:
    while True:
        pass


def _sleep(_fd: int, _name: str) -> Mapping[str, object]:
    while True:
        time.sleep(60)


def _nap(seconds: float) -> Callable[[int, str], Mapping[str, object]]:
    def job(fd: int, name: str) -> Mapping[str, object]:
        time.sleep(seconds)
        return _describe_file(fd, name)

    return job


def _spin_ignoring_sigxcpu(fd: int, name: str) -> Mapping[str, object]:
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    return _spin(fd, name)


def _raise(_fd: int, _name: str) -> Mapping[str, object]:
    raise ValueError("a bug in a parser")


def _print_a_lot(_fd: int, _name: str) -> Mapping[str, object]:
    for _ in range(64):
        os.write(1, bytes(1024**2))
        os.write(2, bytes(1024**2))
    return {"printed": True}


def _write(data: bytes) -> None:
    out, rest = _find_server_socket(), memoryview(data)
    while rest:
        rest = rest[os.write(out, rest) :]


def _send_oversized_frame(_fd: int, _name: str) -> Mapping[str, object]:
    _write(_frame(1, b"x" * (64 * 1024**2)))
    return {}


def _respond_with(*frames: bytes) -> Callable[[int, str], Mapping[str, object]]:
    def job(_fd: int, _name: str) -> Mapping[str, object]:
        _write(b"".join(frames))
        return _sleep(-1, "")

    return job


def _close_socket(_fd: int, _name: str) -> Mapping[str, object]:
    os.close(_find_server_socket())
    return _sleep(-1, "")


def _respond_twice(_fd: int, _name: str) -> Mapping[str, object]:
    _write(_frame(1, json.dumps({"result": {}, "recycle": False}).encode()))
    return {}


def _respond_and_hang(_fd: int, _name: str) -> Mapping[str, object]:
    """Respond correctly, then hang: the child never reads the next file of the tenant."""
    _write(_frame(1, json.dumps({"result": {"pid": os.getpid()}, "recycle": False}).encode()))
    return _sleep(-1, "")


def _abort_when_reused(_fd: int, _name: str) -> Mapping[str, object]:
    """Abort in a child that has served a file before, as after a damaged heap."""
    if _used:
        os.abort()
    _used.append(True)
    return {"pid": os.getpid()}


_used: list[bool] = []
_DEEPLY_NESTED = b"[" * 100_000 + b"]" * 100_000

JOBS: Mapping[str, Callable[[int, str], Mapping[str, object]]] = {
    "describe file": _describe_file,
    "check": lambda _fd, name: {"format": name.removeprefix("good."), "outcome": "ok", "detail": ""},
    "scan": lambda _fd, _name: {"threat": None},
    "name": lambda _fd, name: {"name": name},
    "environment": lambda _fd, _name: {"names": sorted(os.environ)},
    "descriptors": lambda _fd, _name: {"open": [fd for fd in range(64) if _is_open(fd)]},
    "leak": lambda fd, _name: {"fd": os.dup(fd)},
    "action": lambda _fd, name: _attempt(ACTIONS[name]),
    "all actions": lambda _fd, _name: {name: _attempt(action)["refused"] for name, action in ACTIONS.items()},
    "allocate": lambda _fd, _name: {"bytes": len(bytes(3 * 1024**3))},
    "exhaust memory and abort": _exhaust_memory_and_abort,
    "spin": _spin,
    "sleep": _sleep,
    "short nap": _nap(0.05),
    "long nap": _nap(0.3),
    "spin ignoring SIGXCPU": _spin_ignoring_sigxcpu,
    "null pointer": lambda _fd, _name: {"read": ctypes.string_at(0)},
    "abort": lambda _fd, _name: os.abort(),
    "exit with status 0": lambda _fd, _name: os._exit(0),
    "exit by SystemExit": lambda _fd, _name: sys.exit(0),
    "raise": _raise,
    "print a lot": _print_a_lot,
    "oversized frame": _send_oversized_frame,
    "large response": lambda _fd, _name: {"text": "x" * (300 * 1024)},
    "value that is not JSON": lambda _fd, _name: {"value": object()},
    "NaN": lambda _fd, _name: {"value": float("nan")},
    "surrogate": lambda _fd, _name: {"value": "\ud800"},
    "garbage": _respond_with(b"\x00\xff" * 4096),
    "huge length": _respond_with(struct.pack("!II", 0xFFFFFFFF, 1)),
    "wrong request number": _respond_with(_frame(7, b"{}")),
    "invalid JSON": _respond_with(_frame(1, b"certainly fine")),
    "JSON array": _respond_with(_frame(1, b'["result"]')),
    "Infinity": _respond_with(_frame(1, b'{"result":{"x":Infinity},"recycle":false}')),
    "raw surrogate": _respond_with(_frame(1, b'{"result":{"x":"\\ud800"},"recycle":false}')),
    "deeply nested": _respond_with(_frame(1, _DEEPLY_NESTED)),
    "long number": _respond_with(_frame(1, b'{"result":{"x":' + b"9" * 200_000 + b'},"recycle":false}')),
    "unknown fields": _respond_with(_frame(1, b'{"verdict":"clean"}')),
    "payload not an object": _respond_with(_frame(1, b'{"result":"ok","recycle":false}')),
    "partial frame": _respond_with(_frame(1, b'{"result":{}}')[:-3]),
    "two frames": _respond_with(_frame(1, b'{"result":{},"recycle":false}') * 2),
    "close socket": _close_socket,
    "respond twice": _respond_twice,
    "respond and hang": _respond_and_hang,
    "abort when reused": _abort_when_reused,
    "grow": lambda _fd, _name: {"bytes": len(b"x" * (200 * 1024**2)), "pid": os.getpid()},
}


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def preload() -> None:
    """Load nothing: these jobs need no parser."""


def samples() -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    """Yield formats with samples that the `check` job above accepts."""
    yield "alpha", "good.alpha", lambda: b"a sample"
    yield "beta", "good.beta", lambda: b"another sample"
