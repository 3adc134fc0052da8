"""The bytes of an upload while they are judged: in memory if small, else in an unlinked file.

A crash leaves nothing. `SpoolRoom` bounds what all uploads have there.
"""

import asyncio
import errno
import fcntl
import hashlib
import os
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

from sluice.errors import SpoolBusy, StorageFull
from sluice.kit.libc import start_writeback
from sluice.observe.metrics import UPLOADS_WAITING_FOR_SPOOL
from sluice_inspect.sandbox.fair_queue import FairQueue
from sluice_inspect.sandbox.sealed import Sealed

ROOMLESS_BYTES: Final = 4 * 1_048_576  # a file up to here never waits for room in the spool
_BATCH_BYTES: Final = 512 * 1024
_FEW_CHUNKS: Final = 8
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_SEALS: Final = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


_flushing: Final = ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1), thread_name_prefix="spool")
"""Hashes and writes the batches of large uploads. One core is left alone: small uploads would wait for all of them."""


class Sha256(Protocol):
    """A digest of what has come so far, as `hashlib` makes it."""

    def update(self, data: bytes, /) -> None:
        """Take the next bytes."""
        ...

    def digest(self) -> bytes:
        """Return the digest so far."""
        ...

    def copy(self) -> Self:
        """Return a copy that continues from here."""
        ...


class Spool:
    """Takes bytes in order, counts and hashes them, and is sealed once.

    A batch of 512 KiB is hashed and written in a thread while the next one comes in.
    """

    def __init__(
        self, memory_bytes: int, folder: Path, *, kept_here: bool = False, digest: Sha256 | None = None
    ) -> None:
        """Bytes beyond `memory_bytes` go into `folder`.

        `kept_here`: files will be flushed to this disk, so writing may start at once. `digest` continues that of
        what came before.
        """
        self._memory_bytes = memory_bytes
        self._folder = folder
        self._kept_here = kept_here
        self._fd = os.memfd_create("sluice-spool", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.in_memory = True
        self._digest = hashlib.sha256() if digest is None else digest
        self._batch: list[bytes] = []
        self._batched = 0
        self._under_way: asyncio.Future[None] | None = None
        self._closed = False
        self._is_sealed = False
        self.size = 0
        _open.add(self)

    async def write(self, chunk: bytes) -> None:
        """Take the next bytes; raise `StorageFull` if the disk had no room for earlier ones."""
        self._batch.append(chunk)
        self._batched += len(chunk)
        self.size += len(chunk)
        if self._batched >= _BATCH_BYTES:
            await self._begin_flush()

    @classmethod
    def at_end_of(cls, fd: int, size: int, digest: Sha256) -> Self:
        """Return a spool that appends to a file of this disk with `size` bytes, and continues their digest.

        It closes `fd`.
        """
        spool = cls(0, Path(), kept_here=True, digest=digest)
        os.close(spool._fd)
        os.lseek(fd, size, os.SEEK_SET)
        spool._fd, spool.in_memory, spool.size = fd, False, size
        return spool

    async def flush(self) -> Sha256:
        """Hash and write all that has come, and return the digest then; raise `StorageFull`."""
        if self._batch:
            await self._begin_flush()
        await self._flushed()
        return self._digest.copy()

    async def take_file(self, fd: int, size: int) -> None:
        """Take the first bytes of a file, instead of written ones.

        Raise `StorageFull`, or `EOFError` if the file is shorter.
        """
        self.size += size
        self._under_way = asyncio.get_running_loop().run_in_executor(_flushing, self._copy, fd, size, self.size)
        try:
            await self._flushed()
        finally:
            await asyncio.wait([self._under_way])  # the caller closes the file

    def become_file(self, fd: int, size: int, digest: Sha256) -> None:
        """Have all bytes in a file that is no longer written to, and whose digest is known. The spool closes `fd`."""
        os.close(self._fd)
        self._fd, self.in_memory, self.size, self._digest = fd, False, size, digest
        self._is_sealed = True

    async def seal(self) -> Sealed:
        """Return the bytes, which can no longer change; raise `StorageFull`. The spool keeps the descriptor."""
        if self._is_sealed:
            return Sealed(self._fd, self.size, self._digest.digest(), can_link=True)
        await self._flushed()
        if self._batched >= _BATCH_BYTES // 4 or self.size > self._memory_bytes:
            await self._begin_flush()
            await self._flushed()
        else:
            self._flush(self._taken_batch(), self.size)
        if self.in_memory:
            fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, _SEALS)
        else:
            writable, self._fd = self._fd, os.open(f"/proc/self/fd/{self._fd}", os.O_RDONLY | os.O_CLOEXEC)
            os.close(writable)
        return Sealed(self._fd, self.size, self._digest.digest())

    def close(self) -> None:
        """Release the bytes. A second call is a no-op."""
        if self._closed:
            return
        self._closed = True
        self._batch.clear()
        # Not kept: a fault would hold itself in memory, by way of where it came from.
        under_way, self._under_way = self._under_way, None
        if under_way is None:
            self._end()
        elif under_way.done():
            self._end_after(under_way)
        else:  # the number of a file that is closed under a thread's hands may be another's a moment later
            under_way.add_done_callback(self._end_after)

    def _end_after(self, written: "asyncio.Future[None]") -> None:
        written.exception()  # retrieved, so that asyncio does not log it
        self._end()

    def _end(self) -> None:
        _open.discard(self)
        os.close(self._fd)

    async def _begin_flush(self) -> None:
        await self._flushed()
        self._under_way = asyncio.get_running_loop().run_in_executor(
            _flushing, self._flush, self._taken_batch(), self.size
        )

    async def _flushed(self) -> None:
        if self._under_way is not None:
            await asyncio.shield(self._under_way)

    def _taken_batch(self) -> list[bytes]:
        batch, self._batch, self._batched = self._batch, [], 0
        return batch

    def _flush(self, batch: list[bytes], size: int) -> None:
        """Hash and write a batch, with which there are `size` bytes."""
        try:
            if self.in_memory and size > self._memory_bytes:
                self._move_to_disk()
            # Many chunks in one piece: each call gives the interpreter's lock away and has to get it back from a thread
            # that receives.
            chunks = batch if len(batch) <= _FEW_CHUNKS else [b"".join(batch)]
            length = sum(map(len, chunks))
            for chunk in chunks:
                self._digest.update(chunk)
            _write_all(self._fd, chunks)
            batch.clear()
            if self._kept_here and not self.in_memory:
                start_writeback(self._fd, size - length, length)
        except OSError as fault:
            if fault.errno in _NO_ROOM:
                raise StorageFull from fault
            raise

    def _copy(self, fd: int, size: int, total: int) -> None:
        """Copy and hash a file, with which there are `total` bytes."""
        try:
            if self.in_memory and total > self._memory_bytes:
                self._move_to_disk()
            offset = 0
            while offset < size:
                data = os.pread(fd, min(_BATCH_BYTES, size - offset), offset)
                if not data:
                    raise EOFError
                self._digest.update(data)
                _write_all(self._fd, [data])
                offset += len(data)
            if self._kept_here and not self.in_memory:
                start_writeback(self._fd, total - size, size)
        except OSError as fault:
            if fault.errno in _NO_ROOM:
                raise StorageFull from fault
            raise

    def _move_to_disk(self) -> None:
        memory, on_disk = self._fd, _unlinked_file(self._folder)
        offset, size = 0, os.fstat(memory).st_size
        self._fd, self.in_memory = on_disk, False
        try:
            while offset < size:
                offset += os.sendfile(on_disk, memory, offset, size - offset)
        finally:
            os.close(memory)


