"""How errors stand in the OpenAPI document: each endpoint names the errors it can answer, each with its envelope and an example."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final

from sluice import errors
from sluice.api.schemas.envelope import ErrorEnvelope
from sluice.errors import SluiceError
from sluice.uploads.reasons import WORDS, Reason

READING: Final[tuple[type[SluiceError], ...]] = (
    errors.Malformed,
    errors.HeadStalled,
    errors.HeadTooLarge,
    errors.TooManyConnections,
    errors.Unauthenticated,
    errors.TooManyRequests,
    errors.Unavailable,
    SluiceError,
)
"""What every endpoint can answer."""
SCOPED: Final = (*READING, errors.ScopeMissing)
"""What every endpoint that asks for a scope can answer."""
BODY: Final = (errors.BodyStalled, errors.BodyTooLarge, errors.UnsupportedBody, errors.Invalid)
"""What every endpoint that takes a JSON body can answer besides."""

_EXAMPLES: Final[Mapping[type[SluiceError], SluiceError]] = {
    error: example
    for example in (
        errors.FileRejected(WORDS[Reason.BLANK_DOCUMENT].message, [Reason.BLANK_DOCUMENT.value]),
        errors.LimitExceeded(WORDS[Reason.RATE_LIMIT_EXCEEDED].message, [Reason.RATE_LIMIT_EXCEEDED.value]),
        errors.ScopeMissing("admin"),
        errors.ContextExists("claims"),
        errors.BucketExists("archive"),
        errors.BucketBound(2),
        errors.BodyTooLarge(65_536),
        errors.UnsupportedBody("application/json"),
        errors.Invalid("page: expected at least 1, found '0'"),
        errors.Unavailable("database"),
    )
    for error in [type(example)]
}


def responses(*possible: type[SluiceError]) -> dict[int | str, dict[str, Any]]:
    """Answer the documentation of the errors that an endpoint can answer, by status."""
    in_order = sorted(set(possible), key=lambda error: (error.status, error.code))
    return {status: _documented(list(group)) for status, group in groupby(in_order, key=lambda error: error.status)}


def _documented(possible: list[type[SluiceError]]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "model": ErrorEnvelope,
        "description": " / ".join(" ".join((error.__doc__ or "").split()) for error in possible),
        "content": {"application/json": {"examples": {error.code: {"value": _example(error)} for error in possible}}},
    }
    if any(error.status in {429, 503, 507} for error in possible):
        described["headers"] = {"Retry-After": {"description": "Seconds after which to try again.", "schema": {"type": "integer"}}}
    return described


def _example(error: type[SluiceError]) -> dict[str, Any]:
    example = _EXAMPLES.get(error) or error()
    return {
        "status": "ERROR",
        "message": example.message,
        "errors": list(example.errors),
        "timestamp": "2026-01-31T12:00:00Z",
    }
