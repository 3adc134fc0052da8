"""Errors as responses: the one place where an exception becomes an envelope. Which error it is, is said where it is raised."""

import math

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from sluice.access import ROUTE_SCOPES, SIGNED_ROUTES
from sluice.api.problems import describe
from sluice.api.schemas.envelope import ErrorEnvelope
from sluice.db.database import DatabaseAway
from sluice.errors import Invalid, MethodNotAllowed, NotFound, SluiceError, TooManyRequests, Unauthenticated, Unavailable


def render(error: SluiceError) -> JSONResponse:
    """Answer the envelope of `error`, with its code for programs and, where time heals it, Retry-After in whole seconds."""
    body = ErrorEnvelope(message=error.message, errors=list(error.errors))
    response = JSONResponse(body.model_dump(mode="json"), status_code=error.status, headers={"Sluice-Error-Code": error.code})
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


def install(app: FastAPI) -> None:
    """Let every exception of the app end as an envelope. What nobody expected becomes a 500 in `api.guards`."""

    @app.exception_handler(SluiceError)
    async def ours(_request: Request, error: SluiceError) -> JSONResponse:
        return render(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        return render(Invalid(*describe(error.errors())))

    @app.exception_handler(DatabaseAway)
    async def away(_request: Request, _error: DatabaseAway) -> JSONResponse:
        return render(Unavailable("database"))

    @app.exception_handler(HTTPException)
    async def routing(request: Request, error: HTTPException) -> JSONResponse:
        response = render(MethodNotAllowed() if error.status_code == MethodNotAllowed.status else NotFound())
        for name, value in (error.headers or {}).items():
            response.headers[name] = value
        if error.status_code == MethodNotAllowed.status and (methods := _methods_of(request.url.path)):
            # Starlette names those of the first route of the path only; RFC 9110 asks for all (section 10.2.1).
            response.headers["Allow"] = ", ".join(methods)
        return response


def _methods_of(path: str) -> list[str]:
    named = [method for method, shape in _ROUTES if shape == path]
    return sorted(named or [method for method, shape in _ROUTES if compile_path(shape)[0].match(path)])


_ROUTES = (*ROUTE_SCOPES, *SIGNED_ROUTES)
