"""Verdict reports: in every response to an upload, in lists, as much as the caller may see; facts in the decision log."""

import gzip
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from httpx import Response

from sluice.api.schemas.reports import FullReport, SenderReport
from sluice_inspect.report import Limits, Report
from sluice_inspect.threats import EICAR
from tests.api import forms
from tests.api.responses import assert_not_found, assert_rejected, assert_validation_error, data, page
from tests.api.samples import huge_picture, pdf, picture, white_picture, zip_bomb
from tests.inspection.facts.test_archives import PE, TEXT, tar
from tests.inspection.formats.image_samples import chess_board, encoded, png_header
from tests.inspection.formats.pdf_samples import pdf as pdf_of
from tests.inspection.formats.pdf_samples import text as page_text
from tests.inspection.formats.zip_samples import archive
from tests.rows import each_row
from tests.service import ApiClient

SENDER_FIELDS = set(SenderReport.model_fields)
# Without those of several engines, of rules that match, of a context with checks, of a tenant with hash lists.
NOT_ALWAYS = {
    *("scanners", "yara_rules", "external_checks", "hash_lists", "members_compared", "members_missed"),
    "sanitised",
    "text",
    "kind",
}
FULL_FIELDS = set(FullReport.model_fields) - NOT_ALWAYS
TOO_LARGE = "(x{1000}){1000}"
Content = Callable[[], bytes]


def checks_of(report: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["outcome"] for check in report["checks"]}


def send(client: ApiClient, name: str, content: bytes, context: str, to: str = "upload", **headers: str) -> Response:
    parts = [forms.file(name, content), forms.field("context", context)]
    return send_parts(client, parts, to, **headers)


def send_parts(client: ApiClient, parts: list[forms.Part], to: str = "upload", **headers: str) -> Response:
    headers = {"Content-Type": forms.content_type()} | {key.replace("_", "-"): value for key, value in headers.items()}
    return client.request("POST", f"/files/{to}", content=forms.encode(parts), headers=headers)


def validated(client: ApiClient, name: str, content: bytes, context: str) -> dict[str, Any]:
    report: dict[str, Any] = data(send(client, name, content, context, "validate"))["report"]
    return report


def failed_check(response: Response) -> dict[str, Any]:
    found: dict[str, Any] = next(check for check in response.json()["report"]["checks"] if check["outcome"] == "fail")
    return found


@pytest.fixture
def context(client: ApiClient) -> str:
    return client.create_context(scan_for_viruses=False)


def test_a_rejection_has_a_report_that_says_what_was_found_and_expected(client: ApiClient) -> None:
    context = client.create_context(allowed_extensions=["pdf"], scan_for_viruses=False)
    response = client.upload("scan.pdf", picture(), context=context)
    assert_rejected(response, "type_mismatch")
    report, failed = response.json()["report"], failed_check(response)
    assert set(report) == FULL_FIELDS
    assert (report["outcome"], report["reason"], report["retryable"]) == ("rejected", "type_mismatch", False)
    assert (report["advice"], report["report_id"]) == ("send_another_file", response.headers["sluice-report-id"])
    assert (report["file"]["original_filename"], report["file"]["size_bytes"]) == ("scan.pdf", len(picture()))
    assert (failed["name"], failed["code"]) == ("integrity.type", "type_mismatch")
    assert (failed["found"], failed["expected"]) == ("image/png", ".pdf")
    assert checks_of(report)["extension"] == checks_of(report)["size"] == "pass"
    assert checks_of(report)["malware"] == "off"


def test_the_report_names_the_allowed_size_and_the_measured_one_once_it_is_known(
    client: ApiClient, context: str
) -> None:
    response = client.upload("a.png", huge_picture(), context=context)
    report = response.json()["report"]
    assert (report["facts"]["width"], report["facts"]["height"]) == (60_000, 60_000)
    assert report["message_key"] == "image_too_large.dimensions"
    assert failed_check(response)["found"] == {"width": 60_000, "height": 60_000}
    context = client.create_context(max_file_size_mb=1, scan_for_viruses=False)
    report = client.upload("a.bin", bytes(2_000_000), context=context).json()["report"]
    assert report["message_key"].startswith("file_too_large")
    assert report["message"].startswith("This file has 1.9\u00a0MB; at most 1\u00a0MB are accepted.")
    assert checks_of(report)["size"] == "fail"
    parts = [forms.field("context", context), forms.file("a.bin", bytes(2_000_000)), forms.field("notes", "x" * 60_000)]
    report = client.upload_parts(parts).json()["report"]
    assert report["params"] == {"max_size": 1_048_576}
    assert report["message"].startswith("This file has more than the 1\u00a0MB that are accepted.")


