"""What responses must look like: the envelope of every response, and the exact bodies of errors."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
PAGINATION = {"page", "page_size", "total", "total_pages"}


def parse_timestamp(text: object) -> datetime:
    """Return a timestamp of a response as a datetime; it must be ISO 8601 in UTC with a Z."""
    assert isinstance(text, str)
    assert MOMENT.fullmatch(text), text
    return datetime.fromisoformat(text)


def is_now(text: object) -> bool:
    return abs(parse_timestamp(text) - datetime.now(UTC)) < timedelta(seconds=60)


def described(response: httpx.Response) -> str:
    """Return the request and the response in words, so that a failure in a loop shows its turn."""
    request = response.request
    body = request.content[:300] if hasattr(request, "_content") else b"(a stream)"
    return f"{request.method} {request.url} {body!r} -> {response.status_code} {response.text[:500]}"


def check_response(response: httpx.Response) -> None:
    """Assert what holds for every response of the API: no 500, the envelope, the security headers."""
    response.read()
    assert response.status_code != 500, described(response)
    if "/api/v1" not in response.request.url.path:
        return
    assert response.headers["x-content-type-options"] == "nosniff", described(response)
    # Of the API only the catalogues may be kept: they hold no tenant's data.
    is_catalogue = "/api/v1/messages/" in response.request.url.path and response.status_code in {200, 304}
    kept = "public, max-age=3600" if is_catalogue else "no-store"
    assert kept in response.headers["cache-control"], described(response)
    assert response.headers["request-id"], described(response)
    assert not {"server", "access-control-allow-origin"} & set(response.headers), described(response)
    if response.request.method == "HEAD" or response.status_code in {204, 304}:
        assert not response.content, described(response)
        return
    is_archive = response.headers.get("content-type") in {"application/zip", "image/png"}
    is_file = "/api/v1/downloads/" in response.request.url.path
    if not (is_file or (is_archive and "/api/v1/quarantine/" in response.request.url.path)):
        check_envelope(response)


def check_envelope(response: httpx.Response) -> None:
    if response.headers["content-type"] == "application/problem+json":
        extensions = {"report", "expected-offset", "provided-offset"}
        assert set(response.json()) - extensions == {"type", "title", "status", "detail", "code", "errors", "timestamp"}
        return
    assert response.headers["content-type"].split(";")[0] == "application/json", described(response)
    body = response.json()
    assert is_now(body["timestamp"]), described(response)
    assert isinstance(body["message"], str), described(response)
    assert body["message"], described(response)
    if response.status_code < 400:
        assert set(body) - {"pagination"} == {"status", "message", "data", "timestamp"}, described(response)
        assert body["status"] == "SUCCESS", described(response)
        return
    assert set(body) - {"report"} == {"status", "message", "errors", "timestamp"}, described(response)
    assert body["status"] == "ERROR", described(response)
    assert all(isinstance(error, str) and error for error in body["errors"]), described(response)
    assert body["errors"], described(response)
    assert "location" not in response.headers, described(response)


def data(response: httpx.Response, status: int = 200) -> Any:
    """Return the data of a success that is not paginated."""
    assert response.status_code == status, described(response)
    assert "pagination" not in response.json()
    return response.json()["data"]


def page(response: httpx.Response) -> tuple[list[Any], dict[str, int]]:
    """Return the items of a page and its pagination object."""
    assert response.status_code == 200, described(response)
    body = response.json()
    assert set(body["pagination"]) == PAGINATION
    assert all(type(number) is int for number in body["pagination"].values())
    assert isinstance(body["data"], list)
    return body["data"], body["pagination"]


def assert_error(response: httpx.Response, status: int, message: str, *errors: str) -> None:
    body = response.json()
    assert (response.status_code, body["message"], body["errors"]) == (status, message, list(errors)), described(
        response
    )


def assert_validation_error(response: httpx.Response, *fields: str) -> None:
    """Assert a validation error that names exactly `fields`, one entry per problem."""
    assert response.status_code == 422, described(response)
    assert response.json()["message"] == "Validation error"
    entries = [entry.partition(": ") for entry in response.json()["errors"]]
    assert sorted(entry[0] for entry in entries) == sorted(fields), described(response)
    assert all(problem.strip() for _, _, problem in entries), described(response)


def assert_rejected(response: httpx.Response, reason: str, status: int = 400) -> None:
    assert (response.status_code, response.json()["errors"]) == (status, [reason]), described(response)
    assert re.fullmatch(r"File rejected: \S.*", response.json()["message"])


def assert_unauthenticated(response: httpx.Response) -> None:
    assert_error(response, 401, "Invalid or missing API key", "Authentication required")


def assert_spent(response: httpx.Response) -> None:
    """Assert that an upload token was refused since it has taken all that it allows."""
    problem = "This upload link has taken all the files that it allows; ask for a new one"
    assert_error(response, 401, "Upload token used up", problem)
    assert response.headers["sluice-error-code"] == "upload_token_spent"


def assert_not_found(response: httpx.Response) -> None:
    assert_error(response, 404, "Resource not found", "Not found")


def without_time(response: httpx.Response) -> tuple[int, dict[str, str], str]:
    """Return a response without what differs between any two responses: the timestamp and the request id."""
    varying = {"date", "request-id", "x-request-id"}
    headers = {name: value for name, value in response.headers.items() if name not in varying}
    return response.status_code, headers, re.sub(r'"timestamp":\s*"[^"]*"', "", response.text)


Row = tuple[str, Any, str]
"""A field, a value for it, and the field that the error must name."""


def bad_values(field: str, *values: Any, named: str = "") -> list[Row]:
    """Return a row for each invalid value of one field."""
    return [(field, value, named or field) for value in values]
