"""Bodies of the API key endpoints."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from sluice.api.schemas.envelope import PLAIN, Metadata, RequestBody, ResponseBody, UpdateBody

ScopeName = Literal["upload", "download", "metadata", "delete", "review", "admin"]
Status = Literal["active", "disabled", "revoked"]
Name = Annotated[str, Field(min_length=1, max_length=255, examples=["intake form"]), PLAIN]
Scopes = Annotated[list[ScopeName], Field(min_length=1, max_length=20, examples=[["upload", "metadata"]])]


class CreateKey(RequestBody):
    """A key to be created."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "intake form", "scopes": ["upload", "metadata"]}]}
    )

    name: Name
    scopes: Scopes
    expires_in_days: Annotated[int, Field(ge=1, le=365)] | None = None
    metadata: Metadata | None = None
    mode: Literal["live", "test"] = Field(
        "live", description="Files of a test key count against no plan limit and are removed after a day."
    )


class UpdateKey(UpdateBody):
    """Fields of a key to be changed. `revoked` can never be undone."""

    name: Name = ""
    scopes: Scopes = Field(default_factory=list)
    status: Status = "active"
    metadata: Metadata | None = None

    def changes(self) -> Mapping[str, Any]:
        """Return the fields that were sent, as the service takes them."""
        sent: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        if "metadata" in sent:
            sent["metadata"] = self.metadata or {}
        return sent


class KeyCreated(ResponseBody):
    """A new key. `api_key` is shown here and never again."""

    api_key_id: str
    api_key: str
    name: str
    scopes: list[str]
    expires_at: datetime | None


class KeyItem(ResponseBody):
    """A key as it stands in a list."""

    api_key_id: str
    name: str
    key_prefix: str
    scopes: list[str]
    status: Status
    created_at: datetime
    last_used_at: datetime | None


class KeyOut(KeyItem):
    """A whole key, without its secret."""

    tenant_id: str
    expires_at: datetime | None
    metadata: Metadata
    updated_at: datetime | None


class RevokedKey(ResponseBody):
    """A key was revoked, for ever."""

    api_key_id: str
    status: Literal["revoked"] = "revoked"
