"""Contexts that judge the text of documents: what is refused, what the sender reads, and that no text is kept."""

import json
from typing import Any

from tests.api import tus
from tests.api.responses import assert_rejected, assert_validation_error, data
from tests.api.samples import docx_file, noise, pdf, picture
from tests.rows import each_row
from tests.service import ApiClient

NUMBER = {"name": "invoice number", "any": ["invoice no", "Rechnungsnummer"], "pattern": r"RE-\d{4}"}
SECRET = "zanzibar"


def ruled(**text: Any) -> dict[str, Any]:
    return {"text": text}


def page(text: str) -> bytes:
    return pdf(b"BT /F1 24 Tf 72 700 Td (" + text.encode() + b") Tj ET")


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
    error = assert_rejected(refused, "missing_text")
    assert error["sentence"].startswith("We did not find “invoice number” in this document.")
    report = data(client.get(f"/reports/{refused.headers['sluice-report-id']}"))
    check = next(each for each in report["checks"] if each["check"] == "policy.text")
    assert (check["outcome"], check["found"]) == ("fail", {"missing": ["invoice number"]})
    assert SECRET not in refused.text + json.dumps(report) + json.dumps(client.decisions())


def test_each_rule_on_text_has_its_reason(client: ApiClient) -> None:
    german = "Die Rechnung ist nicht bezahlt und wir bitten Sie um die Zahlung auf das Konto der Bank. " * 3
    rows = (
        ("forbidden_text", {"must_not_contain": [{"name": "drafts", "any": ["draft"]}]}, "a DRAFT only"),
        ("wrong_language", {"languages": ["en", "fr"]}, german),
        ("missing_text", {"min_words": 20}, "few words"),
        ("outdated_document", {"max_age_days": 90}, "Date: 12 March 2020"),
        ("outdated_document", {"max_age_days": 90, "needs_date": True}, "12 March 2020"),
        ("identifier_found", {"identifiers": ["payment_card"]}, "pay with 4111 1111 1111 1111 12/28"),
        ("identifier_found", {"identifiers": ["iban", "us_ssn"]}, "to DE89 3704 0044 0532 0130 00"),
    )
    for each in each_row(rows, name=lambda row: f"{row[0]} {row[1]}"):
        reason, rules, text = each
        context = client.create_context(policies=ruled(**rules))
        assert_rejected(client.upload("a.txt", text.encode(), context=context), reason)
        data(client.upload("b.txt", f"Date: {client_today()}. {'This is the text of a letter to you. ' * 9}".encode(), context=context), 201)
