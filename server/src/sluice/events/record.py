"""The value of a numbered event, as the feed and webhooks send it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sluice.events.catalogue import API_VERSION


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One event of one tenant. `sequence` counts the tenant's events, without a gap."""

    event_id: str
    tenant_id: str
    type: str
    created_at: datetime
    data: Mapping[str, Any]
    sequence: int

    def to_json(self) -> dict[str, Any]:
        """Return the event as it is sent."""
        timestamp = self.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
        return {
            "id": self.event_id,
            "type": self.type,
            "timestamp": timestamp,
            "api_version": API_VERSION,
            "tenant_id": self.tenant_id,
            "sequence": self.sequence,
            "data": dict(self.data),
        }
