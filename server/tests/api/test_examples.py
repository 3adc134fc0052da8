"""Examples of what a context expects: adding, listing and removing them, and uploads that are compared with them."""

import json
from typing import Any

import pytest

from tests.api.responses import assert_rejected, data
from tests.api.samples import pdf, picture
from tests.api.test_text_rules import page, validated
from tests.service import ApiClient

THINGS = ("wood and nails", "apples", "a journey to Vienna", "two lamps", "paper", "chairs")
SECRET = "zanzibar"


def invoice(number: int) -> bytes:
    thing = THINGS[number % len(THINGS)]
    return (
        f"Invoice number: 2026-{number}\nDate of invoice: 1.{number}.2026\nCustomer: Kundera{'x' * number}\n"
        f"Description\tQuantity\tPrice\tAmount\nConsulting {thing}\t1\t120{number}.00\t{number}.00\n"
        f"Subtotal: 300.00\nVAT: 19 % 57.00\nTotal amount payable: 357.00\nPayment within thirty days to our account\n"
    ).encode()


def invoice_page(number: int) -> bytes:
    return page(invoice(number).decode().replace("\t", " ").replace("\n", " "))


LETTER = (
    f"Dear Ms Alvarez, we have walked along the shore of {SECRET} all summer. The children are learning to sail, and "
    "grandmother sends her love. Please write soon about the garden, the neighbours and the weather in the mountains."
).encode()


def add(client: ApiClient, context: str, name: str, content: bytes) -> Any:
    return client.request("POST", f"/contexts/{context}/examples", files={"file": (name, content)})


def expecting_invoices(client: ApiClient, **policy: Any) -> str:
    context: str = client.create_context(policies={"document_kind": policy})
    for number in range(1, 5):
        data(add(client, context, f"{number}.txt", invoice(number)), 201)
    return context


def check_of(report: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in report["checks"] if each["name"] == "policy.document_kind")
    return found


def test_a_document_is_compared_with_the_examples_and_the_answer_has_none_of_its_words(client: ApiClient) -> None:
    context = expecting_invoices(client, mode="enforce")
    stored = data(client.upload("new.txt", invoice(5), context=context), 201)
    report = data(client.get(f"/reports/{stored['report_id']}"))
    assert check_of(report)["outcome"] == "pass"
    assert report["kind"]["similarity"] >= 80
    assert {"invoice", "vat"} <= {*report["kind"]["shares"], *_kind(client, context)["words"]}
    refused = client.upload("letter.txt", LETTER, context=context)
    assert_rejected(refused, "wrong_document_kind")
    assert refused.json()["report"]["message"].startswith(
        "This does not look like the documents that are expected here"
    )
    report = data(client.get(f"/reports/{refused.headers['sluice-report-id']}"))
    found = check_of(report)["found"]
    assert found["similarity"] < 40
    assert "invoice" in found["lacks"]
    assert report["kind"]["kind"] == _kind(client, context)["digest"]
    kept = refused.text + json.dumps(report) + repr(client.decisions()) + client.service.log.read_text()
    assert SECRET not in kept
    assert "grandmother" not in kept


@pytest.mark.engine
def test_examples_are_listed_by_their_files_and_forgotten_with_them(client: ApiClient) -> None:
    context = expecting_invoices(client)
    found = data(client.get(f"/contexts/{context}/examples"))
    assert [each["filename"] for each in found["examples"]] == ["1.txt", "2.txt", "3.txt", "4.txt"]
    assert found["kind"]["state"] == "ready"
    assert "kundera" not in str(found)
    assert found["rules_version"] == 5
    more = (
        "INSERT INTO context_examples SELECT :id, tenant_id, context_id, filename, :id, size_bytes, content_type, "
        "features, created_at FROM context_examples WHERE example_id = :first"
    )
    for number in range(26):
        client.execute_sql(more, id=f"exm_{number}", first=found["examples"][0]["example_id"])
    assert "30 examples already" in add(client, context, "31.txt", invoice(5)).json()["errors"][0]
    client.execute_sql("DELETE FROM context_examples WHERE sha256 LIKE 'exm%'")
    last, *others = found["examples"]
    for example in others:
        path = f"/contexts/{context}/examples/{example['example_id']}"
        left = data(client.request("DELETE", path))
        assert client.request("DELETE", path).status_code == 404
    assert left["examples"] == [last]
    assert left["kind"] == {"state": "few", "digest": None, "cohesion": 0, "words": []}
    empty = data(client.request("DELETE", f"/contexts/{context}/examples/{last['example_id']}"))
    assert (empty["examples"], empty["rules_version"]) == ([], 9)
    actions = [each["action"] for each in client.get("/audit?page_size=100").json()["data"]]
    assert (actions.count("context.example_added"), actions.count("context.example_removed")) == (4, 4)