@each_row("language, locale, word", [
    *(("de-AT,en;q=0.5", "de", "Bitte"), ("fr", "fr", "fichier"), ("xx", "en", "Please"), ("zh-CN", "zh-Hans", "文件")),
])  # fmt: skip
def test_the_sentence_is_in_the_senders_language(client: ApiClient, language: str, locale: str, word: str) -> None:
    parts = [forms.field("context", client.create_context(allowed_extensions=["pdf"])), forms.file("a.exe", b"MZ")]
    response = send_parts(client, parts, Accept_Language=language)
    report = response.json()["report"]
    assert report["locale"] == locale
    assert word in report["message"]
    assert "Accept-Language" in response.headers["vary"]


@each_row("scopes", [("upload",), ("upload", "metadata"), ("admin",)])
def test_nobody_sees_the_name_of_a_threat(client: ApiClient, scopes: tuple[str, ...]) -> None:
    caller = client.with_credential(client.create_key(*scopes))
    response = caller.upload("eicar.txt", EICAR, context=client.create_context())
    assert_rejected(response, "virus_detected")
    if scopes == ("upload",):  # who sees what the sender may know
        assert set(response.json()["report"]) == SENDER_FIELDS
        assert caller.get("/reports").status_code == 403
    threat = client.decisions()[0]["facts"]["scanned"]["threat"]
    assert threat
    reports = [client.get("/reports"), client.get(f"/reports/{response.headers['sluice-report-id']}")]
    assert all(threat.lower() not in shown.text.lower() for shown in (response, *reports))


@each_row(
    "reason, name, content, limit",
    [
        ("archive_bomb", "a.zip", zip_bomb, Limits().max_ratio),
        ("image_too_large", "a.png", huge_picture, Limits().max_pixels),
        ("validation_limits_exceeded", "a.json", lambda: b"[" * 100_000 + b"]" * 100_000, Limits().max_json_depth),
    ],
)
def test_nobody_sees_a_limit(client: ApiClient, reason: str, name: str, content: Content, limit: int) -> None:
    context = client.create_context(scan_for_viruses=False)
    caller = client.with_credential(client.create_key("upload", "metadata"))
    response = caller.upload(name, content(), context=context)
    assert_rejected(response, reason)
    assert str(limit) in client.decisions()[-1]["detail"]
    for report in (response.json()["report"], *page(client.get("/reports"))[0]):
        assert not re.search(rf"\b{limit}\b", json.dumps(report["checks"]))


def test_an_acceptance_has_a_report_that_its_tenant_can_read(client: ApiClient, context: str) -> None:
    stored = data(client.upload("a.png", picture(), context=context), 201)
    report = data(client.get(f"/reports/{stored['report_id']}"))
    assert (report["outcome"], report["reason"], report["file"]["file_id"]) == ("accepted", None, stored["file_id"])
    off = {name for name, outcome in checks_of(report).items() if outcome == "off"}
    assert off == {"extension", "rate", "quota", "malware"}
    assert checks_of(report)["integrity.structure"] == checks_of(report)["storage"] == "pass"
    assert report["facts"]["width"] == 64
    assert isinstance(report["duration_ms"], int)
    other = client.other_tenant_client()
    assert_not_found(other.get(f"/reports/{stored['report_id']}"))
    assert page(other.get("/reports"))[0] == []


