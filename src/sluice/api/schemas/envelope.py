"""The envelope around every response, and what all schemas share."""

from datetime import datetime
from typing import Any, Final, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from sluice.kit.clock import utc_now
from sluice.kit.paging import Page
from sluice.kit.text import is_plain

T = TypeVar("T")


class RequestBody(BaseModel):
    """A request's JSON body: types are strict, unknown fields are refused."""

    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)


def _without_defaults(schema: dict[str, Any]) -> None:
    for field in schema.get("properties", {}).values():
        field.pop("default", None)


class UpdateBody(RequestBody):
    """A PATCH body: only the fields that were sent count, so none has a default that a reader should see."""

    model_config = ConfigDict(json_schema_extra=_without_defaults)


class ResponseBody(BaseModel):
    """A part of a response."""

    model_config = ConfigDict(from_attributes=True)


def is_none(value: object) -> bool:
    """Return whether a field is left out of a response."""
    return value is None


def _plain(text: str) -> str:
    if not is_plain(text):
        raise ValueError("expected no control characters")
    return text


def _plain_lines(text: str) -> str:
    if not is_plain(text, lines=True):
        raise ValueError("expected no control characters besides tabs and line ends")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("expected more than spaces")
    return text


PLAIN: Final = AfterValidator(_plain)
PLAIN_LINES: Final = AfterValidator(_plain_lines)
NOT_BLANK: Final = AfterValidator(_not_blank)
Metadata = dict[str, Any]


class Envelope(ResponseBody, Generic[T]):
    """A success."""

    status: Literal["SUCCESS"] = "SUCCESS"
    message: str = Field(description="What was done, for people.")
    data: T
    timestamp: datetime = Field(default_factory=utc_now, description="Time of the response, UTC.")


class Pagination(ResponseBody):
    """Where a page stands among all."""

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
