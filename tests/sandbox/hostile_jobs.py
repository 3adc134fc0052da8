"""A jobs module for tests: what a parser taken over by a hostile file would try. Runs inside locked children only."""

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
    """Make a system call by number, past every Python check; raises OSError when the kernel refuses."""
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


def _socket_of_the_server() -> int:
    """The one socket that a child holds."""
    for fd in range(3, 64):
        try:
            if os.fstat(fd).st_mode & 0o170000 == 0o140000:
                return fd
        except OSError:
            continue
    raise LookupError("no socket")


def _frame(number: int, body: bytes) -> bytes:
    return struct.pack("!II", len(body), number) + body


def _truth(fd: int, _name: str) -> Mapping[str, object]:
    return {"bytes": os.fstat(fd).st_size, "first": os.pread(fd, 16, 0).hex(), "pid": os.getpid()}


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _thread() -> None:
    threading.Thread(target=time.sleep, args=(0,)).start()


def _ptrace_parent() -> None:
    _call(101, 117, 16, os.getppid(), None, None)


def _unix_socket() -> None:
    socket.socket(socket.AF_UNIX).close()


def _lift_limits() -> None:
    try:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except ValueError as fault:
        raise PermissionError(errno.EPERM, str(fault)) from fault


ACTIONS: Mapping[str, Callable[[], object]] = {
    "open for reading": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "open for writing": lambda: os.open("/tmp/sluice-escaped", os.O_WRONLY | os.O_CREAT),
    "open own file again for writing": lambda: os.open("/proc/self/fd/4", os.O_RDWR),
    "list a folder": lambda: list(Path("/").iterdir()),
    "remove a file": lambda: Path("/tmp/sluice-never-there").unlink(),
    "rename a file": lambda: Path("/tmp/sluice-a").rename("/tmp/sluice-b"),
    "make a folder": lambda: Path("/tmp/sluice-escaped").mkdir(),
    "look at a path": lambda: Path("/etc/passwd").stat(),
    "make a memory file": lambda: os.memfd_create("x"),
    "internet socket": lambda: socket.socket(socket.AF_INET).close(),
    "unix socket": _unix_socket,
    "socket pair": socket.socketpair,
    "exec": lambda: os.execv("/bin/true", ["true"]),
    "fork": _fork,
    "thread": _thread,
    "trace the parent": _ptrace_parent,
    "signal the parent": lambda: os.kill(os.getppid(), signal.SIGTERM),
    "signal everybody": lambda: os.kill(-1, signal.SIGTERM),
    "read another's memory": lambda: _call(310, 270, os.getppid(), None, 0, None, 0, 0),
    "outlive the parent": lambda: _call(157, 167, 1, 0, 0, 0, 0),
    "lift the memory limit": _lift_limits,
    "limit another process": lambda: _call(302, 261, os.getppid(), 9, None, None),
    "io_uring": lambda: _call(425, 425, 1, None),
    "bpf": lambda: _call(321, 280, 0, None, 0),
    "change identity": lambda: os.setuid(65534),
    "change root": lambda: os.chroot("/"),
    "mount": lambda: _call(165, 40, None, b"/", None, 0, None),
    "new namespace": lambda: _call(272, 97, 0x10000000),
}
"""What the lock refuses with an error, so that a library that only tries goes on."""


def _allocate(_fd: int, _name: str) -> Mapping[str, object]:
    return {"bytes": len(bytes(3 * 1024**3))}


def _map_and_touch(_fd: int, _name: str) -> Mapping[str, object]:
    """Use memory as a C library does that aborts when it gets no more."""
    hoard = []
    try:
        while True:
            hoard.append(b"x" * (16 * 1024**2))
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
        return _truth(fd, name)

    return job


def _spin_on_through_the_signal(fd: int, name: str) -> Mapping[str, object]:
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    return _spin(fd, name)


def _null(_fd: int, _name: str) -> Mapping[str, object]:
    return {"read": ctypes.string_at(0)}


def _exit_quietly(_fd: int, _name: str) -> Mapping[str, object]:
    os._exit(0)


def _exit_by_exception(_fd: int, _name: str) -> Mapping[str, object]:
    sys.exit(0)


def _raise(_fd: int, _name: str) -> Mapping[str, object]:
    raise ValueError("a bug in a parser")


def _print_much(_fd: int, _name: str) -> Mapping[str, object]:
    for _ in range(64):
        os.write(1, bytes(1024**2))
        os.write(2, bytes(1024**2))
    return {"printed": True}


def _write(data: bytes) -> None:
    out, rest = _socket_of_the_server(), memoryview(data)
    while rest:
        rest = rest[os.write(out, rest) :]


