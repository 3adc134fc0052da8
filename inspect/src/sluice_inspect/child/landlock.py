"""Landlock: take the file system and the network away from this process and its children."""
# linux/landlock.h, Documentation/userspace-api/landlock.rst; ABI 1 (Linux 5.13) to 6 (Linux 6.12).

import ctypes
import os
import struct
from typing import Final

# System call numbers; the same on every architecture.
_CREATE_RULESET, _RESTRICT_SELF, _VERSION = 444, 446, 1
_FILE_RIGHTS: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # how many file rights each ABI knows; each right is one bit
_NETWORK_SINCE, _SCOPES_SINCE, _BIND_AND_CONNECT, _ABSTRACT_SOCKETS_AND_SIGNALS = 4, 6, 0b11, 0b11

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long


def abi() -> int:
    """Return the kernel's Landlock version, 0 if it has none."""
    return max(0, int(_LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))


def open_ruleset() -> int:
    """Return a descriptor of a rule set that handles every right this kernel knows and grants none. Raise `OSError`."""
    version = abi()
    files = (1 << _FILE_RIGHTS[min(max(version, 1), max(_FILE_RIGHTS))]) - 1
    rights = [files]
    if version >= _NETWORK_SINCE:
        rights.append(_BIND_AND_CONNECT)
    if version >= _SCOPES_SINCE:
        rights.append(_ABSTRACT_SOCKETS_AND_SIGNALS)
    raw = struct.pack(f"={len(rights)}Q", *rights)
    return _require_success(_LIBC.syscall(_CREATE_RULESET, ctypes.c_char_p(raw), ctypes.c_size_t(len(raw)), 0))


def restrict(ruleset: int) -> None:
    """Apply the rule set to this process for good; needs no_new_privs. Raise `OSError`."""
    _require_success(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0))


def _require_success(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result
