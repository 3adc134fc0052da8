"""Secrets that a setting holds, or a file: created once, complete, readable by its owner only."""

import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

OWNER_ONLY: Final = 0o600
OWNER_ONLY_FOLDER: Final = 0o700
OTHERS: Final = 0o077
MOUNTED: Final = 0o440
_MAX_BYTES: Final = 64 * 1024


class SecretFileRefused(Exception):
    """A secret file is missing, accessible to others, or invalid. `str()` is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class SecretSetting:
    """A secret whose value is in a setting, as its file would hold it. `str()` is the name of the setting."""

    name: str
    content: bytes = field(repr=False)

    def __str__(self) -> str:
        return self.name


SecretPlace = Path | SecretSetting


@dataclass(frozen=True, slots=True)
class SecretFile:
    """The content of a secret; `made` if its file was created just now, so that the operator can be informed."""

    content: bytes = field(repr=False)
    made: bool


def read_secret(place: SecretPlace) -> bytes:
    """Return the bytes of a secret that is there. Raise `SecretFileRefused`."""
    return place.content if isinstance(place, SecretSetting) else read_secret_file(place)


def read_secret_file(path: Path) -> bytes:
    """Return the bytes of `path`, at most 64 KiB.

    Raise `SecretFileRefused` when it is missing, not a regular file, or accessible to group or others; a group of this
    process may read a file without write permission (mode 0440), as secrets are mounted. A symbolic link is followed,
    because mounted secrets are links.
    """
    # The checks use the open descriptor and not the name, so that nothing can be replaced in between.
    try:
        # O_NONBLOCK: opening a pipe without a writer would block forever.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise SecretFileRefused(f"The secret file {path} cannot be opened: {error.strerror}.") from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise SecretFileRefused(f"The secret file {path} is not a regular file.")
        if status.st_mode & OTHERS and not _is_mounted_for_us(status):
            raise SecretFileRefused(
                f"The secret file {path} can be used by others (mode {stat.S_IMODE(status.st_mode):04o}): "
                "run chmod 600 on it."
            )
        with os.fdopen(fd, "rb", closefd=False) as file:
            content = file.read(_MAX_BYTES + 1)
    finally:
        os.close(fd)
    if len(content) > _MAX_BYTES:
        raise SecretFileRefused(f"The secret file {path} is larger than {_MAX_BYTES} bytes.")
    return content


def _is_mounted_for_us(status: os.stat_result) -> bool:
    mode = stat.S_IMODE(status.st_mode)
    return mode == MOUNTED and (status.st_uid == os.geteuid() or status.st_gid in {os.getegid(), *os.getgroups()})


def make_secret_file(path: Path, content: bytes) -> bool:
    """Write `content` to the new file `path`, durably; return False, and change nothing, when the path exists.

    Raise `SecretFileRefused`.
    """
    # The file is written under another name and then linked, which fails when the name is taken. So of several
    # processes that start at once exactly one creates it, and none ever reads half of it.
    try:
        path.parent.mkdir(mode=OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
        temporary = _write_temporary(path, content)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        _sync_folder(path.parent)
    except OSError as error:
        raise SecretFileRefused(f"The secret file {path} cannot be made: {error.strerror}.") from error
    return True


def replace_secret_file(path: Path, content: bytes) -> None:
    """Replace the content of `path`, durably and atomically. Raise `SecretFileRefused`."""
    try:
        temporary = _write_temporary(path, content)
        try:
            temporary.replace(path)
        except OSError:
            temporary.unlink()
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise SecretFileRefused(f"The secret file {path} cannot be replaced: {error.strerror}.") from error


def load_or_make(place: SecretPlace, make: Callable[[], bytes]) -> SecretFile:
    """Read a secret; create its file from `make()` when there is none. Raise `SecretFileRefused`."""
    made = isinstance(place, Path) and not os.path.lexists(place) and make_secret_file(place, make())
    return SecretFile(read_secret(place), made)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock `folder` against other processes that read and replace its secrets. Raise `SecretFileRefused`."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SecretFileRefused(f"The folder {folder} cannot be opened: {error.strerror}.") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)  # which releases the lock


def _write_temporary(path: Path, content: bytes) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)
    except OSError:
        temporary.unlink()
        raise
    return temporary


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
