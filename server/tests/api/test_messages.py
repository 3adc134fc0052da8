"""What anybody may read: catalogues of the sender's sentences, and the pages that reports and problem details link to."""

import re
from typing import Any

import pytest

from sluice.errors import SluiceError, catalogue
from sluice.messages import LOCALES, PARAMETERS, catalogue_of, render
from sluice.uploads.reasons import WORDS, Reason
from tests.api import forms
from tests.api.responses import assert_error, data
from tests.service import ApiClient, Service


@pytest.fixture
def anybody(service: Service) -> ApiClient:
    return service.new_client().with_credential(None)


def test_locales_and_catalogues_are_served_without_a_credential_and_may_be_kept(anybody: ApiClient) -> None:
    listed = data(anybody.get("/messages"))
    assert [item["locale"] for item in listed] == list(LOCALES)
    assert [item["locale"] for item in listed if item["default"]] == ["en"]
    assert {item["locale"]: item["language"] for item in listed}["ja"] == "日本語"
    for locale in LOCALES:
        served = data(anybody.get(f"/messages/{locale}"))
        assert served == catalogue_of(locale).to_json() | {"parameters": dict(PARAMETERS)}
    first = anybody.get("/messages/de")
    assert first.headers["cache-control"] == "public, max-age=3600"
    etag = first.headers["etag"]
    for named in (etag, f'"other", {etag}', "*", etag.removeprefix("W/")):
        again = anybody.request("GET", "/messages/de", headers={"If-None-Match": named})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    for named in ('"other"', anybody.get("/messages/fr").headers["etag"]):
        assert anybody.request("GET", "/messages/de", headers={"If-None-Match": named}).status_code == 200


def test_catalogues_of_known_locales_can_only_be_read_and_with_any_credential(anybody: ApiClient) -> None:
    for locale in ["xx", "DE", "de-AT", "en.json", "%00"]:
        response = anybody.get(f"/messages/{locale}")
        assert_error(response, 404, "Resource not found", f"locale: expected one of {', '.join(LOCALES)}")
        assert response.headers["cache-control"] == "no-store"
    assert anybody.with_credential("sl_live_nonsense").get("/messages/en").status_code == 200
    assert anybody.get("/messages/..%2fen").status_code == 404
    response = anybody.request("POST", "/messages/en")
    assert (response.status_code, response.headers["allow"]) == (405, "GET")


def _page(client: ApiClient, path: str) -> str:
    """Return a page, which loads and runs nothing."""
    response = client.service.http.get(client.service.url + path)
    assert (response.status_code, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert response.headers["content-security-policy"].startswith("default-src 'none'; frame-ancestors 'none';")
    assert not re.search(r"<script|<style|<link|<img|\bstyle=|\bon\w+=", response.text)
    return response.text


def _section(page: str, code: str) -> str:
    found = re.search(rf'<h2 id="{code}">(.*?)</dl>', page, re.DOTALL)
    assert found, code
    return found[1].replace("&#x27;", "'")


def test_pages_of_reasons_and_errors_explain_each_code(shared_client: ApiClient) -> None:
    page = _page(shared_client, "/docs/reasons")
    for reason in Reason:
        section = _section(page, reason.value)
        for text in (WORDS[reason].developer, WORDS[reason].message, render(f"{reason.value}.plain", {}, "en")):
            assert text in section
    page = _page(shared_client, "/docs/errors")
    every: list[type[SluiceError]] = [SluiceError, *catalogue()]
    for error in every:
        section = _section(page, error.code)
        assert error.message in section
        assert f"<dd>{error.status}</dd>" in section


def test_links_of_a_rejection_lead_to_its_codes(client: ApiClient) -> None:
    context = client.create_context(allowed_extensions=["pdf"])
    parts = [forms.field("context", context), forms.file("a.exe", b"MZ")]
    headers = {"Content-Type": forms.content_type(), "Accept": "application/problem+json"}
    body: dict[str, Any] = client.request("POST", "/files/upload", content=forms.encode(parts), headers=headers).json()
    failed = next(check for check in body["report"]["checks"] if check["outcome"] == "fail")
    for link, code in ((failed["doc_url"], "extension_not_allowed"), (body["type"], "file_rejected")):
        path, _, anchor = link.partition("#")
        assert anchor == code
        assert f'<h2 id="{anchor}">' in _page(client, path)
