"""The audit: rows against objects and objects against rows, store by store, while the service runs. How it is shown is in `cli.auditing`.

A difference is looked at twice before it is told, since files come and go meanwhile: a row is written before its object, and
removed after it. Nothing is changed but strays and wrong counts of lists, and those only when asked.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from sluice.buckets.bucket import Bucket
from sluice.buckets.service import Buckets
from sluice.buckets.stores import Stores
from sluice.db import counts
from sluice.db.database import Database
from sluice.db.types import AnyRow
from sluice.db.whose import EVERYBODY
from sluice.engines.storage import Listed, ListsObjects, ObjectStore, StoreFault
from sluice.errors import NotFound
from sluice.kit.ids import FILE_ID
from sluice.worker import repository

_BATCH: Final = 500
_AT_ONCE: Final = 16
_UNSETTLED: Final = 1000

Kind = Literal["missing", "changed", "stray", "unreachable", "miscounted", "unsettled", "no_default"]
PLATFORM: Final = "platform"


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference. `store` is a bucket's id or `platform`; `subject` the file, key, context or tenant that it is about."""

    kind: Kind
    store: str
    tenant_id: str
    subject: str
    detail: str
    mended: bool = False


@dataclass(frozen=True, slots=True)
class Position:
    """How far an audit has come: first all rows by `after`, then the objects of one `store` after the other, then it is `done`."""

    part: Literal["rows", "objects", "done"] = "rows"
    store: str = ""
    after: str = ""
    rows: int = 0
    objects: int = 0


