"""Operations on the audit log: append refusals, within limits, and list entries.

What was done is appended by who commits it.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from sluice.audit import repository
from sluice.audit.entry import AuditAction, AuditChange, AuditEntry, AuditFilter
from sluice.db.database import Database, DatabaseUnavailable
from sluice.kit.clock import Clock, utc_now
from sluice.kit.paging import Page, PageRequest, Slice, SliceRequest
from sluice.kit.text import is_plain
from sluice.kit.throttle import FailureThrottle
from sluice.observe.log import log

MOST_LISTED: Final = repository.MOST_LISTED
_REFUSALS_PER_MINUTE: Final = 60
_MOST_ACTORS: Final = 10_000


class AuditLog:
    """The audit logs of all tenants, one tenant at a time."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock
        # Without a limit, a caller without rights could fill the disk.
        self._refusals = FailureThrottle(_REFUSALS_PER_MINUTE, 60.0, _MOST_ACTORS)

    async def refused(self, by: AuditAction, target: str | None, error: str) -> None:
        """Append what the caller was not allowed to do, with the error's code: at most 60 entries a minute per caller.

        The request is refused in any case, so an unavailable database is logged and not reported to the caller.
        """
        # Hashed, since issuers and subjects may be long: callers must never share a limit because their ids begin
        # alike.
        caller = hashlib.sha256(f"{by.tenant_id}\0{by.principal.actor_id}".encode()).hexdigest()
        if self._refusals.blocked(caller) is not None:
            return
        self._refusals.failed(caller)
        entry = by.entry(target, self._clock(), "refused", error)
        try:
            async with self._database.transaction(by.tenant_id) as connection:
                await repository.add(connection, entry)
        except DatabaseUnavailable:
            log.error("audit_unwritten", **{name: str(getattr(entry, name)) for name in AuditEntry.__slots__})

    async def list_page(
        self, tenant_id: str, actor_id: str | None, action: str | None, request: PageRequest
    ) -> Page[AuditEntry]:
        """Return one page, newest first, of all entries or those of an actor or an action."""
        if not is_plain(f"{actor_id}{action}"):
            return Page((), request, 0)
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_page(connection, tenant_id, actor_id, action, request)

    async def list_slice(self, tenant_id: str, wanted: AuditFilter, request: SliceRequest) -> Slice[AuditEntry]:
        """Return some entries that meet `wanted`, newest first."""
        if not _is_searchable(wanted, request.before, request.after):
            return Slice((), has_newer=False, has_older=False)
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_slice(connection, tenant_id, wanted, request)

    async def count(self, tenant_id: str, wanted: AuditFilter) -> int:
        """Return how many entries meet `wanted`: by actor and action all, otherwise counted to `MOST_LISTED`."""
        if not _is_searchable(wanted):
            return 0
        async with self._database.reading(tenant_id) as connection:
            return await repository.count(connection, tenant_id, wanted)

    async def last_changes(
        self, tenant_id: str, target: str, actions: Sequence[str], most: int
    ) -> Sequence[AuditChange]:
        """Return what was done last to a thing, of these actions, newest first, at most `most`."""
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_changes(connection, tenant_id, target, actions, most)


def _is_searchable(wanted: AuditFilter, *more: str | None) -> bool:
    """Return whether any row can hold these texts: PostgreSQL refuses to be asked for some."""
    return is_plain("".join(filter(None, (wanted.actor_id, wanted.action, wanted.reason, wanted.target, *more))))
