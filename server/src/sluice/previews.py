"""Previews of stored files: what a file shows, in small, rendered in the sandbox and kept beside the file's object.

A preview is made when it is first asked for, and its object is deleted with that of the file. Bytes of files are read
only in the sandbox's workers; what comes from there are pixels, of which a PNG is made here.
"""

import asyncio
import fcntl
import hashlib
import os
import struct
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from sluice.audit import AuditAction
from sluice.errors import NoPreview, NotFound, ServiceUnavailable, SluiceError, StorageFull
from sluice.files import FileRecord
from sluice.files.links import LinkSigner
from sluice.files.service import Files
from sluice.kit.failpoints import failpoint
from sluice.observe.log import log
from sluice.storage import KeepsFiles, ObjectStore, StoreError, preview_key
from sluice.uploads.spool import Spool
from sluice_inspect.sandbox import Sandbox
from sluice_inspect.sandbox.fair_queue import FairQueue
from sluice_inspect.sandbox.previews import Preview, PreviewSide, PreviewUnavailable, render_preview
from sluice_inspect.sandbox.sealed import Sealed

_AT_ONCE: Final = 2  # files that are fetched and rendered at a time; tenants take turns
_WAIT_SECONDS: Final = 30.0
_PNG_MAX: Final = 8 * 1024**2
_REMEMBERED: Final = 10_000  # files without a preview, which are not rendered again and again
_SEALS: Final = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


@dataclass(frozen=True, slots=True)
class PreviewLink:
    """A link that shows the preview of a file for `expires_in_seconds`."""

    file: FileRecord
    url: str
    expires_in_seconds: int


