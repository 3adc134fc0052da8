"""Bodies of the webhook endpoints."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from sluice.api.schemas.envelope import PLAIN, RequestBody, ResponseBody, UpdateBody, expecting, without_defaults
from sluice.api.schemas.moment import Moment
from sluice.events.catalogue import TYPES
from sluice.webhooks.endpoint import ALL_EVENTS, DeliveryState, EndpointStatus
from sluice.webhooks.service import EndpointDraft, IssuedEndpoint

HookUrl = Annotated[
    str,
    Field(min_length=1, max_length=2000, examples=["https://app.example.com/hooks/sluice"]),
    PLAIN,
    expecting(
        "an absolute URL, in ASCII and without spaces",
        lambda text: text.isascii() and text.isprintable() and " " not in text,
    ),
]
_EVENT_TYPE: Final = expecting("a type of event, or '*' for all", lambda text: text == ALL_EVENTS or text in TYPES)
EventTypes = Annotated[
    list[Annotated[str, Field(max_length=64), _EVENT_TYPE]],
    Field(min_length=1, max_length=100, description='Types of events, or `["*"]` for all.'),
]
ContextKeys = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=100), PLAIN]],
    Field(max_length=100, description="Only events of these contexts, and those of none; empty: of every context."),
]
Description = Annotated[str, Field(max_length=255), PLAIN]


class CreateEndpoint(RequestBody):
    """A webhook endpoint to be created."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "url": "https://app.example.com/hooks/sluice",
                    "events": ["file.stored", "file.rejected"],
                    "contexts": ["claims"],
                    "description": "claims intake",
                }
            ]
        }
    )

    url: HookUrl
    events: EventTypes
    contexts: ContextKeys = Field(default_factory=list)
    description: Description | None = None

    def draft(self) -> EndpointDraft:
        """Return the endpoint as the service takes it."""
        return EndpointDraft(
            self.url, tuple(dict.fromkeys(self.events)), tuple(dict.fromkeys(self.contexts)), self.description
        )


class UpdateEndpoint(UpdateBody):
    """Fields of a webhook endpoint to be changed."""

    model_config = ConfigDict(json_schema_extra=without_defaults({"events": ["*"]}))

    url: HookUrl = ""
    events: EventTypes = Field(default_factory=list)
    contexts: ContextKeys = Field(default_factory=list)
    description: Description | None = None
    status: EndpointStatus = "active"

    def changes(self) -> Mapping[str, Any]:
        """Return the fields that were sent, as the service takes them."""
        sent: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        for field, column in (("events", "event_types"), ("contexts", "context_keys")):
            if field in sent:
                sent[column] = tuple(dict.fromkeys(sent.pop(field)))
        return sent


class RecoverEvents(RequestBody):
    """The time of which events are to be delivered again."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"since": "2026-01-30T12:00:00Z", "until": "2026-01-31T12:00:00Z"}]},
        strict=False,
    )

    since: Annotated[Moment, Field(description="The first moment.")]
    until: Annotated[Moment, Field(description="The first moment that is not meant any more.")]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.until <= self.since:
            raise ValueError("expected until to be later than since")
        return self


class EndpointOut(ResponseBody):
    """A webhook endpoint, without its secret."""

    endpoint_id: str
    url: str
    events: list[str] = Field(validation_alias=AliasChoices("event_types", "events"))
    contexts: list[str] = Field(validation_alias=AliasChoices("context_keys", "contexts"))
    description: str | None
    status: EndpointStatus
    disabled_reason: str | None = Field(
        description="`gone`: it responded with 410. `failing`: all deliveries failed for five days. Null: by a user."
    )
    failing_since: datetime | None = Field(description="Since when every delivery fails; null if the last did not.")
    old_secret_until: datetime | None = Field(
        description="Until when deliveries are also signed with the previous secret."
    )
    created_at: datetime
    updated_at: datetime | None


class EndpointSecret(EndpointOut):
    """A webhook endpoint with its secret, which is shown here and never again."""

    secret: str = Field(description="What deliveries are signed with (Standard Webhooks).")

    @classmethod
    def of(cls, issued: IssuedEndpoint) -> Self:
        """Return the response that shows the secret."""
        shown = EndpointOut.model_validate(issued.endpoint).model_dump()
        return cls(**shown, secret=issued.secret)


class EndpointDeleted(ResponseBody):
    """A webhook endpoint was deleted."""

    endpoint_id: str
    deleted: Literal[True] = True


class TestSent(ResponseBody):
    """A test event is on its way."""

    endpoint_id: str
    event_type: Literal["endpoint.test"] = "endpoint.test"


class Recovered(ResponseBody):
    """The number of deliveries that were restarted."""

    endpoint_id: str
    deliveries: int = Field(description="How many.")


class DeliveryOut(ResponseBody):
    """One event on its way to one endpoint, and the response of the last attempt."""

    delivery_id: str
    endpoint_id: str
    event_id: str
    event_type: str
    status: DeliveryState = Field(
        validation_alias="state", description="`pending` until the receiver takes it, or ten attempts failed."
    )
    attempts: int
    next_attempt_at: datetime | None = Field(validation_alias="due_at")
    created_at: datetime
    attempted_at: datetime | None
    response_status: int | None = Field(description="Null if there was no response.")
    response_headers: list[str] | None = Field(description="The names of the headers.")
    response_body: str | None = Field(description="The first 2 KB.")
    error: str | None = Field(description="Why there was no response, or which status failed.")
    duration_ms: int | None
