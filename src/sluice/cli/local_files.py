"""Files of this machine as the checks take them: found below folders, opened once, sealed. What is said of them is decided elsewhere."""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sluice.kit.sealed import Sealed


class Unreadable(Exception):
    """A file cannot be read. `str()` says why, without its name."""


def files_in(paths: Sequence[Path]) -> list[Path]:
    """Answer each path that is no folder, and every file below those that are, in the order of their names.

    Links to files are followed, links to folders are not: they may lead round in a circle. A folder that cannot be entered is
    answered itself, so that it is reported and not passed over in silence.
    """
    found: list[Path] = []
    for path in paths:
        found.extend(_below(path) if path.is_dir() else [path])
    return found


@contextmanager
def sealed_file(path: Path) -> Iterator[Sealed]:
    """Open a file for one check; raises `Unreadable`. Whoever changes the file meanwhile gets a verdict on a mixture."""
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to would wait for ever
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as fault:
        raise Unreadable(fault.strerror or str(fault)) from fault
    try:
        yield _sealed(fd)
    finally:
        os.close(fd)


def _sealed(fd: int) -> Sealed:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable("not a regular file")
    try:
        with os.fdopen(fd, "rb", closefd=False) as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    except OSError as fault:
        raise Unreadable(fault.strerror or str(fault)) from fault
    return Sealed(fd, found.st_size, digest)


def _below(folder: Path) -> Iterator[Path]:
    closed: list[Path] = []
    for place, folders, names in os.walk(folder, onerror=lambda fault: closed.append(Path(fault.filename))):
        folders.sort()
        yield from (path for name in sorted(names) if (path := Path(place) / name).is_file())
    yield from closed
