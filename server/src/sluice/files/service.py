"""Operations on stored files: list, read, link, open, delete, restore, hold, and review in quarantine.

How a file comes in is in `uploads`.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from sluice.audit import AuditAction
from sluice.audit.repository import append
from sluice.buckets.service import Buckets
from sluice.buckets.stores import Stores
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.errors import Invalid, NotFound, ServiceUnavailable, or_not_found
from sluice.events import outbox
from sluice.events.catalogue import FileQuarantineDownloaded
from sluice.files import lifecycle, repository
from sluice.files import search as file_search
from sluice.files.links import LinkSigner
from sluice.files.record import (
    DeletedFileRow,
    FileFilter,
    FileMarks,
    FileOrder,
    FileRecord,
    LastScan,
    Life,
    Quarantined,
    RetentionPreview,
    RetentionRule,
    ReviewDecision,
)
from sluice.files.search import FoundFiles
from sluice.kit.clock import Clock, utc_now
from sluice.kit.failpoints import failpoint
from sluice.kit.paging import Page, PageRequest, Slice, SliceRequest
from sluice.kit.text import is_plain
from sluice.storage import ObjectStore, PresignsDownloads, StoreError

MOST_SEARCHED: Final = file_search.MOST_SEARCHED
_BATCH: Final = 500
# How far the preview of a retention looks ahead.
_SOON: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class DownloadLink:
    """A link that downloads the file for `expires_in_seconds`."""

    file: FileRecord
    url: str
    expires_in_seconds: int


def is_shown(content_type: str) -> bool:
    """Return whether a browser may show files of this type: pictures, recordings and PDFs.

    Not SVG, which is a document with scripts and links of its own.
    """
    return content_type == "application/pdf" or (
        content_type.startswith(("image/", "audio/", "video/")) and not content_type.startswith("image/svg")
    )


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
        two_persons: bool,
        clock: Clock = utc_now,
    ) -> None:
        self._database = database
        self._buckets = buckets
        self._stores = stores
        self._signer = signer
        self._purge_after = purge_after
        self._two_persons = two_persons
        self._clock = clock

    async def get(self, tenant_id: str, file_id: str) -> FileRecord:
        """Return one file. Raise `NotFound`."""
        async with self._database.reading(tenant_id) as connection:
            return or_not_found(await repository.find(connection, tenant_id, file_id))

    async def context_of(self, tenant_id: str, file_id: str) -> str | None:
        """Return the key of the context of a file in any state, None if there is no such file."""
        async with self._database.reading(tenant_id) as connection:
            return await repository.find_context_key(connection, tenant_id, file_id)

    async def list_page(
        self, tenant_id: str, context_key: str | None, uploaded_by: str | None, request: PageRequest
    ) -> Page[FileRecord]:
        """Return one page, newest first, of all files or those of a context or an uploader."""
        if not is_plain(f"{context_key}{uploaded_by}"):
            # Nothing is stored under such a name, and PostgreSQL refuses a NUL in any text.
            return Page((), request, 0)
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_page(connection, tenant_id, context_key, uploaded_by, request)

    async def search(self, tenant_id: str, wanted: FileFilter, order: FileOrder, request: PageRequest) -> FoundFiles:
        """Return one page of the files that meet `wanted`; raise `Invalid` for a page beyond what is searched.

        The contract's own list, by context and uploader, newest first, reaches back to the first file.
        """
        if order == "-created_at" and wanted == FileFilter(wanted.context_key, wanted.uploaded_by):
            page = await self.list_page(tenant_id, wanted.context_key, wanted.uploaded_by, request)
            return FoundFiles(page, is_complete=True)
        if request.offset >= MOST_SEARCHED:
            raise Invalid(f"page: expected one of the first {MOST_SEARCHED} files; use created_before")
        if not is_searchable(wanted):
            return FoundFiles(Page((), request, 0), is_complete=True)
        async with self._database.reading(tenant_id) as connection:
            return await file_search.search(connection, tenant_id, wanted, order, request)

    async def list_slice(self, tenant_id: str, wanted: FileFilter, request: SliceRequest) -> Slice[FileRecord]:
        """Return some files, newest first."""
        if not is_plain("".join(filter(None, (*_texts(wanted), request.before, request.after)))):
            return Slice((), has_newer=False, has_older=False)
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_slice(connection, tenant_id, wanted, request)

    async def count_found(self, tenant_id: str, wanted: FileFilter) -> int:
        """Return how many files `list_slice` lists in all; counted to `MOST_SEARCHED`, but by context and uploader."""
        if not is_searchable(wanted):
            return 0
        async with self._database.reading(tenant_id) as connection:
            return await repository.count_found(connection, tenant_id, wanted)

    async def existing(self, tenant_id: str, file_ids: Collection[str]) -> frozenset[str]:
        """Return those of the files that are stored, or deleted and can be restored."""
        async with self._database.reading(tenant_id) as connection:
            states = await repository.list_states(connection, tenant_id, file_ids) if file_ids else {}
        return frozenset(file_id for file_id, state in states.items() if state in {"stored", "deleted"})

    async def marks_of(self, tenant_id: str, file_ids: Collection[str]) -> Mapping[str, FileMarks]:
        """Return what a list shows beside the names of stored files, by id."""
        if not file_ids:
            return {}
        async with self._database.reading(tenant_id) as connection:
            return await repository.find_marks(connection, tenant_id, file_ids)

    async def count(self, tenant_id: str, context_key: str | None = None, uploaded_by: str | None = None) -> int:
        """Return how many files there are in all, or of a context or an uploader."""
        if not is_plain(f"{context_key}{uploaded_by}"):
            return 0
        async with self._database.reading(tenant_id) as connection:
            return await repository.count(connection, tenant_id, context_key, uploaded_by)

    async def count_by_sha256(self, tenant_id: str, digests: Collection[str]) -> Mapping[str, int]:
        """Return how many stored files that are not in quarantine have each SHA-256; those of no file are missing."""
        if not digests:
            return {}
        async with self._database.reading(tenant_id) as connection:
            return await repository.count_by_sha256(connection, tenant_id, digests)

    async def report_id_of(self, tenant_id: str, file_id: str) -> str:
        """Return the id of the report of the file's upload. Raise `NotFound`."""
        async with self._database.reading(tenant_id) as connection:
            return or_not_found(await repository.find_report_id(connection, tenant_id, file_id))

    async def quarantine_of(self, tenant_id: str, file_id: str) -> Quarantined | None:
        """Return since when a file is in quarantine, and why; None if it is not."""
        async with self._database.reading(tenant_id) as connection:
            return await repository.find_quarantine_mark(connection, tenant_id, file_id)

    async def link(self, by: AuditAction, file_id: str, expires_in: int, *, inline: bool = False) -> DownloadLink:
        """Count and return a download link. Raise `NotFound` or `ServiceUnavailable`.

        With `inline` a browser shows the file, always from this service, which sends the policy that makes it safe.
        Raise `Invalid` for a type that is not shown.
        """
        now = self._clock()
        async with self._database.transaction(by.tenant_id) as connection:
            file = await repository.count_download(connection, by.tenant_id, file_id, now)
            if file is None:
                raise NotFound
            if inline and not is_shown(file.content_type):
                raise Invalid(f"disposition: files of the type {file.content_type} can only be downloaded")
            await append(connection, by, file_id, now)
        store = await self._store_of(file)
        if inline or not isinstance(store, PresignsDownloads):
            url = self._signer.sign(file_id, expires_at=int(now.timestamp()) + expires_in, inline=inline)
            return DownloadLink(file, url, expires_in)
        try:
            url = await store.presign(
                file.object_key, expires_in=expires_in, filename=file.original_filename, content_type=file.content_type
            )
        except StoreError as fault:
            raise ServiceUnavailable(fault.part) from fault
        return DownloadLink(file, url, expires_in)

    async def open_quarantined(self, by: AuditAction, file_id: str) -> tuple[FileRecord, ObjectStore]:
        """Record that a reviewer downloads a file in quarantine; return the file and its store.

        Raise `NotFound`, also if it is not in quarantine, or `ServiceUnavailable`.
        """
        now = self._clock()
        async with self._database.transaction(by.tenant_id) as connection:
            file = await repository.find(connection, by.tenant_id, file_id)
            if file is None or await repository.find_quarantine_mark(connection, by.tenant_id, file_id) is None:
                raise NotFound
            await append(connection, by, file_id, now)
            event = FileQuarantineDownloaded(
                file_id=file_id,
                context_key=file.context_key,
                original_filename=file.original_filename,
                size_bytes=file.size_bytes,
                downloaded_by=by.principal.actor_id,
            )
            await outbox.add(connection, by.tenant_id, event, now)
        return file, await self._store_of(file)

    async def open_to_show(
        self, tenant_id: str, file_id: str, *, is_quarantined: bool
    ) -> tuple[FileRecord, ObjectStore]:
        """Return a file that is in quarantine, or one that is not, and its store.

        Raise `NotFound` or `ServiceUnavailable`.
        """
        async with self._database.reading(tenant_id) as connection:
            file = or_not_found(await repository.find(connection, tenant_id, file_id))
            mark = await repository.find_quarantine_mark(connection, tenant_id, file_id)
        if (mark is not None) is not is_quarantined:
            raise NotFound
        return file, await self._store_of(file)

    async def note_shown(self, by: AuditAction, file_id: str) -> datetime:
        """Note in the audit log that a file is shown; return when."""
        now = self._clock()
        async with self._database.transaction(by.tenant_id) as connection:
            await append(connection, by, file_id, now)
        return now

    async def open_signed(self, file_id: str) -> tuple[FileRecord, ObjectStore]:
        """Return the file of a link whose signature was verified, and its store.

        Raise `NotFound` or `ServiceUnavailable`.
        """
        async with self._database.reading(ALL_TENANTS) as connection:
            file = await repository.find_any_tenant(connection, file_id)
        if file is None:
            raise NotFound
        return file, await self._store_of(file)

    async def delete(self, by: AuditAction, file_id: str) -> None:
        """Hide the file at once; its object is purged later. Raise `NotFound`, `FileHeld` or `SecondReviewerNeeded`."""
        async with self._database.transaction(by.tenant_id) as connection:
            if not await lifecycle.delete(
                connection, by, file_id, self._clock(), self._purge_after, two_persons=self._two_persons
            ):
                raise NotFound
            failpoint("delete.open")
        failpoint("delete.done")

    async def restore(self, by: AuditAction, file_id: str) -> None:
        """Make a deleted file visible again; one that is stored stays as it is. Raise `NotFound` or `NoRoomToRestore`.

        A file that was refused in quarantine is in quarantine again.
        """
        async with self._database.transaction(by.tenant_id) as connection:
            if not await lifecycle.restore(connection, by, file_id, self._clock()):
                if not await repository.is_stored(connection, by.tenant_id, file_id):
                    raise NotFound
                return
            failpoint("restore.open")
        failpoint("restore.done")

    async def list_deleted(
        self, tenant_id: str, context_key: str | None, request: SliceRequest
    ) -> Slice[DeletedFileRow]:
        """Return some deleted files that can be restored, of one context or of all, the last deletions first.

        `before` and `after` of the request are places of files (`DeletedFileRow.place`); others find nothing.
        """
        if not is_plain(f"{context_key}") or not all(map(_is_place, filter(None, (request.before, request.after)))):
            return Slice((), has_newer=False, has_older=False)
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_deleted(connection, tenant_id, context_key, request)

    async def count_deleted(self, tenant_id: str, context_key: str | None) -> int:
        """Return how many deleted files can be restored, counted to `MOST_SEARCHED`."""
        if not is_plain(f"{context_key}"):
            return 0
        async with self._database.reading(tenant_id) as connection:
            return await repository.count_deleted(connection, tenant_id, context_key)

    async def get_deleted(self, tenant_id: str, file_id: str) -> DeletedFileRow:
        """Return a deleted file that can be restored. Raise `NotFound`."""
        async with self._database.reading(tenant_id) as connection:
            return or_not_found(await repository.find_deleted(connection, tenant_id, file_id))

    async def preview_retention(self, rule: RetentionRule) -> RetentionPreview:
        """Return how many files of a context would be deleted by a rule, at its moment and in the days after."""
        found = []
        for ahead in (timedelta(0), _SOON):
            async with self._database.reading(rule.tenant_id) as connection:
                then = replace(rule, present=rule.present + ahead)
                found.append(await repository.find_due_files(connection, then, "", MOST_SEARCHED))
        now, soon = (len(due.file_ids) for due in found)
        at_least = any(due.last is not None for due in found)
        return RetentionPreview(now, max(now, soon) - now, _SOON.days, MOST_SEARCHED, at_least)

    async def first_bytes(self, tenant_id: str, file_id: str, number: int) -> bytes:
        """Return the first bytes of a stored file, also of one in quarantine.

        Raise `NotFound` or `ServiceUnavailable`.
        """
        file = await self.get(tenant_id, file_id)
        store = await self._store_of(file)
        try:
            return b"".join([chunk async for chunk in store.read(file.object_key, length=number)])
        except KeyError as fault:
            raise NotFound from fault
        except StoreError as fault:
            raise ServiceUnavailable(fault.part) from fault

    async def life_of(self, tenant_id: str, file_id: str) -> Life:
        """Return how long a file is kept, and the hold on it. Raise `NotFound`."""
        async with self._database.reading(tenant_id) as connection:
            return or_not_found(await repository.find_life(connection, tenant_id, file_id))

    async def last_scan(self, tenant_id: str, file_id: str) -> LastScan:
        """Return what is known of the last scan of a file. Raise `NotFound`."""
        async with self._database.reading(tenant_id) as connection:
            return or_not_found(await repository.find_last_scan(connection, tenant_id, file_id))

    async def ask_rescan(self, by: AuditAction, file_id: str, comment: str) -> None:
        """Let the worker scan a stored file next, in quarantine or not. Raise `NotFound`."""
        async with self._database.transaction(by.tenant_id) as connection:
            now = self._clock()
            if not await lifecycle.ask_rescan(connection, by, file_id, comment, now, only_quarantined=False):
                raise NotFound

    async def hold(self, by: AuditAction, file_id: str, reason: str) -> None:
        """Hold a file, stored or deleted, or replace its hold: nothing deletes or purges it. Raise `NotFound`."""
        async with self._database.transaction(by.tenant_id) as connection:
            if not await lifecycle.hold(connection, by, file_id, reason, self._clock()):
                raise NotFound

    async def unhold(self, by: AuditAction, file_id: str) -> None:
        """End the hold on a file; without one nothing changes. Raise `NotFound`."""
        async with self._database.transaction(by.tenant_id) as connection:
            if not await lifecycle.unhold(connection, by, file_id, self._clock()):
                raise NotFound

    async def hold_context(self, by: AuditAction, context_key: str, reason: str) -> None:
        """Put a legal hold on all files of a context, those to come too, or replace it. Raise `NotFound`."""
        async with self._database.transaction(by.tenant_id) as connection:
            if not await lifecycle.hold_context(connection, by, context_key, reason, self._clock()):
                raise NotFound

    async def unhold_context(self, by: AuditAction, context_key: str) -> None:
        """End the hold on a context; its files may have holds of their own. Raise `NotFound`."""
        async with self._database.transaction(by.tenant_id) as connection:
            if not await lifecycle.unhold_context(connection, by, context_key, self._clock()):
                raise NotFound

    async def _store_of(self, file: FileRecord) -> ObjectStore:
        bucket = await self._buckets.for_file(file.tenant_id, file.storage_config_id)
        try:
            return self._stores.of(bucket)
        except StoreError as fault:
            raise ServiceUnavailable(fault.part) from fault


