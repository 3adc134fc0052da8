"""The value of one entry of the audit trail. What may be done with the trail is in `service`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Outcome = Literal["done", "refused"]


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
