import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from sluice.engines.identity.key_cache import CacheTimes
from sluice.engines.identity.oidc import OidcVerifier
from sluice.engines.identity.protocol import InvalidToken, IssuerAway
from sluice.kit.health import EngineState
from tests.engines.identity.issuer import KeyServer
from tests.engines.identity.tokens import CLAIMS, RULES, at_now, ec_key, ed_key, forge, jwk, jwks, key_for, rsa_key, token

EVERY = ("RS256", "PS256", "ES256", "EdDSA")
PUBLISHED = jwks(jwk(rsa_key(), kid="rsa"), jwk(ec_key(), kid="ec"), jwk(ed_key(), kid="ed"))
KIDS = {"RS256": "rsa", "PS256": "rsa", "ES256": "ec", "EdDSA": "ed"}


class Watch:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def verifying(
    server: KeyServer, algorithms: Iterable[str] = EVERY, *, watch: Callable[[], float] | None = None, patience: float = 5
) -> AsyncIterator[OidcVerifier]:
    verifier = OidcVerifier(
        RULES,
        jwks_url=server.url,
        algorithms=algorithms,
        times=CacheTimes(ttl=600, stale=3600, pause=30),
        timeout_seconds=patience,
        clock=at_now,
        monotonic=watch or Watch(),
    )
    try:
        yield verifier
    finally:
        await verifier.aclose()


def serving(body: bytes = PUBLISHED) -> AbstractAsyncContextManager[KeyServer]:
    return KeyServer(body)


@pytest.mark.parametrize("algorithm", EVERY)
async def test_an_honest_token_of_each_algorithm_is_believed(algorithm: str) -> None:
    async with serving() as server, verifying(server) as verifier:
        claims = await verifier.verify(token(algorithm, header={"kid": KIDS[algorithm]}, scope="openid upload", name="Ada"))
    assert (claims.issuer, claims.subject, claims.tenant_id, claims.name) == (RULES.issuer, "user-1", "ten_1", "Ada")
    assert claims.scopes == frozenset({"openid", "upload"})


async def refused(verifier: OidcVerifier, text: str, why: str) -> None:
    with pytest.raises(InvalidToken, match=why):
        await verifier.verify(text)


@pytest.mark.parametrize("algorithm", ["PS256", "ES256", "EdDSA"])
async def test_an_algorithm_that_is_not_the_issuers_is_refused_without_asking_it(algorithm: str) -> None:
    async with serving() as server, verifying(server, ["RS256"]) as verifier:
        await refused(verifier, token(algorithm, header={"kid": KIDS[algorithm]}), "algorithm")
        assert not server.requests


@pytest.mark.parametrize(
    ("algorithm", "kid"), [("RS256", "ec"), ("RS256", "ed"), ("ES256", "rsa"), ("ES256", "ed"), ("EdDSA", "rsa"), ("PS256", "ec")]
)
async def test_a_key_of_another_kind_is_never_used(algorithm: str, kid: str) -> None:
    async with serving() as server, verifying(server) as verifier:
        await refused(verifier, token(algorithm, header={"kid": kid}), "no key for this token")


@pytest.mark.parametrize("members", [{"use": "enc"}, {"key_ops": ["sign"]}, {"alg": "PS256"}, {"alg": "RSA-OAEP-256"}])
async def test_a_key_that_the_issuer_meant_for_something_else_is_never_used(members: dict[str, object]) -> None:
    async with serving(jwks(jwk(rsa_key(), kid="rsa", **members))) as server, verifying(server) as verifier:
        await refused(verifier, token("RS256", header={"kid": "rsa"}), "no key for this token")


async def test_an_attackers_key_under_a_known_id_is_refused() -> None:
    async with serving() as server, verifying(server) as verifier:
        await refused(verifier, token("RS256", key="two", header={"kid": "rsa"}), "signature")


@pytest.mark.asvs("9.1.3")
async def test_a_key_that_the_token_brings_along_is_refused_without_asking_the_issuer() -> None:
    brought = {"alg": "RS256", "kid": "rsa", "jwk": jwk(rsa_key("two"))}
    async with serving() as server, verifying(server) as verifier:
        await refused(verifier, forge(rsa_key("two"), brought, CLAIMS, algorithm="RS256"), "jwk")
        assert not server.requests


