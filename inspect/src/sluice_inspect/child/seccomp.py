"""The seccomp filter of a worker: an allow list of the few system calls that reading and computing need.

A refused call fails with EPERM, so that a library that probes (a font folder, a codec table) works without. Creating
a process or a thread fails with EAGAIN, which every threading library handles. A call of a foreign architecture kills
the process. Sources: linux/seccomp.h, linux/bpf_common.h, the kernel's system call tables of x86_64 and of asm-generic
(aarch64).
"""

import ctypes
import errno
import functools
import os
import platform
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Final

_ALLOW, _ERRNO, _KILL_PROCESS, _LOAD = 0x7FFF0000, 0x00050000, 0x80000000, 0x20
_JUMP_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x15, 0x45, 0x06
# Offsets into struct seccomp_data. Argument n is at `_ARGUMENTS_AT + 8 * n`, its low half first on both machines.
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _AT_EMPTY_PATH = 22, 2, 0x1000
# F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC, F_GET_SEALS. Not F_SETOWN: it sends signals to other processes.
_FCNTL_READS: Final = (0, 1, 2, 3, 1030, 1034)

_AUDIT_ARCH: Final[Mapping[str, int]] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_ALLOWED: Final[Mapping[str, tuple[int, int | None]]] = {
    # Most frequent first, since the filter compares one by one; numbers are (x86_64, aarch64).
    "read": (0, 63), "pread64": (17, 67), "write": (1, 64), "lseek": (8, 62), "fstat": (5, 80), "close": (3, 57),
    "recvmsg": (47, 212), "mmap": (9, 222), "munmap": (11, 215), "mremap": (25, 216), "mprotect": (10, 226),
    "madvise": (28, 233), "brk": (12, 214), "futex": (202, 98), "getrusage": (98, 165), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "readv": (19, 65), "writev": (20, 66), "preadv": (295, 69), "fadvise64": (221, 223),
    "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24), "poll": (7, None), "ppoll": (271, 73),
    "select": (23, None), "pselect6": (270, 72), "membarrier": (324, 283), "set_robust_list": (273, 99),
    "rseq": (334, 293), "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136), "sigaltstack": (131, 132),
    "restart_syscall": (219, 128), "getitimer": (36, 102), "setitimer": (38, 103), "alarm": (37, None),
    "clock_nanosleep": (230, 115), "nanosleep": (35, 101), "gettimeofday": (96, 169), "time": (201, None),
    "times": (100, 153), "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174),
    "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "getrandom": (318, 278),
    "getrlimit": (97, 163), "sysinfo": (99, 179), "uname": (63, 160), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
_FCNTL: Final = (72, 25)
_FSTATAT: Final = (262, 79)
_PRLIMIT: Final = (302, 261)
_TGKILL: Final = (234, 131)
_IOCTL: Final = (16, 29)
_CLONES: Final = ((56, 220), (435, 435), (57, None), (58, None))

_MAX_32_BIT: Final = 2**32
_ANY_PID: Final = 0x7FFFFFFF  # represents the worker's own process id in the template; larger than any process id

_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def supported() -> bool:
    """Return whether there is a filter for this machine."""
    return sys.platform == "linux" and sys.maxsize > _MAX_32_BIT and platform.machine() in _AUDIT_ARCH


def program(pid: int, machine: str = platform.machine()) -> bytes:
    """Return the filter for the process `pid` as an array of struct sock_filter. Raise `KeyError` if there is none."""
    return _template(machine).replace(_step(_JUMP_EQUAL, _ANY_PID, 0, 1), _step(_JUMP_EQUAL, pid, 0, 1))


@functools.cache
def _template(machine: str) -> bytes:
    """Return the filter with `_ANY_PID` for the process id; built once in the zygote, for all workers."""
    column = list(_AUDIT_ARCH).index(machine)
    steps = [_step(_LOAD, _ARCH_AT), _step(_JUMP_EQUAL, _AUDIT_ARCH[machine], 1, 0), _step(_RETURN, _KILL_PROCESS)]
    steps.append(_step(_LOAD, _NUMBER_AT))
    for numbers in _ALLOWED.values():
        steps += _return_for(numbers[column], _ALLOW)
    for numbers in _CLONES:
        steps += _return_for(numbers[column], _ERRNO | errno.EAGAIN)
    steps += _return_for(_IOCTL[column], _ERRNO | errno.ENOTTY)
    steps += _allow_if_argument(_FCNTL[column], 1, _FCNTL_READS)
    steps += _allow_if_argument(_PRLIMIT[column], 0, (0,))
    steps += _allow_if_argument(_TGKILL[column], 0, (_ANY_PID,))
    steps += _guard(_FSTATAT[column], 3, [_step(_JUMP_ANY_BIT, _AT_EMPTY_PATH, 0, 1), _step(_RETURN, _ALLOW)])
    steps.append(_step(_RETURN, _ERRNO | errno.EPERM))
    return b"".join(steps)


def install() -> None:
    """Apply the filter to this process for good; needs no_new_privs. Raise `OSError`."""
    raw = program(os.getpid())
    instructions = ctypes.create_string_buffer(raw, len(raw))
    header = struct.pack("@HP", len(raw) // 8, ctypes.addressof(instructions))
    if _LIBC.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.c_char_p(header), 0, 0):
        code = ctypes.get_errno()
        raise OSError(code, f"seccomp: {os.strerror(code)}")


def warm() -> None:
    """Build the filter's template before workers are forked."""
    if supported():
        program(0)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _return_for(number: int | None, action: int) -> list[bytes]:
    return [] if number is None else [_step(_JUMP_EQUAL, number, 0, 1), _step(_RETURN, action)]


def _allow_if_argument(number: int, argument: int, values: Sequence[int]) -> list[bytes]:
    """Allow the call if the low half of its argument, all that an int has, is one of `values`."""
    tests: list[bytes] = []
    for value in values:
        tests += _return_for(value, _ALLOW)
    return _guard(number, argument, tests)


def _guard(number: int, argument: int, tests: list[bytes]) -> list[bytes]:
    block = [_step(_LOAD, _ARGUMENTS_AT + 8 * argument), *tests, _step(_RETURN, _ERRNO | errno.EPERM)]
    return [_step(_JUMP_EQUAL, number, 0, len(block)), *block]
