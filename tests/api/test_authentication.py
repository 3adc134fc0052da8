"""Who is let in: API keys and tokens, in each form of the header. What each may then do is in `test_scopes`."""

import base64
import hmac
import json
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sluice.access import ROUTE_SCOPES
from tests.api.answers import unauthenticated, without_time
from tests.gate import Gate, Key, Service

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@pytest.fixture(scope="module")
def key(lobby: Gate) -> Key:
    return lobby.key("metadata")


def _let_in(gate: Gate) -> None:
    data_or_page = gate.get("/contexts")
    assert data_or_page.status_code == 200, data_or_page.text


# the header


@pytest.mark.parametrize("form", ["Bearer {}", "{}", "bearer {}", "BEARER {}", "Bearer  {}"])
def test_a_key_is_taken_with_and_without_the_word_bearer(lobby: Gate, key: Key, form: str) -> None:
    _let_in(lobby.with_header(form.format(key.text)))


@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}"])
def test_a_token_is_taken_behind_the_word_bearer(lobby: Gate, form: str) -> None:
    _let_in(lobby.with_header(form.format(lobby.token())))


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Basic dXNlcjpwYXNz",
        "Bearer x",
        "nonsense",
        "Bearer null",
        "Token {}",
        "Basic {}",
        "Bearer Bearer {}",
        "{} {}",
        "{},{}",
        "Bearer {} x",
        "key={}",
    ],
)
def test_another_header_is_refused(lobby: Gate, key: Key, header: str) -> None:
    unauthenticated(lobby.with_header(header.replace("{}", key.text)).get("/contexts"))


def test_no_header_is_refused(lobby: Gate) -> None:
    unauthenticated(lobby.as_(None).get("/contexts"))


@pytest.mark.parametrize("form", ["Bearer \xa0{}", "Bearer {}\xa0", "\x85{}", "\xa0Bearer {}", "Bearer\xa0{}"])
def test_what_only_some_take_for_space_is_no_space(lobby: Gate, key: Key, form: str) -> None:
    headers = [(b"Authorization", form.format(key.text).encode("latin-1"))]
    unauthenticated(lobby.service.http.get("/api/v1/contexts", headers=headers))


def test_two_headers_are_refused(lobby: Gate, key: Key) -> None:
    headers = [("Authorization", key.text), ("Authorization", key.text)]
    unauthenticated(lobby.service.http.get("/api/v1/contexts", headers=headers))


def test_a_header_that_is_not_ascii_is_refused(lobby: Gate) -> None:
    answer = lobby.service.http.get("/api/v1/contexts", headers=[(b"Authorization", b"Bearer \xff\xfe\xc3\xbc")])
    unauthenticated(answer)


@pytest.mark.asvs("14.2.1")
def test_a_credential_in_the_query_is_none(lobby: Gate, key: Key) -> None:
    for name in ("api_key", "access_token", "key", "token"):
        unauthenticated(lobby.as_(None).get("/contexts", **{name: key.text}))


@pytest.mark.asvs("6.3.4")
def test_a_credential_in_another_header_is_none(lobby: Gate, key: Key) -> None:
    for name in ("X-API-Key", "Cookie", "Proxy-Authorization"):
        unauthenticated(lobby.as_(None).ask("GET", "/contexts", headers={name: key.text}))


def _path(route: str, gate: Gate) -> str:
    known = {
        "{tenant_id}": gate.tenant_id,
        "{context_key}": "any",
        "{file_id}": "file_1",
        "{api_key_id}": "key_1",
        "{config_id}": "bkt_1",
    }
    path = route.removeprefix("/api/v1")
    for placeholder, value in known.items():
        path = path.replace(placeholder, value)
    return path


@pytest.mark.parametrize(("method", "route"), ROUTE_SCOPES, ids=" ".join)
@pytest.mark.asvs("8.3.1", "8.2.1")
def test_every_route_asks_for_a_credential(lobby: Gate, method: str, route: str) -> None:
    unauthenticated(lobby.as_(None).ask(method, _path(route, lobby)))
    unauthenticated(lobby.as_("wrong").ask(method, _path(route, lobby)))


# keys


def _check(body: str) -> str:
    number, letters = zlib.crc32(body.encode()), []
    for _ in range(6):
        number, digit = divmod(number, 62)
        letters.append(ALPHABET[digit])
    return "".join(reversed(letters))


def _other_letter(text: str, at: int) -> str:
    return text[:at] + ("a" if text[at] != "a" else "b") + text[at + 1 :]


def _with_right_check(text: str) -> str:
    return text[:-6] + _check(text[:-6])


