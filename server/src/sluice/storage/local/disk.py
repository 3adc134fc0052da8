"""Blocking work on a directory tree: new files that are complete or not there at all, also after a crash.

Keys are not known here.
"""

import asyncio
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Final, Self

from sluice.kit.completion import run_to_completion
from sluice.kit.failpoints import failpoint
from sluice.storage.protocol import StoreError, StoreFull

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
# Errors of `copy_file_range` between two files that it does not support: other file systems, or one without the call.
_NO_COPY_RANGE: Final = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})
# Errors of a file system or a kernel without O_TMPFILE.
_NO_TMPFILE: Final = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL})
_SMALL_BYTES: Final = 256 * 1024  # below, shared extents are not worth the attempt
_COPY_BYTES: Final = 16 * 1024 * 1024
_MAX_KNOWN_FOLDERS: Final = 10_000
_MAX_BATCH: Final = 64  # more would make the first of a batch wait long for the last

WriteError = OSError | StoreError


@contextmanager
def as_store_error(doing: str) -> Iterator[None]:
    """Turn errors of the operating system into `StoreError`, a full disk into `StoreFull`.

    `doing` completes “The object store cannot …”.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StoreFull("The disk of the object store is full.") from error
        raise StoreError(f"The object store cannot {doing}: {os.strerror(error.errno or 0)}.") from error


class DurableFolders:
    """Creates folders below `root` durably, and remembers which are, so that most calls touch no disk."""

    # The memory stays right because no process of the service ever removes a folder.

    def __init__(self, root: Path) -> None:
        self._root = root
        self._durable = {root}

    def ensure(self, folder: Path) -> None:
        """Create `folder` and every missing one above it; each new entry is on disk when this returns."""
        if folder in self._durable:
            return
        self.ensure(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)  # also when another process created it: that one may not have synced it yet
        if len(self._durable) >= _MAX_KNOWN_FOLDERS:
            self.forget()
        self._durable.add(folder)

    def forget(self) -> None:
        """Forget all folders but the root, because one was removed by hand."""
        self._durable = {self._root}


def create_root(root: Path) -> None:
    """Create `root` with mode 0700 and what is missing above it, durably; existing folders are left as they are."""
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in missing:
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Flush the entries of `folder` to disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class NewFile:
    """`size` bytes of the descriptor `source`, which stays open until they are stored, and the path of the new file.

    `can_link`: the source has a name already, and may get another one if it is on the file system of the target.
    """

    source: int
    size: int
    target: Path
    can_link: bool = False


@dataclass(frozen=True, slots=True)
class DraftFolder:
    """The folder of files that have no final name yet, on the file system of the targets.

    `has_tmpfile`: the file system creates files without a name (O_TMPFILE), so that a crash leaves none.
    """

    folder: Path
    device: int
    has_tmpfile: bool

    @classmethod
    def at(cls, folder: Path) -> Self:
        """Try out what the file system of `folder` supports."""
        try:
            os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except OSError as error:
            if error.errno not in _NO_TMPFILE:
                raise
            return cls(folder, folder.stat().st_dev, has_tmpfile=False)
        return cls(folder, folder.stat().st_dev, has_tmpfile=True)

    def can_link(self, file: NewFile) -> bool:
        """Return whether the source is a file of this file system already, nameless or shared: it only needs a name.

        Raise `StoreError` if its descriptor was closed.
        """
        if not self.has_tmpfile:
            return False
        try:
            found = os.fstat(file.source)
        except OSError as error:
            raise StoreError("The object store cannot read the received bytes: they were let go.") from error
        is_ours = found.st_nlink == 0 or file.can_link
        return is_ours and stat.S_ISREG(found.st_mode) and (found.st_dev, found.st_size) == (self.device, file.size)


def write_files(files: Sequence[NewFile], drafts: DraftFolder, folders: DurableFolders) -> list[WriteError | None]:
    """Store each file; return for each the error that it met, or None. A file with an error has not been created.

    When this returns, bytes and names survive a crash. `FileExistsError` means that the name is taken. A source on that
    file system that has no name, such as the spool of a large upload, or that may be linked becomes the file itself:
    it must not be written to any more. Other sources are copied.
    """
    # Nothing gets a name before its bytes are on disk. Names are linked, because renaming would replace an existing
    # file. Each folder is flushed once for all files, and all bytes are on their way before the first flush is waited
    # for.
    drafted = [_Draft(file) for file in files]
    with ExitStack() as opened:
        _for_each(drafted, lambda draft: draft.fill(drafts, opened))
        if len(drafted) > 1:
            _for_each(drafted, _Draft.begin_flush)
        _for_each(drafted, _Draft.flush)
        _for_each(drafted, lambda draft: draft.link(drafts, folders, opened))
    linked = [draft for draft in drafted if draft.error is None]
    for folder in {draft.file.target.parent for draft in linked}:
        try:
            sync_folder(folder)
        except OSError as error:
            for draft in linked:
                if draft.file.target.parent == folder:
                    draft.file.target.unlink(missing_ok=True)
                    draft.error = error
    return [draft.error for draft in drafted]


def _for_each(drafts: "Sequence[_Draft]", step: "Callable[[_Draft], None]") -> None:
    """Take a step with every draft that has met no error yet."""
    for draft in drafts:
        if draft.error is None:
            try:
                step(draft)
            except (OSError, StoreError) as error:
                draft.error = error


@dataclass(slots=True)
class _Draft:
    """One new file while it is written; `name` only where there are no nameless files."""

    file: NewFile
    fd: int = -1
    name: Path | None = None
    error: WriteError | None = None

    def fill(self, drafts: DraftFolder, opened: ExitStack) -> None:
        """Open the draft, to be closed by `opened`, and copy the bytes into it unless the source is one."""
        if drafts.can_link(self.file):
            self.fd = self.file.source
        else:
            self._copy(drafts, opened)

    def _copy(self, drafts: DraftFolder, opened: ExitStack) -> None:
        if drafts.has_tmpfile:
            self.fd = os.open(drafts.folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        else:
            self.name = drafts.folder / secrets.token_hex(16)
            self.fd = os.open(self.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            opened.callback(self.name.unlink, missing_ok=True)
        opened.callback(os.close, self.fd)
        _copy_bytes(self.file.source, self.fd, self.file.size)

    def begin_flush(self) -> None:
        """Start writing the bytes to disk without waiting."""
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def flush(self) -> None:
        """Wait until the bytes are on disk."""
        os.fsync(self.fd)
        failpoint("local.drafted")

    def link(self, drafts: DraftFolder, folders: DurableFolders, opened: ExitStack) -> None:
        """Give the draft its final name."""
        folders.ensure(self.file.target.parent)
        try:
            self._link()
        except FileNotFoundError:
            folders.forget()
            folders.ensure(self.file.target.parent)
            if self.fd == self.file.source:
                # It had a name once, or was opened with O_EXCL (open(2)): such a file can get no name.
                self._copy(drafts, opened)
                os.fsync(self.fd)
            self._link()
        failpoint("local.linked")

    def _link(self) -> None:
        # A nameless file is linked by its descriptor (open(2)). `src_dir_fd` makes Python follow the link in /proc.
        draft = self.name or f"/proc/self/fd/{self.fd}"
        os.link(draft, self.file.target, src_dir_fd=self.fd, follow_symlinks=True)


def _copy_bytes(source: int, target: int, size: int) -> None:
    """Copy inside the kernel: with shared extents where the file system can (`copy_file_range`), else by `sendfile`."""
    done = 0
    step = _copy_range if size > _SMALL_BYTES else _send
    while done < size:
        try:
            copied = step(source, target, min(_COPY_BYTES, size - done), done)
        except OSError as error:
            if step is _send or error.errno not in _NO_COPY_RANGE:
                raise
            copied = 0
        if copied == 0 and step is _send:
            raise StoreError("The received bytes ended before their stated size.")
        if copied == 0:
            step = _send
        done += copied


def _copy_range(source: int, target: int, count: int, offset: int) -> int:
    return os.copy_file_range(source, target, count, offset, offset)


def _send(source: int, target: int, count: int, offset: int) -> int:
    if offset:
        os.lseek(target, offset, os.SEEK_SET)
    return os.sendfile(target, source, offset, count)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Files to write, and for each the future of its writer, which belongs to `loop`."""

    files: Sequence[NewFile]
    written: "Sequence[asyncio.Future[None]]"
    loop: asyncio.AbstractEventLoop


