"""The pages that reports and problem details link to: `/docs/reasons` and `/docs/errors`."""

import re
from typing import Any

from sluice.errors import SluiceError, catalogue
from sluice.messages import render
from sluice.uploads.reasons import WORDS, Reason
from tests.api import forms
from tests.service import ApiClient


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


def test_page_of_reasons_explains_each_code(shared_client: ApiClient) -> None:
    page = _page(shared_client, "/docs/reasons")
    for reason in Reason:
        section = _section(page, reason.value)
        for text in (WORDS[reason].developer, WORDS[reason].message, render(f"{reason.value}.plain", {}, "en")):
            assert text in section


def test_page_of_errors_explains_each_code(shared_client: ApiClient) -> None:
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
