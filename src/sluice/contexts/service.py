"""What may be done with contexts: create, read, list, change. Judging uploads by them lives in `uploads`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice.contexts import repository
from sluice.contexts.context import Context, RateLimit
from sluice.contexts.templates import DEFAULT_TEMPLATE
from sluice.db.database import Conflict, Database
from sluice.db.types import Connection
from sluice.errors import BucketInactive, ContextExists, Invalid, NotFound, SluiceError
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import new_id
from sluice.kit.paging import Page, PageRequest
from sluice.kit.text import is_plain


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
    """The contexts of all tenants, one tenant at a time."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    async def create(self, tenant_id: str, draft: Draft) -> Context:
        """Create an active context; raises `ContextExists`, `Invalid` (unknown bucket) or `BucketInactive`."""
        context = Context(
            context_id=new_id("ctx"),
            tenant_id=tenant_id,
            **{name: getattr(draft, name) for name in Draft.__slots__},
            storage_used_bytes=0,
            status="active",
            rules_version=1,
            created_at=self._clock(),
            updated_at=None,
        )
        try:
            async with self._database.transaction() as connection:
                await _require_bucket(connection, tenant_id, context.storage_config_id)
                await repository.add(connection, context)
        except Conflict as fault:
            raise await self._why_not(tenant_id, context.context_key) from fault
        return context

    async def get(self, tenant_id: str, context_key: str) -> Context:
        """Answer one context; raises `NotFound`."""
        if not is_plain(context_key):
            raise NotFound
        async with self._database.reading() as connection:
            context = await repository.find(connection, tenant_id, context_key)
        if context is None:
            raise NotFound
        return context

    async def list_page(self, tenant_id: str, status: str | None, request: PageRequest) -> Page[Context]:
        """Answer one page, newest first, of all contexts or those with `status`."""
        async with self._database.reading() as connection:
            return await repository.list_page(connection, tenant_id, status, request)

    async def change(self, tenant_id: str, context_key: str, changes: Mapping[str, Any]) -> Context:
        """Change the named fields and no others; raises `NotFound`, `Invalid` (unknown bucket) or `BucketInactive`."""
        if not changes:
            return await self.get(tenant_id, context_key)
        try:
            async with self._database.transaction() as connection:
                if "storage_config_id" in changes and await repository.find(connection, tenant_id, context_key):
                    await _require_bucket(connection, tenant_id, changes["storage_config_id"])
                values = _columns_of(changes) | {"updated_at": self._clock()}
                context = await repository.change(connection, tenant_id, context_key, values)
        except Conflict as fault:
            raise _unknown_bucket() from fault
        if context is None:
            raise NotFound
        return context

    async def _why_not(self, tenant_id: str, context_key: str) -> SluiceError:
        """Tell a taken key from a bucket that was deleted between the look and the insert."""
        async with self._database.reading() as connection:
            taken = await repository.find(connection, tenant_id, context_key)
        return _unknown_bucket() if taken is None else ContextExists(context_key)


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
