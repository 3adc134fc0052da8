"""Protection of browsers: security headers, no cookies, no redirects, no other origin, only uploaded files."""

import re
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from sluice.access import AUDITED_ROUTES, ROUTE_SCOPES
from tests.api import tus
from tests.api.responses import data
from tests.api.samples import TEXT
from tests.api.test_tenant_isolation import webhook_ids
from tests.rows import each_row
from tests.service import API, ApiClient, Service

PATHS = (
    *("/api/v1/contexts", "/api/v1/files/file_none", "/api/v1/downloads/file_none", "/nowhere", "/health/live"),
    *("/health/ready", "/openapi.json"),
)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="5" height="5" fill="red"/></svg>'


@each_row("path", PATHS)
@each_row("method", ["GET", "POST", "DELETE", "OPTIONS", "TRACE"])
@pytest.mark.asvs("3.2.1", "3.4.3", "3.4.4", "3.4.5", "3.4.6", "13.4.6", "14.2.2")
def test_every_response_has_the_security_headers(shared_client: ApiClient, method: str, path: str) -> None:
    for client in (shared_client, shared_client.with_credential(None)):
        credential = {} if client.authorization is None else {"Authorization": client.authorization}
        headers = client.service.http.request(method, path, headers=credential).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
        assert headers["cache-control"] == "no-store"
        assert not {"set-cookie", "server"} & headers.keys()


@pytest.mark.asvs("3.2.1", "1.3.4", "1.3.5")
def test_svg_is_served_as_a_sandboxed_attachment(client: ApiClient, without_s3: None) -> None:
    link = data(client.get(f"/files/{client.store('sign.svg', SVG, context=client.create_context())}"))["download_url"]
    headers = httpx.get(link, headers={"Sec-Fetch-Dest": "document", "Accept": "text/html"}).headers
    assert headers["content-disposition"].startswith("attachment")
    assert headers["content-security-policy"].startswith("sandbox;")
    assert headers["x-content-type-options"] == "nosniff"


@each_row("path", sorted({path for _, path in ROUTE_SCOPES}))
@pytest.mark.asvs("3.7.2", "4.1.2")
def test_no_route_redirects(shared_client: ApiClient, path: str) -> None:
    host = {"Host": "elsewhere.example"}
    forwarded = {"X-Forwarded-Host": "elsewhere.example", "X-Forwarded-Proto": "http"}
    for ending, headers in (("", host), ("/", forwarded), ("//", {}), ("?next=https://elsewhere.example", {})):
        response = shared_client.request("GET", path.removeprefix(API) + ending, headers=headers)
        assert not 300 <= response.status_code < 400
        assert "location" not in response.headers
        assert "elsewhere.example" not in response.text


@pytest.mark.asvs("3.7.1", "14.2.3")
def test_docs_page_loads_only_its_own_scripts_and_styles(shared_client: ApiClient) -> None:
    page = shared_client.service.http.get("/docs")
    assert page.status_code == 200
    assert "https://" not in page.text.replace("https://www.w3.org", "")
    assert "//cdn" not in page.text
    elements = set(re.findall(r"<([a-z]+)", page.text))
    assert elements <= {"html", "head", "meta", "title", "link", "body", "div", "script"}
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "object-src" not in policy, "`default-src` does not apply to plug-ins"
    sources = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert sources
    assert all(source.startswith(("/docs/", "data:,")) for source in sources)
    for path in PATHS:
        assert shared_client.service.http.get(path).headers["content-type"].startswith("application/json")


@pytest.mark.asvs("3.5.1", "3.5.2")
def test_cookies_and_basic_authentication_are_no_credential(shared_client: ApiClient) -> None:
    key = str(shared_client.authorization).removeprefix("Bearer ")
    anonymous, cookies = shared_client.with_credential(None), f"Authorization={key}; api_key={key}; session={key}"
    for headers in ({"Cookie": cookies}, {"Proxy-Authorization": f"Bearer {key}"}):
        assert anonymous.request("POST", "/contexts", json={}, headers=headers).status_code == 401
    basic = httpx.BasicAuth("user", key)
    assert shared_client.service.http.get("/api/v1/contexts", auth=basic).status_code == 401


