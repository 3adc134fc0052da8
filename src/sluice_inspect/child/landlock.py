"""Landlock: this process and its children lose the file system and the network. Which children are held so is decided in `lock`.

Source: linux/landlock.h and Documentation/userspace-api/landlock.rst, ABI 1 (Linux 5.13) to 6 (Linux 6.12).
"""

import ctypes
import os
import struct
from typing import Final

_CREATE_RULESET: Final = 444
_RESTRICT_SELF: Final = 446
"""The same numbers on every architecture."""
_VERSION: Final = 1
_FILE_RIGHTS: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many rights on files an ABI knows; each is one bit."""
_NETWORK_SINCE: Final = 4
_SCOPES_SINCE: Final = 6
_BIND_AND_CONNECT: Final = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS: Final = 0b11

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long


def abi() -> int:
    """Answer the kernel's Landlock version, 0 where there is none."""
    return max(0, int(_LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))


def open_ruleset() -> int:
    """Answer a descriptor of a rule set that handles every right this kernel knows and grants none. Raises `OSError`."""
    version = abi()
    files = (1 << _FILE_RIGHTS[min(max(version, 1), max(_FILE_RIGHTS))]) - 1
    rights = [files]
    if version >= _NETWORK_SINCE:
        rights.append(_BIND_AND_CONNECT)
    if version >= _SCOPES_SINCE:
        rights.append(_ABSTRACT_SOCKETS_AND_SIGNALS)
    raw = struct.pack(f"={len(rights)}Q", *rights)
    return _checked(_LIBC.syscall(_CREATE_RULESET, ctypes.c_char_p(raw), ctypes.c_size_t(len(raw)), 0))


def restrict(ruleset: int) -> None:
    """Hold this process to the rule set for good; needs no_new_privs. Raises `OSError`."""
    _checked(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0))


def _checked(answer: int) -> int:
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return answer