def _is_place(text: str) -> bool:
    deleted_at, _, file_id = text.partition("~")
    try:
        return datetime.fromisoformat(deleted_at).tzinfo is not None and is_plain(file_id)
    except ValueError:
        return False


def is_searchable(wanted: FileFilter) -> bool:
    """Return whether files can be stored under such texts; PostgreSQL refuses a NUL in any text."""
    return is_plain("".join(filter(None, _texts(wanted))))


def _texts(wanted: FileFilter) -> tuple[str | None, ...]:
    pairs = [text for pair in wanted.metadata for text in pair]
    return (
        wanted.context_key,
        wanted.uploaded_by,
        wanted.sha256,
        wanted.filename,
        wanted.content_type,
        wanted.reason,
        *pairs,
    )


class Quarantine:
    """The files in quarantine of all tenants, for reviewers and operators.

    Uploads and `worker.jobs.rescans` put them there. With `two_persons`, two have to decide the same.
    """

    def __init__(
        self, database: Database, *, purge_after: timedelta, two_persons: bool, clock: Clock = utc_now
    ) -> None:
        self._database = database
        self._purge_after = purge_after
        self._two_persons = two_persons
        self._clock = clock

    @property
    def needs_two_persons(self) -> bool:
        """Whether two persons have to decide the same."""
        return self._two_persons

    async def files(self, tenant_id: str | None) -> AsyncIterator[Quarantined]:
        """Yield the files of a tenant, or of all, in the order in which they were uploaded."""
        after = ""
        while True:
            async with self._database.reading(ALL_TENANTS if tenant_id is None else tenant_id) as connection:
                found = await repository.list_quarantined(connection, tenant_id, None, after, _BATCH)
            for file in found:
                yield file
            if len(found) < _BATCH:
                return
            after = found[-1].file_id

    async def list_some(
        self, tenant_id: str, context_key: str | None, after: str | None, limit: int
    ) -> Sequence[Quarantined]:
        """Return files whose id comes after `after`, of one context or of all, the oldest uploads first."""
        if not is_plain(f"{context_key}{after}"):
            return ()
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_quarantined(connection, tenant_id, context_key, after or "", limit)

    async def tenant_of(self, file_id: str) -> str:
        """Return the tenant of a file, for an operator, who names the file alone. Raise `NotFound`."""
        if not is_plain(file_id):  # PostgreSQL refuses some texts
            raise NotFound
        async with self._database.reading(ALL_TENANTS) as connection:
            return or_not_found(await repository.find_tenant(connection, file_id))

    async def review(
        self, by: AuditAction, file_id: str, decision: ReviewDecision, comment: str
    ) -> lifecycle.ReviewOutcome:
        """Release a file, which is then available again, or refuse it, which deletes it.

        A released file is scanned again like all others: another threat puts it back into quarantine, the same one is
        accepted from now on. Raise `NotFound` if it is not in quarantine, `FileHeld`, `SecondReviewerNeeded` or
        `OriginalNotReleased`.
        """
        async with self._database.transaction(by.tenant_id) as connection:
            outcome = await lifecycle.review(
                connection,
                by,
                file_id,
                decision,
                comment=comment,
                at=self._clock(),
                purge_after=self._purge_after,
                two_persons=self._two_persons,
            )
            if outcome is None:
                raise NotFound
            failpoint("review.open")
        failpoint("review.done")
        return outcome

    async def ask_rescan(self, by: AuditAction, file_id: str, comment: str) -> None:
        """Let the worker scan a file again; it stays in quarantine. Raise `NotFound` if it is not there."""
        async with self._database.transaction(by.tenant_id) as connection:
            if not await lifecycle.ask_rescan(connection, by, file_id, comment, self._clock()):
                raise NotFound
