"""A real rejection for each reason code: the report and the sentence in every language, as `docs/reasons.md` shows them.

They are recorded in `scripts/docs_pages/rejections.json`. After an intended change, write them again, then the page:

    SLUICE_TEST_RECORD=1 pytest -n 0 server/tests/api/test_rejections.py && make docs
"""

import hashlib
import json
import math
import os
import re
import struct
import wave
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import httpx
import zstandard
from PIL import ImageFilter

from sluice.api.schemas.reports import full_report
from sluice.contexts.external_checks import ExternalCheckDraft, IfUnavailable
from sluice.contexts.policies import Mode, policies_of
from sluice.contexts.sanitising import Sanitise, sanitise_of
from sluice.decisions import DecisionRecord
from sluice.messages import LOCALES
from sluice.uploads.examined import ExamineFact
from sluice.uploads.reasons import WORDS, Reason
from sluice.uploads.report import VerdictReport
from sluice.uploads.rules import decide, quarantine_by
from sluice.uploads.values import ExternalFact, ExternalRule, Facts, KindFact, PlanFact, Rules, SanitisedFact
from tests.api import samples
from tests.api.responses import assert_rejected, data
from tests.inspection.formats.image_samples import encoded, text_page
from tests.inspection.formats.pdf_samples import pdf
from tests.inspection.formats.pdf_samples import text as page_text
from tests.inspection.formats.zip_samples import archive
from tests.rows import each_row, every_row
from tests.service import ApiClient, Service

RECORDED: Final = Path(__file__).parents[3] / "scripts" / "docs_pages" / "rejections.json"
LIMITS: Final = {Reason.RATE_LIMIT_EXCEEDED, Reason.MONTHLY_LIMIT_EXCEEDED}


@dataclass(frozen=True)
class Case:
    """A file, what it is, and the rules of the context that rejects it."""

    name: str
    what: str
    content: bytes
    rules: Mapping[str, Any] = field(default_factory=dict)
    stored_before: bool = False
    denied: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """The rules that differ from the defaults."""
        return {name: value for name, value in self.rules.items() if name != "scan_for_viruses" or value}


def recording() -> bytes:
    out = BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(b"".join(struct.pack("<h", int(9000 * math.sin(step / 3))) for step in range(16_000)))
    return out.getvalue()


def locked_zip() -> bytes:
    """Return an archive whose member is marked as encrypted."""
    content = bytearray(stored(("contract.txt", samples.TEXT)))
    for at in (6, content.index(b"PK\x01\x02") + 8):
        content[at] |= 1
    return bytes(content)


def wide_zstd() -> bytes:
    """Return a packed text that asks for a window of 256 MB."""
    parameters = zstandard.ZstdCompressionParameters(window_log=28)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return packer.compress(samples.TEXT) + packer.flush()


def stored(*members: tuple[str, bytes]) -> bytes:
    return archive(*members, method=zipfile.ZIP_STORED)


def blurred_page(deviation: float) -> bytes:
    return encoded(text_page(500, 700).filter(ImageFilter.GaussianBlur(deviation)), "JPEG", quality=85)


def enforced(policy: str, **bounds: Any) -> dict[str, Any]:
    return {"policies": {policy: {"mode": "enforce", **bounds}}}


SCRIPTED: Final = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script><rect width="9" height="9"/></svg>'
RATE: Final = {"upload_rate_limit": {"max_uploads": 1, "window_seconds": 3600}}


