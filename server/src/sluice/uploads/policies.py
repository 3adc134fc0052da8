"""The verdict of a context's policies on a file: pure functions of facts and policies."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from sluice.contexts.policies import (
    CONTENT_POLICIES,
    ActiveContent,
    ActiveContentKind,
    Archive,
    ContentTypes,
    Document,
    FilenamePattern,
    Image,
    Legible,
    LikeExamples,
    Media,
    MinSize,
    Mode,
    Policies,
    Policy,
    Text,
    compile_pattern,
)
from sluice.uploads.reasons import Reason
from sluice.uploads.values import Facts, KindFact, Rejection, TextFact
from sluice_inspect.document_kinds import WORDS_LEAST
from sluice_inspect.report import Report
from sluice_inspect.text_questions import PAGES_MOST

CONTENT_CHECKS: Final = tuple(f"policy.{name}" for name in CONTENT_POLICIES)

# The flags of a report for each kind of active content.
FLAGS_OF: Final[Mapping[ActiveContentKind, tuple[str, ...]]] = MappingProxyType(
    {
        "macros": ("macro", "macro.autorun"),
        "macro_sheets": ("macro.sheet",),
        "scripts": ("script.pdf", "script.svg", "script.html", "smuggling.html"),
        "launch_actions": ("launch.pdf",),
        "objects": ("package", "object.ole", "object.activex", "altchunk"),
        "templates": ("template.remote",),
        "links": ("link.external", "xinclude"),
        "dde": ("dde",),
        "formulas": ("formula.csv",),
    }
)
# Why there is no text.
NO_TEXT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "": "there is none in it, as in a scan",
        "format": "files of this format have none that is read",
        "damaged": "the document is damaged",
        "encrypted": "the document is protected by a password",
        "too_complex": "it takes more time or memory than the limits allow",
    }
)
Finding = tuple[str, object, object]  # detail, found, expected


def judge_name(facts: Facts, pattern: FilenamePattern) -> Iterator[Rejection]:
    """Yield the policy on the name if the facts fail it."""
    if pattern.mode is not Mode.OFF and compile_pattern(pattern.pattern).fullmatch(facts.filename) is None:
        detail = f"found {facts.filename!r}, expected a name that matches {pattern.pattern}"
        yield Rejection(
            Reason.FILENAME_NOT_ALLOWED,
            detail,
            found=facts.filename,
            expected={"pattern": pattern.pattern},
            mode=pattern.mode,
        )


def judge_size(facts: Facts, least: MinSize) -> Iterator[Rejection]:
    """Yield the policy on the size if the facts fail it. A file whose bytes are still coming has no hash yet."""
    if least.mode is not Mode.OFF and facts.sha256 is not None and facts.size_bytes < least.bytes:
        detail = f"found {facts.size_bytes} bytes, expected at least {least.bytes}"
        found, expected = facts.size_bytes, {"min": least.bytes}
        yield Rejection(Reason.FILE_TOO_SMALL, detail, found=found, expected=expected, mode=least.mode)


def judge_content(facts: Facts, policies: Policies) -> Iterator[Rejection]:
    """Yield the policies on content that the report of the file check fails."""
    report = facts.report
    if report is None or not policies.content_modes:
        return
    for name in CONTENT_POLICIES:
        policy = getattr(policies, name)
        if policy is None or policy.mode is Mode.OFF:
            continue
        reason, judge = _JUDGES[name]
        if (finding := judge(report, policy)) is not None:
            detail, found, expected = finding
            yield Rejection(reason, detail, found=found, expected=expected, mode=policy.mode)


def judge_text(facts: Facts, policy: Text) -> Iterator[Rejection]:
    """Yield the first rule on the text of a document that it fails, if the text was read."""
    if facts.text is None or policy.mode is Mode.OFF:
        return
    for judged in (_unread, _missing, _too_short, _forbidden, _in_other_language, _too_old, _with_identifiers):
        found = judged(facts.text, policy)
        if found is not None:
            reason, (detail, value, expected) = found
            if reason is Reason.MISSING_TEXT and _is_cut(facts, facts.text):
                detail = f"{detail}; only the beginning of the document was read"
            yield Rejection(reason, detail, found=value, expected=expected, mode=policy.mode)
            return


def judge_kind(fact: KindFact, policy: LikeExamples) -> Iterator[Rejection]:
    """Yield that a document is unlike the examples, or has too little text. Without enough examples nothing fails."""
    if fact.examples != "ready":
        return
    if fact.similarity is None:
        why = NO_TEXT.get(fact.why, fact.why) if fact.why or not fact.words else f"it has {fact.words} different words"
        expected = {"words": {"min": WORDS_LEAST}}
        detail = f"there is too little text to compare: {why}"
        yield Rejection(
            Reason.WRONG_DOCUMENT_KIND, detail, found={"words": fact.words}, expected=expected, mode=policy.mode
        )
    elif fact.similarity < policy.min_similarity:
        parts = [f"found a similarity of {fact.similarity}, expected at least {policy.min_similarity}"]
        parts += [f"shares {_quoted(fact.shares)} with the examples"] if fact.shares else []
        parts += [f"lacks {_quoted(fact.lacks)}"] if fact.lacks else []
        found = {"similarity": fact.similarity, "shares": list(fact.shares), "lacks": list(fact.lacks)}
        expected_similarity = {"similarity": {"min": policy.min_similarity}}
        yield Rejection(
            Reason.WRONG_DOCUMENT_KIND, "; ".join(parts), found=found, expected=expected_similarity, mode=policy.mode
        )


_TextFinding = tuple[Reason, Finding]


def _unread(text: TextFact, policy: Text) -> _TextFinding | None:
    if text.words or not (policy.must_contain or policy.min_words):
        return None
    why = "OCR found none in it" if text.ocr_pages else NO_TEXT.get(text.why, text.why)
    found = {"words": 0, "ocr_pages": text.ocr_pages} if text.ocr_pages else {"words": 0}
    return Reason.MISSING_TEXT, (f"no text was read: {why}", found, {"words": {"min": policy.min_words or 1}})


def _missing(text: TextFact, policy: Text) -> _TextFinding | None:
    wanted = [each.name for each in policy.must_contain]
    missing = [name for name in wanted if name not in text.found]
    if not missing or (policy.any_is_enough and len(missing) < len(wanted)):
        return None
    detail = f"did not find {_quoted(missing)}, expected {'any' if policy.any_is_enough else 'all'} of them"
    return Reason.MISSING_TEXT, (detail, {"missing": missing}, {"must_contain": wanted})


def _too_short(text: TextFact, policy: Text) -> _TextFinding | None:
    if policy.min_words is None or text.words >= policy.min_words:
        return None
    detail = f"found {text.words} words, expected at least {policy.min_words}"
    return Reason.MISSING_TEXT, (detail, {"words": text.words}, {"words": {"min": policy.min_words}})


def _forbidden(text: TextFact, policy: Text) -> _TextFinding | None:
    found = [each.name for each in policy.must_not_contain if each.name in text.found]
    if not found:
        return None
    return Reason.FORBIDDEN_TEXT, (f"found {_quoted(found)}", {"found": found}, {"found": []})


def _in_other_language(text: TextFact, policy: Text) -> _TextFinding | None:
    if not policy.languages or not text.languages or set(policy.languages) & set(text.languages):
        return None
    detail = f"found {', '.join(text.languages)}, expected {', '.join(policy.languages)}"
    found, expected = {"languages": list(text.languages)}, {"languages": list(policy.languages)}
    return Reason.WRONG_LANGUAGE, (detail, found, expected)


def _too_old(text: TextFact, policy: Text) -> _TextFinding | None:
    most, age = policy.max_age_days, text.age_days
    expected = {"age_days": {"max": most}}
    if age is None and policy.needs_date:
        return Reason.OUTDATED_DOCUMENT, ("found no date behind a label", {"age_days": None}, expected)
    if most is None or age is None or age <= most:
        return None
    detail = f"the newest date behind a label is {age} days old, expected at most {most}"
    return Reason.OUTDATED_DOCUMENT, (detail, {"age_days": age}, expected)


def _with_identifiers(text: TextFact, policy: Text) -> _TextFinding | None:
    found: dict[str, int] = {name: text.identifiers[name] for name in policy.identifiers if text.identifiers.get(name)}
    if not found:
        return None
    return Reason.IDENTIFIER_FOUND, (f"found {_listed(found)}", {"identifiers": found}, {"identifiers": {}})


def _is_cut(facts: Facts, text: TextFact) -> bool:
    """Return whether not all of the text was read."""
    counts = [] if facts.report is None else [_number(facts.report, name) for name in ("pages", "sheets", "slides")]
    return text.is_cut or any(count is not None and count > PAGES_MOST for count in counts)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"“{name}”" for name in names)


def _type_not_allowed(report: Report, policy: ContentTypes) -> Finding | None:
    found = report.content_type
    if found in policy.allow or f"{found.partition('/')[0]}/*" in policy.allow:
        return None
    return f"found {found}, expected one of {', '.join(policy.allow)}", found, list(policy.allow)


def _encrypted(report: Report, _policy: Policy) -> Finding | None:
    members = report.facts.get("encrypted_members")
    if not report.facts.get("encrypted") and not members:
        return None
    detail = f"{members} members of the archive are encrypted" if members else "the file is encrypted"
    return detail, members or True, None


def _active_content(report: Report, policy: ActiveContent) -> Finding | None:
    found = [flag for kind in policy.kinds for flag in FLAGS_OF[kind] if flag in report.flags]
    return (f"found {', '.join(found)}", found, []) if found else None


def _programs(report: Report, _policy: Policy) -> Finding | None:
    names = ("programs", "scripts", "shortcuts")
    found = {name: count for name in names if (count := _number(report, name))}
    return (f"found {_listed(found)} in the archive", found, {}) if found else None


def _image_outside(report: Report, policy: Image) -> Finding | None:
    limits = {
        "width": (policy.min_width, policy.max_width),
        "height": (policy.min_height, policy.max_height),
        "pixels": (None, policy.max_pixels),
    }
    for name, (least, most) in limits.items():
        value = _number(report, name)
        if value is not None and ((least is not None and value < least) or (most is not None and value > most)):
            expected = {bound: limit for bound, limit in (("min", least), ("max", most)) if limit is not None}
            words = " and ".join(f"at {bound_name} {limit}" for bound_name, limit in _worded(expected))
            return f"found {name} {value}, expected {words}", {name: value}, {name: expected}
    if not policy.allow_animation and report.facts.get("animated"):
        return "found an animation, expected a still picture", {"animated": True}, {"animated": False}
    return None


def illegible(report: Report, policy: Legible) -> Finding | None:
    """Return why a picture cannot be read, as detail, found and expected; None for what was not measured, too.

    Darkness comes first: it makes edges weak, too.
    """
    for name, least in (
        ("exposure", policy.min_exposure),
        ("sharpness", policy.min_sharpness),
        ("text_height", policy.min_text_height_px),
    ):
        value = _number(report, name)
        if value is not None and value < least:
            detail = f"found {name.replace('_', ' ')} {value}, expected at least {least}"
            return detail, {name: value}, {name: {"min": least}}
    skew, most = _number(report, "skew"), policy.max_skew_degrees
    if skew is not None and skew > most * 10:
        degrees = skew / 10
        detail = f"found lines at {degrees:.1f} degrees, expected at most {most}"
        return detail, {"skew_degrees": degrees}, {"skew_degrees": {"max": most}}
    return None


def _too_long(report: Report, policy: Document) -> Finding | None:
    limits = {"pages": policy.max_pages, "sheets": policy.max_sheets, "slides": policy.max_slides}
    return _above(report, limits)


def _media_outside(report: Report, policy: Media) -> Finding | None:
    most = policy.max_duration_seconds
    duration = _number(report, "duration_ms")
    if most is not None and duration is not None and duration > most * 1000:
        seconds = duration / 1000
        detail = f"found {seconds:.1f} seconds, expected at most {most}"
        return detail, {"duration_seconds": seconds}, {"duration_seconds": {"max": most}}
    codecs = [*_names(report, "audio_codecs"), *_names(report, "video_codecs")]
    others = [codec for codec in codecs if codec not in policy.codecs] if policy.codecs else []
    if others:
        detail = f"found {', '.join(others)}, expected only {', '.join(policy.codecs)}"
        return detail, {"codecs": others}, {"codecs": list(policy.codecs)}
    return None


def _archive_outside(report: Report, policy: Archive) -> Finding | None:
    # The report counts the archive itself as depth 1, the policy how deep archives are nested in it.
    depth = None if policy.max_depth is None else policy.max_depth + 1
    limits = {"members": policy.max_members, "depth": depth, "unpacked_bytes": policy.max_unpacked_bytes}
    return _above(report, limits)


def _above(report: Report, limits: Mapping[str, int | None]) -> Finding | None:
    for name, most in limits.items():
        value = _number(report, name)
        if most is not None and value is not None and value > most:
            detail = f"found {value} {name.replace('_', ' ')}, expected at most {most}"
            return detail, {name: value}, {name: {"max": most}}
    return None


def _number(report: Report, name: str) -> int | None:
    value = report.facts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _names(report: Report, name: str) -> tuple[str, ...]:
    value = report.facts.get(name)
    return value if isinstance(value, tuple) else ()


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _worded(expected: Mapping[str, int]) -> list[tuple[str, int]]:
    return [({"min": "least", "max": "most"}[bound], limit) for bound, limit in expected.items()]


_JUDGES: Final[Mapping[str, tuple[Reason, Callable[[Report, Any], Finding | None]]]] = MappingProxyType(
    {
        "content_types": (Reason.CONTENT_TYPE_NOT_ALLOWED, _type_not_allowed),
        "encrypted": (Reason.ENCRYPTED_FILE, _encrypted),
        "active_content": (Reason.ACTIVE_CONTENT, _active_content),
        "programs_in_archives": (Reason.PROGRAM_IN_ARCHIVE, _programs),
        "image": (Reason.IMAGE_DIMENSIONS, _image_outside),
        "legible": (Reason.ILLEGIBLE_PICTURE, illegible),
        "document": (Reason.TOO_MANY_PAGES, _too_long),
        "media": (Reason.MEDIA_LIMITS, _media_outside),
        "archive": (Reason.ARCHIVE_LIMITS, _archive_outside),
    }
)
