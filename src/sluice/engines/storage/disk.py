"""Blocking steps on a directory tree: a new file that is wholly there or not at all, also after a crash. Keys are not known here."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sluice.engines.storage.protocol import StoreFault, StoreFull
from sluice.kit.failpoints import reach

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
# what `copy_file_range` answers where it cannot work between these two files: another file system, or one without it
_NOT_BETWEEN_THESE: Final = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})
_COPY_BYTES: Final = 16 * 1024 * 1024
_KNOWN_FOLDERS: Final = 10_000


@contextmanager
def as_store_fault(doing: str) -> Iterator[None]:
    """Turn what the operating system answers into the stores' own errors; `doing` completes “The object store cannot …”."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StoreFull("The disk of the object store is full.") from error
        raise StoreFault(f"The object store cannot {doing}: {os.strerror(error.errno or 0)}.") from error


class Folders:
    """Makes folders and their way down from `root` durable, and remembers which are, so that most calls touch nothing.

    Remembering is right because no process of the service ever removes a folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._durable = {root}

    def ensure(self, folder: Path) -> None:
        """Make `folder` and every missing one above it; each new entry is on disk when this returns."""
        if folder in self._durable:
            return
        self.ensure(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)  # also when another process made it: it may not have come this far
        if len(self._durable) >= _KNOWN_FOLDERS:
            self.forget()
        self._durable.add(folder)

    def forget(self) -> None:
        """Trust no folder but the root: somebody removed one by hand."""
        self._durable = {self._root}


def make_root(root: Path) -> None:
    """Make `root` with mode 0700 and what is missing above it, durably; nothing above an existing folder is touched."""
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in missing:
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Have the entries of `folder` survive a crash."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def store_new(source: int, size: int, draft: Path, target: Path, folders: Folders) -> None:
    """Copy `size` bytes of the descriptor `source` to the new file `target`, through `draft` on the same file system.

    When this returns, bytes and name survive a crash; when it raises, there is no `target` by this call. Raises
    `FileExistsError` for a taken `target`: linking, unlike renaming, never replaces.
    """
    try:
        _write(source, size, draft)
        reach("local.drafted")
        _link(draft, target, folders)
        reach("local.linked")
    finally:
        draft.unlink(missing_ok=True)
    try:
        sync_folder(target.parent)
    except OSError:
        target.unlink(missing_ok=True)
        raise


def _write(source: int, size: int, draft: Path) -> None:
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _copy(source, fd, size)
        os.fsync(fd)
    finally:
        os.close(fd)


def _link(draft: Path, target: Path, folders: Folders) -> None:
    folders.ensure(target.parent)
    try:
        os.link(draft, target)
    except FileNotFoundError:
        folders.forget()
        folders.ensure(target.parent)
        os.link(draft, target)


def _copy(source: int, target: int, size: int) -> None:
    """Copy inside the kernel: shared extents where the file system can (`copy_file_range`), else page by page (`sendfile`)."""
    done = 0
    step = _copy_range
    while done < size:
        try:
            copied = step(source, target, min(_COPY_BYTES, size - done), done)
        except OSError as error:
            if step is _send or error.errno not in _NOT_BETWEEN_THESE:
                raise
            copied = 0
        if copied == 0 and step is _send:
            raise StoreFault("The received bytes ended before their stated size.")
        if copied == 0:
            step = _send
        done += copied


def _copy_range(source: int, target: int, count: int, offset: int) -> int:
    return os.copy_file_range(source, target, count, offset, offset)


def _send(source: int, target: int, count: int, offset: int) -> int:
    os.lseek(target, offset, os.SEEK_SET)
    return os.sendfile(target, source, offset, count)
