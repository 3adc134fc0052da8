"""The bytes of resumable uploads while they wait, as objects of the platform's own store.

In a bucket each segment is an object. In the local store requests append to one file as long as the same process takes
them; a file that grew so in one go is judged and stored as it is, without a copy.

An object exists before its row, so a row never names bytes that are not there. Names are flat, since the local store
keeps empty folders, and each has the generation of its request, since a key is never used twice.
"""

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from sluice.errors import NotFound, ServiceUnavailable, StorageFull, UploadTakenOver
from sluice.observe.log import log
from sluice.resumable.resumable_upload import ResumableUpload, UploadPart
from sluice.storage import INCOMING, DeletesMany, KeepsFiles, ListsObjects, ObjectStore, StoreError, StoreFull
from sluice.uploads.spool import Sha256, Spool
from sluice_inspect.sandbox.sealed import Sealed

_KEY: Final = re.compile(rf"{INCOMING}/(upl_[0-9a-z]{{26}})-[0-9]{{12}}-[0-9]+")
_NUMBERS: Final = re.compile(r"[0-9]+(-[0-9]+)?")
_SEGMENT_BYTES: Final = 8 * 1_048_576  # the most that is lost when the server is killed
_MEDIA_TYPE: Final = "application/octet-stream"

# Notes parts that are stored or have grown, and by how many bytes in all; raises if another request has taken over the
# upload.
NoteParts = Callable[[Sequence[UploadPart], int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class UploadTail:
    """The state of an upload that a process has appended to: its last part, a file, and the digest of all its bytes.

    The append with the next `generation` may continue that file: there was no append in between, and the previous
    writer has ended.
    """

    generation: int
    received: int
    part: UploadPart
    digest: Sha256 | None


class UploadPartWriter(Protocol):
    """Keeps the bytes of one request. Close it in any case."""

    async def write(self, chunk: bytes) -> None:
        """Take the next bytes; raise what storing or noting earlier ones has raised."""
        ...

    async def finish(self) -> UploadTail | None:
        """Keep and note what is left; return how the next request may continue."""
        ...

    async def close(self) -> None:
        """Release what was not kept, and delete what was not noted. A second call is a no-op."""
        ...


class PartLost(NotFound):
    """A part is not there as it was noted: the machine crashed before it was on disk."""


class ObjectWriter:
    """Stores segments as objects: while one is stored, the next one comes in.

    Each is noted once it is stored; with `holds_back`, all are noted together by `finish`.
    """

    def __init__(
        self,
        store: ObjectStore,
        make_spool: Callable[[], Spool],
        upload: ResumableUpload,
        note: NoteParts,
        *,
        holds_back: bool,
    ) -> None:
        self._store = store
        self._make_spool = make_spool
        self._upload = upload
        self._note = note
        self._holds_back = holds_back
        self._size = 0
        self._spool: Spool | None = None
        self._storing: asyncio.Task[None] | None = None
        self._stored: list[UploadPart] = []

    async def write(self, chunk: bytes) -> None:
        """Take the next bytes; see the protocol."""
        view = memoryview(chunk)
        while view:
            self._spool = self._spool or self._make_spool()
            piece = view[: _SEGMENT_BYTES - self._spool.size]
            await self._spool.write(chunk if len(piece) == len(chunk) else bytes(piece))
            self._size += len(piece)
            view = view[len(piece) :]
            if self._spool.size == _SEGMENT_BYTES:
                await self._begin_storing()

    async def finish(self) -> None:
        """Store and note what is left; see the protocol."""
        if self._spool is not None:
            await self._begin_storing()
        await self._wait()
        await self._note_stored()

    async def close(self) -> None:
        """Release and delete what is left; see the protocol."""
        if self._storing is not None:
            self._storing.cancel()
            await asyncio.wait([self._storing])
            self._storing = None
        if self._spool is not None:
            self._spool.close()
            self._spool = None
        unnoted, self._stored = self._stored, []
        if unnoted:
            await delete_objects(self._store, [part.object_key for part in unnoted])

    async def _begin_storing(self) -> None:
        await self._wait()
        spool = self._spool
        if spool is not None:
            start = self._upload.received + self._size - spool.size
            sealed = await spool.seal()
            self._spool = None
            self._storing = asyncio.get_running_loop().create_task(self._keep(spool, sealed, start))

    async def _wait(self) -> None:
        storing = self._storing
        if storing is not None:
            await asyncio.shield(storing)
            self._storing = None

    async def _keep(self, spool: Spool, sealed: Sealed, start: int) -> None:
        key = _part_key(self._upload, start)
        try:
            await self._store.put(key, sealed, content_type=_MEDIA_TYPE)
        except StoreFull as fault:
            raise StorageFull from fault
        except StoreError as fault:
            raise ServiceUnavailable(fault.part) from fault
        finally:
            spool.close()
        self._stored.append(UploadPart(start, sealed.size, key))
        if not self._holds_back:
            await self._note_stored()

    async def _note_stored(self) -> None:
        stored, self._stored = self._stored, []
        if stored:
            try:
                await self._note(stored, sum(part.size for part in stored))
            except UploadTakenOver:
                self._stored = stored  # after other faults it is unknown whether they were noted
                raise


class FileWriter:
    """Appends to a file of the local store: that of `tail`, or else a new one.

    What is written is noted every 8 MiB, while the next bytes come in; with `holds_back`, all of it by `finish`. Bytes
    that are noted never change, despite other writers: a process continues a file only if it knows that no other has
    appended since it ended there itself, and only after what is noted.
    """

    def __init__(
        self,
        store: KeepsFiles,
        upload: ResumableUpload,
        note: NoteParts,
        *,
        tail: UploadTail | None,
        digest: Sha256 | None,
        holds_back: bool,
    ) -> None:
        """`digest` is that of the bytes before, if it is known."""
        self._store = store
        self._upload = upload
        self._note = note
        self._digest = digest
        self._holds_back = holds_back
        self._part = tail.part if tail else UploadPart(upload.received, 0, _part_key(upload, upload.received))
        self._is_noted = tail is not None
        self._spool: Spool | None = None
        self._noting: asyncio.Task[None] | None = None

    async def write(self, chunk: bytes) -> None:
        """Take the next bytes; see the protocol."""
        spool = self._spool = self._spool or await self._open()
        view = memoryview(chunk)
        while view:
            left = _SEGMENT_BYTES - (spool.size - self._part.size)
            piece = view if self._holds_back else view[:left]
            await spool.write(chunk if len(piece) == len(chunk) else bytes(piece))
            view = view[len(piece) :]
            if len(piece) == left and not self._holds_back:
                await self._begin_noting(spool)

    async def finish(self) -> UploadTail | None:
        """Note what is left; see the protocol."""
        if self._spool is None:
            return None
        digest = await self._begin_noting(self._spool)
        await self._wait()
        part, upload = self._part, self._upload
        known = None if self._digest is None else digest
        return UploadTail(upload.generation, part.start + part.size, part, known)

    async def close(self) -> None:
        """Release the file, and delete it if nothing of it was noted; see the protocol."""
        if self._noting is not None:
            self._noting.cancel()
            await asyncio.wait([self._noting])
            self._noting = None
        if self._spool is None:
            return
        self._spool.close()
        self._spool = None
        if not self._is_noted:
            await delete_objects(self._store, [self._part.object_key])

    async def _open(self) -> Spool:
        try:
            if self._part.size:
                fd = await self._store.open_file(self._part.object_key, writable=True)
            else:
                fd = await self._store.create_file(self._part.object_key)
        except KeyError as fault:
            log.error("part_missing", object_key=self._part.object_key)
            raise PartLost from fault
        except StoreFull as fault:
            raise StorageFull from fault
        except StoreError as fault:
            raise ServiceUnavailable(fault.part) from fault
        if os.fstat(fd).st_size < self._part.size:
            os.close(fd)
            log.error("part_missing", object_key=self._part.object_key)
            raise PartLost
        return Spool.at_end_of(fd, self._part.size, hashlib.sha256() if self._digest is None else self._digest)

    async def _begin_noting(self, spool: Spool) -> Sha256:
        """Begin to note what has come, and return the digest with it."""
        digest = await spool.flush()
        await self._wait()
        size, self._part = spool.size - self._part.size, replace(self._part, size=spool.size)
        if size:
            self._noting = asyncio.get_running_loop().create_task(self._keep(self._part, size))
        return digest

    async def _wait(self) -> None:
        noting = self._noting
        if noting is not None:
            await asyncio.shield(noting)
            self._noting = None

    async def _keep(self, part: UploadPart, size: int) -> None:
        was_noted, self._is_noted = self._is_noted, True  # perhaps, if the database goes away meanwhile
        try:
            await self._note([part], size)
        except UploadTakenOver:
            self._is_noted = was_noted
            raise


def _part_key(upload: ResumableUpload, start: int) -> str:
    return f"{INCOMING}/{upload.upload_id}-{start:012}-{upload.generation}"


async def fill_spool(store: KeepsFiles, parts: Sequence[UploadPart], digest: Sha256 | None, spool: Spool) -> None:
    """Fill a spool with the bytes of all parts, whose digest may be known; raise `PartLost` or `ServiceUnavailable`.

    A single part that ends where the upload does is not copied: it becomes the spool.
    """
    for part in parts:
        try:
            fd = await store.open_file(part.object_key)
        except KeyError as fault:
            log.error("part_missing", object_key=part.object_key)
            raise PartLost from fault
        except StoreError as fault:
            raise ServiceUnavailable(fault.part) from fault
        if digest is not None and len(parts) == 1 and os.fstat(fd).st_size == part.size:
            spool.become_file(fd, part.size, digest)
            return
        try:
            await spool.take_file(fd, part.size)
        except EOFError as fault:
            log.error("part_missing", object_key=part.object_key)
            raise PartLost from fault
        finally:
            os.close(fd)


async def read_parts(store: ObjectStore, parts: Sequence[UploadPart]) -> AsyncIterator[bytes]:
    """Yield the bytes of all parts in their order.

    Raise `PartLost` if an object is missing, `ServiceUnavailable` if the store is, and `RuntimeError` if a part has
    another size than its row.
    """
    for part in parts:
        size = 0
        try:
            async for chunk in store.read(part.object_key):
                size += len(chunk)
                yield chunk
        except KeyError as fault:
            log.error("part_missing", object_key=part.object_key)
            raise PartLost from fault
        except StoreError as fault:
            raise ServiceUnavailable(fault.part) from fault
        if size != part.size:
            raise RuntimeError("a part of an upload has another size than its row")


async def delete_objects(store: ObjectStore, keys: Sequence[str]) -> bool:
    """Delete objects; return whether all are gone."""
    try:
        if isinstance(store, DeletesMany):
            failed = await store.delete_many(keys)
        else:
            for key in keys:
                await store.delete(key)
            failed = {}
    except StoreError as fault:
        failed = {INCOMING: str(fault)}
    if failed:
        log.warning("parts_put_off", fault=next(iter(failed.values())))
    return not failed


async def list_objects(store: ObjectStore, folder: str, owner_id: str) -> Sequence[str]:
    """Return the keys in a folder that are the id of an upload or a job, and numbers after it. Raise `StoreError`.

    No key of a file is one: it contains the id of the file, which begins with a letter.
    """
    prefix, found = f"{folder}/{owner_id}-", list[str]()
    if isinstance(store, ListsObjects):
        async for batch in store.list_objects(folder, after=prefix):
            keys = [each.key for each in batch if each.key.startswith(prefix)]
            found += [key for key in keys if _NUMBERS.fullmatch(key, len(prefix))]
            if batch and not batch[-1].key.startswith(prefix):
                break
    return found


def upload_of(key: str) -> str | None:
    """Return the upload whose part an object is; None if it is none."""
    found = _KEY.fullmatch(key)
    return None if found is None else found[1]