WRONG_KEYS: dict[str, Callable[[str], str]] = {
    "another check": lambda text: _other_letter(text, -1),
    "another secret": lambda text: _with_right_check(_other_letter(text, 30)),
    "another id": lambda text: _with_right_check(_other_letter(text, 10)),
    "the other mode": lambda text: _with_right_check(text.replace("sl_live_", "sl_test_")),
    "capitals": str.upper,
    "one letter less": lambda text: text[:-1],
    "one letter more": lambda text: text + "a",
    "the prefix alone": lambda text: text[:20],
    "another mark": lambda text: "sk" + text[2:],
}


@pytest.mark.parametrize("how", WRONG_KEYS)
def test_a_key_that_is_almost_right_is_refused(lobby: Gate, key: Key, how: str) -> None:
    for form in ("Bearer {}", "{}"):
        unauthenticated(lobby.with_header(form.format(WRONG_KEYS[how](key.text))).get("/contexts"))


def test_a_test_key_is_let_in(lobby: Gate) -> None:
    key = lobby.test_key("metadata")
    assert key.text.startswith("sl_test_")
    _let_in(lobby.as_(key))


def test_an_expired_key_is_refused(newcomer: Gate) -> None:
    key = newcomer.key("metadata", expires_in_days=1)
    _let_in(newcomer.as_(key))
    then = datetime.now(UTC) - timedelta(seconds=1)
    moment = then.replace(tzinfo=None).isoformat(" ") if newcomer.service.place.database_url.startswith("sqlite") else then
    newcomer.sql("UPDATE api_keys SET expires_at = :then WHERE api_key_id = :key", then=moment, key=key.api_key_id)
    unauthenticated(newcomer.as_(key).get("/contexts"))


@pytest.mark.asvs("7.4.1", "7.4.2", "7.4.5")
def test_a_suspended_tenant_is_refused_until_it_is_let_in_again(newcomer: Gate) -> None:
    user = newcomer.as_(newcomer.token())
    newcomer.set_status("suspended")
    unauthenticated(newcomer.get("/contexts"))
    unauthenticated(user.get("/contexts"))
    newcomer.set_status("active")
    _let_in(newcomer)
    _let_in(user)


def test_every_refused_key_is_refused_in_the_same_words(newcomer: Gate) -> None:
    revoked, disabled = newcomer.key("metadata"), newcomer.key("metadata")
    newcomer.delete(f"/api-keys/{revoked.api_key_id}")
    newcomer.patch(f"/api-keys/{disabled.api_key_id}", {"status": "disabled"})
    callers = [newcomer.as_(credential) for credential in (None, "wrong", revoked, disabled, newcomer.token(exp=1))]
    assert len({repr(without_time(caller.get("/contexts"))) for caller in callers}) == 1


# tokens


def _now(seconds: int) -> int:
    return int(time.time()) + seconds


WRONG_CLAIMS: list[dict[str, Any]] = [
    {"iss": "another"},
    {"iss": None},
    {"aud": "another"},
    {"aud": None},
    {"aud": []},
    {"exp": None},
    {"exp": 1},
    {"exp": "tomorrow"},
    {"exp": _now(-1)},
    {"nbf": _now(3600)},
    {"sub": None},
    {"sub": ""},
    {"sub": 7},
    {"tenant_id": None},
    {"tenant_id": ""},
    {"tenant_id": 7},
    {"tenant_id": "ten_00000000000000000000000000"},
]


@pytest.mark.parametrize("claims", WRONG_CLAIMS, ids=" ".join)
@pytest.mark.asvs("9.2.1", "9.2.3", "9.2.4", "10.3.1")
def test_a_token_with_a_wrong_claim_is_refused(lobby: Gate, claims: dict[str, Any]) -> None:
    unauthenticated(lobby.as_(_signed(lobby, claims)).get("/contexts"))


@pytest.mark.asvs("7.2.2")
def test_a_person_is_let_in_by_a_token_that_was_made_for_them_and_ends(lobby: Gate) -> None:
    """A program has a key, which is made at random on request and not set up anywhere; nothing that is set up is a credential of the API."""
    person = lobby.as_(lobby.token(sub="user-7", scope="metadata"))
    assert person.get("/contexts").status_code == 200
    unauthenticated(lobby.as_(_signed(lobby, {"sub": "user-7", "exp": None})).get("/contexts"))
    first, second = lobby.key("metadata"), lobby.key("metadata")
    assert first.text.rpartition("_")[2] != second.text.rpartition("_")[2]
    for name, value in lobby.service.environment.items():
        if name.startswith("SLUICE_") and value.isprintable():
            unauthenticated(lobby.as_(value).get("/contexts"))


