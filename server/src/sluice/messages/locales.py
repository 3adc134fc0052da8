"""The locales of the catalogues, and which of them a request gets by its Accept-Language header."""

from collections.abc import Iterator
from typing import Final, Literal

DEFAULT_LOCALE: Final = "en"
LOCALES: Final = ("en", "de", "fr", "es", "it", "nl", "pl", "pt", "ja", "zh-Hans", "ar", "he", "tr", "uk", "ko", "hi")

_RIGHT_TO_LEFT: Final = frozenset({"ar", "he"})
_HEADER_MAX: Final = 1000  # characters; browsers send fewer than 200
_RANGES_MAX: Final = 20
_BY_TAG: Final = {locale.lower(): locale for locale in LOCALES} | {"iw": "he"}  # the old code of Hebrew
# Chinese is written in two scripts that the language alone does not tell apart. In these places it is the traditional
# one, for which there is no catalogue; everywhere else, and where no place is named, it is the simplified one.
_TRADITIONAL: Final = frozenset({"hant", "tw", "hk", "mo"})


def direction_of(locale: str) -> Literal["ltr", "rtl"]:
    """Return in which direction a locale is written, as the attribute `dir` of HTML has it."""
    return "rtl" if locale in _RIGHT_TO_LEFT else "ltr"


def negotiate(accept_language: str | None) -> str:
    """Return the locale that suits an Accept-Language header best, by the lookup of RFC 4647 section 3.4.

    What cannot be read is passed over, and so is what is beyond 1,000 characters or 20 ranges.
    """
    if not accept_language:
        return DEFAULT_LOCALE
    weighted = list(_ranges(accept_language[:_HEADER_MAX]))
    refused = {_lookup(tag) for tag, weight in weighted if weight == 0 and "-" not in tag}
    # `sorted` is stable: of two ranges of the same weight the first wins.
    for tag, weight in sorted(weighted, key=lambda pair: -pair[1]):
        found = _lookup(tag)
        if weight > 0 and found is not None and found not in refused:
            return found
    return DEFAULT_LOCALE


def _ranges(header: str) -> Iterator[tuple[str, float]]:
    """Yield the language ranges in lower case with their weights (RFC 9110 section 12.5.4)."""
    for part in header.split(",", _RANGES_MAX)[:_RANGES_MAX]:
        tag, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weight = _weight(parameters)
        if weight is not None and tag:
            yield tag, weight


def _weight(parameters: list[str]) -> float | None:
    if not parameters:
        return 1.0
    name, _, text = parameters[0].partition("=")
    if len(parameters) > 1 or name.strip() != "q" or not text.strip().replace(".", "", 1).isdecimal():
        return None
    weight = float(text)
    return weight if weight <= 1 else None


def _lookup(tag: str) -> str | None:
    """Return the locale of a range, shortened from its end until one fits; None if none does, and for `*`."""
    subtags = tag.replace("_", "-").split("-")
    if subtags[0] == "zh":
        return None if _TRADITIONAL.intersection(subtags) and "hans" not in subtags else "zh-Hans"
    while subtags:
        found = _BY_TAG.get("-".join(subtags))
        if found is not None:
            return found
        subtags.pop()
        if subtags and len(subtags[-1]) == 1:  # a single letter only introduces what followed it
            subtags.pop()
    return None