@cache
def cases() -> dict[Reason, Case]:
    text, picture = samples.TEXT, samples.picture()
    three = stored(("a.txt", text), ("b.txt", text), ("c.txt", text))
    deep = b"[" * 100_000 + b"]" * 100_000
    script = stored(("invoice.js", b"alert(1);\n"))
    pages = pdf(page_text("One"), page_text("Two"), page_text("Three"))
    scanned = {"scan_for_viruses": True}
    types = ["application/pdf", "image/jpeg"]
    numbered = {"name": "Invoice number", "any": ["invoice no", "invoice number"]}
    draft = {"name": "Draft", "any": ["draft"]}
    german = b"Wir haben die Rechnung von Ihnen erhalten, und sie wird in den Tagen nach dem Fest bezahlt.\n"
    card = b"Please pay with 4111 1111 1111 1111.\n"
    return {
        Reason.EXTENSION_NOT_ALLOWED: Case(
            "setup.exe", "a program", b"MZ", {"allowed_extensions": ["pdf", "jpg", "png"]}
        ),
        Reason.FILE_TOO_LARGE: Case("data.bin", "two million bytes", samples.noise(2_000_000), {"max_file_size_mb": 1}),
        Reason.RATE_LIMIT_EXCEEDED: Case("note.txt", "the second within an hour", text, RATE, stored_before=True),
        Reason.STORAGE_QUOTA_EXCEEDED: Case(
            "data.bin", "1,500,000 bytes", samples.noise(1_500_000), {"storage_quota_mb": 1}
        ),
        Reason.CORRUPT_FILE: Case("page.pdf", "the first half of a document", samples.pdf()[:300]),
        Reason.TYPE_MISMATCH: Case("scan.pdf", "an archive with another name", three),
        Reason.POLYGLOT_FILE: Case("scan.png", "a picture with an archive behind it", picture + three),
        Reason.ARCHIVE_BOMB: Case("photos.zip", "200 MB of zeros in 200 KB", samples.zip_bomb()),
        Reason.ARCHIVE_UNSAFE: Case("photos.zip", "an entry `../evil.txt`", stored(("../evil.txt", text))),
        Reason.IMAGE_TOO_LARGE: Case("map.png", "a head that claims 60,000 × 60,000 pixels", samples.huge_picture()),
        Reason.VALIDATION_LIMITS_EXCEEDED: Case("deep.json", "100,000 nested arrays", deep),
        Reason.BLANK_DOCUMENT: Case("page.pdf", "an empty page", samples.pdf(b"")),
        Reason.CONTENT_TYPE_NOT_ALLOWED: Case("scan.png", "a picture", picture, enforced("content_types", allow=types)),
        Reason.ENCRYPTED_FILE: Case("contract.zip", "an archive with a password", locked_zip(), enforced("encrypted")),
        Reason.ACTIVE_CONTENT: Case("logo.svg", "a drawing with a script", SCRIPTED, enforced("active_content")),
        Reason.PROGRAM_IN_ARCHIVE: Case(
            "invoice.zip", "an archive with a script", script, enforced("programs_in_archives")
        ),
        Reason.IMAGE_DIMENSIONS: Case("portrait.png", "64 × 48 pixels", picture, enforced("image", min_width=600)),
        Reason.ILLEGIBLE_PICTURE: Case("receipt.jpg", "a blurred page", blurred_page(3), enforced("legible")),
        Reason.TOO_MANY_PAGES: Case("report.pdf", "three pages", pages, enforced("document", max_pages=2)),
        Reason.MEDIA_LIMITS: Case("message.wav", "two seconds", recording(), enforced("media", max_duration_seconds=1)),
        Reason.ARCHIVE_LIMITS: Case("photos.zip", "three members", three, enforced("archive", max_members=2)),
        Reason.FILE_TOO_SMALL: Case("note.txt", "30 bytes", text, enforced("min_size_bytes", bytes=1024)),
        Reason.FILENAME_NOT_ALLOWED: Case(
            "note.txt", "another name than asked for", text, enforced("filename_pattern", pattern="[0-9]{6}[.]txt")
        ),
        Reason.DENIED_FILE: Case("note.txt", "a file on a hash list", text, denied=True),
        Reason.DUPLICATE_FILE: Case("scan.png", "stored already", picture, enforced("duplicates"), stored_before=True),
        Reason.VIRUS_DETECTED: Case("letter.txt", "the EICAR test file", samples.eicar(), scanned),
        Reason.SCAN_INCOMPLETE: Case(
            "log.zst",
            "packed so that unpacking takes 256 MB of memory",
            wide_zstd(),
            scanned | {"reject_corrupt_files": False},
        ),
        Reason.CANNOT_SANITISE: Case(
            "data.bin", "of an unknown format", samples.noise(2000), {"sanitise": {"remove": ["metadata"]}}
        ),
        Reason.MISSING_TEXT: Case("letter.txt", "no invoice", text, enforced("text", must_contain=[numbered])),
        Reason.FORBIDDEN_TEXT: Case("draft.txt", "a draft", b"DRAFT\n", enforced("text", must_not_contain=[draft])),
        Reason.WRONG_LANGUAGE: Case("brief.txt", "in German", german, enforced("text", languages=["en", "fr"])),
        Reason.OUTDATED_DOCUMENT: Case(
            "bill.txt", "without a date", text, enforced("text", max_age_days=90, needs_date=True)
        ),
        Reason.IDENTIFIER_FOUND: Case(
            "form.txt", "with the number of a card", card, enforced("text", identifiers=["payment_card"])
        ),
    }