@pytest.mark.engine
def test_reports_are_listed_newest_first_and_filtered(client: ApiClient) -> None:
    context, other = (client.create_context(scan_for_viruses=False) for _ in range(2))
    client.upload("first.png", picture(), context=context)
    client.upload("Second_%.png", white_picture(), context=context)
    client.upload("third.png", picture(), context=other)

    def names(**query: Any) -> list[str]:
        items, pagination = page(client.get("/reports", **query))
        assert pagination["total"] == len(items)
        return [item["file"]["original_filename"] for item in items]

    assert names() == ["third.png", "Second_%.png", "first.png"]
    assert names(context=context) == ["Second_%.png", "first.png"]
    assert names(outcome="rejected") == names(reason="blank_document") == names(filename="nd_%") == ["Second_%.png"]
    assert names(filename="second") == ["Second_%.png"]
    me = page(client.get("/reports"))[0][0]["uploaded_by"]
    assert len(names(uploaded_by=me)) == 3
    assert names(uploaded_by="nobody") == names(context="a\0b") == []
    moments = [item["created_at"] for item in page(client.get("/reports"))[0]]
    assert names(since=moments[1]) == ["third.png", "Second_%.png"]
    assert names(until=moments[1]) == ["Second_%.png", "first.png"]
    for field, value in (
        *(("outcome", "lost"), ("reason", "nope"), ("since", "yesterday"), ("until", "2026-01-01T00:00:00")),
        *(("page", 2000), ("filename", "")),
    ):
        assert_validation_error(client.get("/reports", **{field: value}), field)


def test_the_full_report_has_the_checks_after_the_first_failure(client: ApiClient) -> None:
    context = client.create_context(allowed_extensions=["pdf"])
    response = send(client, "eicar.txt", EICAR, context, "upload?report=full")
    assert_rejected(response, "extension_not_allowed")
    found = checks_of(response.json()["report"])
    assert (found["extension"], found["malware"]) == ("fail", "fail")
    assert response.json()["report"]["mode"] == "all_checks"
    assert client.object_keys() == set()


def test_problem_details_are_answered_only_where_accepted(client: ApiClient) -> None:
    problem = "application/problem+json"
    no = (f"{problem};q=0", f"application/json, {problem}; Q=0.000", f"{problem}x", "*/*", "application/*")
    yes = (f"text/html, {problem};q=0.1", "Application/Problem+JSON; charset=utf-8; q=1.0")
    for accept in (*no, *yes):
        raw = client.request("GET", "/files/file_unknown", headers={"Accept": accept})
        assert raw.headers["content-type"] == (problem if accept in yes else "application/json"), accept
    parts = [forms.field("context", client.create_context(allowed_extensions=["pdf"])), forms.file("a.exe", b"MZ")]
    raw = send_parts(client, parts, Accept=problem)
    assert raw.headers["content-type"] == problem
    body = raw.json()
    assert (body["status"], body["code"], body["errors"]) == (400, "file_rejected", ["extension_not_allowed"])
    assert body["detail"] == body["report"]["message"]
    assert body["title"].startswith("File rejected: ")


def test_a_dry_run_makes_all_checks_and_stores_nothing(client: ApiClient) -> None:
    rate = {"max_uploads": 1, "window_seconds": 3600}
    context = client.create_context(allowed_extensions=["pdf"], upload_rate_limit=rate)
    before = len(client.decisions())
    for _ in range(3):
        report = validated(client, "eicar.txt", EICAR, context)
        assert (report["outcome"], report["reason"]) == ("rejected", "extension_not_allowed")
        assert (checks_of(report)["malware"], checks_of(report)["rate"]) == ("fail", "not_run")
    report = validated(client, "a.pdf", pdf(), context)
    assert (report["outcome"], report["message_key"]) == ("accepted", "accepted.validated")
    assert client.object_keys() == set()
    assert page(client.get("/files"))[0] == []
    assert len(client.decisions()) == before
    assert client.used_bytes(context) == 0
    client.store("a.pdf", pdf(), context=context)  # its place in the rate limit was not taken
    policies = {"image": {"mode": "quarantine", "max_width": 10}}
    context = client.create_context(policies=policies, scan_for_viruses=False, max_file_size_mb=1)
    report = validated(client, "a.png", picture(), context)
    assert (report["outcome"], report["message_key"]) == ("quarantined", "quarantined.validated")
    assert len(page(client.get("/files"))[0]) == 1
    parts = [forms.field("context", context), forms.file("a.bin", bytes(2_000_000))]
    report = data(send_parts(client, parts, "validate"))["report"]
    assert report["reason"] == "file_too_large"
    assert checks_of(report)["integrity.structure"] == "not_run"