def test_what_the_context_would_not_accept_or_has_no_text_is_no_example(client: ApiClient) -> None:
    context = client.create_context(policies={"document_kind": {}}, allowed_extensions=["txt", "pdf", "png"])
    data(add(client, context, "a.txt", invoice(1)), 201)
    assert_rejected(add(client, context, "a.pdf", b"%PDF-1.7 and nothing else"), "corrupt_file")
    assert_rejected(add(client, context, "a.docx", b"PK"), "extension_not_allowed")
    infected = rb"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
    assert_rejected(add(client, context, "a.txt", infected), "virus_detected")
    for name, content, problem in (
        ("a.txt", invoice(1), "the same bytes are the example"),
        ("a.png", picture(), "files of this format have none that is read"),
        ("scan.pdf", pdf(b"9 9 99 99 re f"), "found none: there is none in it, as in a scan"),
        ("few.txt", b"three words only", "found 3 different words"),
    ):
        refused = add(client, context, name, content)
        assert refused.status_code == 422, refused.text
        assert problem in refused.json()["errors"][0]
    missing = client.request("POST", f"/contexts/{context}/examples", files={"other": ("a", b"a")})
    assert missing.status_code == 422
    assert add(client, "nowhere", "a.txt", invoice(2)).status_code == 404


def test_examples_that_teach_nothing_refuse_nothing_and_reports_say_so(client: ApiClient) -> None:
    context = client.create_context(policies={"document_kind": {"mode": "enforce"}})
    for state, name, content in (
        ("few", None, b""),
        ("few", "1.txt", invoice(1)),
        ("few", "2.txt", invoice(1) + b"again"),
        ("alike", "3.txt", invoice(1) + b"and again"),
    ):
        if name is not None:
            data(add(client, context, name, content), 201)
        report = validated(client, context, "letter.txt", LETTER)
        assert (report["outcome"], check_of(report)["outcome"]) == ("accepted", "not_run")
        assert report["kind"]["examples"] == state


def test_what_has_too_little_text_fails_and_reports_by_default(client: ApiClient) -> None:
    context = expecting_invoices(client)
    for name, content, words in (("a.png", picture(), 0), ("a.txt", b"an invoice of three words", 3)):
        report = validated(client, context, name, content)
        check = check_of(report)
        assert (report["outcome"], check["outcome"], check["code"]) == (
            "accepted", "would_fail", "wrong_document_kind",
        )  # fmt: skip
        assert check["found"] == {"words": words}


def test_a_replay_judges_by_similarity_until_the_examples_change(client: ApiClient) -> None:
    context = expecting_invoices(client, min_similarity=1)
    data(client.upload("letter.txt", LETTER, context=context), 201)
    data(client.upload("new.txt", invoice(5), context=context), 201)
    stricter = {"changes": {"policies": {"document_kind": {"mode": "enforce", "min_similarity": 80}}}}
    replayed = data(client.post(f"/contexts/{context}/replay", json=stricter))
    assert [(each["reason"], each["count"]) for each in replayed["would_reject"]] == [("wrong_document_kind", 1)]
    data(add(client, context, "6.txt", invoice(6)), 201)
    replayed = data(client.post(f"/contexts/{context}/replay", json=stricter))
    assert [(each["code"], each["count"]) for each in replayed["unknown"]["because"]] == [("other_examples", 2)]


def test_a_pdf_is_compared_with_texts(client: ApiClient) -> None:
    context = expecting_invoices(client, mode="enforce")
    assert validated(client, context, "a.pdf", invoice_page(5))["outcome"] == "accepted"
    assert validated(client, context, "a.pdf", page(LETTER.decode()))["outcome"] == "rejected"


def _kind(client: ApiClient, context: str) -> dict[str, Any]:
    found: dict[str, Any] = data(client.get(f"/contexts/{context}/examples"))["kind"]
    return found
