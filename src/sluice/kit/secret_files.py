"""Files that hold a secret: made once, whole, readable by their owner only. What a secret means lives with who asks for it."""

import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_OWNER_ONLY: Final = 0o600
_OWNER_ONLY_FOLDER: Final = 0o700
_OTHERS: Final = 0o077
_MAX_BYTES: Final = 64 * 1024


class SecretFileRefused(Exception):
    """A secret file is missing, open to others, or not what it should be. `str()` is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class SecretFile:
    """What a secret file holds. `made` tells that it was made just now, which a person should be told."""

    path: Path
    content: bytes = field(repr=False)
    made: bool


def read_secret_file(path: Path) -> bytes:
    """Answer the bytes of `path`, at most 64 KiB.

    The checks look at the opened file, not at its name, so nothing can be swapped in between; a symbolic link is followed, as
    mounted secrets are links. Raises `SecretFileRefused` when it is missing, no regular file, or open to group or others.
    """
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to would wait for ever
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise SecretFileRefused(f"The secret file {path} cannot be opened: {error.strerror}.") from error
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise SecretFileRefused(f"The secret file {path} is not a regular file.")
        if found.st_mode & _OTHERS:
            raise SecretFileRefused(
                f"The secret file {path} can be used by others (mode {stat.S_IMODE(found.st_mode):04o}): run chmod 600 on it."
            )
        with os.fdopen(fd, "rb", closefd=False) as file:
            content = file.read(_MAX_BYTES + 1)
    finally:
        os.close(fd)
    if len(content) > _MAX_BYTES:
        raise SecretFileRefused(f"The secret file {path} is larger than {_MAX_BYTES} bytes.")
    return content


def make_secret_file(path: Path, content: bytes) -> bool:
    """Write `content` to the new file `path`, durably; answer False, and change nothing, when something is already there.

    The file appears whole or not at all: it is written beside and then linked to its name, which fails when the name is taken. So of
    several processes that start at once exactly one makes it, and none ever reads half of it. Raises `SecretFileRefused`.
    """
    try:
        path.parent.mkdir(mode=_OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
        beside = _write_beside(path, content)
        try:
            os.link(beside, path)
        except FileExistsError:
            return False
        finally:
            beside.unlink()
        _sync_folder(path.parent)
    except OSError as error:
        raise SecretFileRefused(f"The secret file {path} cannot be made: {error.strerror}.") from error
    return True


def replace_secret_file(path: Path, content: bytes) -> None:
    """Put `content` in the place of what `path` holds, durably and all or nothing. Raises `SecretFileRefused`."""
    try:
        beside = _write_beside(path, content)
        try:
            beside.replace(path)
        except OSError:
            beside.unlink()
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise SecretFileRefused(f"The secret file {path} cannot be replaced: {error.strerror}.") from error


def load_or_make(path: Path, make: Callable[[], bytes]) -> SecretFile:
    """Answer the file at `path`, made from `make()` when there is none. Raises `SecretFileRefused`."""
    made = not os.path.lexists(path) and make_secret_file(path, make())
    return SecretFile(path=path, content=read_secret_file(path), made=made)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold `folder` against other processes that change its secrets by read and replace. Raises `SecretFileRefused`."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SecretFileRefused(f"The folder {folder} cannot be opened: {error.strerror}.") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)  # which also lets go of the lock


def _write_beside(path: Path, content: bytes) -> Path:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_ONLY)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)
    except OSError:
        beside.unlink()
        raise
    return beside


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
