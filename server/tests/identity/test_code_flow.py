"""The code flow against an issuer that describes itself and responds as a test wants. The real one is in the console's."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from sluice.identity.code_flow import CodeFlow
from sluice.identity.oidc import OidcVerifier
from sluice.identity.protocol import InvalidToken, IssuerUnavailable, SignInAttempt
from tests.identity.key_server import KeyServer
from tests.identity.tokens import RULES, at_now, ed_key, jwk, token
from tests.rows import each_row

ATTEMPT = SignInAttempt("state", "nonce", "verifier")
BACK = "https://sluice.example/console/oidc/callback"


@asynccontextmanager
async def code_flow(
    *, secret: str | None = "s:/ecret", described: Mapping[str, Any] | None = None, **claims: Any
) -> AsyncIterator[tuple[CodeFlow, KeyServer, str]]:
    """Yield a flow, its issuer, which sends one document to every request for all purposes, and its address."""
    async with KeyServer(b"") as server:
        issuer = server.url.removesuffix("/jwks")
        document = {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize?kept=1",
            "token_endpoint": f"{issuer}/token",
            "authorization_response_iss_parameter_supported": True,
            "keys": [jwk(ed_key(), kid="ed")],
            "id_token": token(**{"iss": issuer, "aud": "the console", "nonce": "nonce", "name": "Ada"} | claims),
        }
        server.body = json.dumps(document | dict(described or {})).encode()
        rules = replace(RULES, issuer=issuer, audience="the console")
        verifier = OidcVerifier(rules, jwks_url=server.url, algorithms=["EdDSA"], clock=at_now)
        flow = CodeFlow(verifier, client_id="the console", client_secret=secret, scopes=["profile"])
        try:
            yield flow, server, issuer
        finally:
            await flow.aclose()


async def finish(flow: CodeFlow, issuer: str, **response: str) -> str:
    return (await flow.finish(ATTEMPT, BACK, {"state": "state", "code": "c", "iss": issuer} | response)).name


async def test_code_is_exchanged_for_the_claims_of_its_token_and_a_public_client_sends_no_secret() -> None:
    async with code_flow() as (flow, server, issuer):
        address = await flow.address(ATTEMPT, BACK)
        assert address.startswith(f"{issuer}/authorize?kept=1&response_type=code&client_id=the+console")
        assert "verifier" not in address
        assert await finish(flow, issuer) == "Ada"
    (asked,) = [request for request in server.requests if request.startswith("POST /token")]
    assert "uthorization: Basic dGhlJTIwY29uc29sZTpzJTNBJTJGZWNyZXQ=" in asked
    async with code_flow(secret=None) as (flow, server, issuer):
        assert await finish(flow, issuer) == "Ada"
    assert "basic" not in "".join(server.requests).lower()


@pytest.mark.asvs("10.5.4")
@each_row(
    "claims",
    [
        {"aud": "another client"},
        {"aud": ["the console", "another"], "azp": "another"},
        {"aud": ["the console", "another"]},
        {"nonce": "of another attempt"},
        {"nonce": None},
        {"nonce": 7},
        {"iss": "https://elsewhere.example"},
        {"exp": 1},
        {"tenant_id": None},
    ],
)
async def test_token_for_somebody_else_is_refused(claims: dict[str, Any]) -> None:
    async with code_flow(**claims) as (flow, _server, issuer):
        with pytest.raises(InvalidToken):
            await finish(flow, issuer)


@pytest.mark.asvs("10.2.2")
async def test_answer_of_another_issuer_is_refused_before_its_code_is_sent() -> None:
    async with code_flow() as (flow, server, issuer):
        with pytest.raises(InvalidToken):
            await finish(flow, issuer, iss="https://elsewhere.example")
        with pytest.raises(InvalidToken):
            await flow.finish(ATTEMPT, BACK, {"state": "state", "code": "c"})
    assert not [request for request in server.requests if request.startswith("POST")]


@pytest.mark.asvs("10.5.3")
@each_row(
    "described",
    [
        {"issuer": "https://elsewhere.example"},
        {"issuer": None},
        {"token_endpoint": "http://elsewhere.example/token"},
        {"authorization_endpoint": None},
    ],
)
async def test_issuer_that_describes_another_is_not_used(described: dict[str, Any]) -> None:
    async with code_flow(described=described) as (flow, _server, issuer):
        with pytest.raises(IssuerUnavailable):
            await flow.address(ATTEMPT, BACK)
        with pytest.raises(IssuerUnavailable):
            await finish(flow, issuer)


@each_row("body", [b"[]", b"no json", b" " * 300_000, b""])
async def test_response_that_is_no_document_is_an_outage(body: bytes) -> None:
    async with code_flow() as (flow, server, _issuer):
        server.body = body
        with pytest.raises(IssuerUnavailable):
            await flow.address(ATTEMPT, BACK)


async def test_refused_code_is_no_outage() -> None:
    async with code_flow() as (flow, server, issuer):
        await flow.address(ATTEMPT, BACK)
        server.status = "400 Bad Request"
        with pytest.raises(InvalidToken):
            await finish(flow, issuer)
