"""Authentication by API keys and tokens, in each form of the header, and which scope allows which route."""

import base64
import hmac
import json
import re
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sluice.access import ROUTE_SCOPES, Scope
from tests.api.responses import assert_error, assert_unauthenticated, data
from tests.api.test_tenant_isolation import UNKNOWN
from tests.rows import each_row, every_row
from tests.service import API, ApiClient, Key, Service

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@pytest.fixture(scope="module")
def key(shared_client: ApiClient) -> Key:
    return shared_client.create_key("metadata")


def _assert_accepted(client: ApiClient) -> None:
    response = client.get("/contexts")
    assert response.status_code == 200, response.text


def _assert_refused(client: ApiClient) -> None:
    assert_unauthenticated(client.get("/contexts"))


def test_key_is_accepted_with_and_without_the_bearer_prefix_and_a_token_only_with_it(
    shared_client: ApiClient, key: Key
) -> None:
    test_key = shared_client.create_test_key("metadata")
    assert test_key.text.startswith("sl_test_")
    for form in ("Bearer {}", "{}", "bearer {}", "BEARER {}", "Bearer  {}"):
        for each in (key, test_key):
            _assert_accepted(shared_client.with_authorization(form.format(each.text)))
    for form in ("Bearer {}", "bearer {}"):
        _assert_accepted(shared_client.with_authorization(form.format(shared_client.token())))
    _assert_refused(shared_client.with_authorization(shared_client.token()))


@each_row("header", [
    *("", "Bearer", "Basic dXNlcjpwYXNz", "Bearer x", "nonsense", "Bearer null", "Token {}", "Basic {}"),
    *("Bearer Bearer {}", "{} {}", "{},{}", "Bearer {} x", "key={}", "{}\n{}"),
    *("Bearer \xa0{}", "Bearer {}\xa0", "\x85{}", "\xa0Bearer {}", "Bearer\xa0{}", "Bearer \xff\xfe\xc3\xbc"),
])  # fmt: skip
def test_malformed_or_repeated_authorization_header_is_refused(shared_client: ApiClient, key: Key, header: str) -> None:
    headers = [(b"Authorization", each.format(*[key.text] * 2).encode("latin-1")) for each in header.split("\n")]
    assert_unauthenticated(shared_client.service.http.get("/api/v1/contexts", headers=headers))


@pytest.mark.asvs("14.2.1", "6.3.4")
def test_credential_in_the_query_or_in_another_header_is_ignored(shared_client: ApiClient, key: Key) -> None:
    anonymous = shared_client.with_credential(None)
    for name in ("api_key", "access_token", "key", "token"):
        assert_unauthenticated(anonymous.get("/contexts", **{name: key.text}))
    for name in ("X-API-Key", "Cookie", "Proxy-Authorization"):
        assert_unauthenticated(anonymous.request("GET", "/contexts", headers={name: key.text}))


def _path(route: str, client: ApiClient) -> str:
    known = {"tenant_id": client.tenant_id, "context_key": "any", "file_id": "file_1", "api_key_id": "key_1"}
    known |= {"config_id": "bkt_1"}
    return re.sub(r"{(\w+)}", lambda found: known.get(found[1], found[0]), route.removeprefix("/api/v1"))


@each_row("method, route", ROUTE_SCOPES)
@pytest.mark.asvs("8.3.1", "8.2.1")
def test_every_route_requires_a_credential(shared_client: ApiClient, method: str, route: str) -> None:
    for credential in (None, "wrong"):
        response = shared_client.with_credential(credential).request(method, _path(route, shared_client))
        if method == "HEAD":  # a response without a body
            assert response.status_code == 401
        else:
            assert_unauthenticated(response)


