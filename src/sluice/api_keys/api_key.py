"""The value of an API key as it is stored: never its secret. Its text is in `secret`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

KeyStatus = Literal["active", "disabled", "revoked"]


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key of one tenant. `key_prefix` is safe to show; `disabled` can be undone, `revoked` never."""

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
