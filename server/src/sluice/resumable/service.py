"""Operations on resumable uploads: create, append, take the verdict, cancel. Knows nothing of HTTP.

create    what is announced is judged as at the end, as far as it is known: nothing that cannot pass is begun
append    one request at a time; each new one ends the one before; what has arrived is kept
finish    the parts go through `uploads.upload` as the bytes of a form do; every caller gets the same verdict
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Final

from sluice.access import Principal
from sluice.contexts import repository as context_rows
from sluice.db.database import Database, DatabaseUnavailable
from sluice.db.sql import Connection
from sluice.decisions import repository as decision_rows
from sluice.errors import (
    NotFound,
    ServiceUnavailable,
    TokenSpent,
    TooManyRequests,
    Unauthenticated,
    UploadFinished,
    UploadTakenOver,
)
from sluice.files import lifecycle
from sluice.files import repository as file_rows
from sluice.kit.failpoints import failpoint
from sluice.kit.ids import new_id
from sluice.kit.text import is_plain
from sluice.resumable import repository
from sluice.resumable.parts import (
    FileWriter,
    ObjectWriter,
    PartLost,
    UploadPartWriter,
    UploadTail,
    fill_spool,
    read_parts,
)
from sluice.resumable.resumable_upload import NewUpload, ResumableUpload, UploadPart, UploadState
from sluice.storage import KeepsFiles, ObjectStore
from sluice.upload_tokens import repository as token_rows
from sluice.uploads.reasons import LIMIT_REASONS, stored_reason
from sluice.uploads.report import VerdictReport
from sluice.uploads.slots import UploadSlots
from sluice.uploads.spool import Sha256, Spool
from sluice.uploads.upload import Upload
from sluice.uploads.values import Attempt, Stored

_SMALL_BYTES: Final = 256 * 1024
_MOST_SMALL: Final = 1000  # appends of fewer bytes, but the last
_MOST_TAILS: Final = 1000
_LEASE: Final = timedelta(seconds=15)  # of an attempt to judge; its server extends it
_EXTEND_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.25
_JOIN_SECONDS: Final = 60.0  # as long as a request waits for an attempt of another
_TOKEN_SHARE: Final = 4  # a token may have this part of the bytes that a tenant may have announced
_REJECTED_LIFE: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class ResumableLimits:
    """The lifetime of an upload that lacks bytes, and the limit on all bytes that a tenant has announced."""

    life: timedelta
    most_bytes: int


# Makes an attempt, which the second argument does, with an upload that it closes.
Run = Callable[[Upload, Callable[[], Awaitable[Stored]]], Awaitable[Stored]]


class ResumableUploads:
    """The resumable uploads of all tenants, one tenant at a time."""

    def __init__(
        self,
        database: Database,
        store: ObjectStore,
        make_spool: Callable[[], Spool],
        slots: UploadSlots,
        limits: ResumableLimits,
    ) -> None:
        """`store` is the platform's own: no tenant's bucket holds unchecked bytes."""
        # Of uploads to which this process was the last to append, as far as it knows.
        self._tails: OrderedDict[str, UploadTail] = OrderedDict()
        self.limits = limits
        self._database = database
        self._store = store
        self._make_spool = make_spool
        self._slots = slots

    async def create(self, announced: NewUpload, upload: Upload) -> ResumableUpload:
        """Judge what is announced as `upload`, and return a new upload for its bytes.

        Raise what `Upload.announce` raises, or `TooManyRequests` if too many bytes wait. An upload token has no more
        uploads than files left: a further one takes the place of the oldest that has no byte, such as one whose
        creation got no response.
        """
        try:
            await upload.name_context(announced.context_key)
            if announced.metadata is not None:
                upload.take_metadata(announced.metadata.encode())
            await upload.announce(announced.filename, announced.length)
        finally:
            upload.close()
        async with self._database.transaction(announced.tenant_id) as connection:
            if announced.via == "upload_token":
                await self._make_room(connection, announced)
            created = await repository.create(
                connection, announced, new_id("upl"), self.limits.life, self.limits.most_bytes
            )
        if created is None:
            raise TooManyRequests(errors=["Too many bytes of this tenant's resumable uploads wait"])
        return created

    async def _make_room(self, connection: Connection, announced: NewUpload) -> None:
        """Lock the token of a new upload; raise `TooManyRequests` if it may not have one more."""
        tenant_id, token_id = announced.tenant_id, announced.actor_id
        token = await token_rows.lock(connection, tenant_id, token_id)
        left = 0 if token is None else token.max_files - token.files_claimed
        if token is None:
            raise Unauthenticated
        if left <= 0:
            raise TokenSpent
        number, size = await repository.waiting_of_token(connection, tenant_id, token_id)
        while number >= left:
            if not await repository.cancel_empty_of_token(connection, tenant_id, token_id):
                raise TooManyRequests(errors=["As many uploads of this token wait as it has files left"])
            number, size = await repository.waiting_of_token(connection, tenant_id, token_id)
        if size + announced.length > self.limits.most_bytes // _TOKEN_SHARE:
            raise TooManyRequests(errors=["Too many bytes of this token's resumable uploads wait"])

    async def get(self, caller: Principal, upload_id: str) -> ResumableUpload:
        """Return an upload that the caller's credential has begun.

        Raise `NotFound` for any other, if its time is over, its file was deleted, or it was rejected by other rules
        than those of its context now.
        """
        async with self._database.reading(caller.tenant_id) as connection:
            found = await repository.find(connection, caller.tenant_id, upload_id) if is_plain(upload_id) else None
        if found is None or (found.via, found.actor_id) != (caller.via, caller.actor_id):
            raise NotFound
        return await self._current(found)

    async def append(
        self,
        upload: ResumableUpload,
        offset: int,
        chunks: AsyncIterator[bytes],
        *,
        announced: int | None,
        whole: bool,
        kept: Callable[[ResumableUpload], None] | None = None,
    ) -> ResumableUpload:
        """Append the chunks from `offset` on, and return the upload as it is then.

        What has come is kept if the chunks end in an exception, which is raised again; with `whole` all is dropped
        then. `announced` is how many bytes will come, if that is known; `kept` is called each time that more are kept.
        Raise `UploadTakenOver` if the upload is not open at this offset, or another request continues it;
        `PartLost`, `ServiceUnavailable`, `StorageFull`.
        """
        if announced is not None:
            _counts_as_small(upload, announced)  # refused before a byte is read
        digest = self._digest_of(upload)
        tail = self._take_tail(upload, offset)
        if tail is not None:
            current, begun = upload, replace(upload, generation=upload.generation + 1)
        else:
            async with self._database.transaction(upload.tenant_id) as connection:
                taken = await repository.begin_append(connection, upload.tenant_id, upload.upload_id, offset)
            if taken is None:
                raise UploadTakenOver
            current = begun = taken

        async def note(parts: Sequence[UploadPart], size: int) -> None:
            nonlocal current
            failpoint("part.stored")
            is_first = current.received == begun.received
            small = int(is_first and _counts_as_small(begun, size))  # what came counts: the rest may have been cut
            current = await self._count(current, parts, size, generation=begun.generation, small=small)
            failpoint("part.noted")
            if kept is not None:
                kept(current)

        writer: UploadPartWriter
        if isinstance(self._store, KeepsFiles):
            writer = FileWriter(self._store, begun, note, tail=tail, digest=digest, holds_back=whole)
        else:
            writer = ObjectWriter(self._store, self._make_spool, begun, note, holds_back=whole)
        try:
            async with self._slots.hold(upload.tenant_id, token_id=upload.token_id):
                try:
                    async for chunk in chunks:
                        await writer.write(chunk)
                except PartLost:
                    await self.abandon(begun)  # its client starts again
                    raise
                except Exception:
                    if not whole:
                        self._remember(upload, await writer.finish())
                    raise
                self._remember(upload, await writer.finish())
        finally:
            await writer.close()
        return current

    async def _count(
        self, upload: ResumableUpload, parts: Sequence[UploadPart], size: int, *, generation: int, small: int
    ) -> ResumableUpload:
        """Count bytes that were stored in new parts, or in a last one that has grown; raise `UploadTakenOver`."""
        if parts[0].start < upload.received:
            counted = await repository.grow_last_part(self._database, upload, size, generation=generation, small=small)
        else:
            async with self._database.transaction(upload.tenant_id) as connection:
                counted = await repository.append(connection, upload, size, parts, generation=generation, small=small)
        if counted is None:
            raise UploadTakenOver
        return counted

    def _take_tail(self, upload: ResumableUpload, offset: int) -> UploadTail | None:
        """Return how a request may continue the file of the previous one, which ended in this process, or None.

        Such a request begins no generation: it takes the upload with its first note. A concurrent request has no tail
        and so begins one, and that note finds no row to change.
        """
        tail = self._tails.pop(upload.upload_id, None)
        is_open = upload.state is UploadState.OPEN and not upload.is_over and upload.received == offset
        if tail is None or not is_open or (tail.generation, tail.received) != (upload.generation, upload.received):
            return None
        return tail

    def _digest_of(self, upload: ResumableUpload) -> Sha256 | None:
        """Return the digest of the bytes that the upload has, if it is known: what has come does not change."""
        if not upload.received:
            return hashlib.sha256()
        tail = self._tails.get(upload.upload_id)
        return None if tail is None or tail.received != upload.received else tail.digest

    def _remember(self, upload: ResumableUpload, tail: UploadTail | None) -> None:
        if tail is not None:
            self._tails[upload.upload_id] = tail
            if len(self._tails) > _MOST_TAILS:
                self._tails.popitem(last=False)

    async def cancel(self, upload: ResumableUpload) -> None:
        """Cancel an upload; raise `UploadFinished` if it has a verdict, or one is being taken."""
        async with self._database.transaction(upload.tenant_id) as connection:
            is_cancelled = await repository.cancel(connection, upload.tenant_id, upload.upload_id)
        if not is_cancelled:
            raise UploadFinished

    async def abandon(self, upload: ResumableUpload) -> None:
        """Cancel an upload whose creation failed, if it has no verdict and the database can be reached."""
        with suppress(DatabaseUnavailable, UploadFinished):
            await self.cancel(upload)

    # The verdict

    async def finish(self, upload: ResumableUpload, begin: Callable[[Attempt], Upload], run: Run) -> Stored:
        """Return the stored file of a complete upload: judge it, wait for the request that does, or repeat the outcome.

        An attempt is begun by `begin` and made within `run`, which counts it.

        Raise what `Upload.finish` raises, also when the verdict was taken earlier; `Unauthenticated` if the token with
        which the upload was begun is good for no further verdict; `NotFound` if the upload was cancelled;
        `ServiceUnavailable` if another request is still taking the verdict after a while.
        """
        deadline = time.monotonic() + _JOIN_SECONDS
        while True:
            if upload.state is UploadState.STORED:
                return await self._stored(upload)
            if upload.state is UploadState.REJECTED:
                raise await self._rejection(upload)
            if upload.state is UploadState.CANCELLED:
                raise NotFound
            if upload.state is UploadState.OPEN:
                async with self._database.transaction(upload.tenant_id) as connection:
                    attempt = await repository.begin_judging(
                        connection, upload.tenant_id, upload.upload_id, new_id("rep"), _LEASE
                    )
                    if attempt is not None and attempt.token_id is not None:
                        await _require_verdict(connection, attempt.tenant_id, attempt.token_id)
                if attempt is not None and attempt.report_id is not None:
                    judged = begin(Attempt(attempt.upload_id, attempt.report_id))
                    try:
                        return await run(judged, partial(self._judge, attempt, judged))
                    except PartLost:
                        await self.abandon(attempt)  # its client starts again
                        raise
            elif time.monotonic() >= deadline:
                raise ServiceUnavailable("verdict (it is still being taken)")
            else:
                await asyncio.sleep(_POLL_SECONDS)
            upload = await self.read(upload)

    async def _judge(self, attempt: ResumableUpload, upload: Upload) -> Stored:
        failpoint("judging.begun")
        try:
            async with self._extended(attempt), self._slots.hold(attempt.tenant_id, token_id=attempt.token_id):
                await upload.name_context(attempt.context_key)
                await upload.start_file(attempt.filename)
                if attempt.metadata is not None:
                    upload.take_metadata(attempt.metadata.encode())
                async with self._database.reading(attempt.tenant_id) as connection:
                    parts = await repository.list_parts(connection, attempt)
                if isinstance(self._store, KeepsFiles):
                    digest = self._digest_of(attempt)
                    await upload.write_all(attempt.length, partial(fill_spool, self._store, parts, digest))
                else:
                    async for chunk in read_parts(self._store, parts):
                        await upload.write(chunk)
                file = await upload.seal()
                context = upload.snapshot.named.context
                with self._slots.learning(context.context_id, file.sealed.size):
                    return await upload.finish(file)
        finally:
            # Whatever happened: the decision log knows. If that cannot be read now, the next request reads it.
            with suppress(DatabaseUnavailable):
                await self._settle(attempt)

    @asynccontextmanager
    async def _extended(self, attempt: ResumableUpload) -> AsyncIterator[None]:
        """Keep the lease of an attempt while the block runs."""

        async def extend() -> None:
            while True:
                await asyncio.sleep(_EXTEND_SECONDS)
                with suppress(DatabaseUnavailable):
                    async with self._database.transaction(attempt.tenant_id) as connection:
                        if not await repository.extend_judging(connection, attempt, _LEASE):
                            return

        extending = asyncio.get_running_loop().create_task(extend())
        try:
            yield
        finally:
            extending.cancel()
            await asyncio.wait([extending])

    async def _settle(self, attempt: ResumableUpload) -> None:
        async with self._database.transaction(attempt.tenant_id) as connection:
            if await repository.lock_judging(connection, attempt) is not None:
                await settle(connection, attempt)
        failpoint("judging.settled")

    async def read(self, upload: ResumableUpload) -> ResumableUpload:
        """Return an upload as it is now; raise `NotFound` as `get` does."""
        async with self._database.reading(upload.tenant_id) as connection:
            found = await repository.find(connection, upload.tenant_id, upload.upload_id)
        if found is None:
            raise NotFound
        return await self._current(found)

    async def _current(self, upload: ResumableUpload) -> ResumableUpload:
        """Return the upload after the attempt of a server that has died was settled; raise `NotFound` as `get` does."""
        if upload.state is UploadState.JUDGING:
            async with self._database.transaction(upload.tenant_id) as connection:
                left = await repository.end_lease(connection, upload.tenant_id, upload.upload_id)
                upload = upload if left is None else await settle(connection, left)
        if upload.state is UploadState.CANCELLED or (upload.is_over and upload.state is not UploadState.JUDGING):
            raise NotFound
        if upload.state is UploadState.STORED:
            await self._stored(upload)
        if upload.state is UploadState.REJECTED:
            await self._rejection(upload)
        return upload

    async def _stored(self, upload: ResumableUpload) -> Stored:
        """Return the result of the request that stored the file; raise `NotFound` if it was deleted."""
        async with self._database.reading(upload.tenant_id) as connection:
            file = await file_rows.find(connection, upload.tenant_id, upload.file_id or "")
            decision = await decision_rows.find(connection, upload.tenant_id, upload.report_id or "")
        if file is None or decision is None:
            raise NotFound
        return Stored(
            file_id=file.file_id,
            report_id=decision.report_id,
            outcome="quarantined" if decision.outcome == "quarantined" else "accepted",
            original_filename=file.original_filename,
            content_type=file.content_type,
            size_bytes=file.size_bytes,
            context_key=file.context_key,
            metadata=file.metadata,
            rate=None,
            rate_limit=None,
        )

    async def _rejection(self, upload: ResumableUpload) -> Exception:
        """Return the error with which the upload was rejected; raise `NotFound` once the context's rules are others."""
        async with self._database.reading(upload.tenant_id) as connection:
            decision = await decision_rows.find(connection, upload.tenant_id, upload.report_id or "")
            context = await context_rows.find(connection, upload.tenant_id, upload.context_key)
        if decision is None or context is None or context.rules_version != decision.rules_version:
            raise NotFound
        report = VerdictReport.of(decision)
        if report.rejection is None:
            raise NotFound
        error = report.rejection.to_error()
        error.report = report
        return error


