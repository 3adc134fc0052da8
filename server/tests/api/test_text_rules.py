"""Contexts that judge the text of documents: what is refused, what the sender reads, and that no text is kept."""

import io
import json
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from sluice_inspect.ocr.languages import installed_languages
from sluice_inspect.text_questions import Language
from tests.api import tus
from tests.api.responses import assert_rejected, data
from tests.api.samples import docx_file, noise, pdf, picture
from tests.api.test_sanitising import docm
from tests.required import UNDER_CI
from tests.rows import each_row
from tests.service import ApiClient

NUMBER = {"name": "invoice number", "any": ["invoice no", "Rechnungsnummer"], "pattern": r"RE-\d{4}"}
SECRET = "zanzibar"
LETTER = b"This is the text of a letter that we have sent to you, and not an invoice. " * 4
GERMAN = "Die Rechnung ist nicht bezahlt, und wir bitten Sie um die Zahlung auf das Konto der Bank. " * 3


def ruled(**text: Any) -> dict[str, Any]:
    return {"text": text}


def page(text: str) -> bytes:
    return pdf(b"BT /F1 24 Tf 72 700 Td (" + text.encode() + b") Tj ET")


def scan(text: str) -> bytes:
    from PIL import Image, ImageDraw  # noqa: PLC0415  (loaded when a test needs it)

    page, file = Image.new("L", (600, 200), 250), io.BytesIO()
    ImageDraw.Draw(page).text((60, 60), text, fill=30, font_size=40)
    page.save(file, "PNG")
    return file.getvalue()


def validated(client: ApiClient, context: str, name: str, content: bytes) -> dict[str, Any]:
    fields = {"files": {"file": (name, content)}, "data": {"context": context}}
    found: dict[str, Any] = data(client.request("POST", "/files/validate", **fields))["report"]
    return found


def test_missing_text_is_rejected_with_its_name_and_found_text_is_accepted(client: ApiClient) -> None:
    context = client.create_context(policies=ruled(must_contain=[NUMBER]))
    for name, content in (
        ("a.pdf", page("Invoice No: 7")),
        ("b.pdf", page("see re-0042")),
        ("c.docx", docx_file("Unsere RECHNUNGSNUMMER: 7")),
        ("d.txt", b"invoice\r\n   NO 7"),
    ):
        data(client.upload(name, content, context=context), 201)
    refused = client.upload("a.pdf", page(f"a letter about {SECRET}"), context=context)
    assert_rejected(refused, "missing_text")
    assert refused.json()["report"]["message"].startswith("We did not find “invoice number” in this document.")
    report = data(client.get(f"/reports/{refused.headers['sluice-report-id']}"))
    check = next(each for each in report["checks"] if each["name"] == "policy.text")
    assert (check["outcome"], check["found"]) == ("fail", {"missing": ["invoice number"]})
    text = {"why": "", "words": 4, "languages": [], "found": [], "age_days": None, "identifiers": {}, "is_cut": False}
    assert report["text"] == text
    kept = refused.text + json.dumps(report) + repr(client.decisions()) + client.service.log.read_text()
    assert SECRET not in kept


@each_row("reason, rules, text", [
    ("forbidden_text", {"must_not_contain": [{"name": "drafts", "any": ["draft"]}]}, "a DRAFT only"),
    ("wrong_language", {"languages": ["en", "fr"]}, GERMAN),
    ("missing_text", {"min_words": 20}, "few words"),
    ("outdated_document", {"max_age_days": 90}, "Date: 12 March 2020"),
    ("outdated_document", {"max_age_days": 90, "needs_date": True}, "12 March 2020"),
    ("identifier_found", {"identifiers": ["payment_card"]}, "pay with 4111 1111 1111 1111 12/28"),
    ("identifier_found", {"identifiers": ["iban", "us_ssn"]}, "to DE89 3704 0044 0532 0130 00"),
])  # fmt: skip
def test_each_rule_on_text_has_its_reason(client: ApiClient, reason: str, rules: dict[str, Any], text: str) -> None:
    context = client.create_context(policies=ruled(**rules))
    assert_rejected(client.upload("a.txt", text.encode(), context=context), reason)
    today = f"Date: {datetime.now(UTC):%d.%m.%Y}. ".encode()
    data(client.upload("b.txt", today + LETTER, context=context), 201)


def test_files_without_text_fail_only_rules_that_need_some(client: ApiClient) -> None:
    asking = client.create_context(policies=ruled(min_words=1))
    other = client.create_context(policies=ruled(identifiers=["iban"], languages=["en"]))
    for name, content in (("a.png", picture()), ("a.bin", noise(3000)), ("scan.pdf", pdf(b"9 9 99 99 re f"))):
        refused = client.upload(name, content, context=asking)
        assert_rejected(refused, "missing_text")
        assert "could not read any text" in refused.json()["report"]["message"]
        data(client.upload(name, content, context=other), 201)


