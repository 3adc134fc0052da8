"""What may be done with the audit trail: note what was refused, within reason, and list it. What was done is noted by who commits it."""

from typing import Final

from sluice.db.database import Database, DatabaseAway
from sluice.kit.clock import Clock, utc_now
from sluice.kit.paging import Page, PageRequest
from sluice.kit.text import is_plain
from sluice.kit.throttle import FailureThrottle
from sluice.observe.log import log
from sluice.trail import repository
from sluice.trail.event import Deed, Event

_REFUSALS_PER_MINUTE: Final = 60
_MOST_ACTORS: Final = 10_000


class Trail:
    """The trails of all tenants, one tenant at a time."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock
        # A caller without rights could else fill the disk by asking again and again.
        self._refusals = FailureThrottle(_REFUSALS_PER_MINUTE, 60.0, _MOST_ACTORS)

    async def refused(self, deed: Deed, target: str | None, error: str) -> None:
        """Note what the caller was not allowed to do, with the error's code; of one caller no more than 60 in a minute.

        It is refused already, so a database that is away goes to the log and not to the caller.
        """
        actor_id = deed.principal.actor_id
        if self._refusals.blocked(actor_id) is not None:
            return
        self._refusals.failed(actor_id)
        event = deed.event(target, self._clock(), "refused", error)
        try:
            async with self._database.transaction(deed.tenant_id) as connection:
                await repository.add(connection, event)
        except DatabaseAway:
            log.error("audit_unwritten", **{name: str(getattr(event, name)) for name in Event.__slots__})

    async def list_page(self, tenant_id: str, actor_id: str | None, action: str | None, request: PageRequest) -> Page[Event]:
        """Answer one page, newest first, of all entries or those of an actor or an action."""
        if not is_plain(f"{actor_id}{action}"):
            return Page((), request, 0)
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_page(connection, tenant_id, actor_id, action, request)