def _with_valid_checksum(text: str) -> str:
    number, letters = zlib.crc32(text[:-6].encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        letters = ALPHABET[digit] + letters
    return text[:-6] + letters


def _with_other_letter(text: str, at: int) -> str:
    return text[:at] + ("a" if text[at] != "a" else "b") + text[at + 1 :]


WRONG_KEYS: dict[str, Callable[[str], str]] = {
    "another check": lambda text: _with_other_letter(text, -1),
    "another secret": lambda text: _with_valid_checksum(_with_other_letter(text, 30)),
    "another id": lambda text: _with_valid_checksum(_with_other_letter(text, 10)),
    "the other mode": lambda text: _with_valid_checksum(text.replace("sl_live_", "sl_test_")),
    "capitals": str.upper,
    "one letter less": lambda text: text[:-1],
    "one letter more": lambda text: text + "a",
    "the prefix alone": lambda text: text[:20],
    "another mark": lambda text: "sk" + text[2:],
}


@each_row("how", WRONG_KEYS)
def test_altered_key_is_refused(shared_client: ApiClient, key: Key, how: str) -> None:
    for form in ("Bearer {}", "{}"):
        _assert_refused(shared_client.with_authorization(form.format(WRONG_KEYS[how](key.text))))


@pytest.mark.asvs("7.4.1", "7.4.2", "7.4.5")
def test_expired_key_and_suspended_tenant_are_refused_until_it_is_active_again(bare_client: ApiClient) -> None:
    key = bare_client.create_key("metadata", expires_in_days=1)
    _assert_accepted(bare_client.with_credential(key))
    then = datetime.now(UTC) - timedelta(seconds=1)
    past = "UPDATE api_keys SET expires_at = :then WHERE api_key_id = :key"
    bare_client.execute_sql(past, then=then, key=key.api_key_id)
    _assert_refused(bare_client.with_credential(key))
    callers = [bare_client, bare_client.with_credential(bare_client.token())]
    bare_client.set_status("suspended")
    for caller in callers:
        _assert_refused(caller)
    bare_client.set_status("active")
    for caller in callers:
        _assert_accepted(caller)


def _now(seconds: int) -> int:
    return int(time.time()) + seconds


WRONG_CLAIMS: list[dict[str, Any]] = [
    *({"iss": value} for value in ("another", None)),
    *({"aud": "another"}, {"aud": None}, {"aud": []}),
    *({"exp": value} for value in (None, 1, "tomorrow", _now(-1))),
    {"nbf": _now(3600)},
    *({"sub": value} for value in (None, "", 7)),
    *({"tenant_id": value} for value in (None, "", 7, "..", "a/b", "x" * 255, "ten_1\n")),
    {"tenant_id": "ten_00000000000000000000000000", "scope": "admin"},
]


@pytest.mark.asvs("9.2.1", "9.2.3", "9.2.4", "10.3.1")
def test_token_is_accepted_only_with_valid_claims(shared_client: ApiClient) -> None:
    right: list[dict[str, Any]] = [{"aud": ["other", "sluice"]}, {"nbf": _now(-60)}, {"exp": _now(3600)}]
    with every_row() as row:
        for claims in WRONG_CLAIMS:
            with row(claims):
                _assert_refused(shared_client.with_credential(_signed(shared_client, claims)))
        for claims in (*right, {"extra": {"a": 1}}):
            with row(claims):
                _assert_accepted(shared_client.with_credential(_signed(shared_client, claims)))


@pytest.mark.asvs("7.2.2")
def test_person_authenticates_only_with_an_expiring_token(shared_client: ApiClient) -> None:
    """A program has a randomly generated key; no configured value is a credential of the API."""
    _assert_accepted(shared_client.with_credential(shared_client.token(sub="user-7", scope="metadata")))
    _assert_refused(shared_client.with_credential(_signed(shared_client, {"sub": "user-7", "exp": None})))
    first, second = shared_client.create_key("metadata"), shared_client.create_key("metadata")
    assert first.text.rpartition("_")[2] != second.text.rpartition("_")[2]
    for name, value in shared_client.service.environment.items():
        if name.startswith("SLUICE_") and value.isprintable():
            _assert_refused(shared_client.with_credential(value))


def _signed(client: ApiClient, claims: dict[str, Any]) -> str:
    """Sign a token by hand, because PyJWT refuses to write some of these claims."""
    own = {"iss": "sluice", "aud": "sluice", "sub": "user-1", "exp": _now(300), "tenant_id": client.tenant_id}
    payload = {name: value for name, value in (own | claims).items() if value is not None}
    return _sign(client.service.issuer.key, {"alg": "EdDSA", "typ": "JWT"}, payload)


def _sign(key: Ed25519PrivateKey, header: dict[str, Any], claims: dict[str, Any]) -> str:
    body = f"{_b64(json.dumps(header).encode())}.{_b64(json.dumps(claims).encode())}"
    return f"{body}.{_b64(key.sign(body.encode()))}"


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@pytest.mark.asvs("7.2.1", "9.1.1", "9.1.2", "9.1.3", "6.8.2")
def test_forged_token_is_refused(shared_client: ApiClient) -> None:
    """Signed by another key, unsigned, signed with the public key as a secret, altered, or with a key of its own."""
    own, key = shared_client.token(scope="metadata").split("."), Ed25519PrivateKey.generate()
    head, body, _ = own
    forged = [shared_client.token(key=key), f"{head}.{body}.", f"{head}.{body}"]
    heads = [_b64(json.dumps({"alg": name, "typ": "JWT"}).encode()) for name in ("none", "None", "NONE", "", "HS256")]
    forged += [f"{other}.{body}." for other in heads]
    by_secret = f"{heads[-1]}.{body}"
    public = shared_client.service.issuer.key.public_key()
    for secret in (public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), public.public_bytes_raw()):
        forged.append(f"{by_secret}.{_b64(hmac.digest(secret, by_secret.encode(), 'sha256'))}")
    for at, part in enumerate(own):
        forged.append(".".join([*own[:at], _with_other_letter(part, 10), *own[at + 1 :]]))
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": _b64(key.public_key().public_bytes_raw())}
    claims = {"iss": "sluice", "aud": "sluice", "sub": "user-1", "exp": _now(300), "tenant_id": shared_client.tenant_id}
    for header in ({"jwk": jwk}, {"jku": "https://evil.example/keys"}, {"crit": ["b64"]}):
        forged.append(_sign(key, {"alg": "EdDSA", "typ": "JWT", **header}, claims))
    with every_row() as row:
        for token in forged:
            with row(token):
                _assert_refused(shared_client.with_credential(token))


