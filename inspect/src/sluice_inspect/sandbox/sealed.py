"""A received file that can no longer change, behind one descriptor. It is received in `uploads.spool`."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sealed:
    """The bytes of one upload.

    `fd` is owned and closed by the creator of this value. `size` is in bytes, `sha256` the raw 32-byte digest of all
    of them. `can_link`: the file has a name in this service's own folder, and may get another one there.
    """

    fd: int
    size: int
    sha256: bytes
    can_link: bool = False

    @property
    def checksum(self) -> str:
        """The digest in the format of the interface: `sha256:<hex>`."""
        return f"sha256:{self.sha256.hex()}"

    def reopen(self) -> int:
        """Return a new read-only descriptor of the same bytes, which the caller closes."""
        # `dup` would share the file offset with all other readers: a scanner beside a parser then makes a good file
        # look corrupt. Opening through /proc gives an offset of its own.
        return os.open(f"/proc/self/fd/{self.fd}", os.O_RDONLY | os.O_CLOEXEC)
