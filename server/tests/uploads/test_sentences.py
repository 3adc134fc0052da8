"""Which sentence the sender of a rejected file gets, and that it tells nothing that the sender must not know."""

import unicodedata
from dataclasses import replace
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from sluice.contexts import RateLimit
from sluice.contexts.policies import (
    ActiveContent,
    Archive,
    ContentTypes,
    Document,
    Duplicates,
    EncryptedContent,
    FilenamePattern,
    Image,
    Legible,
    LikeExamples,
    Media,
    MinSize,
    Mode,
    NamedText,
    Policies,
    ProgramsInArchives,
    Text,
)
from sluice.contexts.sanitising import Sanitise
from sluice.hash_lists import ListedHash
from sluice.messages import LOCALES, Sentence, catalogue_of, render
from sluice.messages.patterns import names_in, parse
from sluice.uploads.examined import ExamineFact
from sluice.uploads.reasons import Reason
from sluice.uploads.rules import decide
from sluice.uploads.sentences import content_type_name, format_name, sentence_for
from sluice.uploads.values import (
    ExternalFact,
    ExternalRule,
    Facts,
    HashListFact,
    KindFact,
    PlanFact,
    RateFact,
    Rejection,
    Rules,
    SanitisedFact,
    ScanFact,
    TextFact,
)
from sluice_inspect.check_results import CheckResult
from sluice_inspect.format_list import FORMAT_NAMES
from sluice_inspect.registry import FORMATS
from sluice_inspect.report import UNKNOWN_TYPE, Finding, Limits, Outcome, Report
from tests.rows import each_row

CANARIES: Final = ("Win.Test.EICAR_HDB-1", "/var/spool/sluice/x", "0x1F3A", "203.0.113.9")
ALL_CANARIES: Final = " ".join(CANARIES)
DENIED: Final = ListedHash("0" * 64, "deny", ALL_CANARIES, of_installation=True)
LIMITS: Final[dict[str, Any]] = {"max_bytes": 10_485_760, "rate": RateLimit(20, 60), "quota_bytes": 100_000_000}
RULES: Final = Rules(1, (), reject_blank=True, reject_corrupt=True, scan=True, **LIMITS)
SOUND: Final = Report("pdf", "application/pdf", Outcome.OK, Outcome.OK, None, blank=False, detail="")
FACTS: Final = Facts("secret-name.pdf", "pdf", 1000, "00")


def examined(**changes: Any) -> dict[str, Any]:
    report = replace(SOUND, **{"detail": ALL_CANARIES, "blank_detail": ALL_CANARIES} | changes)
    return {"examined": ExamineFact(report, died=False, overran=None, detail=ALL_CANARIES, ms=1.0)}


def sentence(facts: dict[str, Any], rules: dict[str, Any] | None = None, **more: Any) -> Sentence:
    """Return the sentence for the rejection that the rules make of the facts."""
    changed, judged = replace(FACTS, **facts), replace(RULES, **(rules or {}))
    rejection = decide(changed, judged)
    assert rejection is not None
    return sentence_for(rejection, changed, judged, **more)


NUMBERED: Final = Text(must_contain=[NamedText(name="number", any=["no"])])
NO_DRAFT: Final = Text(must_not_contain=[NamedText(name="draft", any=["draft"])])
NUMBERLESS: Final = Text(identifiers=["payment_card", "iban", "us_ssn"])
POLICIES: Final = Policies(
    content_types=ContentTypes(allow=["application/pdf", "image/*"]),
    encrypted=EncryptedContent(),
    active_content=ActiveContent(),
    programs_in_archives=ProgramsInArchives(),
    image=Image(min_width=10, max_width=100, min_height=10, max_height=100, max_pixels=6007, allow_animation=False),
    legible=Legible(),
    document=Document(max_pages=3, max_sheets=3, max_slides=3),
    media=Media(max_duration_seconds=60, codecs=["aac", "h264"]),
    archive=Archive(max_members=10, max_depth=0, max_unpacked_bytes=1000),
    min_size_bytes=MinSize(bytes=10),
    filename_pattern=FilenamePattern(pattern="[a-z-]+[.]pdf"),
    duplicates=Duplicates(),
)
MANY: Final = ("pdf", "jpg", "png", "gif", "txt", "csv", "docx", "xlsx", "pptx")
MISMATCH: Final = {"finding": Finding.TYPE_MISMATCH}
CORRUPT: Final = {"integrity": Outcome.CORRUPT}

