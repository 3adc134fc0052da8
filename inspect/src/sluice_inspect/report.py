"""The report on one file: outcomes, findings, limits, and the errors by which an examination ends."""
# It holds what was measured whatever the rules are, so that changed rules can be replayed over stored reports. Nothing
# here loads a parser.

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

from sluice_inspect.catalogue import FACTS, FLAGS, FactValue, Unit
from sluice_inspect.format_list import FORMAT_NAMES

Measure = int | float | str | bool  # a count, bytes, seconds, a name

UNKNOWN_TYPE: Final = "application/octet-stream"

FILLS: Final = frozenset({"empty", "zeros", "ones", "spaces"})

_TEXT_MAX: Final = 500
_MEASURES_MAX: Final = 64
_NUMBER_MAX: Final = 2**63
_CONTENT_TYPE_MAX: Final = 100
_MEASURE_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,47}")
# RFC 6838 section 4.2, lower case, with the registered top-level types and those that libmagic's database adds to them
# (biosig, chemical, rinex). Content of an unknown format has libmagic's type, so that the subtypes are not a closed
# list.
_CONTENT_TYPE: Final = re.compile(
    r"(?:application|audio|biosig|chemical|font|haptics|image|message|model|multipart|rinex|text|video)"
    r"/[a-z0-9][a-z0-9!#$&^_.+-]*"
)


class Outcome(StrEnum):
    """The result of an inspection. Only `corrupt` and `blank` count against a file."""

    OK = "ok"
    CORRUPT = "corrupt"  # does not decode, or is provably incomplete, by its format's own rules
    BLANK = "blank"  # a reader would see nothing
    ENCRYPTED = "encrypted"  # protected by a password, and sound as far as its structure shows
    UNSUPPORTED = "unsupported"  # the installed library cannot judge this variant: never a reason to refuse
    TOO_COMPLEX = "too_complex"  # examining it would exceed a limit


