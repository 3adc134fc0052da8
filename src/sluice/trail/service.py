"""What may be done with the audit trail: note what was done, and what was refused within reason; list it. Who is asked is the edge's."""

from dataclasses import replace
from typing import Final

from sluice.access import Principal
from sluice.db.database import Database, DatabaseAway
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import new_id
from sluice.kit.paging import Page, PageRequest
from sluice.kit.text import is_plain
from sluice.kit.throttle import FailureThrottle
from sluice.observe.log import log
from sluice.trail import repository
from sluice.trail.event import Event

_MAX_TARGET: Final = 255
_REFUSALS_PER_MINUTE: Final = 60
_MOST_ACTORS: Final = 10_000


class Trail:
    """The trails of all tenants, one tenant at a time."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock
        # A caller without rights could else fill the disk by asking again and again.
        self._refusals = FailureThrottle(_REFUSALS_PER_MINUTE, 60.0, _MOST_ACTORS)

    async def done(self, principal: Principal, action: str, target: str | None, request_id: str | None) -> None:
        """Note what `principal` did. It is done already, so a database that is away goes to the log and not to the caller."""
        await self._note(self._event(principal, action, target, request_id))

    async def refused(self, principal: Principal, action: str, target: str | None, error: str, request_id: str | None) -> None:
        """Note what `principal` was not allowed to do, with the error's code; of one caller no more than 60 in a minute."""
        if self._refusals.blocked(principal.actor_id) is not None:
            return
        self._refusals.failed(principal.actor_id)
        event = self._event(principal, action, target, request_id)
        await self._note(replace(event, outcome="refused", error=error))

    async def list_page(self, tenant_id: str, actor_id: str | None, action: str | None, request: PageRequest) -> Page[Event]:
        """Answer one page, newest first, of all entries or those of an actor or an action."""
        if not is_plain(f"{actor_id}{action}"):
            return Page((), request, 0)
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_page(connection, tenant_id, actor_id, action, request)

    async def _note(self, event: Event) -> None:
        try:
            async with self._database.transaction(event.tenant_id) as connection:
                await repository.add(connection, event)
        except DatabaseAway:
            log.error("audit_unwritten", **{name: str(getattr(event, name)) for name in Event.__slots__})

    def _event(self, principal: Principal, action: str, target: str | None, request_id: str | None) -> Event:
        return Event(
            event_id=new_id("aud"),
            tenant_id=principal.tenant_id,
            actor_id=principal.actor_id,
            actor_name=principal.actor_name,
            via=principal.via,
            action=action,
            target=None if target is None else _shown(target),
            outcome="done",
            error=None,
            request_id=request_id,
            created_at=self._clock(),
        )


def _shown(target: str) -> str:
    """A refused caller may name anything as a target."""
    return target[:_MAX_TARGET] if is_plain(target) else "?"
