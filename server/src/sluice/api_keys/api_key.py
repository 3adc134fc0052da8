"""The value of an API key as it is stored: never its secret. Its text is in `secret`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sluice.access import NO_LIMITS, KeyLimits

KeyStatus = Literal["active", "disabled", "revoked"]


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key of one tenant. `key_prefix` is safe to show; `disabled` can be undone, `revoked` never.

    The text that it had before its last rotation is good until `previous_expires_at`.
    """

    api_key_id: str
    tenant_id: str
    key_prefix: str
    mode: Literal["live", "test"]
    name: str
    scopes: tuple[str, ...]
    status: KeyStatus
    metadata: Mapping[str, object]
    created_at: datetime
    updated_at: datetime | None
    expires_at: datetime | None
    last_used_at: datetime | None
    contexts: tuple[str, ...] = ()
    allowed_networks: tuple[str, ...] = ()
    rate_per_minute: int | None = None
    previous_expires_at: datetime | None = None

    @property
    def limits(self) -> KeyLimits:
        """Its limits in addition to its scopes."""
        if not self.contexts and not self.allowed_networks and self.rate_per_minute is None:
            return NO_LIMITS
        return KeyLimits(self.contexts, self.allowed_networks, self.rate_per_minute)
