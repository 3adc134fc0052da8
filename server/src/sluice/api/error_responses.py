"""Errors as responses: where an exception becomes an envelope, and a validation problem a sentence."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from sluice.access import PUBLIC_ROUTES, ROUTE_SCOPES, SIGNED_ROUTES, TOKEN_ROUTES
from sluice.api.schemas.envelope import ErrorEnvelope
from sluice.api.schemas.moment import EXPECTED_MOMENT
from sluice.api.schemas.reports import report_body
from sluice.db.database import DatabaseUnavailable
from sluice.errors import (
    Invalid,
    MethodNotAllowed,
    NotFound,
    ServiceUnavailable,
    SluiceError,
    TooManyRequests,
    Unauthenticated,
)
from sluice.storage import PROVIDERS
from sluice.uploads.report import VerdictReport

PROBLEM_TYPE: Final = "application/problem+json"
_NO_QUALITY: Final = re.compile(r"q=0(?:\.0{0,3})?")
_ROUTES: Final = (*ROUTE_SCOPES, *SIGNED_ROUTES, *TOKEN_ROUTES, *PUBLIC_ROUTES)


def render(error: SluiceError, request: Request | None = None) -> JSONResponse:
    """Return the envelope of `error`, with its code as a header and, if a retry makes sense, Retry-After in whole
    seconds.

    A request that accepts `application/problem+json` gets the same as RFC 9457. The report of an upload, if there is
    one, is added as far as the caller may see it.
    """
    body = ErrorEnvelope(message=error.message, errors=list(error.errors)).model_dump(mode="json")
    headers = {"Sluice-Error-Code": error.code}
    if error.is_replayed:
        headers["Idempotent-Replayed"] = "true"
    if isinstance(error.report, VerdictReport) and request is not None:
        principal = getattr(request.state, "principal", None)
        body["report"] = report_body(error.report, principal, request.headers.get("accept-language"))
        headers |= {"Sluice-Report-Id": error.report.report_id, "Vary": "Accept, Accept-Language"}
    media_type = "application/json"
    if request is not None and _accepts_problem(request):
        body, media_type = as_problem(error, body), PROBLEM_TYPE
    response = JSONResponse(body, status_code=error.status, headers=headers, media_type=media_type)
    if error.retry_after is not None:
        seconds = str(max(1, math.ceil(error.retry_after)))
        response.headers["Retry-After"] = seconds
        if error.status == TooManyRequests.status:
            response.headers["RateLimit-Remaining"] = "0"
            response.headers["RateLimit-Reset"] = seconds
    if error.limit is not None:
        response.headers["RateLimit-Limit"] = str(error.limit)
    if error.status == Unauthenticated.status:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _accepts_problem(request: Request) -> bool:
    """Return whether Accept names the type itself, with a quality above 0 (RFC 9110 section 12.5.1)."""
    for accepted in ",".join(request.headers.getlist("accept")).lower().split(","):
        media_type, *parameters = (part.strip(" \t") for part in accepted.split(";"))
        if media_type == PROBLEM_TYPE:
            return not any(_NO_QUALITY.fullmatch(parameter) for parameter in parameters)
    return False


def as_problem(error: SluiceError, envelope: dict[str, Any]) -> dict[str, Any]:
    """Return the members of RFC 9457, and the envelope's own as extensions."""
    sentence = envelope["report"]["message"] if "report" in envelope else "; ".join(error.errors)
    return {
        "type": f"/docs/errors#{error.code}",
        "title": error.message,
        "status": error.status,
        "detail": sentence,
        "code": error.code,
        **{name: envelope[name] for name in ("errors", "timestamp", "report") if name in envelope},
    }


def install(app: FastAPI) -> None:
    """Turn every expected exception of the application into an envelope. Unexpected ones become a 500 in `guards`."""

    @app.exception_handler(SluiceError)
    async def expected(request: Request, error: SluiceError) -> JSONResponse:
        return render(error, request)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return render(Invalid(*describe(error.errors())), request)

    @app.exception_handler(DatabaseUnavailable)
    async def database_unavailable(request: Request, _error: DatabaseUnavailable) -> JSONResponse:
        return render(ServiceUnavailable("database"), request)

    @app.exception_handler(HTTPException)
    async def routing(request: Request, error: HTTPException) -> JSONResponse:
        methods = _methods_of(request.url.path) if error.status_code == MethodNotAllowed.status else []
        known: SluiceError = NotFound()
        if error.status_code == MethodNotAllowed.status:
            takes = f"This path takes {', '.join(methods)}" if methods else "This path does not take that method"
            known = MethodNotAllowed(errors=[takes])
        response = render(known, request)
        for name, value in (error.headers or {}).items():
            response.headers[name] = value
        if methods:
            # Starlette names those of the first route of the path only; RFC 9110 asks for all (section 10.2.1).
            response.headers["Allow"] = ", ".join(methods)
        return response


