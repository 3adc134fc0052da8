"""CORS: a page of a listed origin reads every response, and a page of another origin none, whatever the status."""

from typing import Any

import pytest

from tests.api import forms
from tests.api.raw_http import RawResponse, send_request
from tests.api.responses import assert_validation_error, data, page
from tests.api.samples import TEXT
from tests.service import API, ApiClient

TOOLS, PAGE, ELSEWHERE = "https://tools.example.com", "https://app.example.com", "https://elsewhere.example"
UPLOAD = f"{API}/files/upload"


def own_origin(client: ApiClient, name: str) -> str:
    """Return an origin that only this tenant knows: one that any tenant lists is listed for all preflights."""
    return f"https://{name}.{client.tenant_id.replace('_', '-')}.example"


def allow(client: ApiClient, *origins: str) -> None:
    data(client.request("PUT", "/cors", json={"allowed_origins": list(origins)}))


def token_for(client: ApiClient, *origins: str) -> ApiClient:
    body = {"context": client.create_context(), "max_files": 5, "allowed_extensions": ["txt"]}
    made = data(client.post("/upload-tokens", body | {"allowed_origins": list(origins)}), 201)
    return client.with_credential(made["token"])


def cors_headers(response: RawResponse) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name.startswith("access-control-")}


def ask(client: ApiClient, origin: str, *lines: str, **more: Any) -> RawResponse:
    return send_request(client, f"Origin: {origin}", *lines, **{"method": "GET", "path": f"{API}/contexts"} | more)


def upload(client: ApiClient, origin: str, name: str = "note.txt") -> RawResponse:
    body = forms.encode([forms.file(name, TEXT)])
    lines = (f"Content-Type: {forms.content_type()}", f"Content-Length: {len(body)}")
    return ask(client, origin, *lines, method="POST", path=UPLOAD, body=body)


def preflight(client: ApiClient, origin: str, path: str = UPLOAD) -> RawResponse:
    lines = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization")
    return ask(client.with_credential(None), origin, *lines, method="OPTIONS", path=path)


def test_origins_of_a_tenant_are_replaced_as_a_whole_by_nothing_but_origins(client: ApiClient) -> None:
    assert data(client.get("/cors")) == {"allowed_origins": []}
    allow(client, TOOLS, PAGE, TOOLS)
    assert data(client.get("/cors")) == {"allowed_origins": [PAGE, TOOLS]}
    allow(client, PAGE)
    for wrong in ("*", "null", "https://*.example.com", "https://a.example.com/", "ftp://a.example"):
        refused = client.request("PUT", "/cors", json={"allowed_origins": [wrong]})
        assert_validation_error(refused, "allowed_origins.0")
    assert data(client.get("/cors")) == {"allowed_origins": [PAGE]}
    assert data(client.other_tenant_client().get("/cors")) == {"allowed_origins": []}
    entries, _ = page(client.get("/audit", action="cors.changed"))
    assert [entry["target"] for entry in entries] == [client.tenant_id] * 2


@pytest.mark.asvs("3.5.2", "3.4.2")
def test_preflight_is_answered_to_a_listed_origin_alone(client: ApiClient) -> None:
    origin = own_origin(client, "page")
    token_for(client, origin)
    response = preflight(client, origin)
    assert (response.status, response.body) == (204, b"")
    shown = cors_headers(response)
    assert shown.pop("access-control-allow-origin") == origin
    assert shown.pop("access-control-allow-methods") == "GET, HEAD, POST, PATCH, DELETE, OPTIONS"
    assert {"Authorization", "Content-Type", "Tus-Resumable", "Idempotency-Key"} <= set(
        shown.pop("access-control-allow-headers").split(", ")
    )
    assert shown == {"access-control-max-age": "7200"}
    assert "Origin" in response.headers["vary"]
    for path in ("/docs", "/health/ready", "/u/ut_live_x"):
        assert cors_headers(preflight(client, origin, path)) == {}
    for other in [ELSEWHERE, "null", "*", "https://page.example\u00e9", "x" * 300]:
        for path in (UPLOAD, f"{API}/contexts", "/docs", "/nowhere"):
            response = preflight(client, other, path)
            assert response.status in {404, 405}
            assert cors_headers(response) == {}