def _signed(gate: Gate, claims: dict[str, Any]) -> str:
    """PyJWT refuses to write some of these: sign them by hand."""
    now = int(time.time())
    said = {"iss": "sluice", "aud": "sluice", "sub": "user-1", "exp": now + 300, "tenant_id": gate.tenant_id} | claims
    return _sign(gate.service.issuer.key, {"alg": "EdDSA", "typ": "JWT"}, {k: v for k, v in said.items() if v is not None})


def _sign(key: Ed25519PrivateKey, header: dict[str, Any], claims: dict[str, Any]) -> str:
    body = f"{_b64(json.dumps(header).encode())}.{_b64(json.dumps(claims).encode())}"
    return f"{body}.{_b64(key.sign(body.encode()))}"


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "claims", [{"aud": ["other", "sluice"]}, {"nbf": _now(-60)}, {"exp": _now(3600)}, {"extra": {"a": 1}}], ids=" ".join
)
def test_a_token_with_good_claims_is_let_in(lobby: Gate, claims: dict[str, Any]) -> None:
    _let_in(lobby.as_(_signed(lobby, claims)))


@pytest.mark.asvs("7.2.1")
def test_a_token_of_another_key_is_refused(lobby: Gate) -> None:
    unauthenticated(lobby.as_(lobby.token(key=Ed25519PrivateKey.generate())).get("/contexts"))


@pytest.mark.asvs("9.1.1", "9.1.2", "6.8.2")
def test_an_unsigned_token_is_refused(lobby: Gate) -> None:
    head, body, _ = lobby.token().split(".")
    for algorithm in ("none", "None", "NONE", ""):
        forged = _b64(json.dumps({"alg": algorithm, "typ": "JWT"}).encode())
        unauthenticated(lobby.as_(f"{forged}.{body}.").get("/contexts"))
    unauthenticated(lobby.as_(f"{head}.{body}.").get("/contexts"))
    unauthenticated(lobby.as_(f"{head}.{body}").get("/contexts"))


@pytest.mark.asvs("9.1.2")
def test_a_token_signed_with_the_public_key_as_a_password_is_refused(lobby: Gate) -> None:
    public = lobby.service.issuer.key.public_key()
    _, body, _ = lobby.token().split(".")
    head = _b64(b'{"alg":"HS256","typ":"JWT"}')
    for secret in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes_raw(),
    ):
        forged = _b64(hmac.digest(secret, f"{head}.{body}".encode(), "sha256"))
        unauthenticated(lobby.as_(f"{head}.{body}.{forged}").get("/contexts"))


@pytest.mark.parametrize("part", [0, 1, 2])
@pytest.mark.asvs("9.1.1", "6.8.2", "7.2.1")
def test_a_changed_token_is_refused(lobby: Gate, part: int) -> None:
    parts = lobby.token(scope="metadata").split(".")
    parts[part] = _other_letter(parts[part], 10)
    unauthenticated(lobby.as_(".".join(parts)).get("/contexts"))


@pytest.mark.asvs("9.1.3")
def test_a_token_that_brings_its_own_key_is_refused(lobby: Gate) -> None:
    key = Ed25519PrivateKey.generate()
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": _b64(key.public_key().public_bytes_raw())}
    claims = {"iss": "sluice", "aud": "sluice", "sub": "user-1", "exp": _now(300), "tenant_id": lobby.tenant_id}
    for header in ({"jwk": jwk}, {"jku": "https://evil.example/keys"}, {"crit": ["b64"]}):
        unauthenticated(lobby.as_(_sign(key, {"alg": "EdDSA", "typ": "JWT", **header}, claims)).get("/contexts"))


def test_a_token_without_the_word_bearer_is_refused(lobby: Gate) -> None:
    unauthenticated(lobby.with_header(lobby.token()).get("/contexts"))


def test_a_token_makes_the_first_key(service: Service) -> None:
    tenant_id = service.new_tenant()
    user = Gate(service, tenant_id, f"Bearer {service.issuer.token(tenant_id=tenant_id, scope='admin')}")
    _let_in(user.as_(user.key("metadata")))


def test_a_key_is_bound_to_the_tenant_of_its_creator(newcomer: Gate) -> None:
    context = newcomer.context()
    stranger = newcomer.stranger()
    assert stranger.as_(newcomer.key("metadata")).get(f"/contexts/{context}").status_code == 200
    assert newcomer.as_(stranger.key("metadata")).get(f"/contexts/{context}").status_code == 404


def test_a_health_page_asks_for_no_credential(service: Service) -> None:
    assert httpx.get(f"{service.url}/health/live").status_code == 200