def _methods_of(path: str) -> list[str]:
    named = [method for method, shape in _ROUTES if shape == path]
    return sorted(named or [method for method, shape in _ROUTES if compile_path(shape)[0].match(path)])


# One sentence for each validation problem: `<field>: <problem>`, with what was expected and found. Secrets are never
# echoed.

_SHOWN: Final = 60
_SECRET: Final = frozenset(
    field.name for provider in PROVIDERS.values() for field in provider.fields if field.is_credential
)
_JSON_TYPES: Final[Mapping[type, str]] = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    list: "an array",
    dict: "an object",
    type(None): "null",
}

Problem = Mapping[str, Any]


def describe(problems: Sequence[Problem]) -> tuple[str, ...]:
    """Return a sentence for each of pydantic's error entries."""
    return tuple(f"{_field(problem)}: {_sentence(problem)}" for problem in problems)


def _field(problem: Problem) -> str:
    if problem["type"] == "union_tag_invalid":
        return "provider"
    of_body = problem["loc"][1:]
    if of_body and of_body[0] in PROVIDERS:  # which of several schemas the body follows
        of_body = of_body[1:]
    place = [str(part) for part in of_body if part != "[key]"]
    return ".".join(place) or str(problem["loc"][0] if problem["loc"] else "body")


def _sentence(problem: Problem) -> str:
    known = _SENTENCES.get(problem["type"])
    return known(problem) if known else str(problem["msg"]).removeprefix("Value error, ")


def _found(problem: Problem) -> str:
    value = problem.get("input")
    if str(problem["loc"][-1]) in _SECRET:
        return "another value"
    shown = repr(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else _json_type(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def _json_type(value: object) -> str:
    return _JSON_TYPES.get(type(value), "something else")


def _expected_type(kind: str) -> Callable[[Problem], str]:
    return lambda problem: f"expected {kind}, found {_json_type(problem.get('input'))}"


def _expected_bound(words: str, name: str) -> Callable[[Problem], str]:
    return lambda problem: f"expected {words} {problem['ctx'][name]}, found {_found(problem)}"


def _expected_length(words: str, name: str, unit: str) -> Callable[[Problem], str]:
    def sentence(problem: Problem) -> str:
        value = problem.get("input")
        found = len(value) if isinstance(value, str | list | dict) else "none"
        return f"expected {words} {problem['ctx'][name]} {unit}, found {found}"

    return sentence


_SENTENCES: Final[Mapping[str, Callable[[Problem], str]]] = {
    "missing": lambda _problem: "field required",
    "union_tag_invalid": lambda _problem: f"expected one of {', '.join(PROVIDERS)}",
    "timezone_aware": lambda _problem: EXPECTED_MOMENT,
    "extra_forbidden": lambda _problem: "unknown field",
    "int_type": _expected_type("an integer"),
    "int_from_float": _expected_type("an integer"),
    "int_parsing": lambda problem: f"expected an integer, found {_found(problem)}",
    "int_parsing_size": lambda problem: f"expected an integer of a readable size, found {_found(problem)}",
    "string_type": _expected_type("a string"),
    "bool_type": _expected_type("a boolean"),
    "list_type": _expected_type("an array"),
    "dict_type": _expected_type("an object"),
    "model_type": _expected_type("an object"),
    "model_attributes_type": _expected_type("an object"),
    "literal_error": lambda problem: f"expected {problem['ctx']['expected']}, found {_found(problem)}",
    "string_pattern_mismatch": lambda problem: (
        f"expected to match {problem['ctx']['pattern']}, found {_found(problem)}"
    ),
    "greater_than_equal": _expected_bound("at least", "ge"),
    "less_than_equal": _expected_bound("at most", "le"),
    "string_too_short": _expected_length("at least", "min_length", "characters"),
    "string_too_long": _expected_length("at most", "max_length", "characters"),
    "too_short": _expected_length("at least", "min_length", "items"),
    "too_long": _expected_length("at most", "max_length", "items"),
}