class Audit:
    """Compares. `contents` reads every object and compares its SHA-256; `mend` deletes strays that this service has put there, and counts
    lists anew whose counts are wrong.
    """

    def __init__(self, database: Database, buckets: Buckets, stores: Stores, *, contents: bool = False, mend: bool = False) -> None:
        self._database = database
        self._buckets = buckets
        self._stores = stores
        self._contents = contents
        self._mend = mend

    async def compare(self, position: Position) -> AsyncIterator[Finding | Position]:
        """Answer every difference from `position` on, and after each batch where it stands. Raises `DatabaseAway`."""
        if position.part == "rows":
            async for step in self._rows(position):
                position = step if isinstance(step, Position) else position
                yield step
            position = replace(position, part="objects", store="", after="")
        async for step in self._objects(position):
            position = step if isinstance(step, Position) else position
            yield step
        yield replace(position, part="done", store="", after="")

    async def invariants(self) -> AsyncIterator[Finding]:
        """Answer what must never be, once the worker has had its time: quotas that do not add up, work left undone, no default bucket."""
        async with self._database.reading(EVERYBODY) as connection:
            wrong = await repository.miscounted(connection)
            waiting = await repository.unsettled(connection, _UNSETTLED)
            lost = await repository.without_default(connection)
        async for finding in self._lists():
            yield finding
        for row in wrong:
            detail = f"counts {row.storage_used_bytes} bytes, its files have {row.counted}"
            yield Finding("miscounted", "", row.tenant_id, row.context_id, detail)
        for row in waiting:
            yield Finding("unsettled", "", row.tenant_id, row.file_id, f"waits for the worker in state {row.state}")
        for row in lost:
            yield Finding("no_default", "", row.tenant_id, row.tenant_id, "has buckets and no default among them")

    async def _lists(self) -> AsyncIterator[Finding]:
        """Answer each list of a tenant whose kept counts are not what its rows are; with `mend` they are counted anew."""
        after = ""
        while True:
            async with self._database.reading(EVERYBODY) as connection:
                tenant_ids = await repository.tenants_after(connection, after, _BATCH)
            if not tenant_ids:
                return
            for tenant_id in tenant_ids:
                for name in counts.LISTS:
                    finding = await self._list(tenant_id, name)
                    if finding is not None:
                        yield finding
            after = tenant_ids[-1]

    async def _list(self, tenant_id: str, name: counts.ListName) -> Finding | None:
        async with self._database.transaction(EVERYBODY) as connection:
            wrong = await counts.wrong(connection, tenant_id, name)
        if not wrong:
            return None
        facets, (counted, there) = min(wrong.items())
        shown = ", ".join(filter(None, facets)) or "all"
        detail = f"{len(wrong)} counts are wrong, among them that of {shown}: {counted}, there are {there}"
        if self._mend:
            async with self._database.transaction(EVERYBODY) as connection:
                await counts.recount(connection, tenant_id, name)
        return Finding("miscounted", "", tenant_id, name, detail, mended=self._mend)

    async def _rows(self, position: Position) -> AsyncIterator[Finding | Position]:
        while True:
            async with self._database.reading(EVERYBODY) as connection:
                rows = await repository.stored_after(connection, position.after, _BATCH)
            if not rows:
                return
            for start in range(0, len(rows), _AT_ONCE):
                found = await asyncio.gather(*(self._row(row) for row in rows[start : start + _AT_ONCE]))
                for finding in found:
                    if finding is not None:
                        yield finding
            position = replace(position, after=rows[-1].file_id, rows=position.rows + len(rows))
            yield position

    async def _row(self, row: AnyRow) -> Finding | None:
        bucket = await self._buckets.for_file(row.tenant_id, row.storage_config_id)
        name = PLATFORM if bucket is None else bucket.config_id
        try:
            wrong = await self._wrong_with(row, self._stores.of(bucket))
        except StoreFault as fault:
            return Finding("unreachable", name, row.tenant_id, row.file_id, str(fault))
        if wrong is None:
            return None
        async with self._database.reading(EVERYBODY) as connection:
            if not await repository.still_stored(connection, row.file_id):
                return None
        return Finding(wrong[0], name, row.tenant_id, row.file_id, wrong[1])

    async def _wrong_with(self, row: AnyRow, store: ObjectStore) -> tuple[Kind, str] | None:
        size = await store.size(row.object_key)
        if size is None:
            return "missing", f"no object under {row.object_key}"
        if size != row.size_bytes:
            return "changed", f"the object has {size} bytes, the record {row.size_bytes}"
        if not self._contents:
            return None
        digest = hashlib.sha256()
        try:
            async for chunk in store.read(row.object_key):
                digest.update(chunk)
        except KeyError:
            return "missing", f"no object under {row.object_key}"
        return None if digest.hexdigest() == row.sha256 else ("changed", "the object's SHA-256 is not that of the record")

    async def _objects(self, position: Position) -> AsyncIterator[Finding | Position]:
        if position.store in {"", PLATFORM}:
            position = replace(position, store=PLATFORM)
            async for step in self._store(position, "", "", self._stores.platform):
                position = step if isinstance(step, Position) else position
                yield step
            position = replace(position, store=" ", after="")  # before every bucket's id
        async for tenant_id, config_id in self._bucket_ids(position):
            if config_id != position.store:
                position = replace(position, store=config_id, after="")
            try:
                bucket = await self._buckets.get(tenant_id, config_id)
            except NotFound:  # deleted meanwhile
                continue
            async for step in self._bucket(position, bucket):
                position = step if isinstance(step, Position) else position
                yield step

    async def _bucket(self, position: Position, bucket: Bucket) -> AsyncIterator[Finding | Position]:
        try:
            store = self._stores.of(bucket)
        except StoreFault as fault:
            yield Finding("unreachable", bucket.config_id, bucket.tenant_id, bucket.default_bucket, str(fault))
            return
        async for step in self._store(position, bucket.tenant_id, bucket.base_path, store):
            yield step

    async def _bucket_ids(self, position: Position) -> AsyncIterator[tuple[str, str]]:
        """Answer tenant and id of every bucket from the one that the position is in."""
        after, at = ("", position.store) if position.after else (position.store, "")
        while True:
            async with self._database.reading(EVERYBODY) as connection:
                rows = await repository.buckets_after(connection, after, _BATCH)
            if not rows:
                return
            for row in rows:
                if row.config_id >= at:
                    yield row.tenant_id, row.config_id
            after = rows[-1].config_id

    async def _store(
        self, position: Position, tenant_id: str, prefix: str, store: ObjectStore
    ) -> AsyncIterator[Finding | Position]:
        """Look at the objects of one store below `prefix`. A bucket may hold other things: what has no id of a file is not ours."""
        if not isinstance(store, ListsObjects):
            return
        try:
            async for batch in store.listed(prefix, after=position.after):
                for finding in await self._strays(batch, position.store, tenant_id, store):
                    yield finding
                position = replace(position, after=batch[-1].key, objects=position.objects + len(batch)) if batch else position
                yield position
        except StoreFault as fault:
            yield Finding("unreachable", position.store, tenant_id, prefix, str(fault))

    async def _strays(self, batch: Sequence[Listed], name: str, tenant_id: str, store: ObjectStore) -> Sequence[Finding]:
        ours = {found.key: ids for found in batch if (ids := FILE_ID.findall(found.key))}
        known: dict[str, str] = {}
        ids = [file_id for found in ours.values() for file_id in found]
        for start in range(0, len(ids), _BATCH):
            async with self._database.reading(EVERYBODY) as connection:
                known |= await repository.keys_of(connection, ids[start : start + _BATCH])
        unknown = [key for key, found in ours.items() if key not in {known.get(file_id) for file_id in found}]
        return [finding for key in unknown if (finding := await self._stray(key, name, tenant_id, store))]

    async def _stray(self, key: str, name: str, tenant_id: str, store: ObjectStore) -> Finding | None:
        """Answer the finding of an object without a row; None where it is gone by now, or somebody else's that only looks like ours."""
        if not isinstance(store, ListsObjects) or not await store.is_ours(key):
            return None
        if self._mend:
            await store.delete(key)
        return Finding("stray", name, tenant_id, key, "no file has this object", mended=self._mend)
