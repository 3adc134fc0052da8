"""The sentence for the sender of a rejected file, with the measured and the allowed values as its parameters.

A pure function of facts and rules, like `rules`. The words are in `sluice.messages`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from sluice.messages import Sentence, safe_text
from sluice.uploads.reasons import EXTERNAL, WORDS, Reason
from sluice.uploads.values import Facts, Rejection, Rules
from sluice_inspect.format_list import NAMES_FOR_PEOPLE
from sluice_inspect.report import UNKNOWN_TYPE, Report

_ALL_SHOWN: Final = 8  # above this number of allowed extensions, the first few are named as examples
_EXAMPLES: Final = 5
_EXTENSION_MAX: Final = 20

# Names of content that is of no format of ours, by extension, and by the beginning of its media type: the first that
# fits. What is not the same in every language is in `Catalogue.formats`.
_FOREIGN_NAMES: Final[Mapping[str, str]] = MappingProxyType(dict.fromkeys(("exe", "dll", "msi"), "program"))
_TYPE_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {code: name for code, name in NAMES_FOR_PEOPLE.items() if "/" in code}
    | dict.fromkeys(
        (
            "application/x-dosexec",
            "application/x-executable",
            "application/x-pie-executable",
            "application/x-sharedlib",
            "application/x-mach-binary",
            "application/x-msdownload",
            "application/x-ms-installer",
            "application/vnd.microsoft.portable-executable",
        ),
        "program",
    )
    | {
        "text/": "plain text",
        "image/": "picture",
        "audio/": "sound",
        "video/": "video",
        "font/": "font",
    }
)


_POLICY_REASONS: Final = frozenset(reason for reason, words in WORDS.items() if words.check.startswith("policy."))
# The sentence for each flag of active content.
_ACTIVE_CONTENT_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(("macro", "macro.autorun", "macro.sheet"), "macros")
    | dict.fromkeys(("script.pdf", "script.svg", "script.html", "smuggling.html"), "scripts")
    | dict.fromkeys(("link.external", "xinclude", "template.remote"), "links")
    | dict.fromkeys(("package", "object.ole", "object.activex", "altchunk"), "embedded")
)
# The sentence for each fact by which a picture cannot be read.
_ILLEGIBLE_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {"exposure": "dark", "sharpness": "blurred", "text_height": "small", "skew_degrees": "skewed"}
)
# The sentence for each cause why a file cannot be sanitised; the others have the plain one.
_NOT_SANITISED_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "format": "cannot_sanitise.format",
        "signed": "cannot_sanitise.signed",
        "empty": "cannot_sanitise.empty",
        "encrypted": "encrypted_file.plain",
        "damaged": "corrupt_file.plain",
        "too_complex": "validation_limits_exceeded.plain",
        "too_large": "file_too_large.plain",
    }
)


def sentence_for(rejection: Rejection, facts: Facts, rules: Rules) -> Sentence:
    """Return the sentence for the sender of a rejected file.

    The sentence holds no name of a threat, no path, and nothing of other files.
    """
    reason, report = rejection.reason, None if facts.examined is None else facts.examined.report
    match reason:
        case Reason.EXTENSION_NOT_ALLOWED:
            return _of_extension(facts.extension, rules.allowed_extensions)
        case Reason.FILE_TOO_LARGE:
            return _of_size(facts, rules)
        case Reason.RATE_LIMIT_EXCEEDED | Reason.MONTHLY_LIMIT_EXCEEDED:
            return _of_limit(rejection, rules)
        case Reason.STORAGE_QUOTA_EXCEEDED:
            return _of_quota(facts, rules)
        case Reason.DENIED_FILE:
            return _plain(reason)
        case Reason.CANNOT_SANITISE:
            return Sentence(_NOT_SANITISED_KEYS.get(str(rejection.found), "cannot_sanitise.plain"))
        case Reason.REJECTED_BY_CHECK | Reason.CHECK_UNANSWERED:
            return _of_external(rejection, facts)
        case _ if WORDS[reason].check in {"policy.text", "policy.document_kind"}:
            return _of_text(rejection)
        case _ if reason in _POLICY_REASONS:
            return _of_policy(rejection)
        case _:
            return _of_content(reason, facts.extension, report) if report is not None else _plain(reason)


def format_name(code: str) -> str:
    """Return the English name of a format, by its `Format.name` or its extension."""
    name = NAMES_FOR_PEOPLE.get(code) or _FOREIGN_NAMES.get(code)
    return name or (code.upper() if code.isascii() else code)


def content_type_name(content_type: str) -> str | None:
    """Return the English name of a media type or of a family such as `image/*`; None if there is none."""
    return next((name for begin, name in _TYPE_NAMES.items() if content_type.startswith(begin)), None)


def _plain(reason: Reason) -> Sentence:
    return Sentence(f"{reason.value}.plain")


def _of_extension(extension: str, allowed: tuple[str, ...]) -> Sentence:
    shown = safe_text(extension, _EXTENSION_MAX)
    is_long = len(allowed) > _ALL_SHOWN
    listed = [safe_text(each, _EXTENSION_MAX) for each in (allowed[:_EXAMPLES] if is_long else allowed)]
    if not shown:
        key = "extension_not_allowed.missing_long" if is_long else "extension_not_allowed.missing"
        return Sentence(key, {"allowed": listed})
    key = "extension_not_allowed.long" if is_long else "extension_not_allowed.short"
    return Sentence(key, {"extension": shown, "allowed": listed})


def _of_size(facts: Facts, rules: Rules) -> Sentence:
    if not facts.is_whole:  # how large it is was not measured, only that it is too large
        return Sentence("file_too_large.over", {"max_size": rules.max_bytes})
    return Sentence("file_too_large.limit", {"size": facts.size_bytes, "max_size": rules.max_bytes})


def _of_policy(rejection: Rejection) -> Sentence:
    """Return the sentence for a policy, from the found and the expected value."""
    reason = rejection.reason
    found: Mapping[str, Any] = rejection.found if isinstance(rejection.found, Mapping) else {}
    expected: Mapping[str, Any] = rejection.expected if isinstance(rejection.expected, Mapping) else {}
    key, params = "plain", {}
    match reason:
        case Reason.FILE_TOO_SMALL:
            key, params = "limit", {"size": rejection.found, "min_size": expected["min"]}
        case Reason.CONTENT_TYPE_NOT_ALLOWED:
            key, params = _content_type_params(str(rejection.found), rejection.expected)
        case Reason.ENCRYPTED_FILE if rejection.found is not True:
            key = "archive"
        case Reason.ACTIVE_CONTENT if isinstance(rejection.found, list):
            kinds = {_ACTIVE_CONTENT_KEYS.get(flag, "plain") for flag in rejection.found}
            key = kinds.pop() if len(kinds) == 1 else "plain"
        case Reason.MEDIA_LIMITS if "duration_seconds" in found:
            most = expected["duration_seconds"]["max"]
            key, params = "duration", {"duration": found["duration_seconds"], "max_duration": most}
        case Reason.MEDIA_LIMITS:
            key = "codec"
        case Reason.IMAGE_DIMENSIONS:
            key, params = _image_params(found, expected)
        case Reason.ILLEGIBLE_PICTURE:
            key = next((key for fact, key in _ILLEGIBLE_KEYS.items() if fact in found), "plain")
        case Reason.ARCHIVE_LIMITS if "unpacked_bytes" in found:
            most = expected["unpacked_bytes"]["max"]
            key, params = "unpacked", {"size": found["unpacked_bytes"], "max_size": most}
        case Reason.ARCHIVE_LIMITS if "depth" in found:
            key = "depth"
        case Reason.TOO_MANY_PAGES | Reason.ARCHIVE_LIMITS if found:
            key = next(iter(found))
            params = {"count": found[key], "max_count": expected[key]["max"]}
    return Sentence(f"{reason.value}.{key}", params)


def _of_text(rejection: Rejection) -> Sentence:
    """Return the sentence for the policies on texts and on kinds of documents, from the found value."""
    found: Mapping[str, Any] = rejection.found if isinstance(rejection.found, Mapping) else {}
    key, params = "plain", {}
    match found:
        case {"missing": [name, *_others]} | {"found": [name, *_others]}:
            key, params = "named", {"name": name}
        case {"words": 0, "ocr_pages": _}:
            key = "illegible"
        case {"words": words}:
            key = "short" if words and rejection.reason is Reason.MISSING_TEXT else "unread"
        case {"age_days": None}:
            key = "undated"
        case {"identifiers": {"payment_card": _}} if len(found["identifiers"]) == 1:
            key = "payment_card"
        case {"identifiers": {"iban": _}} if len(found["identifiers"]) == 1:
            key = "iban"
    return Sentence(f"{rejection.reason.value}.{key}", params)


def _content_type_params(found: str, allowed: object) -> tuple[str, dict[str, Any]]:
    name = content_type_name(found)
    if name is None:
        return "plain", {}
    names = [content_type_name(each) for each in allowed] if isinstance(allowed, list) else []
    listed = list(dict.fromkeys(each for each in names if each is not None))
    if None in names or not listed or len(listed) > _ALL_SHOWN or name in listed:
        return "found", {"found": name}
    return "named", {"found": name, "formats": listed}


def _image_params(found: Mapping[str, Any], expected: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if "animated" in found:
        return "animated", {}
    ((name, value),) = found.items()
    if name == "pixels":
        return "pixels", {"count": value, "max_count": expected[name]["max"]}
    is_above = value > expected[name].get("max", value)
    bound = "max" if is_above else "min"
    words = {("width", "max"): "too_wide", ("height", "max"): "too_high", ("width", "min"): "too_narrow"}
    return words.get((name, bound), "too_low"), {name: value, f"{bound}_{name}": expected[name][bound]}


def _of_external(rejection: Rejection, facts: Facts) -> Sentence:
    """Return our sentence around the one of the check, which was cleaned when it came."""
    said = next((one.sentence for one in facts.external if f"{EXTERNAL}.{one.name}" == rejection.check), "")
    if not said or rejection.reason is not Reason.REJECTED_BY_CHECK:
        return _plain(rejection.reason)
    return Sentence("rejected_by_check.said", {"sentence": said})


def _of_limit(rejection: Rejection, rules: Rules) -> Sentence:
    wait = rejection.retry_after
    if wait is None:
        return _plain(rejection.reason)
    if rejection.reason is Reason.RATE_LIMIT_EXCEEDED and rules.rate is not None:
        rate = rules.rate
        params = {"max_count": rate.max_uploads, "window": rate.window_seconds, "wait": wait}
        return Sentence("rate_limit_exceeded.limit", params)
    return Sentence(f"{rejection.reason.value}.wait", {"wait": wait})


def _of_quota(facts: Facts, rules: Rules) -> Sentence:
    if rules.quota_bytes is not None and facts.quota_used_bytes is not None:
        free = rules.quota_bytes - facts.quota_used_bytes
        if 0 < free < facts.size_bytes:  # not if another upload took the room in the meantime
            return Sentence("storage_quota_exceeded.free", {"size": facts.size_bytes, "free_size": free})
    return _plain(Reason.STORAGE_QUOTA_EXCEEDED)


def _of_content(reason: Reason, extension: str, report: Report) -> Sentence:
    promised = format_name(safe_text(extension, _EXTENSION_MAX)) or None
    found = _found_name(report)
    match reason:
        case Reason.CORRUPT_FILE | Reason.BLANK_DOCUMENT if report.fill == "empty":
            return Sentence(f"{reason.value}.empty")
        case Reason.CORRUPT_FILE if report.fill is None and (name := found or promised) is not None:
            return Sentence("corrupt_file.named", {"expected": name})
        case Reason.TYPE_MISMATCH:
            return _of_mismatch(promised, found)
        case Reason.POLYGLOT_FILE if found is not None:
            return Sentence("polyglot_file.named", {"expected": found})
        case Reason.IMAGE_TOO_LARGE if "frames" not in report.facts:  # they may be what is too much
            width, height = report.facts.get("width"), report.facts.get("height")
            if isinstance(width, int) and isinstance(height, int):
                return Sentence("image_too_large.dimensions", {"width": width, "height": height})
    return _plain(reason)


def _of_mismatch(promised: str | None, found: str | None) -> Sentence:
    if promised is None:
        return _plain(Reason.TYPE_MISMATCH) if found is None else Sentence("type_mismatch.found", {"found": found})
    if found is None or found == promised:
        return Sentence("type_mismatch.expected", {"expected": promised})
    return Sentence("type_mismatch.named", {"expected": promised, "found": found})


def _found_name(report: Report) -> str | None:
    if report.format is not None:
        return format_name(report.format)
    return None if report.content_type == UNKNOWN_TYPE else content_type_name(report.content_type)
