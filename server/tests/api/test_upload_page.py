"""The upload page and plain HTML forms over HTTP. `server/tests/browser` looks at both in a browser."""

import base64
import gzip
import json
import re
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluice.api.pages.colors import color_style
from sluice.messages import LOCALES, catalogue_of
from tests.api import forms
from tests.api.responses import data
from tests.api.responses import page as items_of
from tests.api.samples import TEXT, picture
from tests.rows import each_row
from tests.service import ApiClient

SOURCE = files("sluice.api.pages").joinpath("static", "sluice-upload.js").read_bytes()
EXE = b"MZ" + b"\1" * 200


def issue(client: ApiClient, **fields: Any) -> dict[str, Any]:
    context = client.create_context(allowed_extensions=["txt", "png"], max_file_size_mb=2)
    made: dict[str, Any] = data(client.post("/upload-tokens", {"context": context, "max_files": 3, **fields}), 201)
    return made


def path_of(token: dict[str, Any]) -> str:
    return str(urlsplit(token["form_url"]).path)


def show(client: ApiClient, token: dict[str, Any], language: str = "en") -> httpx.Response:
    return client.service.http.get(path_of(token), headers={"Accept-Language": language})


def send(client: ApiClient, token: dict[str, Any], *files: tuple[str, bytes], language: str = "en") -> httpx.Response:
    body = forms.encode([forms.file(name, content) for name, content in files])
    headers = {"Content-Type": forms.content_type(), "Accept-Language": language}
    return client.service.http.post(path_of(token), content=body, headers=headers)


def outcomes(client: ApiClient, token: dict[str, Any]) -> list[str]:
    return [file["outcome"] for file in data(client.get(f"/upload-tokens/{token['token_id']}"))["files"]]


def test_page_is_in_the_language_of_the_sender(client: ApiClient) -> None:
    token = issue(client)
    for locale in LOCALES:
        page = show(client, token, locale)
        assert (page.status_code, page.headers["content-language"]) == (200, locale)
        direction = "rtl" if locale in {"ar", "he"} else "ltr"
        assert f'<html lang="{locale}" dir="{direction}"' in page.text
        assert client.service.http.get(f"/static/words.json?lang={locale}").json()["direction"] == direction
        assert catalogue_of(locale).page["title"] in page.text
        assert "Accept-Language" in page.headers["vary"]


def test_page_says_what_is_accepted_nothing_of_the_tenant_and_loads_nothing_from_elsewhere(client: ApiClient) -> None:
    token = issue(client, max_file_size_bytes=1_048_576, allowed_extensions=["png"], end_user="mail@example.com")
    page = show(client, token)
    text = page.text.replace("\xa0", " ")
    for phrase in ("Accepted: PNG", "Up to 1 MB per file", "3 files can still be sent", "Closes in 15 minutes"):
        assert phrase in text
    assert 'accept=".png"' in text
    shown = data(client.get(f"/upload-tokens/{token['token_id']}"))
    for secret in (client.tenant_id, shown["context"], token["token_id"], "mail@example.com", shown["created_by"]):
        assert secret not in text
    assert page.headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )
    kept = {"cache-control": "no-store", "referrer-policy": "no-referrer", "x-frame-options": "DENY"}
    assert {name: page.headers[name] for name in kept} == kept
    assert not re.search(r"<style|style=|<script(?! type=\"module\" src=\"\.\./static/)|\son\w+=", page.text)
    for source in re.findall(r'(?:src|href)="([^"]+)"', page.text):
        assert source.startswith("../static/") or source == "data:,"


def test_page_shows_who_asks_for_what_and_a_token_says_it_for_itself(client: ApiClient) -> None:
    logo = base64.b64encode(picture()).decode()
    page_fields = {"page_name": "Muster & Co", "page_color": "#1f6feb", "page_logo": logo}
    context = client.create_context(**page_fields, page_sentence="Muster & Co asks for your documents.")
    token = data(client.post("/upload-tokens", {"context": context}), 201)
    page = show(client, token)
    assert "<h1><bdi>Muster &amp; Co asks for your documents.</bdi></h1>" in page.text
    assert "<bdi>Muster &amp; Co</bdi>" in page.text
    assert f'<img src="data:image/png;base64,{logo}" alt="">' in page.text
    assert page.headers["content-security-policy"] == show(client, issue(client)).headers["content-security-policy"]
    (sheet,) = re.findall(r'href="\.\.(/static/colors/1f6feb\.css\?v=\w+)"', page.text)
    assert "--accent: #1f6feb; --on-accent: #fff;" in client.service.http.get(sheet).text
    assert client.service.http.get("/static/colors/red.css").status_code == 404
    body = {"context": context, "page_sentence": "Your documents for claim 4711, please."}
    token = data(client.post("/upload-tokens", body), 201)
    assert data(client.get(f"/upload-tokens/{token['token_id']}"))["page_sentence"] == body["page_sentence"]
    assert f"<h1><bdi>{body['page_sentence']}</bdi></h1>" in show(client, token).text
    client.delete(f"/upload-tokens/{token['token_id']}")
    over = show(client, token).text
    assert "<bdi>Muster &amp; Co</bdi>" in over
    assert body["page_sentence"] not in over


