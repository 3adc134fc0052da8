"""What may be done with contexts: create, read, list, change. Judging uploads by them lives in `uploads`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.contexts import repository
from sluice.contexts.context import BYTES_PER_MB, Context, RateLimit
from sluice.contexts.templates import DEFAULT_TEMPLATE
from sluice.db.database import Conflict, Database
from sluice.db.types import Connection
from sluice.db.whose import EVERYBODY
from sluice.errors import BucketInactive, ContextExists, Invalid, NotFound, SluiceError
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import new_id
from sluice.kit.paging import Page, PageRequest
from sluice.kit.text import is_plain
from sluice.trail import Deed
from sluice.trail.repository import note

ScanReach = Callable[[], int | None]
"""Answers the bytes of the largest file that is scanned to its end, None where there is no such limit or none is known."""


def _no_limit() -> None:
    """Answer that no limit is known."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A context to be created; the defaults are the interface's."""

    context_key: str
    display_name: str
    description: str | None = None
    allowed_extensions: tuple[str, ...] = ()
    max_file_size_mb: int = 10
    storage_path_template: str = DEFAULT_TEMPLATE
    reject_blank_files: bool = True
    reject_corrupt_files: bool = True
    scan_for_viruses: bool = True
    upload_rate_limit: RateLimit | None = None
    storage_quota_mb: int | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    storage_config_id: str | None = None


class Contexts:
    """The contexts of all tenants, one tenant at a time. None may take larger files than `scan_reach` says are scanned."""

    def __init__(self, database: Database, clock: Clock = utc_now, scan_reach: ScanReach = _no_limit) -> None:
        self._database = database
        self._clock = clock
        self._scan_reach = scan_reach

    async def create(self, deed: Deed, draft: Draft) -> Context:
        """Create an active context; raises `ContextExists`, `Invalid` (unknown bucket, files too large to be scanned) or `BucketInactive`."""
        self._require_reach(draft.max_file_size_mb, scanned=draft.scan_for_viruses)
        context = Context(
            context_id=new_id("ctx"),
            tenant_id=deed.tenant_id,
            **{name: getattr(draft, name) for name in Draft.__slots__},
            storage_used_bytes=0,
            status="active",
            rules_version=1,
            created_at=self._clock(),
            updated_at=None,
        )
        try:
            async with self._database.transaction(deed.tenant_id) as connection:
                await _require_bucket(connection, deed.tenant_id, context.storage_config_id)
                await repository.add(connection, context)
                await note(connection, deed, context.context_key, context.created_at)
        except Conflict as fault:
            raise await self._why_not(deed.tenant_id, context.context_key) from fault
        return context

    async def get(self, tenant_id: str, context_key: str) -> Context:
        """Answer one context; raises `NotFound`."""
        if not is_plain(context_key):
            raise NotFound
        async with self._database.reading(tenant_id) as connection:
            context = await repository.find(connection, tenant_id, context_key)
        if context is None:
            raise NotFound
        return context

    async def list_page(self, tenant_id: str, status: str | None, request: PageRequest) -> Page[Context]:
        """Answer one page, newest first, of all contexts or those with `status`."""
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_page(connection, tenant_id, status, request)

    async def change(self, deed: Deed, context_key: str, changes: Mapping[str, Any]) -> Context:
        """Change the named fields and no others; raises `NotFound`, `Invalid` (unknown bucket, files too large) or `BucketInactive`."""
        tenant_id, now = deed.tenant_id, self._clock()
        if not changes:
            return await self.get(tenant_id, context_key)
        try:
            async with self._database.transaction(tenant_id) as connection:
                before = await repository.find(connection, tenant_id, context_key)
                if before is None:
                    raise NotFound
                if "storage_config_id" in changes:
                    await _require_bucket(connection, tenant_id, changes["storage_config_id"])
                if not changes.keys().isdisjoint(_REACH_FIELDS):
                    most_mb = changes.get("max_file_size_mb", before.max_file_size_mb)
                    self._require_reach(most_mb, scanned=changes.get("scan_for_viruses", before.scan_for_viruses))
                values = _columns_of(changes) | {"updated_at": now}
                context = await repository.change(connection, tenant_id, context_key, values)
                if context is None:
                    raise NotFound
                await note(connection, deed, context_key, now)
        except Conflict as fault:
            raise _unknown_bucket() from fault
        return context

    async def beyond_reach(self, most: int) -> Sequence[Context]:
        """Answer active contexts of all tenants that take larger files than are scanned, at most `most`, the largest first."""
        reach = self._scan_reach()
        if reach is None:
            return ()
        async with self._database.reading(EVERYBODY) as connection:
            return await repository.scanned_beyond(connection, reach // BYTES_PER_MB, most)

    def _require_reach(self, most_mb: int, *, scanned: bool) -> None:
        reach = self._scan_reach()
        if scanned and reach is not None and most_mb * BYTES_PER_MB > reach:
            found = f"at most {reach // BYTES_PER_MB} while scan_for_viruses is on: the malware scanner looks at no larger file"
            raise Invalid(f"max_file_size_mb: expected {found}")

    async def _why_not(self, tenant_id: str, context_key: str) -> SluiceError:
        """Tell a taken key from a bucket that was deleted between the look and the insert."""
        async with self._database.reading(tenant_id) as connection:
            taken = await repository.find(connection, tenant_id, context_key)
        return _unknown_bucket() if taken is None else ContextExists(context_key)


_REACH_FIELDS = frozenset({"max_file_size_mb", "scan_for_viruses"})


def _columns_of(changes: Mapping[str, Any]) -> dict[str, Any]:
    values = dict(changes)
    if "upload_rate_limit" in values:
        rate: RateLimit | None = values.pop("upload_rate_limit")
        values["rate_max_uploads"] = None if rate is None else rate.max_uploads
        values["rate_window_seconds"] = None if rate is None else rate.window_seconds
    if "allowed_extensions" in values:
        values["allowed_extensions"] = list(values["allowed_extensions"])
    return values


async def _require_bucket(connection: Connection, tenant_id: str, config_id: str | None) -> None:
    if config_id is None:
        return
    is_active = await repository.bucket_is_active(connection, tenant_id, config_id)
    if is_active is None:
        raise _unknown_bucket()
    if not is_active:
        raise BucketInactive


def _unknown_bucket() -> Invalid:
    return Invalid("storage_config_id: names no bucket of this tenant")
