"""The bytes of resumable uploads while they wait: one object for each segment, in the platform's own store.

An object exists before its row, so a row never names bytes that are not there. Names are flat, since the local store
keeps empty folders, and each has the generation of its request, since a key is never used twice.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from sluice.errors import NotFound, ServiceUnavailable, StorageFull
from sluice.kit.sealed import Sealed
from sluice.observe.log import log
from sluice.resumable.resumable_upload import ResumableUpload, UploadPart
from sluice.storage import DeletesMany, KeepsFiles, ListsObjects, ObjectStore, StoreError, StoreFull
from sluice.uploads.spool import Sha256, Spool

FOLDER: Final = "_incoming"
_KEY: Final = re.compile(rf"{FOLDER}/(upl_[0-9a-z]{{26}})-[0-9]{{12}}-[0-9]+")
_SEGMENT_BYTES: Final = 8 * 1_048_576  # so much is lost at most when the server is killed
_MEDIA_TYPE: Final = "application/octet-stream"

# Notes parts that are stored, and the digest of the upload with them, if it is known; raises if another request has
# taken the upload over.
NoteParts = Callable[[Sequence[UploadPart], Sha256 | None], Awaitable[None]]


class PartLost(NotFound):
    """A part is not there as it was noted: the machine crashed before it was on disk."""


class UploadPartWriter:
    """Stores the bytes of one request in segments: while one is stored, the next one comes in. Close it in any case.

    Each is noted once it is stored; with `holds_back`, all are noted together by `finish`.
    """

    def __init__(
        self,
        store: ObjectStore,
        make_spool: Callable[[Sha256 | None], Spool],
        upload: ResumableUpload,
        note: NoteParts,
        *,
        digest: Sha256 | None,
        holds_back: bool,
    ) -> None:
        """`digest` is that of the bytes before, and goes on here."""
        self.size = 0
        self._store = store
        self._make_spool = make_spool
        self._upload = upload
        self._note = note
        self._digest = digest
        self._digest_then: Sha256 | None = None  # with the parts that are stored
        self._holds_back = holds_back
        self._spool: Spool | None = None
        self._storing: asyncio.Task[None] | None = None
        self._stored: list[UploadPart] = []

    async def write(self, chunk: bytes) -> None:
        """Take the next bytes; raise what storing or noting earlier ones has raised."""
        view = memoryview(chunk)
        while view:
            self._spool = self._spool or self._make_spool(self._digest)
            piece = view[: _SEGMENT_BYTES - self._spool.size]
            await self._spool.write(chunk if len(piece) == len(chunk) else bytes(piece))
            self.size += len(piece)
            view = view[len(piece) :]
            if self._spool.size == _SEGMENT_BYTES:
                await self._begin_storing()

    async def finish(self) -> None:
        """Store and note what is left."""
        if self._spool is not None:
            await self._begin_storing()
        await self._wait()
        if self._stored:
            await self._note(self._stored, self._digest_then)
            self._stored = []

    async def close(self) -> None:
        """Release what was not stored, and delete what was not noted. A second call is a no-op."""
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
            start = self._upload.received + self.size - spool.size
            sealed = await spool.seal()  # all of it is in the digest before the next segment begins
            digest = None if self._digest is None else self._digest.copy()
            self._spool = None
            self._storing = asyncio.get_running_loop().create_task(self._keep(spool, sealed, start, digest))

    async def _wait(self) -> None:
        storing = self._storing
        if storing is not None:
            await asyncio.shield(storing)
            self._storing = None

    async def _keep(self, spool: Spool, sealed: Sealed, start: int, digest: Sha256 | None) -> None:
        upload = self._upload
        key = f"{FOLDER}/{upload.upload_id}-{start:012}-{upload.generation}"
        try:
            if isinstance(self._store, KeepsFiles):
                await self._store.put_unflushed(key, sealed)
            else:
                await self._store.put(key, sealed, content_type=_MEDIA_TYPE)
        except StoreFull as fault:
            raise StorageFull from fault
        except StoreError as fault:
            raise ServiceUnavailable(fault.part) from fault
        finally:
            spool.close()
        self._stored.append(UploadPart(start, sealed.size, key))
        self._digest_then = digest
        if not self._holds_back:
            await self._note(self._stored, digest)
            self._stored = []


async def fill_spool(store: KeepsFiles, parts: Sequence[UploadPart], digest: Sha256 | None, spool: Spool) -> None:
    """Fill a spool with the bytes of all parts, whose digest may be known; raise `PartLost` or `ServiceUnavailable`."""
    _require_no_gap(parts)
    for part in parts:
        try:
            fd = await store.open_file(part.object_key)
        except KeyError as fault:
            log.error("part_missing", object_key=part.object_key)
            raise PartLost from fault
        except StoreError as fault:
            raise ServiceUnavailable(fault.part) from fault
        try:
            await spool.take_file(fd, part.size, hashed=digest is None)
        except EOFError as fault:
            log.error("part_missing", object_key=part.object_key)
            raise PartLost from fault
        finally:
            os.close(fd)
    if digest is not None:
        spool.know_digest(digest)


async def read_parts(store: ObjectStore, parts: Sequence[UploadPart]) -> AsyncIterator[bytes]:
    """Yield the bytes of all parts; raise `PartLost` or `ServiceUnavailable`."""
    _require_no_gap(parts)
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


def _require_no_gap(parts: Sequence[UploadPart]) -> None:
    offset = 0
    for part in parts:
        if part.start != offset:
            raise RuntimeError("the parts of an upload have a gap")
        offset += part.size


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
        failed = {FOLDER: str(fault)}
    if failed:
        log.warning("parts_put_off", fault=next(iter(failed.values())))
    return not failed


async def list_objects(store: ObjectStore, upload_id: str) -> Sequence[str]:
    """Return the keys of an upload's objects, also of those without a row. Raise `StoreError`."""
    prefix, found = f"{FOLDER}/{upload_id}-", list[str]()
    if isinstance(store, ListsObjects):
        async for batch in store.list_objects(FOLDER, after=prefix):
            found += [each.key for each in batch if each.key.startswith(prefix)]
            if batch and not batch[-1].key.startswith(prefix):
                break
    return found


def upload_of(key: str) -> str | None:
    """Return the upload whose part an object is; None if it is none."""
    found = _KEY.fullmatch(key)
    return None if found is None else found[1]
