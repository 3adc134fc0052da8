"""The words in which a file is judged: outcomes, findings, the report, the limits. No parsing and no rule of any format lives here.

Measuring and deciding are apart: a `Report` holds what was measured whatever a context's rules are, so that a changed rule can be
replayed over stored reports. What a report means for an upload is decided in `sluice.uploads.decide`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

Measure = int | float | str | bool
"""A measured value: a count, bytes, seconds, a name."""

_DETAIL_MAX: Final = 500
_MEASURES_MAX: Final = 64


class Outcome(StrEnum):
    """What can be said of a file. Only `corrupt` and `blank` speak against it."""

    OK = "ok"
    CORRUPT = "corrupt"
    """The content does not decode, or is provably incomplete, by its format's own rules."""
    BLANK = "blank"
    """A reader would see nothing."""
    ENCRYPTED = "encrypted"
    """Protected by a password and sound as far as its structure shows."""
    UNSUPPORTED = "unsupported"
    """The library at hand cannot judge this variant. Never a reason to refuse."""
    TOO_COMPLEX = "too_complex"
    """Judging it would cost more than the budget."""


class Finding(StrEnum):
    """What is wrong with a file besides damage. The values are the reason codes of the interface."""

    TYPE_MISMATCH = "type_mismatch"
    POLYGLOT = "polyglot_file"
    ARCHIVE_BOMB = "archive_bomb"
    ARCHIVE_UNSAFE = "archive_unsafe"
    IMAGE_TOO_LARGE = "image_too_large"


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets of one check. Bytes are counted while they are unpacked, never taken from headers."""

    max_unpacked_bytes: int = 4 * 1024**3
    max_ratio: int = 200
    """Unpacked to packed bytes, judged only from `ratio_floor_bytes` of output on: small files compress well honestly."""
    ratio_floor_bytes: int = 64 * 1024**2
    max_members: int = 50_000
    max_depth: int = 4
    max_pixels: int = 200_000_000
    max_frames: int = 5_000
    max_xml_depth: int = 256
    max_json_depth: int = 200
    soft_seconds: float = 20.0
    """Time after which an expensive look (rendering pages, say) stops and answers with what it has seen: not blank."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that one check measured of one file."""

    format: str | None
    """Name of the kind that the content is (`pdf`), whatever the extension says; None when unknown."""
    content_type: str
    outcome: Outcome
    """The whole judgement in one word, with the blank rule on."""
    integrity: Outcome
    """The judgement without the blank rule: never `blank`."""
    finding: Finding | None
    blank: bool
    detail: str
    """What is wrong, where, in one sentence that a person can act on; empty when nothing is."""
    blank_detail: str = ""
    fill: str | None = None
    """`empty`, `zeros` or `ones` when the raw bytes are nothing else."""
    measures: Mapping[str, Measure] = field(default_factory=lambda: MappingProxyType({}))
    ms: float = 0.0

    def to_json(self) -> dict[str, object]:
        """Answer the report as plain JSON values, for the way out of the sandbox and into the decision log."""
        return {name: getattr(self, name) for name in self.__slots__} | {"measures": dict(self.measures)}

    @classmethod
    def from_json(cls, raw: Mapping[str, object]) -> "Report":
        """Rebuild a report from a child's answer; raises `ValueError` for anything that `to_json` would not have written."""
        known = set(cls.__dataclass_fields__)
        if set(raw) != known:
            raise ValueError("report with other fields than a report has")
        measures = raw["measures"]
        if not isinstance(measures, dict) or len(measures) > _MEASURES_MAX:
            raise ValueError("report with impossible measures")
        if not all(isinstance(k, str) and isinstance(v, int | float | str | bool) for k, v in measures.items()):
            raise ValueError("report with impossible measures")
        return cls(
            format=_text_or_none(raw["format"]),
            content_type=_text(raw["content_type"]),
            outcome=Outcome(_text(raw["outcome"])),
            integrity=Outcome(_text(raw["integrity"])),
            finding=None if raw["finding"] is None else Finding(_text(raw["finding"])),
            blank=_flag(raw["blank"]),
            detail=_text(raw["detail"]),
            blank_detail=_text(raw["blank_detail"]),
            fill=_text_or_none(raw["fill"]),
            measures=MappingProxyType(measures),
            ms=_number(raw["ms"]),
        )


class Judgement(Exception):
    """What a kind raises to end its check. `str()` is the detail: what is wrong, and where."""

    outcome: Outcome = Outcome.OK
    finding: Finding | None = None


class Corrupt(Judgement):
    """The content does not decode, or is provably incomplete."""

    outcome = Outcome.CORRUPT


class Encrypted(Judgement):
    """The content is behind a password; its structure is sound."""

    outcome = Outcome.ENCRYPTED


class Unsupported(Judgement):
    """The library at hand cannot judge this variant."""

    outcome = Outcome.UNSUPPORTED


class TooComplex(Judgement):
    """Judging it would cost more than the budget."""

    outcome = Outcome.TOO_COMPLEX


class Unsafe(Judgement):
    """The content decodes, but must not be let in: a bomb, a traversal, an image over the pixel budget."""

    outcome = Outcome.OK

    def __init__(self, finding: Finding, detail: str) -> None:
        super().__init__(detail)
        self.finding = finding


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > _DETAIL_MAX:
        raise ValueError("report with a text that is none")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("report with a flag that is none")  # noqa: TRY004  (one error type for a lying child)
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("report with a number that is none")  # noqa: TRY004  (one error type for a lying child)
    return float(value)
