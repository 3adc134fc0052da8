"""The values of webhooks: an endpoint, a delivery, and when a delivery that failed is tried again."""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from sluice.events.catalogue import EndpointTest

EndpointStatus = Literal["active", "disabled"]
DeliveryState = Literal["pending", "delivered", "failed"]
ALL_EVENTS: Final = "*"
# The wait before each attempt.
ATTEMPTS: Final = tuple(
    timedelta(seconds=seconds)
    for seconds in (0, 5, 300, 1800, 2 * 3600, 5 * 3600, 10 * 3600, 14 * 3600, 20 * 3600, 24 * 3600)
)
_JITTER: Final = 0.1
_LONGEST_WAIT: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A receiver of a tenant's events: those of `event_types` and, if `context_keys` is not empty, of these contexts.

    `sequence` is the number of the last event that has its delivery.
    """

    endpoint_id: str
    tenant_id: str
    url: str
    event_types: tuple[str, ...]
    context_keys: tuple[str, ...]
    description: str | None
    status: EndpointStatus
    disabled_reason: str | None
    secret_sealed: str = field(repr=False)
    old_secret_sealed: str | None = field(repr=False)
    old_secret_until: datetime | None
    created_at: datetime
    updated_at: datetime | None
    sequence: int
    failing_since: datetime | None

    def wants(self, event_type: str, data: Mapping[str, Any]) -> bool:
        """Return whether an event is sent here. An event of no context is sent in any case."""
        if event_type == EndpointTest.type:
            return bool(data["endpoint_id"] == self.endpoint_id)
        if ALL_EVENTS not in self.event_types and event_type not in self.event_types:
            return False
        return not self.context_keys or data.get("context_key") in {None, *self.context_keys}


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event on its way to one endpoint, and the response of the last attempt."""

    delivery_id: str
    tenant_id: str
    endpoint_id: str
    event_id: str
    event_type: str
    state: DeliveryState
    attempts: int
    due_at: datetime | None
    created_at: datetime
    attempted_at: datetime | None
    response_status: int | None
    response_headers: Collection[str] | None
    response_body: str | None
    error: str | None
    duration_ms: int | None


def next_wait(attempts: int, retry_after: timedelta | None) -> timedelta | None:
    """Return how long to wait after this many failed attempts; None: it was the last.

    What the receiver asks for is honoured up to 24 hours, if it is longer.
    """
    if attempts >= len(ATTEMPTS):
        return None
    planned = ATTEMPTS[attempts] * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311  (spreads load)
    return planned if retry_after is None else max(planned, min(retry_after, _LONGEST_WAIT))