def test_key_belongs_to_the_tenant_of_its_creator(bare_client: ApiClient) -> None:
    path, other = f"/contexts/{bare_client.create_context()}", bare_client.other_tenant_client()
    assert other.with_credential(bare_client.create_key("metadata")).get(path).status_code == 200
    assert bare_client.with_credential(other.create_key("metadata")).get(path).status_code == 404


SCOPES = UPLOAD, DOWNLOAD, METADATA, DELETE, REVIEW, ADMIN = tuple(scope.value for scope in Scope)

# written out here, and not read from the code: an error in the code's table must be detected
ROUTES: Final[dict[str, dict[str, str | None]]] = {
    "/contexts": {"POST": ADMIN, "GET": None},
    "/contexts/{context_key}": {"GET": None, "PATCH": ADMIN},
    "/contexts/{context_key}/replay": {"POST": ADMIN},
    "/contexts/{context_key}/external-checks/{check_name}/rotate-secret": {"POST": ADMIN},
    "/contexts/{context_key}/examples": {"GET": METADATA, "POST": ADMIN},
    "/contexts/{context_key}/examples/{example_id}": {"DELETE": ADMIN},
    "/contexts/{context_key}/hold": {"PUT": ADMIN, "DELETE": ADMIN},
    "/files/upload": {"POST": UPLOAD},
    "/files/validate": {"POST": UPLOAD},
    "/uploads": {"POST": UPLOAD},
    "/uploads/{upload_id}": {"GET": UPLOAD, "HEAD": UPLOAD, "PATCH": UPLOAD, "DELETE": UPLOAD},
    "/reports": {"GET": METADATA},
    "/reports/{report_id}": {"GET": METADATA},
    "/files": {"GET": METADATA},
    "/files/{file_id}": {"GET": DOWNLOAD, "DELETE": DELETE},
    "/files/{file_id}/metadata": {"GET": METADATA},
    "/files/{file_id}/preview": {"GET": DOWNLOAD},
    "/files/{file_id}/receipt": {"GET": METADATA},
    "/files/bulk-delete": {"POST": DELETE},
    "/files/bulk-restore": {"POST": DELETE},
    "/files/export": {"POST": METADATA},
    "/jobs/{job_id}/download": {"GET": METADATA},
    "/jobs": {"GET": METADATA},
    "/jobs/{job_id}": {"GET": METADATA},
    "/jobs/{job_id}/cancel": {"POST": DELETE},
    "/erasures": {"POST": ADMIN},
    "/erasures/{job_id}": {"GET": ADMIN},
    "/erasures/{job_id}/receipt": {"GET": ADMIN},
    "/files/{file_id}/restore": {"POST": DELETE},
    "/files/{file_id}/hold": {"PUT": ADMIN, "DELETE": ADMIN},
    "/quarantine": {"GET": REVIEW},
    "/quarantine/{file_id}/download": {"GET": REVIEW},
    "/quarantine/{file_id}/preview": {"GET": REVIEW},
    "/quarantine/{file_id}/release": {"POST": REVIEW},
    "/quarantine/{file_id}/refuse": {"POST": REVIEW},
    "/quarantine/{file_id}/rescan": {"POST": REVIEW},
    "/usage": {"GET": METADATA},
    "/plan": {"GET": METADATA},
    "/api-keys": {"POST": ADMIN, "GET": ADMIN},
    "/api-keys/{api_key_id}": {"GET": ADMIN, "PATCH": ADMIN, "DELETE": ADMIN},
    "/api-keys/{api_key_id}/rotate": {"POST": ADMIN},
    "/tenants/{tenant_id}/storage-configs": {"POST": ADMIN, "GET": ADMIN},
    "/tenants/{tenant_id}/storage-configs/{config_id}": {"GET": ADMIN, "PATCH": ADMIN, "DELETE": ADMIN},
    "/tenants/{tenant_id}/storage-configs/{config_id}/set-default": {"POST": ADMIN},
    "/audit": {"GET": ADMIN},
    "/events": {"GET": ADMIN},
    "/hash-lists": {"POST": ADMIN, "GET": METADATA},
    "/hash-lists/import": {"POST": ADMIN},
    "/hash-lists/{digest}": {"DELETE": ADMIN},
    "/hash-lists/{digest}/quarantine": {"POST": ADMIN},
    "/webhook-endpoints": {"POST": ADMIN, "GET": ADMIN},
    "/webhook-endpoints/{endpoint_id}": {"GET": ADMIN, "PATCH": ADMIN, "DELETE": ADMIN},
    "/webhook-endpoints/{endpoint_id}/rotate-secret": {"POST": ADMIN},
    "/webhook-endpoints/{endpoint_id}/test": {"POST": ADMIN},
    "/webhook-endpoints/{endpoint_id}/recover": {"POST": ADMIN},
    "/webhook-endpoints/{endpoint_id}/deliveries": {"GET": ADMIN},
    "/webhook-deliveries/{delivery_id}/redeliver": {"POST": ADMIN},
    "/cors": {"GET": ADMIN, "PUT": ADMIN},
    "/upload-tokens": {"POST": UPLOAD, "GET": UPLOAD},
    "/upload-tokens/{token_id}": {"GET": UPLOAD, "DELETE": UPLOAD},
}
TABLE: Final = [(method, path, scope) for path, methods in ROUTES.items() for method, scope in methods.items()]
NO_SCOPE = "Insufficient permissions"


