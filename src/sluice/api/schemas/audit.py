"""Bodies of the audit endpoint."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from sluice.api.schemas.envelope import ResponseBody


class AuditItem(ResponseBody):
    """One entry of the audit trail."""

    event_id: str = Field(description="Identifier of the entry; later entries sort after earlier ones.")
    action: str = Field(description="What was done, as `<noun>.<verb>`.", examples=["api_key.created"])
    target: str | None = Field(description="The id that it was done to, null where a refused request named none.")
    actor_id: str = Field(description="API key ID or user ID.")
    actor_name: str = Field(description="Name of that key or user, as it was then.")
    via: Literal["api_key", "jwt", "command"] = Field(description="How the actor came in.")
    outcome: Literal["done", "refused"] = Field(description="Whether it was done, or refused for want of a scope.")
    error: str | None = Field(description="Code of the refusal, null when it was done.")
    request_id: str | None = Field(description="`Request-Id` of the request.")
    created_at: datetime = Field(description="When.")