def responses(client: ApiClient, holder: ApiClient, origin: str) -> dict[str, tuple[int, RawResponse]]:
    """Return a response of each kind to a page of `origin`, by the part of the service that makes it, with its status."""
    anonymous = client.with_credential(None)
    form, large = f"Content-Type: {forms.content_type()}", "Content-Length: 9999999999"
    text, empty = "Content-Type: text/plain", "Content-Length: 0"
    return {
        "success": (201, upload(holder, origin)),
        "rejection": (400, upload(holder, origin, "note.pdf")),
        "no credential": (401, ask(anonymous, origin)),
        "wrong credential": (401, ask(client.with_credential("sl_live_wrong"), origin)),
        "token on another route": (401, ask(holder, origin)),
        "unknown path": (404, ask(anonymous, origin, path=f"{API}/nowhere")),
        "wrong method": (405, ask(anonymous, origin, method="PATCH", path=f"{API}/files")),
        "no preflight": (405, ask(anonymous, origin, method="OPTIONS")),
        "body too large": (413, ask(holder, origin, form, large, method="POST", path=UPLOAD)),
        "wrong body": (415, ask(holder, origin, text, empty, method="POST", path=UPLOAD)),
        "two lengths": (400, ask(anonymous, origin, "Content-Length: 1", "Content-Length: 2")),
        "large head": (431, ask(anonymous, origin, f"X-Large: {'x' * 9000}")),
        "not HTTP": (400, ask(anonymous, origin, "X-One: 1", "Bad Name: x")),
    }


def test_page_of_a_listed_origin_reads_every_response(client: ApiClient) -> None:
    origin = own_origin(client, "page")
    holder = token_for(client, origin)
    every_response = responses(client, holder, origin)
    (token,), _ = page(client.get("/upload-tokens", page_size=1))
    client.delete(f"/upload-tokens/{token['token_id']}")
    for kind, (status, response) in (every_response | {"revoked token": (401, upload(holder, origin))}).items():
        shown = cors_headers(response)
        assert response.status == status, kind
        assert shown.get("access-control-allow-origin") == origin, kind
        assert "Sluice-Report-Id" in shown["access-control-expose-headers"], kind
        assert "access-control-allow-credentials" not in shown, kind
        assert "Origin" in response.headers["vary"], kind


@pytest.mark.asvs("3.4.2")
def test_page_of_another_origin_reads_no_answer(client: ApiClient) -> None:
    listed = own_origin(client, "page")
    for origin in (own_origin(client, "other"), listed.upper(), f"{listed}.evil.example", f"{listed}:8443", "null"):
        for kind, (_status, response) in responses(client, token_for(client, listed), origin).items():
            assert cors_headers(response) == {}, (kind, origin)


def test_origin_reads_responses_to_its_token_or_to_the_keys_of_its_tenant_alone_while_it_is_listed(
    client: ApiClient,
) -> None:
    origin = own_origin(client, "page")
    token_for(client, origin)
    for response, status in ((upload(token_for(client), origin), 201), (ask(client, origin), 200)):
        assert (response.status, cors_headers(response)) == (status, {})
    origin = own_origin(client, "tools")
    allow(client, origin)
    assert cors_headers(ask(client, origin))["access-control-allow-origin"] == origin
    assert preflight(client, origin).status == 204
    assert cors_headers(ask(client.other_tenant_client(), origin)) == {}
    assert cors_headers(upload(token_for(client), origin)) == {}
    response = send_request(client, method="GET", path=f"{API}/contexts")
    assert (response.status, cors_headers(response)) == (200, {}), "a request without an origin gets no header"
    allow(client)
    assert cors_headers(ask(client, origin)) == {}
    assert preflight(client, origin).status == 405
