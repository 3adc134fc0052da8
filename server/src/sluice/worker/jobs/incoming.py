"""Resumable uploads that have ended: their parts are deleted, and their rows when their time is over."""

import asyncio
import random
from datetime import timedelta
from typing import Final

from sluice.db.rls import ALL_TENANTS
from sluice.events import outbox
from sluice.events.catalogue import UploadExpired
from sluice.kit.failpoints import failpoint
from sluice.observe.log import log
from sluice.observe.metrics import RESUMABLE_EXPIRED
from sluice.resumable import repository
from sluice.resumable.parts import delete_objects, list_objects, upload_of
from sluice.resumable.resumable_upload import UploadState
from sluice.resumable.service import settle
from sluice.storage import INCOMING, ListsObjects, StoreError
from sluice.worker.job import JobContext, error_boundary, repeat, run_until

_BATCH: Final = 100
_MAX_FAILED: Final = 1000  # then the next round continues
_ORPHANS_SECONDS: Final = 3600.0
_AGAIN: Final = timedelta(seconds=30)  # after which an upload that cannot be ended now is tried again


async def end_resumable_uploads(context: JobContext) -> int:
    """End uploads whose time is over, and delete the parts of those that have ended; return how many."""
    done, failed = 0, list[str]()
    while len(failed) < _MAX_FAILED:
        failed_before = len(failed)
        async with context.database.reading(ALL_TENANTS) as connection:
            due = await repository.list_due(connection, _BATCH, failed=failed)
        for row in due:
            failed.append(row.upload_id)
            with error_boundary("end_resumable_uploads", upload_id=row.upload_id):
                await _end(context, row.tenant_id, row.upload_id)
                failed.pop()
                done += 1
        if len(failed) == failed_before:
            break
    return done


async def run_orphan_sweep(context: JobContext, stop: asyncio.Event) -> None:
    """Look for orphan parts about once an hour until `stop` is set: each time the whole folder is listed.

    The first time is after a random pause: many processes may start at once.
    """

    def pause() -> float:
        return _ORPHANS_SECONDS * random.uniform(0.5, 1)  # noqa: S311  (spreads load, guards no secret)

    async def sweep() -> None:
        await asyncio.sleep(pause())
        await repeat("sweep_orphan_parts", lambda: sweep_orphan_parts(context), stop=stop, pause_seconds=pause)

    await run_until(stop, sweep())


async def sweep_orphan_parts(context: JobContext) -> int:
    """Delete parts whose upload has no row: a request stored them when its upload had ended already.

    Return 0: whatever was found, the next sweep may wait.
    """
    store = context.stores.platform
    if not isinstance(store, ListsObjects):
        return 0
    try:
        async for batch in store.list_objects(INCOMING):
            keys = {found.key: upload_id for found in batch if (upload_id := upload_of(found.key)) is not None}
            async with context.database.reading(ALL_TENANTS) as connection:
                known = await repository.list_known(connection, set(keys.values()))
            orphans = [key for key, upload_id in keys.items() if upload_id not in known]
            if orphans and await delete_objects(store, orphans):
                log.info("orphan_parts_deleted", parts=len(orphans))
    except StoreError as fault:
        log.warning("orphan_parts_put_off", fault=str(fault))
    return 0


async def _end(context: JobContext, tenant_id: str, upload_id: str) -> None:
    async with context.database.transaction(tenant_id) as connection:
        left = await repository.end_lease(connection, tenant_id, upload_id)
        if left is not None:  # by a server that died while it judged
            await settle(connection, left)
        has_expired = await repository.expire(connection, tenant_id, upload_id)
        upload = await repository.find(connection, tenant_id, upload_id)
        if upload is None:
            return
        if has_expired:
            event = UploadExpired(
                upload_id=upload_id,
                context_key=upload.context_key,
                original_filename=upload.filename,
                size_bytes=upload.length,
                received_bytes=upload.received,
                uploaded_by=upload.actor_id,
            )
            await outbox.add(connection, tenant_id, event)
        if upload.state is UploadState.OPEN:  # of a token, and its first bytes have come
            await repository.postpone_to_end(connection, tenant_id, upload_id)
            return
        if upload.state.waits:
            await repository.postpone(connection, tenant_id, upload_id, _AGAIN)  # its verdict is being taken
            return
        parts = await repository.list_parts(connection, upload)
    if has_expired:
        RESUMABLE_EXPIRED.inc()
        log.info("resumable_upload_expired", upload_id=upload_id)
    keys = {part.object_key for part in parts}
    try:
        keys.update(await list_objects(context.stores.platform, INCOMING, upload_id))
        is_clean = not keys or await delete_objects(context.stores.platform, sorted(keys))
    except StoreError as fault:
        log.warning("parts_put_off", fault=str(fault))
        is_clean = False
    failpoint("incoming.removed")
    async with context.database.transaction(tenant_id) as connection:
        if not is_clean:
            await repository.postpone(connection, tenant_id, upload_id, _AGAIN)
            return
        await repository.delete_parts(connection, tenant_id, upload_id)
        await repository.delete_over(connection, tenant_id, upload_id)