def test_dry_runs_of_a_tenant_are_limited(client: ApiClient, context: str) -> None:
    responses = [send(client, "a.txt", b"hello", context, "validate").status_code for _ in range(61)]
    assert responses == [200] * 60 + [429]
    client.store("a.txt", b"hello there", context=context)


def test_a_rule_in_report_mode_stores_the_file_and_says_that_it_would_fail(client: ApiClient) -> None:
    policies = {"content_types": {"mode": "report", "allow": ["application/pdf"]}}
    rules = {"policies": policies, "check_modes": {"blank": "report"}, "scan_for_viruses": False}
    for content, check in ((picture(), "policy.content_types"), (white_picture(), "blank")):
        stored = data(client.upload("a.png", content, context=client.create_context(**rules)), 201)
        report = data(client.get(f"/reports/{stored['report_id']}"))
        assert (report["outcome"], checks_of(report)[check]) == ("accepted", "would_fail")


def test_a_policy_in_quarantine_mode_stores_the_file_where_nobody_can_download_it(client: ApiClient) -> None:
    policies = {"image": {"mode": "quarantine", "max_width": 10}}
    context = client.create_context(policies=policies, scan_for_viruses=False)
    stored = data(client.upload("a.png", picture(), context=context), 201)
    assert stored["outcome"] == "quarantined"
    assert client.get(f"/files/{stored['file_id']}").status_code == 404
    assert data(client.get(f"/files/{stored['file_id']}/metadata"))["size_bytes"] == len(picture())
    report = data(client.get(f"/reports/{stored['report_id']}"))
    assert (report["outcome"], report["reason"]) == ("quarantined", "image_dimensions")
    assert report["message_key"] == "quarantined.plain"


def test_a_policy_that_is_enforced_rejects_with_its_reason_and_in_linear_time(client: ApiClient) -> None:
    context = client.create_context(policies={"min_size_bytes": {"bytes": 1000}}, scan_for_viruses=False)
    response = client.upload("a.txt", b"short", context=context)
    assert_rejected(response, "file_too_small")
    failed = failed_check(response)
    assert (failed["name"], failed["found"], failed["expected"]) == ("policy.min_size_bytes", 5, {"min": 1000})
    # a file that is still coming in is not too small
    parts = [forms.field("context", context), forms.file("a.txt", b"some words " * 1000)]
    assert client.upload_parts(parts).status_code == 201
    context = client.create_context(policies={"filename_pattern": {"pattern": "(a+)+b"}}, scan_for_viruses=False)
    response = client.upload("a" * 200 + ".txt", b"hello", context=context)
    assert_rejected(response, "filename_not_allowed")
    assert response.elapsed.total_seconds() < 5


@each_row("context_first", [False, True])
def test_the_order_of_the_form_changes_no_verdict_by_name_or_size(client: ApiClient, *, context_first: bool) -> None:
    policies = {"min_size_bytes": {"bytes": 100}, "filename_pattern": {"pattern": "[a-z.]+"}}
    context = client.create_context(policies=policies, max_file_size_mb=1, scan_for_viruses=False)

    def upload(name: str, content: bytes) -> Response:
        parts = [forms.file(name, content), forms.field("context", context)]
        return client.upload_parts(parts[::-1] if context_first else parts)

    assert upload("a.txt", b"enough words " * 10).status_code == 201
    assert_rejected(upload("a.txt", b"few words"), "file_too_small")
    assert_rejected(upload("A.bin", b"x" * 2_000_000), "filename_not_allowed")


@pytest.mark.engine
def test_of_parallel_duplicates_one_is_stored_and_named_to_those_who_may_list_files(
    client: ApiClient, context: str
) -> None:
    strict = client.create_context(policies={"duplicates": {}}, scan_for_viruses=False)
    with ThreadPoolExecutor(16) as pool:
        responses = list(pool.map(lambda n: client.upload(f"{n}.png", picture(), context=strict), range(16)))
    assert sorted({response.status_code for response in responses}) in ([201, 400], [201, 400, 503], [201, 503])
    assert [response.status_code for response in responses].count(201) == 1
    assert all(response.json()["errors"] == ["duplicate_file"] for response in responses if response.status_code == 400)
    assert len(page(client.get("/files"))[0]) == 1
    client.store("a.png", picture(), context=context)
    context = client.create_context(policies={"duplicates": {}}, scan_for_viruses=False)
    first = client.store("a.png", picture(), context=context)
    response = client.upload("b.png", picture(), context=context)
    assert_rejected(response, "duplicate_file")
    assert failed_check(response)["found"] == first
    sender = client.with_credential(client.create_key("upload"))
    assert first not in sender.upload("b.png", picture(), context=context).text


