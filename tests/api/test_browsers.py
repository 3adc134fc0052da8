"""What a browser, or who misuses one, gets of the API: protecting headers, no cookies, no redirects, no other origin, no files but those stored."""

import re
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from sluice.access import AUDITED_ROUTES, ROUTE_SCOPES
from tests.api.answers import data
from tests.api.samples import TEXT
from tests.gate import API, Gate, Service

PATHS = ("/api/v1/contexts", "/api/v1/files/file_none", "/api/v1/downloads/file_none", "/nowhere", "/health/live", "/openapi.json")
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="5" height="5" fill="red"/></svg>'


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "TRACE"])
@pytest.mark.asvs("3.2.1", "3.4.3", "3.4.4", "3.4.5", "3.4.6", "14.2.2")
def test_every_answer_keeps_browsers_from_running_guessing_framing_keeping_and_telling(lobby: Gate, method: str, path: str) -> None:
    for gate in (lobby, lobby.as_(None)):
        credential = {} if gate.authorization is None else {"Authorization": gate.authorization}
        headers = gate.service.http.request(method, path, headers=credential).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "set-cookie" not in headers


@pytest.mark.asvs("3.2.1", "1.3.4", "1.3.5")
def test_a_picture_that_could_be_a_page_is_handed_out_as_a_file_in_a_sandbox(gate: Gate, served_here: None) -> None:
    link = data(gate.get(f"/files/{gate.store('sign.svg', SVG, context=gate.context())}"))["download_url"]
    headers = httpx.get(link, headers={"Sec-Fetch-Dest": "document", "Accept": "text/html"}).headers
    assert headers["content-disposition"].startswith("attachment")
    assert headers["content-security-policy"].startswith("sandbox;")
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", [path for _, path in sorted(ROUTE_SCOPES)])
@pytest.mark.parametrize("ending", ["", "/", "//", "?next=https://elsewhere.example"])
@pytest.mark.asvs("3.7.2", "4.1.2")
def test_nobody_is_sent_elsewhere(lobby: Gate, path: str, ending: str) -> None:
    for headers in ({}, {"Host": "elsewhere.example"}, {"X-Forwarded-Host": "elsewhere.example", "X-Forwarded-Proto": "http"}):
        answer = lobby.ask("GET", path.removeprefix(API) + ending, headers=headers)
        assert not 300 <= answer.status_code < 400
        assert "location" not in answer.headers
        assert "elsewhere.example" not in answer.text


@pytest.mark.asvs("3.7.1")
def test_the_one_page_there_is_needs_nothing_but_scripts_and_styles_of_its_own(lobby: Gate) -> None:
    page = lobby.service.http.get("/docs")
    elements = set(re.findall(r"<([a-z]+)", page.text))
    assert elements <= {"html", "head", "meta", "title", "link", "body", "div", "script"}
    assert "object-src" not in page.headers["content-security-policy"]  # so that `default-src 'none'` holds for plug-ins
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    sources = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert sources
    assert all(source.startswith(("/docs/", "data:,")) for source in sources)
    for path in PATHS:
        assert lobby.service.http.get(path).headers["content-type"].startswith("application/json")


@pytest.mark.asvs("3.5.1", "3.5.2")
def test_what_a_browser_adds_by_itself_is_no_credential(lobby: Gate) -> None:
    key = str(lobby.authorization).removeprefix("Bearer ")
    for headers in ({"Cookie": f"Authorization={key}; api_key={key}; session={key}"}, {"Proxy-Authorization": f"Bearer {key}"}):
        assert lobby.as_(None).ask("POST", "/contexts", json={}, headers=headers).status_code == 401
    basic = httpx.BasicAuth("user", key)
    assert lobby.service.http.get("/api/v1/contexts", auth=basic).status_code == 401


@pytest.mark.parametrize("path", [path for _, path in sorted(ROUTE_SCOPES)])
@pytest.mark.asvs("3.5.2", "3.4.2")
def test_a_browser_that_asks_before_is_told_no(lobby: Gate, path: str) -> None:
    asked = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "POST"}
    answer = lobby.ask("OPTIONS", path.removeprefix(API), headers=asked | {"Access-Control-Request-Headers": "authorization"})
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.asvs("3.5.3")
def test_no_reading_method_changes_anything(gate: Gate) -> None:
    """A link that is asked for is counted and noted: that is all."""
    assert {route for route in AUDITED_ROUTES if route[0] in {"GET", "HEAD"}} == {("GET", "/api/v1/files/{file_id}")}
    context = gate.context()
    ids = {"context_key": context, "file_id": gate.store(context=context), "tenant_id": gate.tenant_id, "config_id": "bkt_none"}
    ids["api_key_id"] = gate.key("metadata").api_key_id
    before = _all_of(gate, ids)
    for path in sorted({path for _, path in ROUTE_SCOPES}):
        for method in ("GET", "HEAD", "OPTIONS", "TRACE"):
            gate.ask(method, path.removeprefix(API).format_map(ids))
    after = _all_of(gate, ids)
    assert after["file"] == before["file"] | {
        "download_count": after["file"]["download_count"],
        "last_downloaded_at": after["file"]["last_downloaded_at"],
    }
    assert {name: one for name, one in after.items() if name != "file"} == {
        name: one for name, one in before.items() if name != "file"
    }


