"""The policies of a context: rules on what is measured of a file anyway, each with a mode.

They are the fields `policies` and `check_modes` of the interface, and stored as they are sent. How a file is judged by
them is in `uploads.policies`.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Final, Literal, get_args

import re2
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)

from sluice_inspect.text_questions import OCR_LANGUAGES_MOST, Identifier, Language, Question, Words

_MIME_PATTERN: Final = r"^[a-z]+/(\*|[a-z0-9][a-z0-9!#$&^_.+-]*)$"
_LARGEST_BYTES: Final = 500 * 1_048_576
_MOST_TYPES: Final = 100
_PATTERN_MEMORY_BYTES: Final = 1_048_576


class Mode(StrEnum):
    """The outcome for a file that fails a check."""

    OFF = "off"  # the check is not made
    REPORT = "report"  # the file is stored; its report says that the check would fail
    QUARANTINE = "quarantine"  # the file is stored, but cannot be downloaded until a reviewer releases it
    ENFORCE = "enforce"  # the file is rejected


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


# A field that is neither stored nor shown while it is null
_OMITTED: Final[Any] = Field(None, exclude_if=lambda value: value is None)


class Policy(_Value):
    """The base of every policy.

    `judges_content`: it judges what the file check measures. The console shows it in `group` under `label` with `hint`,
    and its fields by their titles.
    """

    judges_content: ClassVar[bool] = True
    group: ClassVar[Literal["accept", "check", "limits"]]
    label: ClassVar[str]
    hint: ClassVar[str] = ""

    mode: Annotated[Mode, Field(strict=False, description="`off`, `report`, `quarantine` or `enforce`.")] = Mode.ENFORCE


def _in_order(items: list[str]) -> list[str]:
    return sorted(set(items))


class ContentTypes(Policy):
    """Refuse content of a type that is not on the list."""

    group = "accept"
    label = "Content types"
    hint = "By the content itself, whatever the name says."

    allow: Annotated[
        list[Annotated[str, Field(max_length=100, pattern=_MIME_PATTERN)]],
        Field(
            min_length=1,
            max_length=_MOST_TYPES,
            title="Allowed, such as image/* application/pdf",
            description="Content types; `image/*` allows all images.",
        ),
        AfterValidator(_in_order),
    ]


class EncryptedContent(Policy):
    """Refuse password-protected files (PDF, Office documents), and archives with such members."""

    group = "check"
    label = "Password protection"
    hint = "Documents and archives that cannot be read without a password."


ActiveContentKind = Literal[
    "macros", "macro_sheets", "scripts", "launch_actions", "objects", "templates", "links", "dde", "formulas"
]


class ActiveContent(Policy):
    """Refuse macros, scripts, launch actions, packed objects, external templates and links."""

    group = "check"
    label = "Active content"
    hint = "Macros, scripts, links and templates that do something when the file is opened."

    kinds: Annotated[
        list[ActiveContentKind],
        Field(
            min_length=1,
            max_length=20,
            title="Kinds",
            description="Which kinds are refused. All but `formulas` (CSV cells that call a function) by default.",
        ),
        AfterValidator(_in_order),
    ] = Field(default_factory=lambda: list(ACTIVE_CONTENT_BY_DEFAULT))


ACTIVE_CONTENT_BY_DEFAULT: Final[tuple[ActiveContentKind, ...]] = (
    "dde",
    "launch_actions",
    "links",
    "macro_sheets",
    "macros",
    "objects",
    "scripts",
    "templates",
)


class ProgramsInArchives(Policy):
    """Refuse archives that contain programs or scripts."""

    group = "check"
    label = "Programs in archives"
    hint = "Archives that contain programs or scripts."


def _pixels(title: str) -> Any:
    return Field(ge=1, le=1_000_000, title=title, description="Pixels.")


class Image(Policy):
    """Refuse pictures by their size or animation."""

    group = "limits"
    label = "Pictures"

    min_width: Annotated[int | None, _pixels("Minimum width")] = _OMITTED
    max_width: Annotated[int | None, _pixels("Maximum width")] = _OMITTED
    min_height: Annotated[int | None, _pixels("Minimum height")] = _OMITTED
    max_height: Annotated[int | None, _pixels("Maximum height")] = _OMITTED
    max_pixels: Annotated[
        int | None,
        Field(ge=1, le=1_000_000_000, title="Maximum pixels", description="Most pixels: width times height."),
    ] = _OMITTED
    allow_animation: Annotated[
        bool, Field(title="Moving pictures", description="Whether more than one frame is accepted.")
    ] = True

    @model_validator(mode="after")
    def _require_room(self) -> "Image":
        for side, least, most in (
            ("width", self.min_width, self.max_width),
            ("height", self.min_height, self.max_height),
        ):
            if least is not None and most is not None and least > most:
                raise ValueError(f"expected min_{side} to be at most max_{side}, found {least} and {most}")
        return self


def _least(most: int, title: str, description: str) -> Any:
    return Field(ge=0, le=most, title=title, description=f"{description} 0: any.")


class Legible(Policy):
    """Refuse photos of documents that a person could not read."""

    group = "check"
    label = "Legible photos"
    hint = "Photos of documents that are not blurred, dark, at an angle or from too far away."

    min_sharpness: Annotated[int, _least(100, "Least sharpness, of 100", "Least `sharpness`.")] = 55
    min_exposure: Annotated[int, _least(100, "Least brightness, of 100", "Least `exposure` of the paper.")] = 25
    max_skew_degrees: Annotated[
        int,
        Field(
            ge=1,
            le=45,
            title="Most degrees of skew",
            description="Most degrees between lines of text and a side of the picture. 45: any.",
        ),
    ] = 20
    min_text_height_px: Annotated[
        int, _least(1000, "Least height of letters in pixels", "Least `text_height`, in pixels.")
    ] = 6


def _count(title: str, description: str) -> Any:
    return Field(ge=1, le=1_000_000, title=title, description=description)


class Document(Policy):
    """Refuse documents with too many pages, sheets or slides."""

    group = "limits"
    label = "Documents"

    max_pages: Annotated[int | None, _count("Maximum pages", "Most pages.")] = _OMITTED
    max_sheets: Annotated[int | None, _count("Maximum sheets", "Most sheets of a workbook.")] = _OMITTED
    max_slides: Annotated[int | None, _count("Maximum slides", "Most slides of a presentation.")] = _OMITTED


class Media(Policy):
    """Refuse recordings that are too long or use other codecs."""

    group = "limits"
    label = "Sound and film"

    max_duration_seconds: Annotated[int | None, _count("Maximum seconds", "Longest recording, in seconds.")] = _OMITTED
    codecs: Annotated[
        list[Annotated[str, Field(max_length=40, pattern="^[a-z0-9_]+$")]],
        Field(
            max_length=_MOST_TYPES,
            title="Codecs; empty: all",
            description="Accepted codecs, such as `h264` and `aac`; an empty list: all.",
        ),
    ] = Field(default_factory=list)


class Archive(Policy):
    """Refuse archives above limits that are lower than those of the service."""

    group = "limits"
    label = "Archives"

    max_members: Annotated[
        int | None, Field(ge=1, le=50_000, title="Maximum members", description="Most members, at all levels.")
    ] = _OMITTED
    max_depth: Annotated[
        int | None, Field(ge=0, le=4, title="Maximum depth", description="0: no archive inside an archive.")
    ] = _OMITTED
    max_unpacked_bytes: Annotated[
        int | None,
        Field(
            ge=1,
            le=4 * 1024**3,
            title="Maximum unpacked bytes",
            description="Most bytes of all members together, unpacked.",
        ),
    ] = _OMITTED


class MinSize(Policy):
    """Refuse files with fewer bytes."""

    judges_content = False
    group = "accept"
    label = "Smallest size"

    bytes: Annotated[int, Field(ge=1, le=_LARGEST_BYTES, title="Bytes", description="Fewest bytes of a file.")]


def _readable_pattern(pattern: str) -> str:
    try:
        compile_pattern(pattern)
    except re2.error as fault:
        reason = fault.args[0].decode(errors="replace") if isinstance(fault.args[0], bytes) else str(fault)
        raise ValueError(f"expected a pattern in RE2 syntax: {reason}") from fault
    return pattern


class FilenamePattern(Policy):
    """Refuse files whose whole name does not match a pattern."""

    judges_content = False
    group = "accept"
    label = "File name"
    hint = "The whole name has to match an RE2 pattern."

    pattern: Annotated[
        str,
        Field(min_length=1, max_length=500, title="Pattern", description="RE2 syntax; the whole name has to match."),
        AfterValidator(_readable_pattern),
    ]


class Duplicates(Policy):
    """Refuse files whose bytes are stored in the context already."""

    judges_content = False
    group = "accept"
    label = "Duplicates"
    hint = "Files whose bytes are stored in this context already."


_NAMED_MOST: Final = 20
_PHRASES_MOST: Final = 20
_LABELS: Final = (
    "date", "dated", "issued", "issue date", "date of issue", "invoice date", "as of",
    "datum", "rechnungsdatum", "ausgestellt", "ausstellungsdatum", "stand",
    "le", "fait le", "date d'émission", "émis le", "fecha", "fecha de emisión", "emitido", "data", "emesso il",
    "data di emissione", "data de emissão", "afgegeven", "factuurdatum", "data wystawienia", "wystawiono",
    "tarih", "tarihi", "дата", "дата видачі", "תאריך", "تاريخ", "التاريخ", "दिनांक", "तारीख", "日付", "発行日", "日期",
    "开票日期", "签发日期", "날짜", "발행일", "작성일",
)  # fmt: skip
Phrase = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^|/\x00-\x1f][^|\x00-\x1f]*$")]
Label = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^,\x00-\x1f]+$")]


class NamedText(_Value):
    """Something that a text may contain: one of some phrases, or a match of a pattern."""

    name: Annotated[
        str,
        Field(
            min_length=1,
            max_length=60,
            pattern=r"^[^:\x00-\x1f]+$",
            description="What it is, as reports and the sentence for the sender name it.",
        ),
    ]
    any: Annotated[
        list[Phrase],
        Field(
            max_length=_PHRASES_MOST,
            description="Words or phrases, of which one is enough. Case and white space do not count; a phrase is no "
            "part of a longer word.",
            exclude_if=lambda value: not value,
        ),
    ] = Field(default_factory=list)
    pattern: Annotated[
        str | None,
        Field(min_length=1, max_length=500, description="RE2 syntax; it may match anywhere, whatever the case."),
        AfterValidator(lambda pattern: pattern if pattern is None else _readable_pattern(pattern)),
    ] = _OMITTED

    @model_validator(mode="after")
    def _require_words(self) -> "NamedText":
        if not self.any and self.pattern is None:
            raise ValueError("expected any or pattern")
        return self

    @property
    def words(self) -> Words:
        """What is searched."""
        return Words(tuple(self.any), self.pattern)


def _named(title: str, description: str) -> Any:
    return Field(max_length=_NAMED_MOST, title=title, description=description, exclude_if=lambda value: not value)


class Text(Policy):
    """Refuse documents by what their text contains. It is read in a locked process, and never kept."""

    judges_content = False
    group = "check"
    label = "Text"
    hint = (
        "What has to be in documents, and what must not. One a line, such as Invoice number: invoice no | /RE-[0-9]+/"
    )

    must_contain: Annotated[
        list[NamedText], _named("Has to be in it", "What the text has to contain, all of it or any of it.")
    ] = Field(default_factory=list)
    any_is_enough: Annotated[
        bool,
        Field(
            title="One of these is enough",
            description="Whether one of `must_contain` is enough.",
            exclude_if=lambda value: not value,
        ),
    ] = False
    must_not_contain: Annotated[
        list[NamedText], _named("Must not be in it", "What the text must not contain, any of it.")
    ] = Field(default_factory=list)
    languages: Annotated[
        list[Language],
        Field(
            max_length=_MOST_TYPES,
            title="Languages, such as en de; empty: all",
            description="Accepted languages (ISO 639-1). A text whose language is not known passes.",
            exclude_if=lambda value: not value,
        ),
        AfterValidator(lambda codes: sorted(set(codes))),
    ] = Field(default_factory=list)
    min_words: Annotated[
        int | None, Field(ge=1, le=100_000, title="Fewest words", description="Fewest words of the text.")
    ] = _OMITTED
    max_age_days: Annotated[
        int | None,
        Field(
            ge=0,
            le=36_500,
            title="Oldest in days",
            description="Most days since the newest date behind a label. A text without one passes.",
        ),
    ] = _OMITTED
    needs_date: Annotated[
        bool,
        Field(
            title="Needs a date",
            description="Whether a text without a date behind a label is refused too.",
            exclude_if=lambda value: not value,
        ),
    ] = False
    date_labels: Annotated[
        list[Label],
        Field(
            max_length=_PHRASES_MOST,
            title="Labels of the date, with commas",
            description="Words in front of the date; by default `date`, `issued` and the like in the languages of the "
            "service.",
            exclude_if=lambda value: not value,
        ),
    ] = Field(default_factory=list)
    identifiers: Annotated[
        list[Identifier],
        Field(
            max_length=20,
            title="Numbers that must not be in it",
            description="Numbers that must not be in the text, recognised by form and checksum: `payment_card`, "
            "`iban`, `us_ssn` and `de_tax_id`.",
            exclude_if=lambda value: not value,
        ),
        AfterValidator(lambda names: sorted(set(names))),
    ] = Field(default_factory=list)

    ocr: Annotated[
        list[Language],
        Field(
            max_length=OCR_LANGUAGES_MOST,
            title="Languages of scans and pictures, such as de en; empty: they are not read",
            description="Languages (ISO 639-1) in which pictures and scanned pages are read by OCR, the most frequent "
            "first; without any, they are not read. The service needs Tesseract with the data for each.",
            exclude_if=lambda value: not value,
        ),
        AfterValidator(lambda codes: list(dict.fromkeys(codes))),
    ] = Field(default_factory=list)

    @model_validator(mode="after")
    def _require_rule(self) -> "Text":
        names = [each.name for each in self.named]
        if len(set(names)) < len(names):
            raise ValueError("expected every name in must_contain and must_not_contain once")
        others = (self.languages, self.min_words, self.asks_date, self.identifiers)
        if not names and not any(each not in (None, [], False) for each in others):
            raise ValueError("expected at least one rule on the text")
        return self

    @property
    def named(self) -> Sequence[NamedText]:
        """All that is searched."""
        return (*self.must_contain, *self.must_not_contain)

    @property
    def asks_date(self) -> bool:
        """Whether it depends on a date."""
        return self.max_age_days is not None or self.needs_date

    def question(self, today: date) -> Question:
        """Return what is asked about the text of a document."""
        labels = (tuple(self.date_labels) or _LABELS) if self.asks_date else ()
        return Question(tuple(each.words for each in self.named), labels, tuple(self.identifiers), today)

    def is_answered_by(self, earlier: "Text") -> bool:
        """Return whether what an earlier policy asked about a text tells all that this one asks."""
        return (
            all(each in earlier.named for each in self.named)
            and set(self.identifiers) <= set(earlier.identifiers)
            and self.ocr == earlier.ocr
            and (not self.asks_date or (earlier.asks_date and self.date_labels == earlier.date_labels))
        )


class LikeExamples(Policy):
    """Refuse documents that are unlike the examples of the context. They are given at its own endpoint.

    With too few examples, or such as have nothing in common, no check is made: reports say so.
    """

    judges_content = False
    group = "check"
    label = "Kind of document"
    hint = "Documents that are like the examples on the page of the context."

    mode: Annotated[Mode, Field(strict=False, description="`off`, `report`, `quarantine` or `enforce`.")] = Mode.REPORT
    min_similarity: Annotated[
        int,
        Field(
            ge=1,
            le=100,
            title="Least similarity, of 100",
            description="Least similarity to the examples; 100 is what three in four of them have to the others.",
        ),
    ] = 70


class Policies(_Value):
    """All policies of a context; those that are null are not applied. They are judged in this order."""

    content_types: Annotated[
        ContentTypes | None, Field(description="Which types of content are accepted, as measured.")
    ] = _OMITTED
    encrypted: Annotated[EncryptedContent | None, Field(description="Refuses what is protected by a password.")] = (
        _OMITTED
    )
    active_content: Annotated[ActiveContent | None, Field(description="Refuses macros, scripts and the like.")] = (
        _OMITTED
    )
    programs_in_archives: Annotated[
        ProgramsInArchives | None, Field(description="Refuses archives with programs or scripts.")
    ] = _OMITTED
    image: Annotated[Image | None, Field(description="Accepted sizes of pictures.")] = _OMITTED
    legible: Annotated[Legible | None, Field(description="Refuses photos of documents that cannot be read.")] = _OMITTED
    document: Annotated[Document | None, Field(description="Accepted lengths of documents.")] = _OMITTED
    media: Annotated[Media | None, Field(description="Accepted lengths and codecs of recordings.")] = _OMITTED
    archive: Annotated[Archive | None, Field(description="Limits of archives.")] = _OMITTED
    text: Annotated[
        Text | None, Field(description="What the text of documents has to contain, and what it must not.")
    ] = _OMITTED
    document_kind: Annotated[
        LikeExamples | None, Field(description="Refuses documents that are unlike the context's examples.")
    ] = _OMITTED
    min_size_bytes: Annotated[MinSize | None, Field(description="Smallest accepted file.")] = _OMITTED
    filename_pattern: Annotated[FilenamePattern | None, Field(description="Accepted file names.")] = _OMITTED
    duplicates: Annotated[
        Duplicates | None, Field(description="Refuses a file that is stored in the context already.")
    ] = _OMITTED

    @cached_property
    def content_modes(self) -> frozenset[Mode]:
        """The modes of the policies that judge what the file check measures, without those that are off."""
        judging = (getattr(self, name) for name in CONTENT_POLICIES)
        return frozenset(policy.mode for policy in judging if policy is not None) - {Mode.OFF}

    @property
    def need_legibility(self) -> bool:
        """Whether the file check measures how legible pictures are, which it does only then."""
        return self.legible is not None and self.legible.mode is not Mode.OFF

    @property
    def asked_text(self) -> Text | None:
        """The policy on texts, if it is there and not off."""
        return None if self.text is None or self.text.mode is Mode.OFF else self.text

    @property
    def asked_kind(self) -> LikeExamples | None:
        """The policy on kinds of documents, if it is there and not off."""
        return None if self.document_kind is None or self.document_kind.mode is Mode.OFF else self.document_kind

    @property
    def need_duplicates(self) -> bool:
        """Whether the context's stored files are searched for the same bytes."""
        return self.duplicates is not None and self.duplicates.mode is not Mode.OFF

    @property
    def refuse_duplicates(self) -> bool:
        """Whether a file whose bytes are stored already is rejected."""
        return self.duplicates is not None and self.duplicates.mode is Mode.ENFORCE

    def to_json(self) -> dict[str, Any]:
        """Return the policies that are set, as they are stored and shown."""
        return self.model_dump(mode="json")