def test_policies_are_shown_as_they_were_set_can_be_removed_and_are_refused_by_name(client: ApiClient) -> None:
    context = client.create_context(policies={"encrypted": {"mode": "report"}})
    shown = data(client.get(f"/contexts/{context}"))
    assert shown["policies"] == {"encrypted": {"mode": "report"}}
    assert "check_modes" not in shown
    changed = data(client.patch(f"/contexts/{context}", {"policies": None, "check_modes": {"blank": "report"}}))
    assert "policies" not in changed
    assert changed["check_modes"] == {"integrity": "enforce", "blank": "report", "malware": "enforce"}
    body: dict[str, Any] = {"check_modes": {"malware": "off"}}
    assert_validation_error(client.patch(f"/contexts/{context}", body), "check_modes.malware")
    for policies, field in [
        ({"nosuch": {}}, "nosuch"),
        ({"content_types": {}}, "content_types.allow"),
        ({"content_types": {"allow": ["pdf"]}}, "content_types.allow.0"),
        ({"content_types": {"allow": [f"image/a{n}" for n in range(3000)]}}, "content_types.allow"),
        *(({"filename_pattern": {"pattern": text}}, "filename_pattern.pattern") for text in ("(", "(?=a)", TOO_LARGE)),
        ({"image": {"mode": "sometimes"}}, "image.mode"),
        ({"image": {"min_width": 10, "max_width": 9}}, "image"),
        ({"min_size_bytes": {"bytes": "1"}}, "min_size_bytes.bytes"),
        ([], ""),
    ]:
        body = {"context_key": "bad", "display_name": "Bad", "policies": policies}
        assert_validation_error(client.post("/contexts", body), f"policies.{field}".rstrip("."))


OFF = {"reject_corrupt_files": False, "reject_blank_files": False, "scan_for_viruses": False}


def report_of(client: ApiClient, name: str, content: bytes, **rules: Any) -> Report:
    client.upload(name, content, context=client.create_context(**rules))
    return Report.from_stored(client.decisions()[-1]["facts"]["examined"]["report"])


def test_facts_are_stored_whether_the_checks_are_on_or_off_and_the_file_rejected_or_not(client: ApiClient) -> None:
    for rules in [OFF, {}]:
        image = report_of(client, "a.png", encoded(chess_board(64), "PNG"), **rules)
        assert (image.facts["width"], image.facts["pixels"], image.facts["animated"]) == (64, 4096, False)
        scripted = pdf_of(page_text("a"), page_text("b"), catalog="/OpenAction<</S/JavaScript/JS(x)>>")
        document = report_of(client, "a.pdf", scripted, **rules)
        assert (document.facts["pages"], document.facts["encrypted"], document.flags) == (2, False, ("script.pdf",))
        packed = report_of(client, "a.tar.gz", gzip.compress(tar(("photo.jpg", PE), ("run.vbs", TEXT))), **rules)
        assert (packed.facts["programs"], packed.facts["scripts"]) == (1, 1)
        assert packed.flags == ("archive.disguised", "archive.program", "archive.script")
        table = report_of(client, "a.csv", b"id,name\n1,=cmd|'/c calc'!A0\n", **rules)
        assert table.flags == ("dde", "formula.csv")
    image = report_of(client, "a.png", png_header(60_000, 60_000), **OFF | {"reject_corrupt_files": True})
    assert image.facts["pixels"] == 3_600_000_000
    unsafe = report_of(client, "a.zip", archive(("../a.txt", TEXT), ("b.exe", TEXT)))
    assert (unsafe.facts["members"], unsafe.facts["programs"], unsafe.facts["flags_complete"]) == (2, 1, False)