SCANS: Final[tuple[Any, ...]] = (
    ("virus_detected.plain", "infected", CANARIES[0]),
    ("scan_incomplete.plain", "incomplete", None),
)
EXTERNAL_RULE: Final = ExternalRule("policy", Mode.ENFORCE, "refuse", "address")
CHECKED: Final = ExamineFact(
    SOUND, died=False, overran=None, detail="", ms=1.0, checks=(CheckResult("meter", ALL_CANARIES),)
)
CASES: Final[list[tuple[Sentence, dict[str, Any], dict[str, Any]]]] = [
    *[
        (Sentence(f"extension_not_allowed.{key}", params), {"extension": extension}, {"allowed_extensions": allowed})
        for key, params, extension, allowed in (
            ("short", {"extension": "exe", "allowed": ["pdf", "jpg"]}, "exe", ("pdf", "jpg")),
            ("long", {"extension": "exe", "allowed": list(MANY[:5])}, "exe", MANY),
            ("missing", {"allowed": ["pdf"]}, "", ("pdf",)),
            ("missing_long", {"allowed": list(MANY[:5])}, "", MANY),
        )
    ],
    (Sentence("file_too_large.limit", {"size": 22_020_096, "max_size": 10_485_760}), {"size_bytes": 22_020_096}, {}),
    (
        Sentence("file_too_large.over", {"max_size": 10_485_760}),
        {"size_bytes": 10_500_000, "sha256": None, "is_whole": False},
        {},
    ),
    (
        Sentence("rate_limit_exceeded.limit", {"max_count": 20, "window": 60, "wait": 41.5}),
        {"rate": RateFact(0, 41.5)},
        {},
    ),
    (Sentence("monthly_limit_exceeded.wait", {"wait": 86_400.0}), {"plan": PlanFact(500, 500, 86_400.0)}, {}),
    (Sentence("storage_quota_exceeded.free", {"size": 1000, "free_size": 10}), {"quota_used_bytes": 99_999_990}, {}),
    (Sentence("storage_quota_exceeded.plain"), {"quota_used_bytes": 100_000_000}, {}),
    (Sentence("corrupt_file.named", {"expected": "PDF"}), examined(**CORRUPT), {}),
    (
        Sentence("corrupt_file.named", {"expected": "JPEG"}),
        {"extension": "jpg"} | examined(**CORRUPT, format=None, content_type=UNKNOWN_TYPE),
        {},
    ),
    (Sentence("corrupt_file.empty"), examined(**CORRUPT, fill="empty"), {"reject_blank": False}),
    (Sentence("corrupt_file.plain"), examined(**CORRUPT, fill="zeros"), {"reject_blank": False}),
    *[
        (
            Sentence(f"type_mismatch.{key}", params),
            {"extension": extension} | examined(**MISMATCH, format=found, content_type=content_type),
            {},
        )
        for key, params, extension, found, content_type in (
            ("named", {"expected": "PDF", "found": "ZIP archive"}, "pdf", "zip", "application/zip"),
            ("named", {"expected": "Word (DOC)", "found": "Word (DOCX)"}, "doc", "docx", "application/pdf"),
            ("named", {"expected": "PDF", "found": "program"}, "pdf", None, "application/x-dosexec"),
            ("expected", {"expected": "PDF"}, "pdf", None, "application/x-strange"),
            ("found", {"found": "PNG"}, "", "png", "application/pdf"),
            ("plain", {}, "", None, UNKNOWN_TYPE),
        )
    ],
    (Sentence("polyglot_file.named", {"expected": "PDF"}), examined(finding=Finding.POLYGLOT), {}),
    (Sentence("polyglot_file.plain"), examined(finding=Finding.POLYGLOT, format=None, content_type=UNKNOWN_TYPE), {}),
    (Sentence("archive_bomb.plain"), examined(finding=Finding.ARCHIVE_BOMB), {}),
    (Sentence("archive_unsafe.plain"), examined(finding=Finding.ARCHIVE_UNSAFE), {}),
    (Sentence("image_too_large.plain"), examined(finding=Finding.IMAGE_TOO_LARGE), {}),
    (
        Sentence("image_too_large.dimensions", {"width": 30_000, "height": 20_000}),
        examined(finding=Finding.IMAGE_TOO_LARGE, facts={"width": 30_000, "height": 20_000, "pixels": 600_000_000}),
        {},
    ),
    (
        Sentence("image_too_large.plain"),
        examined(finding=Finding.IMAGE_TOO_LARGE, facts={"width": 30, "height": 20, "pixels": 600, "frames": 6000}),
        {},
    ),
    (Sentence("validation_limits_exceeded.plain"), examined(integrity=Outcome.TOO_COMPLEX), {}),
    *[
        (Sentence(key), {"examined": ExamineFact(None, died=died, overran=overran, detail=ALL_CANARIES, ms=1.0)}, {})
        for key, died, overran in (
            ("validation_limits_exceeded.plain", False, "memory"),
            ("unprocessable_file.plain", True, None),
        )
    ],
    (Sentence("blank_document.plain"), examined(blank=True), {}),
    (Sentence("blank_document.empty"), examined(fill="empty", blank=True), {}),
    *[
        (Sentence(key, params), facts, {"policies": POLICIES})
        for key, params, facts in (
            ("file_too_small.limit", {"size": 9, "min_size": 10}, {"size_bytes": 9}),
            ("filename_not_allowed.plain", {}, {"filename": "A.pdf"}),
            ("denied_file.plain", {}, {"listed": HashListFact((DENIED,))}),
            ("denied_file.plain", {}, {"listed": HashListFact((replace(DENIED, member=ALL_CANARIES),))}),
            ("duplicate_file.plain", {}, {"duplicate_of": CANARIES[1]}),
            (
                "content_type_not_allowed.named",
                {"found": "web page", "formats": ["PDF", "picture"]},
                examined(content_type="text/html"),
            ),
            ("content_type_not_allowed.plain", {}, examined(content_type="application/x-strange")),
            ("encrypted_file.plain", {}, examined(facts={"encrypted": True})),
            ("encrypted_file.archive", {}, examined(facts={"encrypted": True, "encrypted_members": 1})),
            ("active_content.macros", {}, examined(flags=("macro", "macro.autorun"))),
            ("active_content.scripts", {}, examined(flags=("script.pdf",))),
            ("active_content.links", {}, examined(flags=("template.remote",))),
            ("active_content.embedded", {}, examined(flags=("package",))),
            ("active_content.plain", {}, examined(flags=("dde", "macro"))),
            ("program_in_archive.plain", {}, examined(facts={"programs": 1})),
            ("image_dimensions.too_wide", {"width": 200, "max_width": 100}, examined(facts={"width": 200})),
            ("image_dimensions.too_narrow", {"width": 9, "min_width": 10}, examined(facts={"width": 9})),
            ("image_dimensions.too_high", {"height": 200, "max_height": 100}, examined(facts={"height": 200})),
            ("image_dimensions.too_low", {"height": 9, "min_height": 10}, examined(facts={"height": 9})),
            ("image_dimensions.pixels", {"count": 6008, "max_count": 6007}, examined(facts={"pixels": 6008})),
            ("image_dimensions.animated", {}, examined(facts={"animated": True})),
            ("illegible_picture.dark", {}, examined(facts={"exposure": 9, "sharpness": 9})),
            ("illegible_picture.blurred", {}, examined(facts={"exposure": 90, "sharpness": 9})),
            ("illegible_picture.small", {}, examined(facts={"text_height": 3})),
            ("illegible_picture.skewed", {}, examined(facts={"skew": 301})),
            ("too_many_pages.pages", {"count": 4, "max_count": 3}, examined(facts={"pages": 4})),
            ("too_many_pages.sheets", {"count": 4, "max_count": 3}, examined(facts={"sheets": 4})),
            ("too_many_pages.slides", {"count": 4, "max_count": 3}, examined(facts={"slides": 4})),
            ("media_limits.duration", {"duration": 60.5, "max_duration": 60}, examined(facts={"duration_ms": 60_500})),
            ("media_limits.codec", {}, examined(facts={"video_codecs": ("vp9",)})),
            ("archive_limits.members", {"count": 11, "max_count": 10}, examined(facts={"members": 11})),
            ("archive_limits.depth", {}, examined(facts={"depth": 2})),
            ("archive_limits.unpacked", {"size": 1001, "max_size": 1000}, examined(facts={"unpacked_bytes": 1001})),
        )
    ],
    *[
        (Sentence(key), {"scanned": ScanFact(outcome, threat, ALL_CANARIES, "clamd", "27501", 1.0, CANARIES[3])}, {})
        for key, outcome, threat in SCANS
    ],
    *[
        (Sentence(f"rejected_by_check.{key}", params), {"external": (fact,)}, {"external_checks": (EXTERNAL_RULE,)})
        for key, params, fact in (
            ("plain", {}, ExternalFact("policy", "reject", 1.0, code=ALL_CANARIES)),
            ("said", {"sentence": "No."}, ExternalFact("policy", "reject", 1.0, "No.", ALL_CANARIES)),
        )
    ],
    (Sentence("rejected_by_check.plain"), {"examined": CHECKED}, {}),
    *[
        (Sentence(key, params), {"text": fact}, {"policies": Policies(text=text)})
        for key, params, fact, text in (
            ("missing_text.named", {"name": "number"}, TextFact(words=9), NUMBERED),
            ("missing_text.unread", {}, TextFact(), NUMBERED),
            ("missing_text.illegible", {}, TextFact(ocr_pages=2), NUMBERED),
            ("missing_text.short", {}, TextFact(words=2), Text(min_words=3)),
            ("forbidden_text.named", {"name": "draft"}, TextFact(found=("draft",)), NO_DRAFT),
            ("wrong_language.plain", {}, TextFact(languages=("fr",)), Text(languages=["en"])),
            ("outdated_document.plain", {}, TextFact(age_days=2), Text(max_age_days=1)),
            ("outdated_document.undated", {}, TextFact(), Text(needs_date=True)),
            ("identifier_found.payment_card", {}, TextFact(identifiers={"payment_card": 1}), NUMBERLESS),
            ("identifier_found.iban", {}, TextFact(identifiers={"iban": 1}), NUMBERLESS),
            ("identifier_found.plain", {}, TextFact(identifiers={"iban": 1, "us_ssn": 1}), NUMBERLESS),
        )
    ],
    *[
        (Sentence(key), {"kind": fact}, {"policies": Policies(document_kind=LikeExamples(mode=Mode.ENFORCE))})
        for key, fact in (
            ("wrong_document_kind.plain", KindFact("ready", words=20, similarity=7, lacks=("invoice",))),
            ("wrong_document_kind.unread", KindFact("ready", words=3)),
        )
    ],
    *[
        (Sentence(key), {"sanitised": SanitisedFact("11", 1, why=why)}, {"sanitise": Sanitise(remove=["metadata"])})
        for why, key in (
            ("inseparable", "cannot_sanitise.plain"),
            ("format", "cannot_sanitise.format"),
            ("signed", "cannot_sanitise.signed"),
            ("empty", "cannot_sanitise.empty"),
            ("encrypted", "encrypted_file.plain"),
            ("too_complex", "validation_limits_exceeded.plain"),
            ("too_large", "file_too_large.plain"),
            ("damaged", "corrupt_file.plain"),
        )
    ],
]


