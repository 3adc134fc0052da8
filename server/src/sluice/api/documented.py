"""Errors in the OpenAPI document: each endpoint lists those that it can return, with envelope and example."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from itertools import groupby
from typing import Any, Final

from sluice import errors
from sluice.errors import SluiceError
from sluice.uploads.reasons import WORDS, Reason

# What every endpoint can return
OPEN: Final[tuple[type[SluiceError], ...]] = (
    errors.Malformed,
    errors.HeadStalled,
    errors.HeadTooLarge,
    errors.TooManyConnections,
    SluiceError,
)
# What every endpoint that requires a credential can return
READING: Final = (
    *OPEN,
    errors.Unauthenticated,
    errors.KeyLimited,
    errors.TooManyRequests,
    errors.ServiceUnavailable,
)
# What every endpoint that requires a scope can return
SCOPED: Final = (*READING, errors.ScopeMissing)
# What every endpoint with a JSON body can return in addition
BODY: Final = (errors.BodyStalled, errors.BodyTooLarge, errors.UnsupportedBody, errors.Invalid)

_WHOLE: Final = {"type": "integer", "minimum": 0}
# Headers of responses that say something of the request: those of every response are not listed.
_HEADERS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "Content-Disposition": ("The name under which to keep it.", {"type": "string"}),
    "Idempotent-Replayed": (
        "`true`: an earlier request got this response first. Absent otherwise.",
        {"type": "string", "const": "true"},
    ),
    "RateLimit-Limit": ("How many fit into the limit's window, where a limit is known.", _WHOLE),
    "RateLimit-Remaining": ("How many more fit into it.", _WHOLE),
    "RateLimit-Reset": ("Seconds until more fit into it.", _WHOLE),
    "Retry-After": ("Seconds after which to try again.", _WHOLE),
    "Sluice-Error-Code": ("The stable code of the error.", {"type": "string"}),
    "Sluice-Report-Id": ("Id of the report on the upload, where it was judged.", {"type": "string"}),
    "Warning": (
        "A hint for the developer of the client: ignored parameters, or a search that did not compare all files.",
        {"type": "string"},
    ),
    "WWW-Authenticate": ("How to authenticate.", {"type": "string"}),
}
RATE_LIMIT: Final = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")

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
        errors.ServiceUnavailable("database"),
    )
    for error in [type(example)]
}


def responses(*possible: type[SluiceError]) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of the errors that an endpoint can return, by status."""
    in_order = sorted(set(possible), key=lambda error: (error.status, error.code))
    return {status: _documented(tuple(group)) for status, group in groupby(in_order, key=lambda error: error.status)}


def error_operations(possible: Sequence[type[SluiceError]], *, most_bytes: int) -> dict[str, Any]:
    """Return the same for an operation that is described by hand and takes bodies of at most `most_bytes`."""
    described: dict[str, Any] = {}
    for code, response in deepcopy(responses(*possible)).items():
        for name, example in response["content"]["application/json"]["examples"].items():
            if name == errors.BodyTooLarge.code:
                example["value"] = _body(errors.BodyTooLarge(most_bytes))
        described[str(code)] = response
    return described


@cache
def _documented(possible: tuple[type[SluiceError], ...]) -> dict[str, Any]:
    headers = ["Sluice-Error-Code"]
    status = possible[0].status
    if status == errors.Unauthenticated.status:
        headers.append("WWW-Authenticate")
    if status == errors.TooManyRequests.status:
        headers += ["Retry-After", *RATE_LIMIT]
    elif any(error.retry_after is not None for error in possible):
        headers.append("Retry-After")
    # The envelope is named and not given as a model: FastAPI would build a validator for each of 670 errors.
    return {
        "description": " / ".join(" ".join((error.__doc__ or "").split()) for error in possible),
        "headers": headers_of(*headers),
        "content": {
            "application/json": {
                "examples": {error.code: {"value": _body(_EXAMPLES.get(error) or error())} for error in possible},
                "schema": {"$ref": "#/components/schemas/ErrorEnvelope"},
            },
            # To a request whose Accept header names it
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}},
        },
    }


def headers_of(*names: str) -> dict[str, Any]:
    """Return the documentation of response headers."""
    return {name: {"description": words, "schema": schema} for name in names for words, schema in [_HEADERS[name]]}


def with_headers(documented: dict[int | str, dict[str, Any]], *names: str) -> dict[int | str, dict[str, Any]]:
    """Return the documentation with these headers of the success."""
    return {200: {"headers": headers_of(*names)}} | documented


def _body(example: SluiceError) -> dict[str, Any]:
    return {
        "status": "ERROR",
        "message": example.message,
        "errors": list(example.errors),
        "timestamp": "2026-01-31T12:00:00Z",
    }