def _flood(_fd: int, _name: str) -> Mapping[str, object]:
    _write(_frame(1, b"x" * (64 * 1024**2)))
    return {}


def _answers(*frames: bytes) -> Callable[[int, str], Mapping[str, object]]:
    def job(_fd: int, _name: str) -> Mapping[str, object]:
        _write(b"".join(frames))
        return _sleep(-1, "")

    return job


def _hang_up(_fd: int, _name: str) -> Mapping[str, object]:
    os.close(_socket_of_the_server())
    return _sleep(-1, "")


def _say_twice(_fd: int, _name: str) -> Mapping[str, object]:
    _write(_frame(1, json.dumps({"ran": {}, "worn": False}).encode()))
    return {}


def _answer_and_hang(_fd: int, _name: str) -> Mapping[str, object]:
    """Answer well, then work on no more: the next file of the tenant finds a child that never reads."""
    _write(_frame(1, json.dumps({"ran": {"pid": os.getpid()}, "worn": False}).encode()))
    return _sleep(-1, "")


def _fail_when_used(_fd: int, _name: str) -> Mapping[str, object]:
    """Die in a child that an earlier file has touched, as by a heap that it left damaged."""
    if _USED:
        os.abort()
    _USED.append(True)
    return {"pid": os.getpid()}


def _swell(_fd: int, _name: str) -> Mapping[str, object]:
    return {"bytes": len(b"x" * (200 * 1024**2)), "pid": os.getpid()}


_USED: list[bool] = []
_NESTED = b"[" * 100_000 + b"]" * 100_000

JOBS: Mapping[str, Callable[[int, str], Mapping[str, object]]] = {
    "truth": _truth,
    "check": lambda _fd, name: {"format": name.removeprefix("good."), "outcome": "ok", "detail": ""},
    "scan": lambda _fd, _name: {"threat": None},
    "name": lambda _fd, name: {"name": name},
    "environment": lambda _fd, _name: {"names": sorted(os.environ)},
    "descriptors": lambda _fd, _name: {"open": [fd for fd in range(64) if _is_open(fd)]},
    "leak": lambda fd, _name: {"fd": os.dup(fd)},
    "action": lambda _fd, name: _attempt(ACTIONS[name]),
    "all actions": lambda _fd, _name: {name: _attempt(action)["refused"] for name, action in ACTIONS.items()},
    "allocate": _allocate,
    "map and touch": _map_and_touch,
    "spin": _spin,
    "sleep": _sleep,
    "short nap": _nap(0.05),
    "long nap": _nap(0.3),
    "spin on": _spin_on_through_the_signal,
    "null": _null,
    "abort": lambda _fd, _name: os.abort(),
    "exit quietly": _exit_quietly,
    "exit by exception": _exit_by_exception,
    "raise": _raise,
    "print much": _print_much,
    "flood": _flood,
    "large answer": lambda _fd, _name: {"text": "x" * (300 * 1024)},
    "not JSON values": lambda _fd, _name: {"value": object()},
    "not a number": lambda _fd, _name: {"value": float("nan")},
    "surrogate": lambda _fd, _name: {"value": "\ud800"},
    "garbage": _answers(b"\x00\xff" * 4096),
    "huge length": _answers(struct.pack("!II", 0xFFFFFFFF, 1)),
    "other number": _answers(_frame(7, b"{}")),
    "no JSON": _answers(_frame(1, b"certainly fine")),
    "array": _answers(_frame(1, b'["ran"]')),
    "infinity": _answers(_frame(1, b'{"ran":{"x":Infinity},"worn":false}')),
    "raw surrogate": _answers(_frame(1, b'{"ran":{"x":"\\ud800"},"worn":false}')),
    "nested": _answers(_frame(1, _NESTED)),
    "long number": _answers(_frame(1, b'{"ran":{"x":' + b"9" * 200_000 + b'},"worn":false}')),
    "unknown form": _answers(_frame(1, b'{"verdict":"clean"}')),
    "payload no object": _answers(_frame(1, b'{"ran":"ok","worn":false}')),
    "half a frame": _answers(_frame(1, b'{"ran":{}}')[:-3]),
    "two frames": _answers(_frame(1, b'{"ran":{},"worn":false}') * 2),
    "hang up": _hang_up,
    "say twice": _say_twice,
    "answer and hang": _answer_and_hang,
    "fail when used": _fail_when_used,
    "swell": _swell,
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
    """Answer one format whose sample the `check` above finds good."""
    yield "alpha", "good.alpha", lambda: b"a sample"
    yield "beta", "good.beta", lambda: b"another sample"