@each_row("expected, facts, rules", CASES, ids=[case[0].key for case in CASES])
def test_rejection_gets_its_sentence(expected: Sentence, facts: dict[str, Any], rules: dict[str, Any]) -> None:
    assert sentence(facts, rules) == expected


def test_every_reason_has_a_case() -> None:
    # A check without an answer, and the original of a file that is stored, reject nothing.
    others = {Reason.CHECK_UNANSWERED, Reason.ORIGINAL_KEPT}
    assert {expected.key.partition(".")[0] for expected, _, _ in CASES} == set(Reason) - others


@each_row("expected, facts, rules", CASES, ids=[case[0].key for case in CASES])
@each_row("locale", LOCALES)
def test_sentence_has_the_parameters_that_its_words_need(
    locale: str, expected: Sentence, facts: dict[str, Any], rules: dict[str, Any]
) -> None:
    assert names_in(parse(catalogue_of(locale).messages[expected.key])) == expected.params.keys()
    plain = catalogue_of(locale).messages[f"{expected.key.partition('.')[0]}.plain"]
    assert (render(expected.key, expected.params, locale) == plain) == (expected.key.endswith(".plain"))


@each_row("expected, facts, rules", CASES, ids=[case[0].key for case in CASES])
def test_sentence_names_no_threat_and_no_file(expected: Sentence, facts: dict[str, Any], rules: dict[str, Any]) -> None:
    found = sentence(facts, rules)
    values = [int(getattr(Limits(), name)) for name in Limits.__slots__]
    limits = {str(value) for value in values} | {f"{value:,}" for value in values}
    shown = [str(found.params), *(render(found.key, found.params, locale) for locale in LOCALES)]
    for secret in (*CANARIES, "secret-name", "clamd", "27501", *(limit for limit in limits if len(limit) > 3)):
        assert not any(secret in text for text in shown), secret