def test_table_of_scopes_is_the_expected_one() -> None:
    assert {(method, f"{API}{path}"): scope for method, path, scope in TABLE} == ROUTE_SCOPES


@pytest.mark.asvs("8.2.1", "6.3.4", "6.1.3")
def test_route_allows_only_its_scope_and_admin(shared_client: ApiClient) -> None:
    """A credential with all other scopes is refused, so that each of them is; keys and tokens take turns."""

    def callers(*scopes: str) -> list[ApiClient]:
        key, token = shared_client.create_key(*scopes), shared_client.token(scope=" ".join(scopes))
        return [shared_client.with_credential(key), shared_client.with_credential(token)]

    owners = {scope: callers(scope) for scope in SCOPES}
    others = {scope: callers(*(other for other in SCOPES if other not in {scope, ADMIN})) for scope in SCOPES}
    with every_row() as row:
        for number, (method, path, needed) in enumerate(TABLE):
            filled = path.format_map(UNKNOWN | {"tenant_id": shared_client.tenant_id})
            for way, scope in ((number % 2, needed or UPLOAD), (1 - number % 2, ADMIN)):
                with row((method, path, scope)):
                    assert owners[scope][way].request(method, filled).status_code not in {401, 403}
            for caller in others[needed] if needed else ():
                with row((method, path, "all other scopes")):
                    response = caller.request(method, filled)
                    if method == "HEAD":
                        assert response.status_code == 403
                    else:
                        assert_error(response, 403, f"{str(needed).capitalize()} scope required", NO_SCOPE)


