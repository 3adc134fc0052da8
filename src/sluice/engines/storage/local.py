"""Objects as files below one directory, for one machine. Download links of this store are signed and served by the service."""

import asyncio
import hashlib
import itertools
import os
import stat
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from sluice.engines.storage.batches import Batches
from sluice.engines.storage.disk import Drafts, Fault, Folders, Piece, as_store_fault, make_root, store_all, sync_folder
from sluice.engines.storage.keys import checked_key
from sluice.engines.storage.local_walk import walked
from sluice.engines.storage.probing import probed
from sluice.engines.storage.protocol import Listed, StoreFault
from sluice.engines.storage.settled import settled
from sluice.kit.health import EngineHealth, EngineState
from sluice.kit.sealed import Sealed

T = TypeVar("T")
_CHUNK_BYTES: Final = 1024 * 1024
_BATCH: Final = 1000
_SMALL_BYTES: Final = 256 * 1024
"""Up to here an object is stored together with others."""
_NAME_BYTES: Final = 255  # NAME_MAX of every usual Linux file system


class LocalStore:
    """An object store in the directory `root`, which is made when it is missing and belongs to this service alone.

    `objects/` holds each object under its key, `long-names/` those whose key has a part too long for a file name (under the
    SHA-256 of the key), `.tmp/` what is not yet whole, where the file system makes no files without a name. Files have mode 0600, folders 0700. Folders that have become empty
    stay: removing one could race with a put into it. Any number of processes may share `root`.

    `threads` bounds the calls that wait for the disk at the same time; below `low_space_bytes` free, the health is `degraded`.
    """

    def __init__(self, root: Path, *, threads: int = 16, low_space_bytes: int = 1 << 30) -> None:
        self._root = root.absolute()
        self._objects, self._long, self._draft_folder = self._root / "objects", self._root / "long-names", self._root / ".tmp"
        self._low_space_bytes = low_space_bytes
        self._folders = Folders(self._root)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="local-store")
        self._batches = Batches(self._store_all)
        with as_store_fault("make its folders"):
            make_root(self._root)
            for folder in (self._objects, self._long, self._draft_folder):
                self._folders.ensure(folder)
            self._drafts = Drafts.within(self._draft_folder)

    def __repr__(self) -> str:
        return f"LocalStore({str(self._root)!r})"

    async def put(self, key: str, sealed: Sealed, *, content_type: str) -> None:  # noqa: ARG002 - the record keeps the type
        """Store the bytes as a new file; see the protocol. A taken key is a `StoreFault`. Cancelled, it still ends its work first."""
        # Bytes are read at offsets of our own, and nobody closes them before this ends: no descriptor of our own is needed.
        piece = Piece(sealed.fd, sealed.size, self._path(key))
        with as_store_fault("write the object"):
            try:
                if piece.size <= _SMALL_BYTES:
                    await self._batches.put(piece)
                else:
                    await self._run(partial(self._store_one, piece))
            except FileExistsError as error:
                raise StoreFault("There is an object under this key already.") from error

    async def read(self, key: str, *, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """Answer the object's bytes in chunks; see the protocol."""
        path = self._path(key)
        with as_store_fault("read the object"):
            fd, size = await self._run(partial(_opened, path, key), discard=_close)
            try:
                left = size - start if length is None else min(length, size - start)
                while left > 0:
                    chunk = await self._run(partial(os.pread, fd, min(_CHUNK_BYTES, left), start))
                    if not chunk:
                        raise StoreFault("The object is shorter than it was.")
                    start, left = start + len(chunk), left - len(chunk)
                    yield chunk
            finally:
                os.close(fd)

    async def size(self, key: str) -> int | None:
        """Answer the size in bytes, or None when there is no such object."""
        path = self._path(key)
        with as_store_fault("look at the object"):
            return await self._run(partial(_size, path))

    async def delete(self, key: str) -> None:
        """Remove the object, also from what a crash would bring back. A missing object is a no-op."""
        path = self._path(key)
        with as_store_fault("delete the object"):
            await self._run(partial(_remove, path))

    async def listed(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[Listed]]:
        """Answer the objects below `prefix` after `after`, a thousand at a time; see the protocol.

        Those with a part too long for a file name are left out: their keys cannot be told from their names.
        """
        walk = walked(self._objects, prefix, after)
        with as_store_fault("list its objects"):
            while batch := await self._run(lambda: list(itertools.islice(walk, _BATCH))):
                yield batch

    async def is_ours(self, key: str) -> bool:
        """Say whether the object is there: the directory belongs to this service alone."""
        return await self.size(key) is not None

    async def sweep(self, *, older_than_seconds: float) -> int:
        """Remove what puts cut off by a crash left half-written and untouched for that long; answer how many files went.

        An hour is far beyond any put: each write of a running one makes its file young again.
        """
        with as_store_fault("sweep its drafts"):
            return await self._run(partial(_sweep, self._draft_folder, time.time() - older_than_seconds))

    async def probe(self) -> None:
        """Put, read and delete one small object."""
        await probed(self, ".sluice-probe")

    async def health(self) -> EngineHealth:
        """Answer whether the directory can be written and how much room it has. Never raises."""
        try:
            with as_store_fault("look at its disk"):
                free, writable = await self._run(self._room)
        except StoreFault as fault:
            return EngineHealth("storage", "local", EngineState.DOWN, detail=str(fault))
        limits = {"free_bytes": free}
        if not writable:
            return EngineHealth("storage", "local", EngineState.DOWN, detail="The directory cannot be written.", limits=limits)
        if free < self._low_space_bytes:
            return EngineHealth("storage", "local", EngineState.DEGRADED, detail="The disk is nearly full.", limits=limits)
        return EngineHealth("storage", "local", EngineState.UP, limits=limits)

    async def aclose(self) -> None:
        """Let the threads go, after the work they have. A second call is a no-op."""
        await asyncio.to_thread(self._batches.close)
        await asyncio.to_thread(self._threads.shutdown)

    def _path(self, key: str) -> Path:
        raw = checked_key(key).encode()
        if any(len(name) > _NAME_BYTES for name in raw.split(b"/")):
            digest = hashlib.sha256(raw).hexdigest()
            return self._long / digest[:2] / digest
        return self._objects / os.fsdecode(raw)

    def _store_all(self, pieces: Sequence[Piece]) -> Sequence[Fault | None]:
        return store_all(pieces, self._drafts, self._folders)

    def _store_one(self, piece: Piece) -> None:
        (fault,) = self._store_all([piece])
        if fault is not None:
            raise fault

    def _room(self) -> tuple[int, bool]:
        found = os.statvfs(self._root)
        folders = (self._objects, self._long, self._draft_folder)
        return found.f_bavail * found.f_frsize, all(os.access(folder, os.W_OK | os.X_OK) for folder in folders)

    async def _run(self, step: Callable[[], T], *, discard: Callable[[T], None] | None = None) -> T:
        try:
            future = asyncio.get_running_loop().run_in_executor(self._threads, step)
        except RuntimeError as error:  # what a pool says that was shut down
            raise StoreFault("The object store is closed.") from error
        return await settled(future, discard=discard)


def _opened(path: Path, key: str) -> tuple[int, int]:
    """Answer a descriptor of the file and its size in bytes; `KeyError` when there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        raise KeyError(key) from None
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode):
        return fd, found.st_size
    os.close(fd)
    raise KeyError(key)


def _close(opened: tuple[int, int]) -> None:
    os.close(opened[0])


def _size(path: Path) -> int | None:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _remove(path: Path) -> None:
    if _size(path) is None:
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
        except FileNotFoundError:  # its put has ended meanwhile, or another worker was here
            continue
    return swept