def test_size_of_a_file_is_named_once_all_of_its_bytes_were_counted() -> None:
    facts = {"size_bytes": 10_500_000, "sha256": None}
    assert sentence(facts | {"is_whole": False}) == Sentence("file_too_large.over", {"max_size": 10_485_760})
    whole = Sentence("file_too_large.limit", {"size": 10_500_000, "max_size": 10_485_760})
    assert sentence(facts | {"is_whole": True}) == whole


def test_quota_lost_to_another_upload_names_no_free_room() -> None:
    facts = replace(FACTS, quota_used_bytes=0)
    rejection = Rejection(Reason.STORAGE_QUOTA_EXCEEDED, "another upload took the last room")
    assert sentence_for(rejection, facts, RULES) == Sentence("storage_quota_exceeded.plain")


@given(st.text(min_size=1, max_size=255))
def test_extension_in_the_parameters_is_made_safe(extension: str) -> None:
    facts = replace(FACTS, extension=extension)
    found = sentence_for(Rejection(Reason.EXTENSION_NOT_ALLOWED, ""), facts, replace(RULES, allowed_extensions=("a",)))
    shown = str(found.params.get("extension", ""))
    assert len(shown) <= 22
    assert all(unicodedata.category(letter) not in {"Cc", "Cs", "Co", "Cn"} for letter in shown)
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u200b\u200e\u200f")


def test_every_format_has_a_name_of_its_own() -> None:
    names = {format_name(name) for name in FORMAT_NAMES}
    assert len(names) >= len(FORMAT_NAMES) - 1  # j2k and jp2 are both JPEG 2000
    assert all(name[0].isupper() or name in catalogue_of("en").formats or name[0].isdigit() for name in names)


def test_usual_extension_of_a_format_has_its_name() -> None:
    usual = {each.name: format_name(each.name) for each in FORMATS if each.name in each.extensions}
    assert len(usual) > 50
    for shared in ("jpg", "jpeg"):
        assert format_name(shared) == "JPEG"
    assert format_name("tif") == format_name("tiff")
    assert format_name("htm") == format_name("html") == "web page"
    assert format_name("yml") == format_name("yaml")


@each_row(
    ("content_type", "name"),
    [("image/*", "picture"), ("image/png", "picture"), ("application/pdf", "PDF"), ("application/x-strange", None)],
)
def test_content_type_has_a_name(content_type: str, name: str | None) -> None:
    assert content_type_name(content_type) == name