@each_row("path", [path for _, path in sorted(ROUTE_SCOPES)])
@pytest.mark.asvs("3.5.2", "3.4.2")
def test_cors_preflight_is_refused(shared_client: ApiClient, path: str) -> None:
    asked = {"Method": "POST", "Headers": "authorization"}
    headers = {"Origin": "https://elsewhere.example"} | {f"Access-Control-Request-{key}": asked[key] for key in asked}
    response = shared_client.request("OPTIONS", path.removeprefix(API), headers=headers)
    # OPTIONS of resumable uploads tells anybody what they can do, and lets no page in.
    assert response.status_code == (204 if path.startswith("/api/v1/uploads") else 405)
    assert not [name for name in response.headers if name.startswith("access-control-")]


@pytest.mark.asvs("3.5.3")
def test_safe_methods_change_nothing(client: ApiClient) -> None:
    """Only the download count and the audit log change when a link is requested."""
    assert {route for route in AUDITED_ROUTES if route[0] in {"GET", "HEAD"}} == {
        ("GET", "/api/v1/files/{file_id}"),
        ("GET", "/api/v1/files/{file_id}/preview"),
        ("GET", "/api/v1/jobs/{job_id}/download"),
        ("GET", "/api/v1/quarantine/{file_id}/download"),
        ("GET", "/api/v1/quarantine/{file_id}/preview"),
    }
    context = client.create_context()
    stored = data(client.upload(context=context), 201)
    ids = webhook_ids(client) | {
        "context_key": context,
        "check_name": "none",
        "example_id": "exm_none",
        "digest": "0" * 64,
        "file_id": stored["file_id"],
        "report_id": stored["report_id"],
        "tenant_id": client.tenant_id,
        "config_id": "bkt_none",
        "locale": "en",
        "api_key_id": client.create_key("metadata").api_key_id,
        "upload_id": tus.begin(client, 5, context=context).path.rpartition("/")[2],
        "token_id": data(client.post("/upload-tokens", {"context": context}), 201)["token_id"],
        "job_id": data(client.post("/files/bulk-delete", {"file_ids": ["file_unknown"]}), 201)["job_id"],
    }
    before = _current_state(client, ids)
    for path in sorted({path for _, path in ROUTE_SCOPES}):
        for method in ("GET", "HEAD", "OPTIONS", "TRACE"):
            client.request(method, path.removeprefix(API).format_map(ids))
    after = _current_state(client, ids)
    for name in ("download_count", "last_downloaded_at"):
        before["file"][name] = after["file"][name]
    assert after == before


def _current_state(client: ApiClient, ids: dict[str, str]) -> dict[str, Any]:
    return {
        "context": data(client.get(f"/contexts/{ids['context_key']}")),
        "file": data(client.get(f"/files/{ids['file_id']}/metadata")),
        "key": data(client.get(f"/api-keys/{ids['api_key_id']}")),
        "buckets": data(client.get(client.buckets)),
        "files": client.get("/files").json()["pagination"]["total"],
        "reports": client.get("/reports").json()["data"],
    }


@each_row(
    "path",
    [
        *("/.git/HEAD", "/.git/config", "/.svn/entries", "/.env", "/pyproject.toml", "/sluice/settings.py"),
        "/backup.zip",
        *("/", "/api", "/api/", "/api/v1", "/api/v1/", "/static/", "/data/", "/objects/", "/api/v1/downloads"),
        "/api/v1/downloads/",
        *("/..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd", "/api/v1/downloads/..%2f..%2fkeys%2flinks.hex"),
        *("/debug", "/_console", "/actuator", "/server-status", "/redoc", "/admin"),
    ],
)
@pytest.mark.asvs("13.4.1", "13.4.2", "13.4.3", "13.4.5")
def test_source_files_folders_and_debug_tools_are_not_served(service: Service, path: str) -> None:
    response = service.http.get(path)
    assert response.status_code in {403, 404}
    assert response.headers["content-type"].startswith("application/json")
    assert response.json()["status"] == "ERROR"


