"""The envelope around every response, and what all schemas share."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Final, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from sluice.kit.clock import utc_now
from sluice.kit.paging import Page
from sluice.kit.text import is_plain

T = TypeVar("T")


class RequestBody(BaseModel):
    """A request's JSON body: types are strict, unknown fields are refused."""

    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)


def without_defaults(*examples: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    """Return what takes the defaults of fields out of a schema, and adds examples of the whole."""

    def change(schema: dict[str, Any]) -> None:
        for field in schema.get("properties", {}).values():
            field.pop("default", None)
        if examples:
            schema["examples"] = list(examples)

    return change


class UpdateBody(RequestBody):
    """A PATCH body: only the fields that were sent count, so none has a default that a reader should see."""

    model_config = ConfigDict(json_schema_extra=without_defaults())


class ResponseBody(BaseModel):
    """A part of a response."""

    model_config = ConfigDict(from_attributes=True, defer_build=True)


def is_none(value: object) -> bool:
    """Return whether a field is left out of a response."""
    return value is None


def expecting(what: str, holds: Callable[[Any], object]) -> AfterValidator:
    """Return a validator that refuses values for which `holds` is false with "expected `what`"."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise ValueError(f"expected {what}")
        return value

    return AfterValidator(check)


PLAIN: Final = expecting("no control characters", is_plain)
PLAIN_LINES: Final = expecting("no control characters besides tabs and line ends", partial(is_plain, lines=True))
NOT_BLANK: Final = expecting("more than spaces", str.strip)
Metadata = dict[str, Any]


class Envelope(ResponseBody, Generic[T]):
    """A success."""

    status: Literal["SUCCESS"] = "SUCCESS"
    message: str = Field(description="What was done, for people.")
    data: T
    timestamp: datetime = Field(default_factory=utc_now, description="Time of the response, UTC.")


class Pagination(ResponseBody):
    """The position of a page."""

    page: int
    page_size: int
    total: int
    total_pages: int


class PagedEnvelope(Envelope[list[T]], Generic[T]):
    """A success with one page of a list."""

    pagination: Pagination


class ErrorEnvelope(ResponseBody):
    """A failure. Nothing was done."""

    status: Literal["ERROR"] = "ERROR"
    message: str = Field(description="What went wrong, for people.")
    errors: list[str] = Field(description="One entry per problem. For a rejected upload: exactly one reason code.")
    timestamp: datetime = Field(default_factory=utc_now, description="Time of the response, UTC.")
    report: dict[str, Any] | None = Field(
        None,
        exclude_if=is_none,
        description="Of an upload that was judged: a `FullReport` for callers with the scope `metadata`, else a "
        "`SenderReport`.",
    )


class Problem(ResponseBody):
    """A failure as RFC 9457 describes it, with the members of the envelope."""

    type: str = Field(description="Where the error is explained.", examples=["/docs/errors#file_rejected"])
    title: str = Field(description="What went wrong, for people.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="The sentence for the sender of a file, otherwise the problems.")
    code: str = Field(description="The stable code of the error.")
    errors: list[str] = Field(description="One entry per problem. For a rejected upload: exactly one reason code.")
    timestamp: datetime = Field(description="Time of the response, UTC.")
    report: dict[str, Any] | None = Field(
        None,
        exclude_if=is_none,
        description="Of an upload that was judged: a `FullReport` for callers with the scope `metadata`, else a "
        "`SenderReport`.",
    )


def pagination_of(page: Page[Any]) -> Pagination:
    """Return the pagination object of `page`."""
    return Pagination(
        page=page.request.page, page_size=page.request.page_size, total=page.total, total_pages=page.total_pages
    )