async def test_an_issuer_that_shares_its_secret_key_is_not_believed() -> None:
    async with serving(jwks(jwk(ed_key(), kid="ed", d="AAAA"))) as server, verifying(server) as verifier:
        await refused(verifier, token(header={"kid": "ed"}), "no key for this token")


@pytest.mark.parametrize(
    "claims", [{"iss": "https://other.example"}, {"aud": "other"}, {"exp": 1}, {"sub": None}, {"tenant_id": None}]
)
async def test_wrong_claims_are_refused_without_asking_the_issuer(claims: dict[str, Any]) -> None:
    async with serving() as server, verifying(server) as verifier:
        with pytest.raises(InvalidToken):
            await verifier.verify(token(header={"kid": "ed"}, **claims))
        assert not server.requests


async def test_a_token_without_key_id_is_verified_by_the_sole_key_of_its_algorithm() -> None:
    async with serving() as server, verifying(server) as verifier:
        assert (await verifier.verify(token("EdDSA"))).subject == "user-1"
    async with serving(jwks(jwk(ed_key(), kid="a"), jwk(ed_key("two"), kid="b"))) as server, verifying(server) as verifier:
        await refused(verifier, token("EdDSA"), "no key")


async def test_keys_are_asked_for_once() -> None:
    async with serving() as server, verifying(server) as verifier:
        await asyncio.gather(*(verifier.verify(token(header={"kid": "ed"})) for _ in range(40)))
        assert len(server.requests) == 1


async def test_the_request_carries_nothing_of_the_caller() -> None:
    async with serving() as server, verifying(server) as verifier:
        await verifier.verify(token(header={"kid": "ed"}))
    head = server.requests[0].lower()
    assert head.startswith("get /jwks http/1.1\r\n")
    assert "accept-encoding: identity" in head
    assert "authorization" not in head


async def test_a_rotation_is_followed_at_once_and_the_old_key_ends() -> None:
    async with serving(jwks(jwk(ed_key(), kid="one"))) as server, verifying(server, watch=(watch := Watch())) as verifier:
        await verifier.verify(token(header={"kid": "one"}))
        server.body = jwks(jwk(ed_key("two"), kid="two"))
        watch.now = 1
        assert (await verifier.verify(token(key="two", header={"kid": "two"}))).subject == "user-1"
        await refused(verifier, token(header={"kid": "one"}), "no key")
    assert len(server.requests) == 2