POLICY_MODELS: Final[Mapping[str, type[Policy]]] = {
    name: next(each for each in get_args(field.annotation) if each is not type(None))
    for name, field in Policies.model_fields.items()
}
# The policies that judge what the file check measures, in the order in which they are judged.
CONTENT_POLICIES: Final = tuple(name for name, model in POLICY_MODELS.items() if model.judges_content)


def _not_off(mode: Mode) -> Mode:
    if mode is Mode.OFF:
        raise ValueError("expected 'report', 'quarantine' or 'enforce'; the boolean of the check switches it off")
    return mode


CheckMode = Annotated[Mode, Field(strict=False), AfterValidator(_not_off)]


class CheckModes(_Value):
    """The modes of the three checks of the interface. A check whose boolean is false is off."""

    integrity: CheckMode = Mode.ENFORCE
    blank: CheckMode = Mode.ENFORCE
    malware: CheckMode = Mode.ENFORCE

    def to_json(self) -> dict[str, str]:
        """Return the modes that are not the default, as they are stored and shown."""
        return self.model_dump(mode="json", exclude_defaults=True)


NO_POLICIES: Final = Policies()
ALL_ENFORCED: Final = CheckModes()


def policies_of(stored: Mapping[str, Any] | None) -> Policies:
    """Return the policies that `to_json` wrote; None means no policies."""
    return Policies.model_validate(stored) if stored else NO_POLICIES


def check_modes_of(stored: Mapping[str, Any] | None) -> CheckModes:
    """Return the modes that `to_json` wrote; None means the default."""
    return CheckModes.model_validate(stored) if stored else ALL_ENFORCED


@lru_cache(maxsize=1000)
def compile_pattern(pattern: str) -> Any:
    """Return the compiled pattern, which matches in linear time; raise `re2.error`."""
    options = re2.Options()
    options.max_mem = _PATTERN_MEMORY_BYTES
    options.log_errors = False
    return re2.compile(pattern, options)
