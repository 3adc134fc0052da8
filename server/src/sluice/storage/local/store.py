"""Objects as files below one directory, for one machine.

Download links of this store are signed and served by the service.
"""

import asyncio
import hashlib
import itertools
import os
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from sluice.kit.completion import run_to_completion
from sluice.kit.health import EngineHealth, EngineState
from sluice.storage.common import probe_store, validate_key
from sluice.storage.folders import PROBES
from sluice.storage.local.disk import (
    BatchWriter,
    DraftFolder,
    DurableFolders,
    NewFile,
    WriteError,
    as_store_error,
    create_root,
    sync_folder,
    write_files,
)
from sluice.storage.protocol import ListedObject, ObjectChanged, ProbeStep, StoreError, ignore_step
from sluice_inspect.sandbox.sealed import Sealed

T = TypeVar("T")
# A download has so much in hand for a client that stops reading (`api.http1.connection_table` bounds the whole).
_CHUNK_BYTES: Final = 24 * 1024
_BATCH: Final = 1000
_SMALL_BYTES: Final = 256 * 1024  # up to here an object is written in a batch with others
_NAME_BYTES: Final = 255  # NAME_MAX of every usual Linux file system


class LocalStore:
    """An object store in the directory `root`, which is created when missing and belongs to this service alone.

    `objects/` holds each object under its key, `long-names/` those whose key has a part too long for a file name (under
    the SHA-256 of the key), `.tmp/` unfinished files where the file system has no nameless ones. Files have mode 0600,
    folders 0700. Empty folders stay: removing one could race with a put into it. Any number of processes may share
    `root`.

    `threads` limits the calls that wait for the disk at the same time; with less than `low_space_bytes` free, the
    health is `degraded`.
    """

    def __init__(self, root: Path, *, threads: int = 16, low_space_bytes: int = 1 << 30) -> None:
        self._root = root.absolute()
        self._objects = self._root / "objects"
        self._long_names = self._root / "long-names"
        self._draft_folder = self._root / ".tmp"
        self._low_space_bytes = low_space_bytes
        self._folders = DurableFolders(self._root)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="local-store")
        self._batches = BatchWriter(self._write_files)
        with as_store_error("make its folders"):
            create_root(self._root)
            for folder in (self._objects, self._long_names, self._draft_folder):
                self._folders.ensure(folder)
            self._drafts = DraftFolder.at(self._draft_folder)

    def __repr__(self) -> str:
        return f"LocalStore({str(self._root)!r})"

    async def put(self, key: str, sealed: Sealed, *, content_type: str) -> None:  # noqa: ARG002  (the row has the type)
        """Store the bytes as a new file; see the protocol. A taken key is a `StoreError`.

        A cancelled put ends its work first.
        """
        file = NewFile(sealed.fd, sealed.size, self._path(key), sealed.can_link)
        # Reads have explicit offsets, and the caller closes nothing before this ends: no descriptor of our own is
        # needed.
        with as_store_error("write the object"):
            try:
                if file.size <= _SMALL_BYTES:
                    await self._batches.write(file)
                else:
                    await self._run(partial(self._write_one, file))
            except FileExistsError as error:
                raise StoreError("There is an object under this key already.") from error

    async def read(
        self, key: str, *, start: int = 0, length: int | None = None, expected_size: int | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the object's bytes in chunks; see the protocol. Raise `StoreError` if the object becomes shorter."""
        path = self._path(key)
        with as_store_error("read the object"):
            fd, size = await self._run(partial(_open_file, path, key), discard=lambda opened: os.close(opened[0]))
            try:
                if expected_size not in {None, size}:
                    raise ObjectChanged
                left = size - start if length is None else min(length, size - start)
                while left > 0:
                    count = min(_CHUNK_BYTES, left)
                    chunk = _read_cached(fd, count, start)
                    if chunk is None:
                        chunk = await self._run(partial(os.pread, fd, count, start))
                    else:
                        await asyncio.sleep(0)  # a reader that keeps up would never let another task run
                    if not chunk:
                        raise StoreError("The object is shorter than it was.")
                    start, left = start + len(chunk), left - len(chunk)
                    yield chunk
            finally:
                os.close(fd)

    async def create_file(self, key: str) -> int:
        """Create an empty object and return a descriptor to write it; see the protocol.

        Raise `StoreError` if the key is taken.
        """
        with as_store_error("write the object"):
            try:
                return await self._run(partial(self._create_file, self._path(key)), discard=os.close)
            except FileExistsError as error:
                raise StoreError("There is an object under this key already.") from error

    async def open_file(self, key: str, *, writable: bool = False) -> int:
        """Return a descriptor of the object's file; see the protocol."""
        mode = os.O_RDWR if writable else os.O_RDONLY
        with as_store_error("read the object"):
            opened = partial(_open_file, self._path(key), key, mode)
            fd, _size = await self._run(opened, discard=lambda found: os.close(found[0]))
        return fd

    async def size(self, key: str) -> int | None:
        """Return the size in bytes, or None when there is no such object."""
        path = self._path(key)
        with as_store_error("look at the object"):
            return await self._run(partial(_file_size, path))

    async def delete(self, key: str) -> None:
        """Delete the object durably: a crash does not bring it back. A missing object is a no-op."""
        path = self._path(key)
        with as_store_error("delete the object"):
            await self._run(partial(_delete_file, path))

    async def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Delete the objects in one thread, and flush each folder once; see the protocol."""
        return await self._run(partial(self._delete_files, keys))

    async def list_objects(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[ListedObject]]:
        """Yield the objects below `prefix` after `after`, a thousand at a time; see the protocol.

        Those with a part too long for a file name are left out: their names do not tell their keys.
        """
        folder = f"{prefix}/" if prefix else ""
        objects = _walk_files(self._objects / prefix, os.fsencode(folder), after.encode())
        with as_store_error("list its objects"):
            while batch := await self._run(lambda: list(itertools.islice(objects, _BATCH))):
                yield batch

    async def is_ours(self, key: str) -> bool:
        """Return whether the object exists: the directory belongs to this service alone."""
        return await self.size(key) is not None

    async def sweep(self, *, older_than_seconds: float) -> int:
        """Delete unfinished files that were not written to for that long; return how many.

        An hour is far beyond any put: each write of a running one renews its file's time.
        """
        with as_store_error("sweep its drafts"):
            return await self._run(partial(_sweep, self._draft_folder, time.time() - older_than_seconds))

    async def probe(self, begin: Callable[[ProbeStep], None] = ignore_step) -> None:
        """Put, read and delete one small object."""
        await probe_store(self, PROBES, begin)

    async def health(self) -> EngineHealth:
        """Return whether the directory can be written to, and its free space. Never raises."""
        try:
            with as_store_error("look at its disk"):
                free, writable = await self._run(self._free_space)
        except StoreError as error:
            return EngineHealth("storage", "local", EngineState.DOWN, detail=str(error))
        state, detail = EngineState.UP, ""
        if not writable:
            state, detail = EngineState.DOWN, "The directory cannot be written."
        elif free < self._low_space_bytes:
            state, detail = EngineState.DEGRADED, "The disk is nearly full."
        return EngineHealth("storage", "local", state, detail=detail, limits={"free_bytes": free})

    async def aclose(self) -> None:
        """End the threads after the work that they have. A second call is a no-op."""
        await asyncio.to_thread(self._batches.close)
        await asyncio.to_thread(self._threads.shutdown)

    def _path(self, key: str) -> Path:
        raw = validate_key(key).encode()
        if max(map(len, raw.split(b"/"))) > _NAME_BYTES:
            digest = hashlib.sha256(raw).hexdigest()
            return self._long_names / digest[:2] / digest
        return self._objects / os.fsdecode(raw)

    def _write_files(self, files: Sequence[NewFile]) -> Sequence[WriteError | None]:
        return write_files(files, self._drafts, self._folders)

    def _create_file(self, path: Path) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._folders.ensure(path.parent)
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:  # the folder was removed by hand
            self._folders.forget()
            self._folders.ensure(path.parent)
            return os.open(path, flags, 0o600)

    def _write_one(self, file: NewFile) -> None:
        (error,) = self._write_files([file])
        if error is not None:
            raise error

    def _delete_files(self, keys: Sequence[str]) -> dict[str, str]:
        failed = dict[str, str]()
        deleted: dict[Path, list[str]] = {}
        for key in keys:
            try:
                with as_store_error("delete the object"):
                    path = self._path(key)
                    if _file_size(path) is not None:
                        path.unlink(missing_ok=True)
                        deleted.setdefault(path.parent, []).append(key)
            except StoreError as error:
                failed[key] = str(error)
        for folder, keys_there in deleted.items():
            try:
                with as_store_error("delete the object"):
                    sync_folder(folder)
            except StoreError as error:
                failed |= dict.fromkeys(keys_there, str(error))
        return failed

    def _free_space(self) -> tuple[int, bool]:
        found = os.statvfs(self._root)
        folders = (self._objects, self._long_names, self._draft_folder)
        return found.f_bavail * found.f_frsize, all(os.access(folder, os.W_OK | os.X_OK) for folder in folders)

    async def _run(self, step: Callable[[], T], *, discard: Callable[[T], None] | None = None) -> T:
        try:
            future = asyncio.get_running_loop().run_in_executor(self._threads, step)
        except RuntimeError as error:  # the pool was shut down
            raise StoreError("The object store is closed.") from error
        return await run_to_completion(future, discard=discard)


def _read_cached(fd: int, count: int, start: int) -> bytes | None:
    """Return the bytes if the kernel has them in memory, as it mostly does ahead of a reader; None if it must wait."""
    buffer = bytearray(count)
    try:
        return bytes(memoryview(buffer)[: os.preadv(fd, [buffer], start, os.RWF_NOWAIT)])
    except OSError:  # not in memory, or a file system that cannot tell
        return None


def _open_file(path: Path, key: str, mode: int = os.O_RDONLY) -> tuple[int, int]:
    """Return a descriptor of the file and its size in bytes; raise `KeyError` when there is none."""
    try:
        fd = os.open(path, mode | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        raise KeyError(key) from None
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode):
        return fd, found.st_size
    os.close(fd)
    raise KeyError(key)


def _file_size(path: Path) -> int | None:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _delete_file(path: Path) -> None:
    if _file_size(path) is None:
        return
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def _sweep(drafts: Path, before: float) -> int:
    swept = 0
    for draft in drafts.iterdir():
        try:
            if draft.lstat().st_mtime < before:
                draft.unlink()
                swept += 1
        except FileNotFoundError:  # its put has ended meanwhile, or another worker deleted it
            continue
    return swept


def _walk_files(folder: Path, key: bytes, after: bytes) -> Iterator[ListedObject]:
    """Yield the files below `folder`, whose keys begin with `key`, that come after `after`.

    Reads one folder at a time.
    """
    try:
        with os.scandir(os.fsencode(folder)) as entries:
            # A folder sorts with the slash that the keys of its files have there: `a-b` comes before `a/b`.
            names = sorted(
                (entry.name + b"/", True) if entry.is_dir(follow_symlinks=False) else (entry.name, False)
                for entry in entries
            )
    except FileNotFoundError:
        return
    for name, is_folder in names:
        found, path = key + name, folder / os.fsdecode(name)
        if is_folder:
            # Every key in it begins with `found`: all of them come before `after`, or some may come after it.
            if found > after or after.startswith(found):
                yield from _walk_files(path, found, after)
        elif found > after and (size := _file_size(path)) is not None:
            yield ListedObject(os.fsdecode(found), size)
