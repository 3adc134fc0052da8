"""Confine a worker process: resource limits, no new privileges, no capabilities, Landlock, seccomp, in that order."""

import contextlib
import ctypes
import os
import resource
import signal
import socket
import struct
from typing import Final

from sluice_inspect.child import landlock, seccomp
from sluice_inspect.child.protocol import Level

_OPEN_FILES: Final = 64
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38
_CAPABILITY_VERSION_3: Final = 0x20080522

_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class ConfinementError(Exception):
    """The confinement cannot be applied here, or does not hold. `str()` names the part that failed."""


def confine(level: Level, *, address_space: int) -> None:
    """Confine this process to `level` for good, and all its mappings to `address_space` bytes.

    Raise `ConfinementError` if the kernel lacks what the level needs, or refuses it.
    """
    try:
        _lower_limit("AS", address_space)
        for name in ("CORE", "FSIZE", "NPROC", "MEMLOCK", "MSGQUEUE"):
            _lower_limit(name, 0)
        _lower_limit("NOFILE", _OPEN_FILES)
        _require_zero(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        # Root without capabilities is an ordinary user. Dropping them needs no privilege, and an ordinary user has none
        # to drop.
        header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
        _require_zero(_LIBC.capset(ctypes.c_char_p(header), ctypes.c_char_p(bytes(24))), "capset")
        if level == "strict":
            if not landlock.abi():
                raise ConfinementError("this kernel has no Landlock")
            ruleset = landlock.open_ruleset()
            landlock.restrict(ruleset)
            os.close(ruleset)
        if level != "limits-only":
            _apply_seccomp()
    except OSError as error:
        raise ConfinementError(str(error)) from error


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent exits; exit at once if `parent` is already gone."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def allow_cpu(seconds: int) -> None:
    """Allow this process `seconds` more of processor time; after that SIGXCPU ends it."""
    used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    _soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (used + seconds + 1, hard))


def _lower_limit(name: str, value: int) -> None:
    which = getattr(resource, f"RLIMIT_{name}")
    _soft, hard = resource.getrlimit(which)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(which, (value, value))
    except (OSError, ValueError) as error:
        raise ConfinementError(f"RLIMIT_{name}: {error}") from error


def _apply_seccomp() -> None:
    if not seccomp.supported():
        raise ConfinementError("no seccomp filter for this machine")
    seccomp.install()
    # A filter that was accepted and has no effect (an emulated kernel, for one) would otherwise go unnoticed.
    with contextlib.suppress(PermissionError):
        os.close(os.open("/", os.O_RDONLY))
        raise ConfinementError("the lock does not hold: a folder could be opened")
    with contextlib.suppress(PermissionError):
        socket.socket().close()
        raise ConfinementError("the lock does not hold: a socket could be made")


def _require_zero(result: int, call: str) -> None:
    if result != 0:
        raise ConfinementError(f"{call}: {os.strerror(ctypes.get_errno())}")