@dataclass(eq=False, slots=True)
class Room:
    """The room of one upload."""

    tenant_id: str
    size: int


class SpoolRoom:
    """The bytes that uploads may have in spools: `total` in all, a quarter of it for one tenant.

    An upload takes room once, for as much as it may become, so two that have begun never wait for each other. Those for
    which there is none wait; tenants take turns.
    """

    def __init__(self, total: int, wait_seconds: float) -> None:
        self._free = total
        self._share = total // 4
        self._wait_seconds = wait_seconds
        self._used: Counter[str] = Counter()
        self._queue: FairQueue[str, int, Room] = FairQueue(self._acquire, lambda _tenant_id, room: self.shrink(room, 0))

    async def take(self, tenant_id: str, size: int) -> Room:
        """Return room for `size` bytes, to be given back with `put_back`; raise `SpoolBusy` if there is none in time.

        No tenant gets more than its share.
        """
        try:
            with UPLOADS_WAITING_FOR_SPOOL.track_inprogress():
                return await self._queue.get(tenant_id, min(size, self._share), timeout=self._wait_seconds)
        except TimeoutError as fault:
            raise SpoolBusy from fault

    def shrink(self, room: Room, size: int) -> None:
        """Give back what is beyond `size` bytes; nothing if that is more than the room."""
        freed = max(0, room.size - size)
        room.size -= freed
        self._free += freed
        self._used[room.tenant_id] -= freed
        if not self._used[room.tenant_id]:
            del self._used[room.tenant_id]
        self._queue.refresh()

    def take_more(self, tenant_id: str, size: int) -> Room:
        """Return room for an upload that has some, to be given back by shrinking it to 0; raise `SpoolBusy`.

        It does not wait: two that wait for more could wait for each other. So one may get more than its tenant's share.
        """
        wanted = size if size > ROOMLESS_BYTES else 0
        if wanted > self._free:
            raise SpoolBusy
        self._free -= wanted
        self._used[tenant_id] += wanted
        return Room(tenant_id, wanted)

    def put_back(self, room: Room) -> None:
        """Give all of it back."""
        self._queue.put_back(room.tenant_id, room)

    def _acquire(self, tenant_id: str, size: int) -> Room | None:
        if size > self._free or self._used[tenant_id] + size > self._share:
            return None
        self._free -= size
        self._used[tenant_id] += size
        return Room(tenant_id, size)


_open: Final[set[Spool]] = set()


def held() -> tuple[int, int]:
    """Return the bytes that this process has spooled now, in memory and on disk."""
    in_memory = sum(spool.size for spool in _open if spool.in_memory)
    return in_memory, sum(spool.size for spool in _open) - in_memory


def _unlinked_file(folder: Path) -> int:
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as fault:
        if fault.errno in _NO_ROOM:
            raise
    # A file system without O_TMPFILE: the name lives for an instant.
    fd, name = tempfile.mkstemp(dir=folder)
    Path(name).unlink()
    return fd


def _write_all(fd: int, chunks: list[bytes]) -> None:
    written = os.writev(fd, chunks)
    if written < sum(map(len, chunks)):  # a signal, or a disk that is almost full
        left = memoryview(b"".join(chunks))[written:]
        while left:
            left = left[os.write(fd, left) :]