def test_every_reason_has_a_recorded_rejection() -> None:
    assert set(cases()) | set(JUDGED) == set(Reason)
    assert not set(cases()) & set(JUDGED)
    assert list(json.loads(RECORDED.read_text(encoding="utf-8"))) == list(Reason)


def test_rejection_has_the_recorded_report_and_sentences(sqlite_local: Service) -> None:
    with every_row() as row:
        for number, (reason, case) in enumerate(cases().items()):
            client = sqlite_local.new_client()
            context = client.create_context(**{"context_key": "claims", "scan_for_viruses": False, **case.rules})
            if case.stored_before:
                client.store(case.name, case.content, context=context)
            if case.denied:
                entry = {"digest": hashlib.sha256(case.content).hexdigest(), "reason": "INC-42"}
                data(client.post("/hash-lists", {"entries": [entry]}), 201)
            response = client.upload(case.name, case.content, context=context)
            with row(reason):
                assert_rejected(response, reason.value, 429 if reason in LIMITS else 400)
                sentences = _sentences(DecisionRecord(**client.decisions()[-1]))
                locale = LOCALES[number % len(LOCALES)]  # the service is asked for each language by some reason
                assert _report_in(client, response, locale)["message"] == sentences[locale]
                _compare(reason, case, response.json()["report"], sentences)


def _sentences(record: DecisionRecord) -> dict[str, str]:
    return {locale: full_report(VerdictReport.of(record), locale).message for locale in LOCALES}


def _report_in(client: ApiClient, response: httpx.Response, locale: str) -> dict[str, Any]:
    path = f"/reports/{response.headers['sluice-report-id']}"
    found: dict[str, Any] = data(client.request("GET", path, headers={"Accept-Language": locale}))
    assert found["locale"] == locale
    return found


# Reasons that no file causes at will: the facts are made here, and everything after them is real.
FACTS: Final = Facts("note.txt", "txt", len(samples.TEXT), "00", quota_used_bytes=0)
KEEPING: Final = Sanitise(remove=["metadata"], original="quarantine")
CRASHED: Final = ExamineFact(None, died=True, overran=None, detail="the checker was killed by signal 11", ms=1.0)


def asked_of(if_unavailable: IfUnavailable) -> dict[str, Any]:
    check = {"name": "invoices", "url": "https://checks.example.com/invoices", "if_unavailable": if_unavailable}
    return {"external_checks": [check]}


JUDGED: Final = {
    Reason.MONTHLY_LIMIT_EXCEEDED: (
        Case("note.txt", "the 501st of the month, in a plan of 500", samples.TEXT),
        replace(FACTS, plan=PlanFact(500, 500, 864_000.0)),
    ),
    Reason.UNPROCESSABLE_FILE: (
        Case("note.txt", "a file at which the checker ended", samples.TEXT),
        replace(FACTS, examined=CRASHED),
    ),
    Reason.REJECTED_BY_CHECK: (
        Case("note.txt", "not what the check wants", samples.TEXT, asked_of("refuse")),
        replace(FACTS, external=(ExternalFact("invoices", "reject", 1.0, "This is no invoice.", "no_invoice"),)),
    ),
    Reason.CHECK_UNANSWERED: (
        Case("note.txt", "while the check is away", samples.TEXT, asked_of("quarantine")),
        replace(FACTS, external=(ExternalFact("invoices", None, 1.0, why="no response within 10 s"),)),
    ),
    Reason.WRONG_DOCUMENT_KIND: (
        Case("letter.txt", "among invoices", samples.TEXT, enforced("document_kind")),
        replace(
            FACTS, kind=KindFact("ready", None, words=43, similarity=12, shares=("payment",), lacks=("invoice", "vat"))
        ),
    ),
    Reason.ORIGINAL_KEPT: (
        Case("photo.jpg", "of which another file was made", b"", {"sanitise": KEEPING.to_json()}),
        replace(FACTS, sanitised=SanitisedFact("00", len(samples.TEXT), stored_file_id="file_1")),
    ),
}


