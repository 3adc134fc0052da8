"""The values of the audit log: who does what, and the entry about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from sluice.access import Principal
from sluice.kit.ids import new_id
from sluice.kit.text import is_plain

Outcome = Literal["done", "refused"]
_MAX_TARGET: Final = 255


@dataclass(frozen=True, slots=True)
class AuditAction:
    """An actor and an action on a tenant's resources, in a request. The transaction of the action appends the entry."""

    principal: Principal
    action: str
    request_id: str | None = None

    @property
    def tenant_id(self) -> str:
        """The tenant whose things they are."""
        return self.principal.tenant_id

    def entry(
        self,
        target: str | None,
        at: datetime,
        outcome: Outcome = "done",
        error: str | None = None,
        reason: str | None = None,
    ) -> "AuditEntry":
        """Return the entry about how it ended."""
        return AuditEntry(
            event_id=new_id("aud"),
            tenant_id=self.tenant_id,
            actor_id=self.principal.actor_id,
            actor_name=self.principal.actor_name,
            via=self.principal.via,
            action=self.action,
            target=None if target is None else shown_target(target),
            outcome=outcome,
            error=error,
            request_id=self.request_id,
            created_at=at,
            reason=reason,
        )


def shown_target(target: str) -> str:
    """Return a target as entries keep it: a refused caller may name anything."""
    return target[:_MAX_TARGET] if is_plain(target) else "?"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Somebody did something, or was not allowed to.

    It holds names and ids, never a value that was sent, so no secret can be in it; but for `reason`, which says why a
    file was held, released or refused, in the words of the actor. Values of a context are beside it (`AuditChange`).

    `target` is the id that the action was about, None for a list of things; `error` the code of the refusal; `via` how
    the actor came in: `api_key`, `jwt`, `command`, `console`, or `worker` for what the service does by itself.
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
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """A filter of entries; None matches any. `target` is the id of the thing that an entry is about, `since` the first
    moment and `before` the first one too late.

    `outcome`, and `reason`, a part of the words of the actor, are compared with the newest entries that meet the rest.
    """

    actor_id: str | None = None
    action: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    outcome: Outcome | None = None
    reason: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class AuditChange:
    """An action on one resource: its actor, and the old and the new value of each changed field.

    `fields` is empty for what changes none, and for entries of releases that kept no values.
    """

    event_id: str
    actor_id: str
    actor_name: str
    action: str
    created_at: datetime
    reason: str | None
    fields: Mapping[str, tuple[Any, Any]]