class BatchWriter:
    """A few threads that write small files in batches: what arrives while one batch is written is the next one.

    One event loop at a time.
    """

    # One thread per file would spend more on the interpreter's lock, released and taken back around every system call,
    # than on the file, and each would flush its folder alone. A single thread would leave the disk idle
    # (docs/performance.md). A plain queue instead of an executor: its futures cost as much as a fifth of a small put.

    def __init__(
        self, write_all: Callable[[Sequence[NewFile]], Sequence[WriteError | None]], *, threads: int = 3
    ) -> None:
        self._write_all = write_all
        self._threads = [Thread(target=self._work, name="local-store-batches", daemon=True) for _ in range(threads)]
        self._batches: SimpleQueue[_Batch | None] = SimpleQueue()
        self._lock = Lock()  # nothing is queued after the end
        self._is_started = self._is_closed = False
        self._free = threads
        self._waiting: list[tuple[NewFile, asyncio.Future[None]]] = []

    async def write(self, file: NewFile) -> None:
        """Write a file; raise its error, or `StoreError` after `close`.

        A cancelled call still waits for the end first.
        """
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((file, written))
        if self._free:
            self._start_batch()
        await run_to_completion(written)

    def close(self) -> None:
        """End the threads after the work that they have. A second call is a no-op."""
        with self._lock:
            is_first, self._is_closed = not self._is_closed, True
            for _ in self._threads if is_first else ():
                self._batches.put(None)
        for thread in self._threads if self._is_started else ():
            thread.join()

    def _start_batch(self) -> None:
        taken, self._waiting = self._waiting[:_MAX_BATCH], self._waiting[_MAX_BATCH:]
        written = [each for _, each in taken]
        with self._lock:
            if not self._is_closed:
                if not self._is_started:
                    self._is_started = True
                    for thread in self._threads:
                        thread.start()
                self._batches.put(_Batch([file for file, _ in taken], written, asyncio.get_running_loop()))
                self._free -= 1
                return
        for each in written:
            each.set_exception(StoreError("The object store is closed."))

    def _work(self) -> None:
        while (batch := self._batches.get()) is not None:
            errors: Sequence[Exception | None]
            try:
                errors = self._write_all(batch.files)
            except Exception as unexpected:  # noqa: BLE001  (every writer of the batch raises it)
                errors = [unexpected] * len(batch.files)
            with suppress(RuntimeError):  # the loop is closed, and no task waits
                batch.loop.call_soon_threadsafe(self._end_batch, batch, errors)

    def _end_batch(self, batch: _Batch, errors: Sequence[Exception | None]) -> None:
        self._free += 1
        if self._waiting:
            self._start_batch()
        for written, error in zip(batch.written, errors, strict=True):
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)