class Finding(StrEnum):
    """What is wrong with a file besides damage. The values are the reason codes of the interface."""

    TYPE_MISMATCH = "type_mismatch"
    POLYGLOT = "polyglot_file"
    ARCHIVE_BOMB = "archive_bomb"
    ARCHIVE_UNSAFE = "archive_unsafe"
    IMAGE_TOO_LARGE = "image_too_large"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one inspection. Bytes are counted while they are unpacked, never taken from headers."""

    max_unpacked_bytes: int = 4 * 1024**3
    max_ratio: int = 200  # unpacked to packed bytes
    ratio_floor_bytes: int = 64 * 1024**2  # the ratio applies only above: small honest files compress well
    max_members: int = 50_000
    max_depth: int = 4
    max_pixels: int = 200_000_000
    max_frames: int = 5_000
    max_xml_depth: int = 256
    max_json_depth: int = 200
    soft_seconds: float = 20.0  # of processor time: an expensive examination (rendering pages) stops then: not blank
    total_seconds: float = 5.0  # the same for all examinations of one file together
    total_seconds_per_mb: float = 0.05  # in addition, for each MB of the file
    legibility: bool = False  # whether the facts of pictures that are measured only if a rule asks are measured


@dataclass(slots=True)
class FactSheet:
    """Facts and flags while they are collected. `complete`: everything was searched that may hold what a flag names."""

    facts: dict[str, FactValue] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that one inspection measured of one file."""

    format: str | None  # name of the format that the content is (`pdf`), whatever the extension; None if unknown
    content_type: str
    outcome: Outcome  # the result in one word, blank rule included
    integrity: Outcome  # the result without the blank rule: never `blank`
    finding: Finding | None
    blank: bool
    detail: str  # what is wrong, and where, in one sentence that a person can act on; empty when nothing is
    blank_detail: str = ""
    fill: str | None = None  # one of `FILLS` when the file is nothing else
    measures: Mapping[str, Measure] = field(default_factory=lambda: MappingProxyType({}))
    facts: Mapping[str, FactValue] = field(default_factory=lambda: MappingProxyType({}))  # by names of `FACTS`
    flags: tuple[str, ...] = ()  # names of `FLAGS`; see the fact `flags_complete`
    ms: float = 0.0

    def to_json(self) -> dict[str, object]:
        """Return the report as plain JSON values, for the way out of the sandbox and for the decision log."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        facts = {name: list(value) if isinstance(value, tuple) else value for name, value in self.facts.items()}
        return plain | {"measures": dict(self.measures), "facts": facts, "flags": list(self.flags)}

    @classmethod
    def from_json(cls, raw: object) -> "Report":
        """Return the report that a child process wrote; raise `ValueError` for what `to_json` would not write."""
        # The process parses hostile files and may have been taken over, and the values reach logs and the database.
        if not isinstance(raw, dict) or raw.keys() != _FIELDS:
            raise ValueError("the report does not have the fields of a report")
        outcome, integrity = Outcome(_text(raw["outcome"])), Outcome(_text(raw["integrity"]))
        if integrity is Outcome.BLANK:
            raise ValueError("the report has an integrity that is no integrity")
        return cls(
            format=_one_of(FORMAT_NAMES, raw["format"]),
            content_type=_content_type(raw["content_type"]),
            outcome=outcome,
            integrity=integrity,
            finding=None if raw["finding"] is None else Finding(_text(raw["finding"])),
            blank=_flag(raw["blank"]),
            detail=_text(raw["detail"]),
            blank_detail=_text(raw["blank_detail"]),
            fill=_one_of(FILLS, raw["fill"]),
            measures=_measures(raw["measures"]),
            facts=_facts(raw["facts"]),
            flags=_names(_FLAG_NAMES, raw["flags"]),
            ms=_duration(raw["ms"]),
        )

    @classmethod
    def from_stored(cls, raw: Mapping[str, object]) -> "Report":
        """Return a report of the decision log, also one written before there were facts and flags.

        Such a report lacks the fact `flags_complete`: a flag that it lacks may still apply to the file. What the next
        release added is left out, since it may have written the report during an upgrade.
        """
        known = {"facts": {}, "flags": [], **{name: value for name, value in raw.items() if name in _FIELDS}}
        if isinstance(known["facts"], dict):
            known["facts"] = {name: value for name, value in known["facts"].items() if name in FACTS}
        if isinstance(known["flags"], list):
            known["flags"] = [flag for flag in known["flags"] if flag in _FLAG_NAMES]
        if known["format"] not in FORMAT_NAMES:
            known["format"] = None
        if known["finding"] not in _FINDINGS:
            known["finding"] = None
        return cls.from_json(known)


_FIELDS: Final = frozenset(Report.__slots__)
_FLAG_NAMES: Final = frozenset(FLAGS)
_FINDINGS: Final = frozenset(finding.value for finding in Finding)


def is_content_type(value: str) -> bool:
    """Return whether a report may have this media type: lower case, no parameters, at most 100 characters."""
    return len(value) <= _CONTENT_TYPE_MAX and _CONTENT_TYPE.fullmatch(value) is not None


def printable(text: str, length: int = _TEXT_MAX) -> str:
    """Return the text as a report may hold it: unprintable characters as spaces, cut after `length` characters."""
    text = text[:length]
    return text if text.isprintable() else "".join(letter if letter.isprintable() else " " for letter in text)


def reportable_measures(measures: Mapping[str, Measure]) -> Mapping[str, Measure]:
    """Return the measures as a report may hold them: printable text, bounded numbers, no NaN."""
    result: dict[str, Measure] = {}  # files state numbers of any size in their headers, and readers pass them on
    for name, value in list(measures.items())[:_MEASURES_MAX]:
        if isinstance(value, str):
            result[name] = printable(value)
        elif not (isinstance(value, float) and math.isnan(value)):
            # Integers compare exactly, whatever their size.
            result[name] = value if -_NUMBER_MAX <= value <= _NUMBER_MAX else max(-_NUMBER_MAX, min(value, _NUMBER_MAX))
    return result


def reportable_facts(facts: Mapping[str, FactValue]) -> Mapping[str, FactValue]:
    """Return the facts as a report may hold them: sorted names, and no number above the bound."""
    result: dict[str, FactValue] = {}
    for name, value in facts.items():
        if isinstance(value, tuple):
            result[name] = tuple(sorted(set(value)))
        else:
            result[name] = value if isinstance(value, bool) else max(0, min(value, _NUMBER_MAX))
    return result


def _text(value: object) -> str:
    # `isprintable` is False for control, bidirectional, zero-width and unassigned characters, and for surrogates.
    if not isinstance(value, str) or len(value) > _TEXT_MAX or not value.isprintable():
        raise ValueError("the report has a text that is not printable text")
    return value


def _one_of(known: frozenset[str], value: object) -> str | None:
    if value is not None and (not isinstance(value, str) or value not in known):
        raise ValueError("the report has a name that is not known")
    return value


def _content_type(value: object) -> str:
    if not isinstance(value, str) or not is_content_type(value):
        raise ValueError("the report has a content type that is no media type")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("the report has a flag that is no flag")  # noqa: TRY004  (callers expect one error type)
    return value


def _duration(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _NUMBER_MAX:
        raise ValueError("the report has a duration that is no duration")
    return float(value)


def _measures(value: object) -> Mapping[str, Measure]:
    if not isinstance(value, dict) or len(value) > _MEASURES_MAX:
        raise ValueError("the report has measures that are no measures")
    for name, each in value.items():
        if not isinstance(name, str) or not _MEASURE_NAME.fullmatch(name):
            raise ValueError("the report has a measure whose name is no name")
        if isinstance(each, str):
            _text(each)
        elif not isinstance(each, int | float) or not -_NUMBER_MAX <= each <= _NUMBER_MAX:
            raise ValueError("the report has a measure that is no text or bounded number")
    return MappingProxyType(dict(value))


def _facts(value: object) -> Mapping[str, FactValue]:
    if not isinstance(value, dict):
        raise ValueError("the report has facts that are no facts")  # noqa: TRY004  (callers expect one error type)
    return MappingProxyType({name: _fact(name, each) for name, each in value.items()})


def _fact(name: object, value: object) -> FactValue:
    fact = FACTS.get(name) if isinstance(name, str) else None
    if fact is None:
        raise ValueError("the report has a fact that is not in the catalogue")
    if fact.unit is Unit.NAMES:
        return _names(fact.names, value)
    if fact.unit is Unit.YES_OR_NO:
        return _flag(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _NUMBER_MAX:
        raise ValueError("the report has a fact that is no bounded number")
    return value


def _names(known: frozenset[str], value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each in known for each in value):
        raise ValueError("the report has names that are not in the catalogue")
    if value != sorted(set(value)):
        raise ValueError("the report has names that are not in order")
    return tuple(value)


class InspectionError(Exception):
    """Raised by a format to end its examination. `str()` is the detail: what is wrong, and where."""

    outcome: Outcome = Outcome.OK
    finding: Finding | None = None
    measured: "FactSheet | None" = None  # what was learnt before


class WalkerFailed(Exception):
    """An archive walker of this package raised what it does not declare: what the archive holds is unknown.

    It ends the inspection without a report, so that the file is refused as one whose check crashed.
    """


class Corrupt(InspectionError):
    """The content does not decode, or is provably incomplete."""

    outcome = Outcome.CORRUPT


class Encrypted(InspectionError):
    """The content is protected by a password; its structure is sound."""

    outcome = Outcome.ENCRYPTED


class Unsupported(InspectionError):
    """The installed library cannot judge this variant."""

    outcome = Outcome.UNSUPPORTED


class TooComplex(InspectionError):
    """Examining the content would exceed a limit."""

    outcome = Outcome.TOO_COMPLEX


class Unsafe(InspectionError):
    """The content decodes, but must not be accepted: a bomb, a path traversal, an image over the pixel limit."""

    outcome = Outcome.OK

    def __init__(self, finding: Finding, detail: str) -> None:
        super().__init__(detail)
        self.finding = finding


Obstacle = Literal["format", "damaged", "encrypted", "too_complex"]


def obstacle_of(error: InspectionError) -> Obstacle:
    """Return why a file cannot be drawn, searched or sanitised, in one of a few fixed words."""
    if isinstance(error, Encrypted):
        return "encrypted"
    if isinstance(error, Unsupported):
        return "format"
    is_bomb = isinstance(error, Unsafe) and error.finding in {Finding.IMAGE_TOO_LARGE, Finding.ARCHIVE_BOMB}
    return "too_complex" if is_bomb or isinstance(error, TooComplex) else "damaged"
