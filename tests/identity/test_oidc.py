"""The OIDC verifier: keys are fetched from the issuer, and faults of the issuer are handled."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from typing import Any

import pytest

from sluice.identity.key_cache import CacheTimes
from sluice.identity.oidc import OidcVerifier
from sluice.identity.protocol import InvalidToken, IssuerUnavailable
from sluice.kit.health import EngineState
from tests.identity.key_server import KeyServer
from tests.identity.tokens import CLAIMS, RULES, at_now, ec_key, ed_key, forge, jwk, jwks, key_for, rsa_key, token
from tests.rows import each_row

ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")


@cache
def published() -> bytes:
    return jwks(jwk(rsa_key(), kid="rsa"), jwk(ec_key(), kid="ec"), jwk(ed_key(), kid="ed"))


KIDS = {"RS256": "rsa", "PS256": "rsa", "ES256": "ec", "EdDSA": "ed"}


class FakeClock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def oidc_verifier(
    server: KeyServer,
    algorithms: Iterable[str] = ALGORITHMS,
    *,
    monotonic: Callable[[], float] | None = None,
    timeout_seconds: float = 5,
) -> AsyncIterator[OidcVerifier]:
    verifier = OidcVerifier(
        RULES,
        jwks_url=server.url,
        algorithms=algorithms,
        times=CacheTimes(ttl=600, stale=3600, pause=30),
        timeout_seconds=timeout_seconds,
        clock=at_now,
        monotonic=monotonic or FakeClock(),
    )
    try:
        yield verifier
    finally:
        await verifier.aclose()


def key_server(body: bytes | None = None) -> AbstractAsyncContextManager[KeyServer]:
    return KeyServer(published() if body is None else body)


@each_row("algorithm", ALGORITHMS)
async def test_valid_token_of_each_algorithm_is_accepted(algorithm: str) -> None:
    async with key_server() as server, oidc_verifier(server) as verifier:
        claims = await verifier.verify(
            token(algorithm, header={"kid": KIDS[algorithm]}, scope="openid upload", name="Ada")
        )
    assert (claims.issuer, claims.subject, claims.tenant_id, claims.name) == (RULES.issuer, "user-1", "ten_1", "Ada")
    assert claims.scopes == frozenset({"openid", "upload"})


async def assert_refused(verifier: OidcVerifier, text: str, why: str) -> None:
    with pytest.raises(InvalidToken, match=why):
        await verifier.verify(text)


@each_row("algorithm", ["PS256", "ES256", "EdDSA"])
async def test_algorithm_not_configured_for_issuer_is_refused_without_fetch(algorithm: str) -> None:
    async with key_server() as server, oidc_verifier(server, ["RS256"]) as verifier:
        await assert_refused(verifier, token(algorithm, header={"kid": KIDS[algorithm]}), "algorithm")
        assert not server.requests


@each_row(
    "algorithm, kid",
    [("RS256", "ec"), ("RS256", "ed"), ("ES256", "rsa"), ("ES256", "ed"), ("EdDSA", "rsa"), ("PS256", "ec")],
)
async def test_key_of_another_type_is_never_used(algorithm: str, kid: str) -> None:
    async with key_server() as server, oidc_verifier(server) as verifier:
        await assert_refused(verifier, token(algorithm, header={"kid": kid}), "no key for this token")


@each_row("members", [{"use": "enc"}, {"key_ops": ["sign"]}, {"alg": "PS256"}, {"alg": "RSA-OAEP-256"}])
async def test_key_for_another_purpose_is_never_used(members: dict[str, object]) -> None:
    async with key_server(jwks(jwk(rsa_key(), kid="rsa", **members))) as server, oidc_verifier(server) as verifier:
        await assert_refused(verifier, token("RS256", header={"kid": "rsa"}), "no key for this token")


async def test_attacker_key_with_known_id_is_refused() -> None:
    async with key_server() as server, oidc_verifier(server) as verifier:
        await assert_refused(verifier, token("RS256", key="two", header={"kid": "rsa"}), "signature")


@pytest.mark.asvs("9.1.3")
async def test_key_embedded_in_token_is_refused_without_fetch() -> None:
    header = {"alg": "RS256", "kid": "rsa", "jwk": jwk(rsa_key("two"))}
    async with key_server() as server, oidc_verifier(server) as verifier:
        await assert_refused(verifier, forge(rsa_key("two"), header, CLAIMS, algorithm="RS256"), "jwk")
        assert not server.requests


async def test_published_private_key_is_not_trusted() -> None:
    async with key_server(jwks(jwk(ed_key(), kid="ed", d="AAAA"))) as server, oidc_verifier(server) as verifier:
        await assert_refused(verifier, token(header={"kid": "ed"}), "no key for this token")


@each_row(
    "claims", [{"iss": "https://other.example"}, {"aud": "other"}, {"exp": 1}, {"sub": None}, {"tenant_id": None}]
)
async def test_wrong_claims_are_refused_without_fetch(claims: dict[str, Any]) -> None:
    async with key_server() as server, oidc_verifier(server) as verifier:
        with pytest.raises(InvalidToken):
            await verifier.verify(token(header={"kid": "ed"}, **claims))
        assert not server.requests


async def test_token_without_key_id_is_verified_by_sole_matching_key() -> None:
    async with key_server() as server, oidc_verifier(server) as verifier:
        assert (await verifier.verify(token("EdDSA"))).subject == "user-1"
    async with (
        key_server(jwks(jwk(ed_key(), kid="a"), jwk(ed_key("two"), kid="b"))) as server,
        oidc_verifier(server) as verifier,
    ):
        await assert_refused(verifier, token("EdDSA"), "no key")


async def test_concurrent_tokens_cause_one_fetch() -> None:
    async with key_server() as server, oidc_verifier(server) as verifier:
        await asyncio.gather(*(verifier.verify(token(header={"kid": "ed"})) for _ in range(40)))
        assert len(server.requests) == 1


async def test_key_request_contains_nothing_of_the_caller() -> None:
    async with key_server() as server, oidc_verifier(server) as verifier:
        await verifier.verify(token(header={"kid": "ed"}))
    head = server.requests[0].lower()
    assert head.startswith("get /jwks http/1.1\r\n")
    assert "accept-encoding: identity" in head
    assert "authorization" not in head


async def test_key_rotation_takes_effect_at_once() -> None:
    async with (
        key_server(jwks(jwk(ed_key(), kid="one"))) as server,
        oidc_verifier(server, monotonic=(monotonic := FakeClock())) as verifier,
    ):
        await verifier.verify(token(header={"kid": "one"}))
        server.body = jwks(jwk(ed_key("two"), kid="two"))
        monotonic.now = 1
        assert (await verifier.verify(token(key="two", header={"kid": "two"}))).subject == "user-1"
        await assert_refused(verifier, token(header={"kid": "one"}), "no key")
    assert len(server.requests) == 2


async def test_unknown_key_ids_cause_one_fetch_per_pause() -> None:
    async with key_server() as server, oidc_verifier(server, monotonic=(monotonic := FakeClock())) as verifier:
        await verifier.verify(token(header={"kid": "ed"}))
        monotonic.now = 1
        flood = [verifier.verify(token(header={"kid": f"unknown-{number}"})) for number in range(200)]
        outcomes = await asyncio.gather(*flood, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {InvalidToken}
        assert len(server.requests) == 2
        assert (await verifier.verify(token(header={"kid": "ed"}))).subject == "user-1"


async def test_cached_keys_bridge_outage_for_bounded_time() -> None:
    async with key_server() as server, oidc_verifier(server, monotonic=(monotonic := FakeClock())) as verifier:
        await verifier.verify(token(header={"kid": "ed"}))
        await server.stop()
        monotonic.now = 601
        assert (await verifier.verify(token(header={"kid": "ed"}))).subject == "user-1"
        assert (await verifier.health()).state is EngineState.DEGRADED
        monotonic.now = 600 + 3600
        with pytest.raises(IssuerUnavailable):
            await verifier.verify(token(header={"kid": "ed"}))
        assert (await verifier.health()).state is EngineState.DOWN
        await server.start()
        monotonic.now += 2
        assert (await verifier.verify(token(header={"kid": "ed"}))).subject == "user-1"
        assert (await verifier.health()).state is EngineState.UP


async def unavailable_reason(server: KeyServer, *, timeout_seconds: float = 5) -> str:
    """Return why the issuer is unavailable."""
    async with oidc_verifier(server, timeout_seconds=timeout_seconds) as verifier:
        with pytest.raises(IssuerUnavailable) as caught:
            await verifier.verify(token(header={"kid": "ed"}))
    return str(caught.value)


async def test_silent_issuer_is_unavailable_after_timeout() -> None:
    async with key_server() as server:
        server.gate = asyncio.Event()
        assert "could not be read" in await unavailable_reason(server, timeout_seconds=0.2)


async def test_slow_issuer_is_unavailable_after_timeout() -> None:
    async with key_server() as server:
        server.drip = 0.01
        async with asyncio.timeout(3):  # the complete response would take longer
            assert "could not be read" in await unavailable_reason(server, timeout_seconds=0.2)


async def test_oversized_response_is_unavailable() -> None:
    async with key_server() as server:
        server.raw = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b" " * 70_000
        assert "more than 65536 bytes" in await unavailable_reason(server)


async def test_key_set_of_maximum_size_is_read() -> None:
    async with key_server(published() + b" " * (65536 - len(published()))) as server, oidc_verifier(server) as verifier:
        assert (await verifier.verify(token(header={"kid": "ed"}))).subject == "user-1"


async def test_compressed_key_set_is_not_decompressed() -> None:
    async with key_server() as server:
        server.headers = ("Content-Encoding: gzip",)
        assert "compressed" in await unavailable_reason(server)


@each_row("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
async def test_redirect_is_not_followed(status: str) -> None:
    async with key_server() as elsewhere, key_server() as server:
        server.status, server.headers = status, (f"Location: {elsewhere.url}",)
        assert f"answered {status[:3]}" in await unavailable_reason(server)
        assert not elsewhere.requests


@each_row("status", ["204 No Content", "206 Partial", "404 Not Found", "500 Oops", "503 Away"])
async def test_status_other_than_200_is_unavailable(status: str) -> None:
    async with key_server() as server:
        server.status = status
        assert f"answered {status[:3]}" in await unavailable_reason(server)


@each_row("raw", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"])
async def test_broken_response_is_unavailable(raw: bytes) -> None:
    async with key_server() as server:
        server.raw = raw
        assert "could not be read" in await unavailable_reason(server)


@each_row("body", [b"<html>", b"[]", b'{"keys": 1}'])
async def test_response_without_key_set_is_unavailable(body: bytes) -> None:
    async with key_server(body) as server:
        assert "no key set" in await unavailable_reason(server)


async def test_broken_response_does_not_replace_cached_keys() -> None:
    async with key_server() as server, oidc_verifier(server, monotonic=(monotonic := FakeClock())) as verifier:
        await verifier.verify(token(header={"kid": "ed"}))
        server.body, monotonic.now = b"<html>", 601
        assert (await verifier.verify(token(header={"kid": "ed"}))).subject == "user-1"


async def test_proxy_environment_variables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with key_server() as server, oidc_verifier(server) as verifier:
        assert (await verifier.verify(token(header={"kid": "ed"}))).subject == "user-1"


async def test_issuer_without_usable_keys_is_degraded_and_refused() -> None:
    async with key_server(jwks(jwk(rsa_key(), kid="rsa"))) as server, oidc_verifier(server, ["EdDSA"]) as verifier:
        assert (await verifier.health()).state is EngineState.DEGRADED
        await assert_refused(verifier, token(header={"kid": "ed"}), "no key")


async def test_health_reports_number_of_keys() -> None:
    async with key_server() as server, oidc_verifier(server) as verifier:
        health = await verifier.health()
    assert (health.kind, health.name, health.state, health.limits["keys"]) == ("identity", "oidc", EngineState.UP, 3)


async def test_second_close_is_a_no_op() -> None:
    async with key_server() as server, oidc_verifier(server) as verifier:
        await verifier.verify(token(header={"kid": "ed"}))
        await verifier.aclose()


@each_row("algorithms", [(), ("none",), ("HS256",), ("RS256", "HS256"), ("ES384",), "RS256"])
def test_unsupported_algorithms_are_refused(algorithms: Iterable[str]) -> None:
    with pytest.raises(ValueError, match="algorithms of an issuer"):
        OidcVerifier(RULES, jwks_url="https://issuer.example/jwks", algorithms=algorithms)


@each_row(
    "url",
    [
        "http://issuer.example/jwks",
        "http://192.0.2.1/jwks",
        "http://127.0.0.1.example/jwks",
        "http://localhost.example/jwks",
        "https://user:pass@issuer.example/jwks",
        "https://user@issuer.example/jwks",
        "https://issuer.example/jwks#x",
        "https:///jwks",
        "file:///etc/passwd",
        "ftp://issuer.example/jwks",
        "//issuer.example/jwks",
        "",
    ],
)
def test_insecure_or_invalid_jwks_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="address of an issuer's keys"):
        OidcVerifier(RULES, jwks_url=url, algorithms=["RS256"])


@each_row(
    "url", ["https://issuer.example/jwks", "http://localhost:1/jwks", "http://127.9.9.9/jwks", "http://[::1]:8080/jwks"]
)
async def test_https_and_loopback_jwks_urls_are_accepted(url: str) -> None:
    await OidcVerifier(RULES, jwks_url=url, algorithms=["RS256"]).aclose()


def test_sample_keys_have_the_expected_types() -> None:
    assert {type(key_for(algorithm)).__name__ for algorithm in ALGORITHMS} == {
        "RSAPrivateKey",
        "ECPrivateKey",
        "Ed25519PrivateKey",
    }