async def test_a_flood_of_unknown_keys_asks_the_issuer_once_per_pause() -> None:
    async with serving() as server, verifying(server, watch=(watch := Watch())) as verifier:
        await verifier.verify(token(header={"kid": "ed"}))
        watch.now = 1
        flood = [verifier.verify(token(header={"kid": f"unknown-{number}"})) for number in range(200)]
        outcomes = await asyncio.gather(*flood, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {InvalidToken}
        assert len(server.requests) == 2
        assert (await verifier.verify(token(header={"kid": "ed"}))).subject == "user-1"


async def test_an_outage_is_bridged_with_kept_keys_for_a_bounded_time() -> None:
    async with serving() as server, verifying(server, watch=(watch := Watch())) as verifier:
        await verifier.verify(token(header={"kid": "ed"}))
        await server.stop()
        watch.now = 601
        assert (await verifier.verify(token(header={"kid": "ed"}))).subject == "user-1"
        assert (await verifier.health()).state is EngineState.DEGRADED
        watch.now = 600 + 3600
        with pytest.raises(IssuerAway):
            await verifier.verify(token(header={"kid": "ed"}))
        assert (await verifier.health()).state is EngineState.DOWN
        await server.start()
        watch.now += 2
        assert (await verifier.verify(token(header={"kid": "ed"}))).subject == "user-1"
        assert (await verifier.health()).state is EngineState.UP


async def away(server: KeyServer, *, patience: float = 5) -> str:
    """Answer why the issuer counts as away."""
    async with verifying(server, patience=patience) as verifier:
        with pytest.raises(IssuerAway) as caught:
            await verifier.verify(token(header={"kid": "ed"}))
    return str(caught.value)


async def test_an_issuer_that_never_answers_is_away_after_the_timeout() -> None:
    async with serving() as server:
        server.gate = asyncio.Event()
        assert "could not be read" in await away(server, patience=0.2)


async def test_an_issuer_that_answers_byte_by_byte_is_away_after_the_timeout() -> None:
    async with serving() as server:
        server.drip = 0.01
        async with asyncio.timeout(3):  # all of the answer would take longer
            assert "could not be read" in await away(server, patience=0.2)


async def test_an_issuer_that_answers_without_end_is_away() -> None:
    async with serving() as server:
        server.raw = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b" " * 70_000
        assert "more than 65536 bytes" in await away(server)


async def test_a_key_set_of_the_largest_size_is_read() -> None:
    async with serving(PUBLISHED + b" " * (65536 - len(PUBLISHED))) as server, verifying(server) as verifier:
        assert (await verifier.verify(token(header={"kid": "ed"}))).subject == "user-1"


async def test_a_declared_bomb_is_not_unpacked() -> None:
    async with serving() as server:
        server.headers = ("Content-Encoding: gzip",)
        assert "compressed" in await away(server)


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
async def test_a_redirect_is_not_followed(status: str) -> None:
    async with serving() as elsewhere, serving() as server:
        server.status, server.headers = status, (f"Location: {elsewhere.url}",)
        assert f"answered {status[:3]}" in await away(server)
        assert not elsewhere.requests


@pytest.mark.parametrize("status", ["204 No Content", "206 Partial", "404 Not Found", "500 Oops", "503 Away"])
async def test_any_status_but_200_is_no_answer(status: str) -> None:
    async with serving() as server:
        server.status = status
        assert f"answered {status[:3]}" in await away(server)


@pytest.mark.parametrize("raw", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"])
async def test_a_broken_answer_is_no_answer(raw: bytes) -> None:
    async with serving() as server:
        server.raw = raw
        assert "could not be read" in await away(server)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"keys": 1}'])
async def test_what_is_no_key_set_is_no_answer(body: bytes) -> None:
    async with serving(body) as server:
        assert "no key set" in await away(server)


async def test_a_broken_answer_does_not_replace_good_keys() -> None:
    async with serving() as server, verifying(server, watch=(watch := Watch())) as verifier:
        await verifier.verify(token(header={"kid": "ed"}))
        server.body, watch.now = b"<html>", 601
        assert (await verifier.verify(token(header={"kid": "ed"}))).subject == "user-1"


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with serving() as server, verifying(server) as verifier:
        assert (await verifier.verify(token(header={"kid": "ed"}))).subject == "user-1"


async def test_an_issuer_without_keys_for_us_is_degraded_and_believed_in_nothing() -> None:
    async with serving(jwks(jwk(rsa_key(), kid="rsa"))) as server, verifying(server, ["EdDSA"]) as verifier:
        assert (await verifier.health()).state is EngineState.DEGRADED
        await refused(verifier, token(header={"kid": "ed"}), "no key")


async def test_health_tells_how_many_keys_are_in_use() -> None:
    async with serving() as server, verifying(server) as verifier:
        health = await verifier.health()
    assert (health.kind, health.name, health.state, health.limits["keys"]) == ("identity", "oidc", EngineState.UP, 3)


async def test_closing_twice_is_a_no_op() -> None:
    async with serving() as server, verifying(server) as verifier:
        await verifier.verify(token(header={"kid": "ed"}))
        await verifier.aclose()


@pytest.mark.parametrize("algorithms", [(), ("none",), ("HS256",), ("RS256", "HS256"), ("ES384",), "RS256"])
def test_algorithms_that_are_not_offered_are_refused(algorithms: Iterable[str]) -> None:
    with pytest.raises(ValueError, match="algorithms of an issuer"):
        OidcVerifier(RULES, jwks_url="https://issuer.example/jwks", algorithms=algorithms)


@pytest.mark.parametrize(
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
def test_an_address_that_could_be_overheard_or_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="address of an issuer's keys"):
        OidcVerifier(RULES, jwks_url=url, algorithms=["RS256"])


@pytest.mark.parametrize(
    "url", ["https://issuer.example/jwks", "http://localhost:1/jwks", "http://127.9.9.9/jwks", "http://[::1]:8080/jwks"]
)
async def test_https_and_this_machine_are_accepted(url: str) -> None:
    await OidcVerifier(RULES, jwks_url=url, algorithms=["RS256"]).aclose()


def test_the_keys_of_this_test_are_of_the_kinds_it_names() -> None:
    assert {type(key_for(algorithm)).__name__ for algorithm in EVERY} == {"RSAPrivateKey", "ECPrivateKey", "Ed25519PrivateKey"}
