"""The value of a bucket, with its secret still sealed. What may be done with one is in `service`."""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket of one tenant. `base_path` has no slash at its ends; `endpoint_url` None is AWS."""

    config_id: str
    tenant_id: str
    name: str
    access_key_id: str = field(repr=False)
    secret_sealed: str = field(repr=False)
    region: str
    default_bucket: str
    base_path: str
    endpoint_url: str | None
    is_active: bool
    created_at: datetime
    updated_at: datetime | None
    is_default: bool = False

    def key_for(self, rendered: str) -> str:
        """Return the object key of a rendered path template in this bucket."""
        return f"{self.base_path}/{rendered}" if self.base_path else rendered

    @property
    def masked_access_key_id(self) -> str:
        """The access key as it may be shown: first and last four characters."""
        return f"{self.access_key_id[:4]}…{self.access_key_id[-4:]}"
