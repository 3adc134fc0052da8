"""The outermost layer: whatever happens inside, an answer is an envelope with the protecting headers, and says nothing of the inside."""

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from sluice.api.guards import SECURITY_HEADERS, Guards

CANARY = "canary-in-a-fault"


async def failing(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError(CANARY)


@pytest.mark.asvs("16.5.1", "16.5.4")
async def test_a_fault_that_nobody_expected_is_a_500_in_the_envelope() -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(Guards(failing)), base_url="http://sluice") as client:
        answer = await client.get("/api/v1/files")
    assert answer.status_code == 500
    assert set(answer.json()) == {"status", "message", "errors", "timestamp"}
    assert CANARY not in answer.text
    assert "Traceback" not in answer.text
    assert {name: answer.headers[name] for name in SECURITY_HEADERS} == dict(SECURITY_HEADERS)
    assert answer.headers["request-id"].startswith("req_")
