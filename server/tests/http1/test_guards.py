"""The outermost layer: any exception becomes an envelope with the security headers and without details."""

import httpx
import pytest
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs

from sluice.api.guards import SECURITY_HEADERS, Guards

CANARY = "canary-in-a-fault"


async def failing(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError(CANARY)


@pytest.mark.asvs("16.5.1", "16.5.4")
async def test_unexpected_exception_returns_500_in_the_envelope() -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(Guards(failing)), base_url="http://sluice") as client:
        response = await client.get("/api/v1/files")
    assert response.status_code == 500
    assert set(response.json()) == {"status", "message", "errors", "timestamp"}
    assert [word for word in (CANARY, "Traceback") if word in response.text] == []
    assert {name: response.headers[name] for name in SECURITY_HEADERS} == dict(SECURITY_HEADERS)
    assert response.headers["request-id"].startswith("req_")


@pytest.mark.parametrize("prefix", ["/u/", "/api/v1/check-content/"])
async def test_log_of_an_unexpected_exception_has_no_credential_that_a_path_ends_in(prefix: str) -> None:
    transport = httpx.ASGITransport(Guards(failing))
    with capture_logs() as logged:
        async with httpx.AsyncClient(transport=transport, base_url="http://sluice") as client:
            await client.get(f"{prefix}{CANARY}")
    assert [line["path"] for line in logged] == [f"{prefix}…"]
