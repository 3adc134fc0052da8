"""Bodies of the CORS endpoints."""

from typing import Annotated

from pydantic import ConfigDict, Field

from sluice.api.schemas.envelope import RequestBody, ResponseBody
from sluice.api.schemas.upload_tokens import Origin


class ReplaceCors(RequestBody):
    """The tenant's origins, all of them."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"allowed_origins": ["https://tools.example.com"]}]})

    allowed_origins: Annotated[list[Origin], Field(max_length=100, description="An empty list allows none.")]


class CorsOut(ResponseBody):
    """The origins whose pages may call the API with the tenant's keys."""

    allowed_origins: list[str]
