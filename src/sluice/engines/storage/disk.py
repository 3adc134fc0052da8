"""Blocking steps on a directory tree: a new file that is wholly there or not at all, also after a crash. Keys are not known here."""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from sluice.engines.storage.protocol import StoreFault, StoreFull
from sluice.kit.failpoints import reach

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
# what `copy_file_range` answers where it cannot work between these two files: another file system, or one without it
_NOT_BETWEEN_THESE: Final = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})
# what a file system answers, or a kernel, that makes no file without a name
_NO_NAMELESS: Final = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL})
_SMALL_BYTES: Final = 256 * 1024
"""Below this, extents are not worth the question whether they can be shared."""
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


@dataclass(frozen=True, slots=True)
class Piece:
    """`size` bytes of the descriptor `source`, which stays open until they are stored, and the new file `target` that they shall be."""

    source: int
    size: int
    target: Path


Fault = OSError | StoreFault


@dataclass(frozen=True, slots=True)
class Drafts:
    """The folder of what has no name yet, on the file system of the targets."""

    folder: Path
    device: int
    nameless: bool
    """Whether the file system makes files without a name, so that a crash leaves none."""

    @classmethod
    def within(cls, folder: Path) -> Self:
        """Find out what `folder` can do."""
        try:
            os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except OSError as error:
            if error.errno not in _NO_NAMELESS:
                raise
            return cls(folder, folder.stat().st_dev, nameless=False)
        return cls(folder, folder.stat().st_dev, nameless=True)

    def holds(self, piece: Piece) -> bool:
        """Tell whether the bytes lie in a nameless file of this file system already: it needs no more than a name."""
        if not self.nameless:
            return False
        try:
            found = os.fstat(piece.source)
        except OSError as error:
            raise StoreFault("The object store cannot read the received bytes: they were let go.") from error
        return stat.S_ISREG(found.st_mode) and (found.st_nlink, found.st_dev, found.st_size) == (0, self.device, piece.size)


def store_all(pieces: Sequence[Piece], drafts: Drafts, folders: Folders) -> list[Fault | None]:
    """Store each piece as a new file by way of `drafts`; answer for each what stood against it, or None.

    A source without a name on that file system, such as a large upload's spool, becomes the file itself: whoever made it must not write
    to it any more. Of others the bytes are copied.

    When this returns, bytes and names survive a crash; a piece with a fault has no file by this call. `FileExistsError` says that its
    name is taken: linking, unlike renaming, never replaces. Nothing has a name before its bytes are on disk. Each folder is flushed
    once for all, and all bytes are on their way before the first of them is waited for.
    """
    works = [_Work(piece) for piece in pieces]
    with ExitStack() as opened:
        _each(works, lambda work: work.fill(drafts, opened))
        if len(works) > 1:
            _each(works, _Work.begin_flush)
        _each(works, _Work.flush)
        _each(works, lambda work: work.link(drafts, folders, opened))
    for folder in {work.piece.target.parent for work in works if work.fault is None}:
        _sync_names([work for work in works if work.fault is None and work.piece.target.parent == folder], folder)
    return [work.fault for work in works]


@dataclass(slots=True)
class _Work:
    """One piece on its way."""

    piece: Piece
    draft: int = -1
    draft_name: Path | None = None
    fault: Fault | None = None

    def fill(self, drafts: Drafts, opened: ExitStack) -> None:
        """Make the draft, to be closed by `opened`, and copy the bytes into it, unless they are in one already."""
        if drafts.holds(self.piece):
            self.draft = self.piece.source
        else:
            self._copy(drafts, opened)

    def _copy(self, drafts: Drafts, opened: ExitStack) -> None:
        if drafts.nameless:
            self.draft = os.open(drafts.folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        else:
            self.draft_name = drafts.folder / secrets.token_hex(16)
            self.draft = os.open(self.draft_name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            opened.callback(self.draft_name.unlink, missing_ok=True)
        opened.callback(os.close, self.draft)
        _copy(self.piece.source, self.draft, self.piece.size)

    def begin_flush(self) -> None:
        """Have the bytes written, without waiting for it."""
        os.posix_fadvise(self.draft, 0, 0, os.POSIX_FADV_DONTNEED)

    def flush(self) -> None:
        """Wait until the bytes are on disk."""
        os.fsync(self.draft)
        reach("local.drafted")

    def link(self, drafts: Drafts, folders: Folders, opened: ExitStack) -> None:
        """Give the draft its name."""
        folders.ensure(self.piece.target.parent)
        try:
            self._link()
        except FileNotFoundError:
            folders.forget()
            folders.ensure(self.piece.target.parent)
            if self.draft == self.piece.source:
                # It had a name once, or was opened so as never to have one (open(2), O_EXCL): it can get none.
                self._copy(drafts, opened)
                os.fsync(self.draft)
            self._link()
        reach("local.linked")

    def _link(self) -> None:
        # A file without a name is linked by its descriptor, as open(2) has it; naming a folder makes Python follow the link in /proc.
        draft = self.draft_name or f"/proc/self/fd/{self.draft}"
        os.link(draft, self.piece.target, src_dir_fd=self.draft, follow_symlinks=True)


def _each(works: Sequence[_Work], step: Callable[[_Work], None]) -> None:
    """Take a step with every piece that nothing stands against yet."""
    for work in works:
        if work.fault is None:
            try:
                step(work)
            except (OSError, StoreFault) as fault:
                work.fault = fault


def _sync_names(works: Sequence[_Work], folder: Path) -> None:
    try:
        sync_folder(folder)
    except OSError as fault:
        for work in works:
            work.piece.target.unlink(missing_ok=True)
            work.fault = fault


def _copy(source: int, target: int, size: int) -> None:
    """Copy inside the kernel: shared extents where the file system can (`copy_file_range`), else page by page (`sendfile`)."""
    done = 0
    step = _copy_range if size > _SMALL_BYTES else _send
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
    if offset:
        os.lseek(target, offset, os.SEEK_SET)
    return os.sendfile(target, source, offset, count)
