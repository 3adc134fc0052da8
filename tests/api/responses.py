"""What answers must look like: the envelope of every one, and the exact bodies of refusals. Asking lives in `tests.gate`."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
PAGINATION = {"page", "page_size", "total", "total_pages"}


def moment(text: object) -> datetime:
    """Answer a moment of an answer; it must be ISO 8601 in UTC with a Z."""
    assert isinstance(text, str)
    assert MOMENT.fullmatch(text), text
    return datetime.fromisoformat(text)


def is_now(text: object) -> bool:
    return abs(moment(text) - datetime.now(UTC)) < timedelta(seconds=60)


def check_edges(response: httpx.Response) -> None:
    """Hold for every answer of the API, whatever was asked: no 500, the envelope, the protecting headers."""
    response.read()
    said = f"{response.request.method} {response.request.url} -> {response.status_code} {response.text[:500]}"
    assert response.status_code != 500, said
    if "/api/v1" not in response.request.url.path:
        return
    assert response.headers["x-content-type-options"] == "nosniff", said
    assert "no-store" in response.headers["cache-control"], said
    assert response.headers["request-id"], said
    assert "server" not in response.headers, said
    assert "access-control-allow-origin" not in response.headers, said
    if response.request.method == "HEAD" or "/api/v1/downloads/" in response.request.url.path:
        return
    check_envelope(response, said)


def check_envelope(response: httpx.Response, said: str) -> None:
    assert response.headers["content-type"].split(";")[0] == "application/json", said
    body = response.json()
    assert is_now(body["timestamp"]), said
    assert isinstance(body["message"], str), said
    assert body["message"], said
    if response.status_code < 400:
        assert set(body) - {"pagination"} == {"status", "message", "data", "timestamp"}, said
        assert body["status"] == "SUCCESS", said
        return
    assert set(body) == {"status", "message", "errors", "timestamp"}, said
    assert body["status"] == "ERROR", said
    assert all(isinstance(error, str) and error for error in body["errors"]), said
    assert body["errors"], said
    assert "location" not in response.headers, said


def data(response: httpx.Response, status: int = 200) -> Any:
    """Answer what a success holds, without page."""
    assert response.status_code == status, f"{response.status_code} {response.text[:500]}"
    assert "pagination" not in response.json()
    return response.json()["data"]


def page(response: httpx.Response) -> tuple[list[Any], dict[str, int]]:
    """Answer the items of a page and its pagination object."""
    assert response.status_code == 200, response.text
    body = response.json()
    assert set(body["pagination"]) == PAGINATION
    assert all(type(number) is int for number in body["pagination"].values())
    assert isinstance(body["data"], list)
    return body["data"], body["pagination"]


def refused(response: httpx.Response, status: int, message: str, *errors: str) -> None:
    """Hold a refusal to its status and its exact body."""
    body = response.json()
    assert (response.status_code, body["message"], body["errors"]) == (status, message, list(errors))


def invalid(response: httpx.Response, *fields: str) -> None:
    """Hold a refusal to be the validation error that names exactly `fields`, one entry per problem."""
    assert response.status_code == 422, f"{response.status_code} {response.text[:500]}"
    assert response.json()["message"] == "Validation error"
    entries = [entry.partition(": ") for entry in response.json()["errors"]]
    assert sorted(entry[0] for entry in entries) == sorted(fields), response.text
    assert all(problem.strip() for _, _, problem in entries), response.text


def rejected(response: httpx.Response, reason: str, status: int = 400) -> None:
    """Hold a refusal to be the rejection of a file for one reason."""
    assert (response.status_code, response.json()["errors"]) == (status, [reason]), response.text
    assert re.fullmatch(r"File rejected: \S.*", response.json()["message"])


def unauthenticated(response: httpx.Response) -> None:
    refused(response, 401, "Invalid or missing API key", "Authentication required")


def not_found(response: httpx.Response) -> None:
    refused(response, 404, "Resource not found", "Not found")


def without_time(response: httpx.Response) -> tuple[int, dict[str, str], str]:
    """Answer all of an answer but what differs between any two: the moment and the request's own name."""
    headers = {name: value for name, value in response.headers.items() if name not in {"date", "request-id", "x-request-id"}}
    return response.status_code, headers, re.sub(r'"timestamp":\s*"[^"]*"', "", response.text)