@given(st.from_regex("[0-9a-f]{6}", fullmatch=True))
@example("ffffff")
@example("000000")
@example("777777")
def test_any_colour_is_seen_on_the_page_and_its_text_can_be_read(name: str) -> None:
    style = color_style(name)
    assert style is not None
    shown = re.findall(r"--accent: #(\w{6}); --on-accent: #(\w{3});", style.content.decode())
    for (accent, text), surface in zip(shown, ("ffffff", "181920"), strict=True):
        assert contrast(accent, surface) >= 3
        assert contrast(accent, text * 2) >= 4.5


def contrast(*colors: str) -> float:
    """Return the contrast of two colours (WCAG 2.2, "contrast ratio")."""
    lights = []
    for color in colors:
        parts = [int(color[place : place + 2], 16) / 255 for place in (0, 2, 4)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        lights.append(0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)
    return max(lights) / min(lights)


def test_unknown_token_has_a_page_and_one_with_another_secret_or_without_forms_is_unknown(client: ApiClient) -> None:
    for ending in ("unknown", "x", "%00", "ut_live_000000000000_" + "0" * 49):
        page = client.service.http.get(f"/u/{ending}", headers={"Accept-Language": "de"})
        assert page.status_code == 404
        assert "Diese Seite wurde nicht gefunden." in page.text
    one, other, no_forms = issue(client), issue(client), issue(client, methods=["tus"])
    mixed = {"form_url": f"/u/{one['token'][:21]}{other['token'][21:]}"}
    for token in (mixed, no_forms):
        assert show(client, token).status_code == 404
        assert send(client, token, ("note.txt", TEXT)).status_code == 404


def test_page_of_a_revoked_or_spent_token_or_an_inactive_context_has_no_form(client: ApiClient) -> None:
    revoked, spent = issue(client), issue(client, max_files=1)
    client.delete(f"/upload-tokens/{revoked['token_id']}")
    page = show(client, revoked)
    assert page.status_code == 410
    assert "This link is no longer valid." in page.text
    refused = send(client, revoked, ("note.txt", TEXT))
    assert outcomes(client, revoked) == []
    assert "This file has arrived" not in show(client, spent).text
    sent = send(client, spent, ("note.txt", TEXT))
    assert "Thank you, this file has arrived." in sent.text
    over = show(client, spent)
    assert over.status_code == 200
    assert "No more files can be sent with this link." in over.text
    for without_form in (page, refused, sent, over):
        assert "<form" not in without_form.text
    token = issue(client)
    assert client.service.http.head(path_of(token)).status_code == 200
    refused = client.service.http.delete(path_of(token))
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, POST")
    context = data(client.get(f"/upload-tokens/{token['token_id']}"))["context"]
    client.patch(f"/contexts/{context}", {"status": "inactive"})
    page = show(client, token)
    assert page.status_code == 409
    assert "Files cannot be received at the moment." in page.text


@pytest.mark.one_process
def test_no_token_is_in_the_log(client: ApiClient) -> None:
    token = issue(client)
    show(client, token)
    send(client, token, ("note.txt", TEXT))
    client.service.http.get(path_of(token) + "x")
    assert token["token"][21:] not in client.service.log.read_text(errors="replace")


def test_each_file_of_a_form_gets_its_own_verdict(client: ApiClient) -> None:
    token = issue(client)
    page = send(client, token, ("note.txt", TEXT), ("big.txt", b"a" * 3_000_000), ("list.txt", TEXT * 2), language="fr")
    assert page.status_code == 400
    assert page.text.count("Merci, ce fichier est bien arrivé.") == 2
    assert "<bdi>big.txt</bdi>" in page.text
    assert outcomes(client, token) == ["accepted", "rejected", "accepted"]
    assert "1 fichier peut encore être envoyé" in page.text
    page = send(client, token, ("<img src=x onerror=alert(1)>.exe", EXE))
    assert "<img" not in page.text
    assert "&lt;img src=x onerror=alert(1)&gt;.exe" in page.text


def test_form_without_a_file_or_with_too_many_is_refused(client: ApiClient) -> None:
    token = issue(client, max_files=1)
    for body in (forms.encode([forms.file("", b"")]), forms.encode([])):
        page = client.service.http.post(path_of(token), content=body, headers={"Content-Type": forms.content_type()})
        assert page.status_code == 400
    assert outcomes(client, token) == []
    page = send(client, token, ("a.txt", TEXT), ("b.txt", TEXT))
    assert page.text.count("Thank you, this file has arrived.") == 1
    assert "No more files can be sent here." in page.text
    assert outcomes(client, token) == ["accepted"]


@each_row(
    "content_type, body",
    [
        *(("application/x-www-form-urlencoded", b"file=a"), ("multipart/form-data", b"")),
        (forms.content_type(), b"no form at all"),
        (forms.content_type(), forms.encode([forms.file("note.txt", TEXT)])[:-20]),
    ],
)
def test_form_that_cannot_be_read_is_answered_with_the_page(client: ApiClient, content_type: str, body: bytes) -> None:
    page = client.service.http.post(path_of(issue(client)), content=body, headers={"Content-Type": content_type})
    assert page.status_code == 400
    assert "What was sent could not be read. Please try again." in page.text


def test_stored_files_carry_what_the_token_says_and_lead_to_redirect_ok(client: ApiClient) -> None:
    fields = {
        "end_user": "user-42",
        "metadata": {"claim": "C-7"},
        "redirect_ok": "https://app.example.com/ok?case=7#top",
    }
    token = issue(client, **fields)
    response = send(client, token, ("a.txt", TEXT), ("b.txt", TEXT))
    assert response.headers["location"].startswith("https://app.example.com/ok?case=7&file_id=file_")
    assert response.headers["location"].endswith("#top")
    found = data(client.get(f"/upload-tokens/{token['token_id']}"))["files"]
    assert parse_qsl(urlsplit(response.headers["location"]).query)[1:] == [
        pair for file in found for pair in (("file_id", file["file_id"]), ("report_id", file["report_id"]))
    ]
    for file in items_of(client.get("/files"))[0]:
        assert (file["uploaded_by"], file["uploaded_by_name"]) == (token["token_id"], "user-42")
        assert file["metadata"] == {"claim": "C-7"}


def query_of(response: httpx.Response) -> dict[str, list[str]]:
    assert response.status_code == 303
    return parse_qs(urlsplit(response.headers["location"]).query)


def test_rejected_file_leads_to_redirect_error_if_there_is_one(client: ApiClient) -> None:
    redirects = {"redirect_ok": "https://app.example.com/ok", "redirect_error": "http://localhost:3000/no"}
    token = issue(client, **redirects, max_files=2)
    policy = show(client, token).headers["content-security-policy"]
    assert "form-action 'self' http://localhost:3000 https://app.example.com;" in policy
    response = send(client, token, ("a.txt", TEXT), ("b.exe", EXE))
    assert response.headers["location"].startswith("http://localhost:3000/no?")
    found = query_of(response)
    assert (found["reason"], len(found["file_id"]), len(found["report_id"])) == (["extension_not_allowed"], 1, 2)
    send(client, token, ("c.txt", TEXT * 2))
    assert query_of(send(client, token, ("b.txt", TEXT)))["reason"] == ["spent"]
    client.delete(f"/upload-tokens/{token['token_id']}")
    assert query_of(send(client, token, ("b.txt", TEXT)))["reason"] == ["revoked"]
    page = send(client, issue(client, redirect_ok="https://app.example.com/ok"), ("b.exe", EXE))
    assert page.status_code == 400
    assert "EXE" in page.text


def test_element_is_small_and_loads_from_every_page_and_by_its_version_once(client: ApiClient) -> None:
    assert len(gzip.compress(SOURCE, 9)) < 8000
    get = client.service.http.get
    response = get("/static/sluice-upload.js", headers={"Origin": "https://any.example"})
    assert response.headers["content-type"].startswith("text/javascript")
    assert response.headers["access-control-allow-origin"] == "*"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "public, max-age=3600"
    for path in ("/static/", "/static/other.js", "/static/..%2fassets.py", "/static/upload_page.html"):
        assert get(path).status_code == 404
    for path in re.findall(r'"\.\.(/static/[^"]+)"', show(client, issue(client)).text):
        response = get(path)
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
        again = get(path, headers={"If-None-Match": response.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_words_are_those_of_the_catalogue_in_the_language_that_is_asked_for(client: ApiClient) -> None:
    get = client.service.http.get
    assert get("/static/words.json", headers={"Accept-Language": "pl"}).json()["locale"] == "pl"
    assert get("/static/words.json?lang=de-AT", headers={"Accept-Language": "pl"}).json()["locale"] == "de"
    assert get("/static/words.json?lang=xx").json()["choose"] == "Choose files"
    english = catalogue_of("en")
    known = {**english.page, "stored": english.messages["accepted.plain"]}
    block = SOURCE.decode().partition("const ENGLISH = {")[2].partition("\n};")[0]
    words = dict(line.strip().rstrip(",").split(": ", 1) for line in block.strip().splitlines())
    assert {key: json.loads(text) for key, text in words.items()} == {key: known[key] for key in words}
