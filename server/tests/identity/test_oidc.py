"""The OIDC verifier: keys are fetched from the issuer, and faults of the issuer are handled."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
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
    server: KeyServer, algorithms: Iterable[str] = ALGORITHMS, **options: Any
) -> AsyncIterator[OidcVerifier]:
    times = CacheTimes(ttl=600, stale=3600, pause=30)
    given: dict[str, Any] = {"timeout_seconds": 5, "monotonic": FakeClock()} | options
    verifier = OidcVerifier(RULES, jwks_url=server.url, algorithms=algorithms, times=times, clock=at_now, **given)
    async with aclosing(verifier):
        yield verifier


@asynccontextmanager
async def issuer(
    body: bytes | None = None, algorithms: Iterable[str] = ALGORITHMS, **options: Any
) -> AsyncIterator[tuple[KeyServer, OidcVerifier]]:
    """Run a key server and a verifier of its issuer."""
    served = KeyServer(published() if body is None else body)
    async with served as server, oidc_verifier(server, algorithms, **options) as verifier:
        yield server, verifier


async def subject(verifier: OidcVerifier, kid: str = "ed", **more: Any) -> str:
    """Return the subject of a token that must be accepted."""
    return (await verifier.verify(token(header={"kid": kid}, **more))).subject


@each_row("algorithm", ALGORITHMS)
async def test_valid_token_of_each_algorithm_is_accepted(algorithm: str) -> None:
    valid = token(algorithm, header={"kid": KIDS[algorithm]}, scope="openid upload", name="Ada")
    async with issuer() as (_server, verifier):
        claims = await verifier.verify(valid)
    assert (claims.issuer, claims.subject, claims.tenant_id, claims.name) == (RULES.issuer, "user-1", "ten_1", "Ada")
    assert claims.scopes == frozenset({"openid", "upload"})


async def assert_refused(verifier: OidcVerifier, text: str, why: str) -> None:
    with pytest.raises(InvalidToken, match=why):
        await verifier.verify(text)


@each_row("algorithm", ["PS256", "ES256", "EdDSA"])
async def test_algorithm_not_configured_for_issuer_is_refused_without_fetch(algorithm: str) -> None:
    async with issuer(algorithms=["RS256"]) as (server, verifier):
        await assert_refused(verifier, token(algorithm, header={"kid": KIDS[algorithm]}), "algorithm")
        assert not server.requests


CROSSED = [("RS256", "ec"), ("RS256", "ed"), ("ES256", "rsa"), ("ES256", "ed"), ("EdDSA", "rsa"), ("PS256", "ec")]
UNUSABLE: list[dict[str, Any]] = [{"use": "enc"}, {"key_ops": ["sign"]}, {"alg": "PS256"}, {"alg": "RSA-OAEP-256"}]


@each_row(
    "algorithm, kid, body",
    lambda: [
        *((algorithm, kid, None) for algorithm, kid in CROSSED),
        *(("RS256", "rsa", jwks(jwk(rsa_key(), kid="rsa", **members))) for members in UNUSABLE),
        ("EdDSA", "ed", jwks(jwk(ed_key(), kid="ed", d="AAAA"))),  # the private key is published
    ],
)
async def test_key_of_another_type_or_purpose_is_never_used(algorithm: str, kid: str, body: bytes | None) -> None:
    async with issuer(body) as (_server, verifier):
        await assert_refused(verifier, token(algorithm, header={"kid": kid}), "no key for this token")


async def test_attacker_key_with_known_id_is_refused() -> None:
    async with issuer() as (_server, verifier):
        await assert_refused(verifier, token("RS256", key="two", header={"kid": "rsa"}), "signature")


@pytest.mark.asvs("9.1.3")
async def test_key_embedded_in_token_is_refused_without_fetch() -> None:
    header = {"alg": "RS256", "kid": "rsa", "jwk": jwk(rsa_key("two"))}
    async with issuer() as (server, verifier):
        await assert_refused(verifier, forge(rsa_key("two"), header, CLAIMS, algorithm="RS256"), "jwk")
        assert not server.requests


@each_row(
    "claims", [{"iss": "https://other.example"}, {"aud": "other"}, {"exp": 1}, {"sub": None}, {"tenant_id": None}]
)
async def test_wrong_claims_are_refused_without_fetch(claims: dict[str, Any]) -> None:
    async with issuer() as (server, verifier):
        await assert_refused(verifier, token(header={"kid": "ed"}, **claims), ".")
        assert not server.requests


async def test_token_without_key_id_is_verified_by_sole_matching_key() -> None:
    async with issuer() as (_server, verifier):
        assert (await verifier.verify(token("EdDSA"))).subject == "user-1"
    async with issuer(jwks(jwk(ed_key(), kid="a"), jwk(ed_key("two"), kid="b"))) as (_server, verifier):
        await assert_refused(verifier, token("EdDSA"), "no key")


async def test_concurrent_tokens_cause_one_fetch_with_nothing_of_the_caller() -> None:
    async with issuer() as (server, verifier):
        await asyncio.gather(*(subject(verifier) for _ in range(40)))
        (request,) = server.requests
    head = request.lower()
    assert head.startswith("get /jwks http/1.1\r\n")
    assert "accept-encoding: identity" in head
    assert "authorization" not in head


async def test_key_rotation_takes_effect_at_once() -> None:
    monotonic = FakeClock()
    async with issuer(jwks(jwk(ed_key(), kid="one")), monotonic=monotonic) as (server, verifier):
        await subject(verifier, "one")
        server.body = jwks(jwk(ed_key("two"), kid="two"))
        monotonic.now = 1
        assert await subject(verifier, "two", key="two") == "user-1"
        await assert_refused(verifier, token(header={"kid": "one"}), "no key")
    assert len(server.requests) == 2


async def test_unknown_key_ids_cause_one_fetch_per_pause() -> None:
    monotonic = FakeClock()
    async with issuer(monotonic=monotonic) as (server, verifier):
        await subject(verifier)
        monotonic.now = 1
        flood = [verifier.verify(token(header={"kid": f"unknown-{number}"})) for number in range(200)]
        outcomes = await asyncio.gather(*flood, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {InvalidToken}
        assert len(server.requests) == 2
        assert await subject(verifier) == "user-1"


async def test_cached_keys_bridge_outage_for_bounded_time() -> None:
    monotonic = FakeClock()
    async with issuer(monotonic=monotonic) as (server, verifier):
        await subject(verifier)
        server.body, monotonic.now = b"<html>", 601  # a broken response replaces nothing
        assert await subject(verifier) == "user-1"
        await server.stop()
        monotonic.now = 640
        assert await subject(verifier) == "user-1"
        assert (await verifier.health()).state is EngineState.DEGRADED
        monotonic.now = 600 + 3600
        with pytest.raises(IssuerUnavailable):
            await subject(verifier)
        assert (await verifier.health()).state is EngineState.DOWN
        server.body = published()
        await server.start()
        monotonic.now += 2
        assert await subject(verifier) == "user-1"
        assert (await verifier.health()).state is EngineState.UP


OVERSIZED = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b" " * 70_000
BROKEN = (b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{")


@each_row(
    "fault, reason",
    lambda: [
        ({"gate": asyncio.Event()}, "could not be read"),  # no response
        ({"drip": 0.01}, "could not be read"),  # the complete response would take longer
        ({"raw": OVERSIZED}, "more than 65536 bytes"),
        ({"headers": ("Content-Encoding: gzip",)}, "compressed"),
        *(({"status": f"{status} X"}, f"responded with {status}") for status in (204, 206, 404, 500, 503)),
        *(({"raw": raw}, "could not be read") for raw in BROKEN),
        *(({"body": body}, "no key set") for body in (b"<html>", b"[]", b'{"keys": 1}')),
    ],
)
async def test_faulty_issuer_is_unavailable_and_says_why(fault: dict[str, Any], reason: str) -> None:
    seconds = 0.2 if {"gate", "drip"} & set(fault) else 5
    async with issuer(timeout_seconds=seconds) as (server, verifier), asyncio.timeout(6):
        for name, value in fault.items():
            setattr(server, name, value)
        with pytest.raises(IssuerUnavailable, match=reason):
            await subject(verifier)


@each_row("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
async def test_redirect_is_not_followed(status: str) -> None:
    async with KeyServer(published()) as elsewhere, issuer() as (server, verifier):
        server.status, server.headers = status, (f"Location: {elsewhere.url}",)
        with pytest.raises(IssuerUnavailable, match=f"responded with {status[:3]}"):
            await subject(verifier)
        assert not elsewhere.requests


async def test_key_set_of_maximum_size_is_read_and_no_proxy_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with issuer(published() + b" " * (65536 - len(published()))) as (_server, verifier):
        assert await subject(verifier) == "user-1"
        await verifier.aclose()  # and once more at the end of the block


async def test_health_reports_number_of_keys_and_none_that_can_be_used_as_degraded() -> None:
    async with issuer() as (_server, verifier):
        health = await verifier.health()
    assert (health.kind, health.name, health.state, health.limits["keys"]) == ("identity", "oidc", EngineState.UP, 3)
    async with issuer(jwks(jwk(rsa_key(), kid="rsa")), ["EdDSA"]) as (_server, verifier):
        assert (await verifier.health()).state is EngineState.DEGRADED
        await assert_refused(verifier, token(header={"kid": "ed"}), "no key")


@each_row("algorithms", [(), ("none",), ("HS256",), ("RS256", "HS256"), ("ES384",), "RS256"])
def test_unsupported_algorithms_are_refused(algorithms: Iterable[str]) -> None:
    with pytest.raises(ValueError, match="algorithms of an issuer"):
        OidcVerifier(RULES, jwks_url="https://issuer.example/jwks", algorithms=algorithms)


REMOTE = ["issuer.example", "192.0.2.1", "127.0.0.1.example", "localhost.example"]


@each_row(
    "url",
    [
        *(f"http://{host}/jwks" for host in REMOTE),
        *(f"https://{rest}" for rest in ("user:pass@issuer.example/jwks", "user@issuer.example/jwks")),
        *("https://issuer.example/jwks#x", "https:///jwks", "file:///etc/passwd", "ftp://issuer.example/jwks"),
        *("//issuer.example/jwks", ""),
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
    kinds = {type(key_for(algorithm)).__name__ for algorithm in ALGORITHMS}
    assert kinds == {"RSAPrivateKey", "ECPrivateKey", "Ed25519PrivateKey"}