def test_missing_scope_comes_first_and_reveals_no_buckets(shared_client: ApiClient, bare_client: ApiClient) -> None:
    caller = shared_client.with_credential(shared_client.create_key(UPLOAD))
    assert_error(caller.post("/contexts", {"nonsense": 1}), 403, "Admin scope required", NO_SCOPE)
    for path in (bare_client.buckets, shared_client.buckets, "/tenants/ten_unknown/storage-configs"):
        assert caller.get(path).status_code in {403, 404}


def test_each_scope_allows_its_own_route_and_admin_every_one(client: ApiClient) -> None:
    context, user = client.create_context(), client.with_credential(client.token(scope="admin"))
    owners = {scope: client.with_credential(user.create_key(scope)) for scope in (UPLOAD, METADATA, DOWNLOAD, DELETE)}
    for callers in (owners, dict.fromkeys(owners, client)):
        file_id = callers[UPLOAD].store(context=context)
        data(callers[METADATA].get(f"/files/{file_id}/metadata"))
        data(callers[DOWNLOAD].get(f"/files/{file_id}"))
        data(callers[DELETE].delete(f"/files/{file_id}"))
    both = client.with_credential(user.create_key(DELETE, ADMIN))
    assert both.get("/api-keys").status_code == 200


@pytest.mark.asvs("10.3.2")
def test_scopes_of_a_token_come_from_its_claim_and_without_them_it_only_reads_contexts(
    shared_client: ApiClient,
) -> None:
    claims: list[dict[str, Any]] = [{"scope": "metadata"}, {"scope": "openid metadata profile"}]
    for claim in (*claims, {"scopes": ["metadata"]}, {"scopes": ["x", "metadata"]}):
        user = shared_client.with_credential(shared_client.token(**claim))
        assert user.get("/files").status_code == 200
        assert_error(user.post("/contexts", {}), 403, "Admin scope required", NO_SCOPE)
    none: list[dict[str, Any]] = [{}, {"scope": ""}, {"scopes": []}, {"scope": "openid"}, {"scope": "METADATA"}]
    for claim in none:
        user = shared_client.with_credential(shared_client.token(**claim))
        assert user.get("/contexts").status_code == 200
        assert_error(user.get("/files"), 403, "Metadata scope required", NO_SCOPE)


def test_token_without_a_scope_claim_gets_the_default_scopes(limited_service: Service) -> None:
    client = limited_service.new_client()
    user, unscoped = client.with_credential(client.token()), client.with_credential(client.token(scope=""))
    assert user.get("/files").status_code == 200
    assert user.delete("/files/file_unknown").status_code == 404
    assert_error(user.get("/files/file_unknown"), 403, "Download scope required", NO_SCOPE)
    assert_error(unscoped.get("/files"), 403, "Metadata scope required", NO_SCOPE)
