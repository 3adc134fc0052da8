"""Bodies of the event feed."""

from datetime import datetime
from typing import Any, Self

from pydantic import Field

from sluice.api.schemas.envelope import ResponseBody
from sluice.events.record import StoredEvent


class EventOut(ResponseBody):
    """One event, as the feed and webhooks send it."""

    id: str = Field(description="Id of the event; a delivery that is repeated has the same one.")
    type: str = Field(description="Type of the event; `docs/events.md` lists them.")
    timestamp: datetime = Field(description="When it happened, UTC.")
    api_version: str = Field(description="The version of `data`.")
    tenant_id: str
    sequence: int = Field(description="Counts the tenant's events in their order, without a gap.")
    data: dict[str, Any] = Field(description="What happened; each type has a schema of its own.")

    @classmethod
    def of(cls, event: StoredEvent) -> Self:
        """Return the event as it is sent."""
        return cls.model_validate(event.to_json())