@each_row("reason", JUDGED)
def test_rejection_by_facts_has_the_recorded_report_and_sentences(reason: Reason) -> None:
    case, facts = JUDGED[reason]
    rules = Rules(1, (), 10_485_760, reject_blank=True, reject_corrupt=True, scan=False, rate=None, quota_bytes=None)
    checks = [ExternalCheckDraft.model_validate(each) for each in case.rules.get("external_checks", ())]
    external = tuple(ExternalRule(each.name, each.mode, each.if_unavailable, "") for each in checks)
    policies = policies_of(case.rules.get("policies"))
    sanitise = sanitise_of(case.rules.get("sanitise"))
    rules = replace(rules, external_checks=external, sanitise=sanitise, policies=policies)
    rejection = decide(facts, rules) or quarantine_by(facts, rules)
    assert rejection is not None
    record = DecisionRecord(
        report_id="rep_1",
        tenant_id="ten_1",
        file_id=None,
        context_key="claims",
        mode="live",
        rules=rules.to_json(),
        rules_version=1,
        facts=facts.to_json(),
        engines={},
        outcome="quarantined" if rejection.mode is Mode.QUARANTINE else "rejected",
        reason=rejection.reason.value,
        detail=rejection.detail,
        actor={},
        created_at=datetime(2026, 1, 31, tzinfo=UTC),
        original_filename=facts.filename,
        actor_id=None,
        duration_ms=1,
    )
    shown = full_report(VerdictReport.of(record), "en").model_dump(mode="json")
    _compare(reason, case, shown, _sentences(record))


def _compare(reason: Reason, case: Case, report: dict[str, Any], sentences: dict[str, str]) -> None:
    advice = WORDS[reason].advice if report["outcome"] == "rejected" else None
    assert (report["reason"], report["advice"]) == (reason.value, advice)
    found = {
        "file": case.name,
        "what": case.what,
        "rules": case.settings,
        "report": _without_chance(report, len(case.content)),
        "sentences": sentences,
    }
    known = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
    if os.environ.get("SLUICE_TEST_RECORD") == "1":
        known[reason.value] = found
        in_order = {each.value: known[each.value] for each in Reason if each.value in known}
        RECORDED.write_text(json.dumps(in_order, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    else:
        assert found == known[reason.value]


_SHOWN: Final = (
    *("outcome", "reason", "retryable", "advice", "message", "message_key", "params", "locale", "mode", "flags"),
    "facts",
)


def _without_chance(report: dict[str, Any], size: int) -> dict[str, Any]:
    """Return what is the same in every run, and of the checks those that found something."""
    received = report["file"]["size_bytes"]  # of a file that is too large, as many as had come
    shown = {name: report[name] for name in _SHOWN}
    if "wait" in report["params"]:
        shown["params"] = {**report["params"], "wait": math.ceil(report["params"]["wait"] / 60) * 60}
    shown["checks"] = [check for check in report["checks"] if check["outcome"] in {"fail", "error"}]
    written = re.sub(r"\b([a-z]{3,4})_01[0-9a-z]{24}\b", r"\1_…", json.dumps(shown))
    if report["reason"] == "file_too_large":
        written = re.sub(rf"\b{received}\b", str(size), written)
    known: dict[str, Any] = json.loads(written)
    return known