def _all_of(gate: Gate, ids: dict[str, str]) -> dict[str, Any]:
    return {
        "context": data(gate.get(f"/contexts/{ids['context_key']}")),
        "file": data(gate.get(f"/files/{ids['file_id']}/metadata")),
        "key": data(gate.get(f"/api-keys/{ids['api_key_id']}")),
        "buckets": data(gate.get(gate.buckets)),
        "files": gate.get("/files").json()["pagination"]["total"],
    }


@pytest.mark.parametrize(
    "path",
    [
        *("/.git/HEAD", "/.git/config", "/.svn/entries", "/.env", "/pyproject.toml", "/sluice/settings.py", "/backup.zip"),
        *(
            "/",
            "/api",
            "/api/",
            "/api/v1",
            "/api/v1/",
            "/static/",
            "/data/",
            "/objects/",
            "/api/v1/downloads",
            "/api/v1/downloads/",
        ),
        *("/..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd", "/api/v1/downloads/..%2f..%2fkeys%2flinks.hex"),
        *("/debug", "/console", "/actuator", "/server-status", "/redoc", "/admin"),
    ],
)
@pytest.mark.asvs("13.4.1", "13.4.2", "13.4.3", "13.4.5")
def test_no_folder_source_or_tool_is_served(service: Service, path: str) -> None:
    answer = service.http.get(path)
    assert answer.status_code in {403, 404}
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.json()["status"] == "ERROR"


@pytest.mark.asvs("1.1.1")
def test_percent_encoding_is_undone_once(gate: Gate) -> None:
    gate.context(context_key="claims")
    assert gate.ask("GET", "/contexts/%63laims").status_code == 200
    assert gate.ask("GET", "/contexts/%2563laims").status_code == 404
    file_id = gate.store("%41%2541.txt", context="claims")
    assert data(gate.get(f"/files/{file_id}/metadata"))["original_filename"] == "%41%2541.txt"
    assert gate.get("/files", context="%63laims").json()["data"] == []


@pytest.mark.asvs("1.1.2", "1.2.2")
def test_a_text_is_kept_plain_and_encoded_where_it_is_put(gate: Gate) -> None:
    name = 'ü <b> & "q" ;%0a.txt'
    context = gate.context(storage_path_template="a b+c/{file_id}'(1)", display_name='<b> & "')
    file_id = gate.store(name.replace('"', "'"), context=context)
    assert data(gate.get(f"/files/{file_id}/metadata"))["original_filename"] == name.replace('"', "'")
    assert data(gate.get(f"/contexts/{context}"))["display_name"] == '<b> & "'
    link = data(gate.get(f"/files/{file_id}"))["download_url"]
    assert urlsplit(link).scheme in {"http", "https"}
    assert re.fullmatch(r"[A-Za-z0-9._~:/?&=%+-]+", link)
    answer = httpx.get(link)
    assert answer.content == TEXT
    assert answer.headers["content-disposition"].isascii()
    assert "filename*=UTF-8''%C3%BC%20%3Cb%3E" in answer.headers["content-disposition"]


@pytest.mark.parametrize("text", ["%s%n%x", "{0.__class__}", "{tenant_id}", "${7*7}", "{{7*7}}", "#{7*7}", "%(message)s"])
@pytest.mark.asvs("1.3.10")
def test_no_text_is_a_format_string(gate: Gate, text: str) -> None:
    context = data(gate.post("/contexts", {"context_key": "formats", "display_name": text, "description": text}), 201)
    assert (context["display_name"], context["description"]) == (text, text)
    file_id = gate.store(f"{text.replace('/', '')}.txt", context="formats", metadata={text: text})
    assert data(gate.get(f"/files/{file_id}/metadata"))["metadata"] == {text: text}


@pytest.mark.parametrize("number", [2**31, 2**53, 2**63, 2**64, 10**30, -1, -(2**63) - 1])
@pytest.mark.asvs("1.4.2")
def test_no_number_is_too_large_for_its_place(newcomer: Gate, number: int) -> None:
    fields: list[dict[str, object]] = [
        {"max_file_size_mb": number},
        {"storage_quota_mb": number},
        {"upload_rate_limit": {"max_uploads": number, "window_seconds": number}},
    ]
    for more in fields:
        assert newcomer.post("/contexts", {"context_key": "a", "display_name": "x"} | more).status_code == 422
    assert newcomer.post("/api-keys", {"name": "x", "scopes": ["upload"], "expires_in_days": number}).status_code == 422
    for query in ({"page": number}, {"page_size": number}):
        assert newcomer.get("/files", **query).status_code in {200, 422}


@pytest.mark.asvs("15.3.7")
def test_a_parameter_that_comes_twice_is_read_in_one_way(lobby: Gate) -> None:
    """The last one counts, everywhere: no two readers can differ, since there is one."""
    for path in ("/contexts", "/files", "/api-keys", "/audit"):
        answer = lobby.ask("GET", f"{path}?page_size=7&page_size=9&page=1")
        assert answer.json()["pagination"]["page_size"] == 9
    twice = [("Authorization", "Bearer wrong"), ("Authorization", str(lobby.authorization))]
    assert lobby.service.http.get("/api/v1/contexts", headers=twice).status_code in {400, 401}
