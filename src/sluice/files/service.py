"""What may be done with stored files: list, read, link, open, delete, and release from quarantine. How a file comes in lives in `uploads`."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sluice.buckets.service import Buckets
from sluice.buckets.stores import Stores
from sluice.db.database import Database
from sluice.db.whose import EVERYBODY
from sluice.engines.storage import ObjectStore, PresignsDownloads, StoreFault
from sluice.errors import NotFound, Unavailable
from sluice.files import repository
from sluice.files.links import LinkSigner
from sluice.files.record import FileRecord, Quarantined
from sluice.kit.clock import Clock, utc_now
from sluice.kit.failpoints import reach
from sluice.kit.paging import Page, PageRequest
from sluice.kit.text import is_plain
from sluice.trail import Deed
from sluice.trail.repository import note

_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class DownloadLink:
    """A link that hands the file out for `expires_in_seconds`."""

    file: FileRecord
    url: str
    expires_in_seconds: int


class Files:
    """The stored files of all tenants, one tenant at a time."""

    def __init__(
        self,
        database: Database,
        buckets: Buckets,
        stores: Stores,
        signer: LinkSigner,
        *,
        purge_after: timedelta,
        clock: Clock = utc_now,
    ) -> None:
        self._database = database
        self._buckets = buckets
        self._stores = stores
        self._signer = signer
        self._purge_after = purge_after
        self._clock = clock

    async def get(self, tenant_id: str, file_id: str) -> FileRecord:
        """Answer one file; raises `NotFound`."""
        async with self._database.reading(tenant_id) as connection:
            file = await repository.find(connection, tenant_id, file_id)
        if file is None:
            raise NotFound
        return file

    async def list_page(
        self, tenant_id: str, context_key: str | None, uploaded_by: str | None, request: PageRequest
    ) -> Page[FileRecord]:
        """Answer one page, newest first, of all files or those of a context or an uploader."""
        if not is_plain(f"{context_key}{uploaded_by}"):
            # Nothing is kept under such a name, and PostgreSQL cannot even be asked for a NUL.
            return Page((), request, 0)
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_page(connection, tenant_id, context_key, uploaded_by, request)

    async def link(self, deed: Deed, file_id: str, expires_in: int) -> DownloadLink:
        """Count and answer a download link; raises `NotFound` or `Unavailable`."""
        now = self._clock()
        async with self._database.transaction(deed.tenant_id) as connection:
            file = await repository.count_download(connection, deed.tenant_id, file_id, now)
            if file is None:
                raise NotFound
            await note(connection, deed, file_id, now)
        store = await self._store_of(file)
        if not isinstance(store, PresignsDownloads):
            return DownloadLink(file, self._signer.sign(file_id, expires_at=int(now.timestamp()) + expires_in), expires_in)
        try:
            url = await store.presign(
                file.object_key, expires_in=expires_in, filename=file.original_filename, content_type=file.content_type
            )
        except StoreFault as fault:
            raise Unavailable("storage") from fault
        return DownloadLink(file, url, expires_in)

    async def open_signed(self, file_id: str) -> tuple[FileRecord, ObjectStore]:
        """Answer the file behind a link whose signature was found good, and its store; raises `NotFound`."""
        async with self._database.reading(EVERYBODY) as connection:
            file = await repository.find_any_tenant(connection, file_id)
        if file is None:
            raise NotFound
        return file, await self._store_of(file)

    async def delete(self, deed: Deed, file_id: str) -> None:
        """Hide the file at once; its object is purged later. Raises `NotFound`."""
        async with self._database.transaction(deed.tenant_id) as connection:
            if not await repository.mark_deleted(connection, deed.tenant_id, file_id, self._purge_after):
                raise NotFound
            await note(connection, deed, file_id, self._clock())
            reach("delete.open")
        reach("delete.done")

    async def _store_of(self, file: FileRecord) -> ObjectStore:
        return self._stores.of(await self._buckets.for_file(file.tenant_id, file.storage_config_id))


class Quarantine:
    """The files in quarantine of all tenants, for an operator. How a file comes there is in `worker.rescans`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def files(self, tenant_id: str | None) -> AsyncIterator[Quarantined]:
        """Yield the files of a tenant, or of all, in the order in which they were uploaded."""
        after = ""
        while True:
            async with self._database.reading(EVERYBODY if tenant_id is None else tenant_id) as connection:
                found = await repository.list_quarantined(connection, tenant_id, after, _BATCH)
            for file in found:
                yield file
            if len(found) < _BATCH:
                return
            after = found[-1].file_id

    async def release(self, file_id: str, deed_of: Callable[[str], Deed]) -> str:
        """Hand a file out again, and answer whose it is; raises `NotFound` when it is not in quarantine. `deed_of` takes the tenant that it is found to be of.

        It is scanned again like all others, and goes back when something else is found in it; the same threat is borne from now on.
        """
        if not is_plain(file_id):  # PostgreSQL cannot even be asked for some texts
            raise NotFound
        async with self._database.transaction(EVERYBODY) as connection:
            tenant_id = await repository.release(connection, file_id)
            if tenant_id is None:
                raise NotFound
            await note(connection, deed_of(tenant_id), file_id, utc_now())
        return tenant_id