@pytest.mark.asvs("1.1.1", "1.1.2", "1.2.2")
def test_text_is_decoded_once_stored_plain_and_encoded_on_output(client: ApiClient) -> None:
    client.create_context(context_key="claims")
    assert client.request("GET", "/contexts/%63laims").status_code == 200
    assert client.request("GET", "/contexts/%2563laims").status_code == 404
    file_id = client.store("%41%2541.txt", context="claims")
    assert data(client.get(f"/files/{file_id}/metadata"))["original_filename"] == "%41%2541.txt"
    assert client.get("/files", context="%63laims").json()["data"] == []
    name = 'ü <b> & "q" ;%0a.txt'
    context = client.create_context(storage_path_template="a b+c/{file_id}'(1)", display_name='<b> & "')
    file_id = client.store(name.replace('"', "'"), context=context)
    assert data(client.get(f"/files/{file_id}/metadata"))["original_filename"] == name.replace('"', "'")
    assert data(client.get(f"/contexts/{context}"))["display_name"] == '<b> & "'
    link = data(client.get(f"/files/{file_id}"))["download_url"]
    assert urlsplit(link).scheme in {"http", "https"}
    assert re.fullmatch(r"[A-Za-z0-9._~:/?&=%+-]+", link)
    response = httpx.get(link)
    assert response.content == TEXT
    assert response.headers["content-disposition"].isascii()
    assert "filename*=UTF-8''%C3%BC%20%3Cb%3E" in response.headers["content-disposition"]


@each_row("text", ["%s%n%x", "{0.__class__}", "{tenant_id}", "${7*7}", "{{7*7}}", "#{7*7}", "%(message)s"])
@pytest.mark.asvs("1.3.10")
def test_text_is_never_used_as_a_format_string(client: ApiClient, text: str) -> None:
    key = client.create_context(display_name=text, description=text)
    context = data(client.get(f"/contexts/{key}"))
    assert (context["display_name"], context["description"]) == (text, text)
    file_id = client.store(f"{text.replace('/', '')}.txt", context=key, metadata={text: text})
    assert data(client.get(f"/files/{file_id}/metadata"))["metadata"] == {text: text}


@each_row("number", [2**31, 2**53, 2**63, 2**64, 10**30, -1, -(2**63) - 1])
@pytest.mark.asvs("1.4.2")
def test_out_of_range_numbers_are_refused_without_an_overflow(bare_client: ApiClient, number: int) -> None:
    rate = {"max_uploads": number, "window_seconds": number}
    for field, value in (("max_file_size_mb", number), ("storage_quota_mb", number), ("upload_rate_limit", rate)):
        body = {"context_key": "a", "display_name": "x", field: value}
        assert bare_client.post("/contexts", body).status_code == 422
    key = {"name": "x", "scopes": ["upload"], "expires_in_days": number}
    assert bare_client.post("/api-keys", key).status_code == 422
    for name in ("page", "page_size"):
        assert bare_client.get("/files", **{name: number}).status_code in {200, 422}


@pytest.mark.asvs("15.3.7")
def test_duplicate_query_parameter_has_one_reading(shared_client: ApiClient) -> None:
    """The last value counts on every route."""
    for path in ("/contexts", "/files", "/api-keys", "/audit"):
        response = shared_client.request("GET", f"{path}?page_size=7&page_size=9&page=1")
        assert response.json()["pagination"]["page_size"] == 9
    twice = [("Authorization", "Bearer wrong"), ("Authorization", str(shared_client.authorization))]
    assert shared_client.service.http.get("/api/v1/contexts", headers=twice).status_code in {400, 401}
