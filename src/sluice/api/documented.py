"""How errors stand in the OpenAPI document: which statuses an endpoint can answer, each with its envelope and an example."""

from typing import Any

from sluice.api.schemas.envelope import ErrorEnvelope
from sluice.errors import SluiceError, catalogue

_ALWAYS = (401, 403, 422, 429, 500, 503)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Answer the documentation of the statuses that every endpoint may answer, and of `statuses`."""
    return {status: _documented(status) for status in sorted({*_ALWAYS, *statuses})}


def _documented(status: int) -> dict[str, Any]:
    every: list[type[SluiceError]] = [*catalogue(), SluiceError]
    errors = [error for error in every if error.status == status]
    example = {
        "status": "ERROR",
        "message": errors[0].message,
        "errors": list(errors[0].errors),
        "timestamp": "2026-01-31T12:00:00Z",
    }
    meanings = " / ".join(" ".join((error.__doc__ or "").split()) for error in errors)
    described: dict[str, Any] = {
        "model": ErrorEnvelope,
        "description": meanings,
        "content": {"application/json": {"example": example}},
    }
    if status in {429, 503, 507}:
        described["headers"] = {"Retry-After": {"description": "Seconds after which to try again.", "schema": {"type": "integer"}}}
    return described
