"""Sealed bytes: a received file that can no longer change, behind one descriptor. How it is received lives in `uploads.spool`."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sealed:
    """The bytes of one upload.

    `fd` is owned by whoever made the value and closed there. `size` is in bytes, `sha256` the raw 32-byte digest of all of them.
    """

    fd: int
    size: int
    sha256: bytes

    @property
    def checksum(self) -> str:
        """The digest as the interface writes it: `sha256:<hex>`."""
        return f"sha256:{self.sha256.hex()}"

    def reopen(self) -> int:
        """Answer a new read-only descriptor of the same bytes, which the caller closes.

        A duplicate would share the file offset with every other consumer, and a scanner reading beside a parser then makes a
        good file look corrupt; opening through /proc gives an offset of its own.
        """
        return os.open(f"/proc/self/fd/{self.fd}", os.O_RDONLY | os.O_CLOEXEC)
