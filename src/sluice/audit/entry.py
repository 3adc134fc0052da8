"""The values of the audit trail: what somebody sets out to do, and the entry that tells of it. What may be done with the trail is in `service`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from sluice.access import Principal
from sluice.kit.ids import new_id
from sluice.kit.text import is_plain

Outcome = Literal["done", "refused"]
_MAX_TARGET: Final = 255


@dataclass(frozen=True, slots=True)
class Deed:
    """What somebody sets out to do to things of a tenant, in which request. Whoever commits it notes it, in the same transaction."""

    principal: Principal
    action: str
    request_id: str | None = None

    @property
    def tenant_id(self) -> str:
        """Whose things they are."""
        return self.principal.tenant_id

    def event(self, target: str | None, at: datetime, outcome: Outcome = "done", error: str | None = None) -> "Event":
        """Answer the entry that tells how it ended."""
        return Event(
            event_id=new_id("aud"),
            tenant_id=self.tenant_id,
            actor_id=self.principal.actor_id,
            actor_name=self.principal.actor_name,
            via=self.principal.via,
            action=self.action,
            target=None if target is None else _shown(target),
            outcome=outcome,
            error=error,
            request_id=self.request_id,
            created_at=at,
        )


@dataclass(frozen=True, slots=True)
class Event:
    """Somebody did something, or was not allowed to. It holds names and ids and never a value that was sent: no secret can be in it.

    `target` is the id that the action was about, None for a list of things; `error` the code of the refusal; `via` how the actor
    came in: `api_key`, `jwt` or `command`.
    """

    event_id: str
    tenant_id: str
    actor_id: str
    actor_name: str
    via: str
    action: str
    target: str | None
    outcome: Outcome
    error: str | None
    request_id: str | None
    created_at: datetime


def _shown(target: str) -> str:
    """A refused caller may name anything as a target."""
    return target[:_MAX_TARGET] if is_plain(target) else "?"