def _counts_as_small(upload: ResumableUpload, size: int) -> bool:
    """Return whether an append of `size` bytes is a small one; raise `TooManyRequests` if there were too many."""
    is_small = size < _SMALL_BYTES and upload.received + size < upload.length
    if is_small and upload.small_appends >= _MOST_SMALL:
        raise TooManyRequests(errors=[f"Send at least {_SMALL_BYTES} bytes in each request"])
    return is_small


async def _require_verdict(connection: Connection, tenant_id: str, token_id: str) -> None:
    """Raise `Unauthenticated` or `TokenSpent` unless a token is good for the verdict that has begun.

    The token is locked until that is written. The last byte of an upload may be sent again, so its creation alone
    bounds nothing. A token that has expired meanwhile is good for the uploads that were begun with it.
    """
    token = await token_rows.lock(connection, tenant_id, token_id)
    if token is None or token.revoked_at is not None:
        raise Unauthenticated
    if token.files_claimed >= token.max_files:
        raise TokenSpent
    begun = await repository.count_judging(connection, tenant_id, token_id)
    if begun + await token_rows.count_verdicts(connection, tenant_id, token_id) > token.most_attempts:
        raise TokenSpent


async def settle(connection: Connection, attempt: ResumableUpload) -> ResumableUpload:
    """Record the outcome of an attempt whose row is locked, by the decision log, and return the upload.

    A file that is reserved and not stored is released first: it can then never become stored, so there is no later
    verdict than the one that is read.
    """
    if attempt.file_id is not None:
        await lifecycle.release(connection, attempt.tenant_id, attempt.file_id)
    decision = await decision_rows.find(connection, attempt.tenant_id, attempt.report_id or "")
    state, kept_for = UploadState.OPEN, None
    if decision is not None and decision.outcome in {"accepted", "quarantined"}:
        state = UploadState.STORED
    elif decision is not None and decision.reason is not None and stored_reason(decision.reason) not in LIMIT_REASONS:
        state, kept_for = UploadState.REJECTED, _REJECTED_LIFE
    settled = await repository.settle(connection, attempt, state, kept_for=kept_for)
    return replace(attempt, state=state) if settled is None else settled