@pytest.mark.skipif(
    "en" not in installed_languages() and not UNDER_CI,
    reason="Tesseract is not installed: apt-get install tesseract-ocr",
)
def test_scan_is_read_by_ocr_and_one_without_text_has_its_own_sentence(client: ApiClient) -> None:
    context = client.create_context(policies=ruled(must_contain=[NUMBER], ocr=["en"]))
    stored = client.upload("a.png", scan("Invoice No: 7"), context=context)
    assert data(client.get(f"/reports/{stored.headers['sluice-report-id']}"))["text"]["ocr_pages"] == 1
    refused = client.upload("b.png", picture(), context=context)
    assert_rejected(refused, "missing_text")
    assert "in this picture or scan" in refused.json()["report"]["message"]


def test_ocr_in_a_language_that_is_not_installed_is_refused_with_what_to_install(client: ApiClient) -> None:
    missing = next(iter(sorted(set(get_args(Language)) - installed_languages())))
    context = client.create_context(policies=ruled(min_words=1))
    refused = client.patch(f"/contexts/{context}", {"policies": ruled(min_words=1, ocr=[missing])})
    assert refused.status_code == 422
    assert f"OCR for {missing}; its operator can install tesseract-ocr tesseract" in refused.json()["errors"][0]


def test_text_policy_in_quarantine_mode_and_dry_run(client: ApiClient) -> None:
    context = client.create_context(policies=ruled(mode="quarantine", must_contain=[NUMBER]))
    assert validated(client, context, "a.txt", b"a letter")["outcome"] == "quarantined"
    stored = client.upload("a.txt", b"a letter", context=context)
    assert stored.status_code == 201
    assert data(client.get(f"/reports/{stored.headers['sluice-report-id']}"))["outcome"] == "quarantined"
    assert validated(client, context, "a.txt", b"invoice no 3")["outcome"] == "accepted"


def test_text_of_what_is_stored_is_judged(client: ApiClient) -> None:
    rules = ruled(must_contain=[{"name": "water", "any": ["clean water"]}])
    context = client.create_context(sanitise={"remove": ["active_content"]}, policies=rules)
    data(client.upload("a.docm", docm(), context=context), 201)
    rules = ruled(must_not_contain=[{"name": "water", "any": ["clean water"]}])
    refusing = client.create_context(sanitise={"remove": ["active_content"]}, policies=rules)
    assert_rejected(client.upload("a.docm", docm(), context=refusing), "forbidden_text")


def test_text_of_a_resumable_upload_is_judged(client: ApiClient) -> None:
    context = client.create_context(policies=ruled(must_contain=[NUMBER]))
    upload = tus.begin(client, len(LETTER), context=context, filename="a.txt")
    assert_rejected(upload.patch(LETTER, 0), "missing_text")


def test_replay_judges_by_what_was_searched_and_nothing_else(client: ApiClient) -> None:
    context = client.create_context(policies=ruled(must_contain=[NUMBER]))
    client.upload("a.txt", b"a letter", context=context)
    for rules, expected in (
        (ruled(mode="report", must_contain=[NUMBER]), (1, 0)),
        (ruled(must_contain=[{**NUMBER, "pattern": "letter"}]), (0, 1)),
        (ruled(languages=["en"]), (1, 0)),
    ):
        replay = data(client.post(f"/contexts/{context}/replay", {"changes": {"policies": rules}}))
        accepted = sum(each["count"] for each in replay["would_accept"])
        assert (accepted, replay["unknown"]["count"]) == expected, rules


@each_row("rules, problem", [
    ({}, "policies.text: expected at least one rule"),
    ({"must_contain": [{"name": "a"}]}, "expected any or pattern"),
    ({"must_contain": [{"name": "a", "pattern": "(?=x)"}]}, "RE2 syntax"),
    ({"must_contain": [{"name": "a", "any": ["x"]}], "must_not_contain": [{"name": "a", "any": ["y"]}]}, "once"),
    ({"languages": ["xx"]}, "languages"),
])  # fmt: skip
def test_policy_that_asks_nothing_or_cannot_be_searched_is_refused(
    client: ApiClient, rules: dict[str, Any], problem: str
) -> None:
    body = {"context_key": "texts", "display_name": "Texts", "policies": ruled(**rules)}
    refused = client.post("/contexts", body)
    (found,) = refused.json()["errors"]
    assert (refused.status_code, problem in found) == (422, True)
