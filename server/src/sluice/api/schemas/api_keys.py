"""Bodies of the API key endpoints."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field

from sluice.access import KeyLimits
from sluice.api.schemas.envelope import PLAIN, Metadata, RequestBody, ResponseBody, UpdateBody, without_defaults
from sluice.api_keys.limits import parse_network

ScopeName = Literal["upload", "download", "metadata", "delete", "review", "admin"]
Status = Literal["active", "disabled", "revoked"]
Name = Annotated[str, Field(min_length=1, max_length=255, examples=["intake form"]), PLAIN]

_OVERLAP_SECONDS: Final = 7 * 24 * 3600


def _network(text: str) -> str:
    try:
        return str(parse_network(text))
    except ValueError:
        raise ValueError(f"expected a network such as 192.0.2.0/24 or 2001:db8::/32, found {text!r}") from None


ContextKey = Annotated[str, Field(max_length=100, pattern=r"^[a-z][a-z0-9_]*$", examples=["claims"])]
Network = Annotated[str, Field(max_length=50, examples=["192.0.2.0/24"]), AfterValidator(_network)]
Contexts = Annotated[
    list[ContextKey],
    Field(max_length=100, description="The contexts that it may use, by context_key; empty or null: all of them."),
]
Networks = Annotated[
    list[Network],
    Field(
        max_length=100,
        description="The networks from which it may be used, in CIDR notation; empty or null: from everywhere.",
    ),
]
Rate = Annotated[
    int,
    Field(
        ge=1,
        le=100_000,
        description="Requests in a minute, those with upload tokens that it made too, without those that continue a "
        "resumable upload; null: not limited.",
    ),
]
ExpiresInDays = Annotated[int, Field(ge=1, le=365)]
Scopes = Annotated[list[ScopeName], Field(min_length=1, max_length=20, examples=[["upload", "metadata"]])]


class CreateKey(RequestBody):
    """A key to be created."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "intake form", "scopes": ["upload", "metadata"]}]}
    )

    name: Name
    scopes: Scopes
    expires_in_days: ExpiresInDays | None = None
    metadata: Metadata | None = None
    contexts: Contexts | None = None
    allowed_networks: Networks | None = None
    rate_per_minute: Rate | None = None
    mode: Literal["live", "test"] = Field(
        "live", description="Files of a test key count against no plan limit and are removed after a day."
    )

    def limits(self) -> KeyLimits:
        """Return what the key is limited to."""
        return KeyLimits(_unique(self.contexts), _unique(self.allowed_networks), self.rate_per_minute)


class UpdateKey(UpdateBody):
    """Fields of a key to be changed. `revoked` can never be undone."""

    model_config = ConfigDict(json_schema_extra=without_defaults({"status": "disabled"}))

    name: Name = ""
    scopes: Scopes = Field(default_factory=list)
    status: Status = "active"
    metadata: Metadata | None = None
    contexts: Contexts | None = None
    allowed_networks: Networks | None = None
    rate_per_minute: Rate | None = None

    def changes(self) -> Mapping[str, Any]:
        """Return the fields that were sent, as the service takes them."""
        sent: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        if "metadata" in sent:
            sent["metadata"] = self.metadata or {}
        for name in ("contexts", "allowed_networks"):
            if name in sent:
                sent[name] = list(_unique(sent[name])) or None
        return sent


class RotateKey(RequestBody):
    """The rotation of a key."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"overlap_seconds": 86400}]})

    overlap_seconds: Annotated[
        int, Field(ge=0, le=_OVERLAP_SECONDS, description="How long the present text remains valid, at most 7 days.")
    ] = 86_400
    expires_in_days: (
        Annotated[ExpiresInDays, Field(description="When it expires from now on; null: as before.")] | None
    ) = None


_ContextsOut = Annotated[
    list[str], Field(description="The contexts that it may use, by context_key; empty: all of them.")
]
_NetworksOut = Annotated[
    list[str], Field(description="The networks from which it may be used; empty: from everywhere.")
]
_RateOut = Annotated[int | None, Field(description="Requests that it may make in a minute; null: not limited.")]


class KeyCreated(ResponseBody):
    """A new key. `api_key` is shown here and never again."""

    api_key_id: str
    api_key: str
    name: str
    scopes: list[str]
    expires_at: datetime | None
    contexts: _ContextsOut
    allowed_networks: _NetworksOut
    rate_per_minute: _RateOut


class KeyRotated(ResponseBody):
    """A key with a new text. `api_key` is shown here and never again."""

    api_key_id: str
    api_key: str
    key_prefix: str
    expires_at: datetime | None
    previous_expires_at: datetime | None = Field(
        description="Until when the previous text remains valid; null: it is not valid."
    )


class KeyItem(ResponseBody):
    """A key in a list."""

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
    contexts: _ContextsOut
    allowed_networks: _NetworksOut
    rate_per_minute: _RateOut
    previous_expires_at: datetime | None = Field(
        description="Until when the text before the last rotation remains, or was, valid."
    )


class RevokedKey(ResponseBody):
    """A key was revoked, for ever."""

    api_key_id: str
    status: Literal["revoked"] = "revoked"


def _unique(names: list[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names or ()))
