"""The lock on a child: limits, no new privileges, no capabilities, Landlock, seccomp, in that order. When it is put on is `child`'s affair."""

import contextlib
import ctypes
import os
import resource
import signal
import socket
import struct
import sys
from typing import Final

from sluice.engines.sandbox import landlock, seccomp
from sluice.engines.sandbox.protocol import Level

_OPEN_FILES: Final = 64
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38
_CAPABILITY_VERSION_3: Final = 0x20080522

_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class LockFailed(Exception):
    """The lock cannot be put on here, or does not hold. `str()` says which part."""


def lock(level: Level, *, address_space: int) -> None:
    """Hold this process at `level` for good. `address_space` is in bytes, all mappings counted. Raises `LockFailed`."""
    try:
        _limit("RLIMIT_AS", address_space)
        for name, value in (("CORE", 0), ("FSIZE", 0), ("NPROC", 0), ("MEMLOCK", 0), ("MSGQUEUE", 0), ("NOFILE", _OPEN_FILES)):
            _limit(f"RLIMIT_{name}", value)
        if sys.platform == "linux":
            _checked(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
            _drop_capabilities()
        if level == "strict":
            _landlock()
        if level != "limits-only":
            _seccomp()
    except OSError as fault:
        raise LockFailed(str(fault)) from fault


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; ends at once if `parent` has ended already. Linux only, else a no-op."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def allow_cpu(seconds: int) -> None:
    """Let this process run `seconds` more of processor time; then SIGXCPU ends it."""
    spent = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    _soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (spent + seconds + 1, hard))


def _limit(name: str, value: int) -> None:
    """Lower a limit, soft and hard. Kernels other than Linux lack some and refuse others; there they are left out."""
    which = getattr(resource, name, None)
    if which is None:
        return
    _soft, hard = resource.getrlimit(which)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(which, (value, value))
    except (OSError, ValueError) as fault:
        if sys.platform == "linux":
            raise LockFailed(f"{name}: {fault}") from fault


def _drop_capabilities() -> None:
    """Root without capabilities is an ordinary user whose name is root. Needs no right; an ordinary user has none to drop."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _checked(_LIBC.capset(ctypes.c_char_p(header), ctypes.c_char_p(bytes(24))), "capset")


def _landlock() -> None:
    if not landlock.abi():
        raise LockFailed("this kernel has no Landlock")
    ruleset = landlock.open_ruleset()
    landlock.restrict(ruleset)
    os.close(ruleset)


def _seccomp() -> None:
    if not seccomp.supported():
        raise LockFailed("no seccomp filter for this machine")
    seccomp.install()
    with contextlib.suppress(PermissionError):
        os.close(os.open("/", os.O_RDONLY))
        raise LockFailed("the lock does not hold: a folder could be opened")
    with contextlib.suppress(PermissionError):
        socket.socket().close()
        raise LockFailed("the lock does not hold: a socket could be made")


def _checked(answer: int, what: str) -> None:
    if answer != 0:
        code = ctypes.get_errno()
        raise LockFailed(f"{what}: {os.strerror(code)}")