class Previews:
    """The previews of all tenants' files."""

    def __init__(self, files: Files, sandbox: Sandbox, signer: LinkSigner, make_spool: Callable[[], Spool]) -> None:
        self._files = files
        self._sandbox = sandbox
        self._signer = signer
        self._make_spool = make_spool
        self._slots: FairQueue[str, None, bool] = FairQueue(self._acquire)
        # By the key of a preview: the requests for one that is being drawn wait for it.
        self._drawing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._none: OrderedDict[tuple[str, PreviewSide], str] = OrderedDict()

    async def link(self, by: AuditAction, file_id: str, side: PreviewSide, expires_in: int) -> PreviewLink:
        """Return a link to the preview of a file, which is made now if there is none yet.

        Raise `NotFound`, also for a file in quarantine, `NoPreview` or `ServiceUnavailable`.
        """
        file, store = await self._files.open_to_show(by.tenant_id, file_id, is_quarantined=False)
        await self._png_of(file, store, side)
        now = await self._files.note_shown(by, file_id)
        url = self._signer.sign_preview(file_id, side, expires_at=int(now.timestamp()) + expires_in)
        return PreviewLink(file, url, expires_in)

    async def open(self, by: AuditAction, file_id: str, side: PreviewSide, *, is_quarantined: bool) -> bytes:
        """Return the preview of a file that is in quarantine, or of one that is not, as a PNG.

        Raise `NotFound`, `NoPreview` or `ServiceUnavailable`.
        """
        file, store = await self._files.open_to_show(by.tenant_id, file_id, is_quarantined=is_quarantined)
        png = await self._png_of(file, store, side)
        await self._files.note_shown(by, file_id)
        return png

    async def open_signed(self, file_id: str, side: PreviewSide) -> tuple[FileRecord, bytes]:
        """Return the file of a link whose signature was verified, and its preview as a PNG.

        Raise `NotFound`, `NoPreview` or `ServiceUnavailable`.
        """
        file, store = await self._files.open_signed(file_id)
        return file, await self._png_of(file, store, side)

    async def _png_of(self, file: FileRecord, store: ObjectStore, side: PreviewSide) -> bytes:
        if (why := self._none.get((file.file_id, side))) is not None:
            raise NoPreview(why)
        key = preview_key(file.object_key, side)
        if key is None:
            return await self._drawn(file, store, side)
        if (kept := await _read(store, key)) is not None:
            return kept
        lock = self._drawing.setdefault(key, asyncio.Lock())
        is_first = not lock.locked()
        async with lock:
            if not is_first and (kept := await _read(store, key)) is not None:
                return kept
            png = await self._drawn(file, store, side)
            await self._keep(file, store, key, png)
        return png

    async def _drawn(self, file: FileRecord, store: ObjectStore, side: PreviewSide) -> bytes:
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._slots.take(file.tenant_id, None, timeout=_WAIT_SECONDS))
            except TimeoutError:
                raise ServiceUnavailable("renderer of previews") from None
            return await self._rendered(file, store, side)

    def _acquire(self, _tenant_id: str, _request: None) -> bool | None:
        return True if self._slots.held_total < _AT_ONCE else None

    async def _rendered(self, file: FileRecord, store: ObjectStore, side: PreviewSide) -> bytes:
        try:
            async with self._sealed(file, store) as sealed:
                found = await render_preview(
                    self._sandbox, sealed, side, filename=file.original_filename, tenant_id=file.tenant_id
                )
        except KeyError as fault:
            raise NotFound from fault
        except StoreError as fault:
            raise ServiceUnavailable(fault.part) from fault
        except PreviewUnavailable as fault:
            raise ServiceUnavailable("file checker") from fault
        except StorageFull as fault:
            raise ServiceUnavailable("spool") from fault
        if isinstance(found, Preview):
            return await asyncio.to_thread(_png, found)
        self._none[file.file_id, side] = found.why
        if len(self._none) > _REMEMBERED:
            self._none.popitem(last=False)
        raise NoPreview(found.why)

    @asynccontextmanager
    async def _sealed(self, file: FileRecord, store: ObjectStore) -> AsyncIterator[Sealed]:
        """Open the bytes of a file: those of this machine where they are, others in the spool."""
        if isinstance(store, KeepsFiles):
            fd = await store.open_file(file.object_key)
            try:
                yield Sealed(fd, os.fstat(fd).st_size, bytes.fromhex(file.sha256))
            finally:
                os.close(fd)
            return
        with closing(self._make_spool()) as spool:
            async for chunk in store.read(file.object_key, expected_size=file.size_bytes):
                await spool.write(chunk)
            yield await spool.seal()

    async def _keep(self, file: FileRecord, store: ObjectStore, key: str, png: bytes) -> None:
        """Store a preview beside its file, unless the file has gone. That a store refuses it is logged alone."""
        failpoint("preview.drawn")
        fd = os.memfd_create("sluice-preview", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.write(fd, png)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
            sealed = Sealed(fd, len(png), hashlib.sha256(png).digest())
            await store.put(key, sealed, content_type="image/png")
            failpoint("preview.kept")
            if await self._files.context_of(file.tenant_id, file.file_id) is None:  # its object was deleted meanwhile
                await store.delete(key)
        except (StoreError, SluiceError) as fault:
            log.warning("preview_not_kept", file_id=file.file_id, tenant_id=file.tenant_id, why=str(fault))
        finally:
            os.close(fd)


async def _read(store: ObjectStore, key: str) -> bytes | None:
    """Return a preview that is kept, None if there is none. Raise `ServiceUnavailable`."""
    found = bytearray()
    try:
        async for chunk in store.read(key, length=_PNG_MAX + 1):
            found += chunk
    except KeyError:
        return None
    except StoreError as fault:
        raise ServiceUnavailable(fault.part) from fault
    return bytes(found) if len(found) <= _PNG_MAX else None


def _png(preview: Preview) -> bytes:
    """Return pixels as a PNG: no reader of pictures is needed for that, which would be loaded into the server."""
    row = preview.width * 3
    rows = b"".join(b"\0" + preview.pixels[start : start + row] for start in range(0, row * preview.height, row))
    header = struct.pack(">IIBBBBB", preview.width, preview.height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
