"""What a file format declares (`Format`, one per format in `formats/`), and which optional readers are missing."""

import contextlib
import ctypes
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping
from ctypes.util import find_library
from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from typing import Final

from sluice_inspect.extensions import Promise
from sluice_inspect.parts import Opener
from sluice_inspect.report import FactSheet, Limits, Measure
from sluice_inspect.source import Source
from sluice_inspect.subject import Subject
from sluice_inspect.unpacking import Container


class Family(Enum):
    """What a format holds, where the rules for all formats of a family are the same."""

    PICTURE = auto()  # raster pictures
    DRAWING = auto()
    RECORDING = auto()  # sound, moving pictures
    FONT = auto()
    DOCUMENT = auto()  # mail and databases too
    TEXT = auto()  # written in characters, and shown as they are or as a page
    ARCHIVE = auto()


class MatchOrder(IntEnum):
    """When a format is asked whether content is its own. Formats of one value are asked in the order of their names."""

    # Content that several formats match is the first one, so that the order between the values is a decision.
    PICTURE = auto()  # signatures at the start of pictures and fonts
    HEADER_IN_HEAD = auto()  # a header that may be behind other bytes
    IN_CONTAINER = auto()  # a container of another format that holds what this one demands
    CONTAINER = auto()
    SIGNATURE = auto()  # other signatures at the start
    CHECKSUM = auto()  # a header that states its checksum
    RECORDING = auto()  # signatures of sound and video, some of them behind tags
    LAST = auto()  # a few bits, repeated; content that another format claims as well


class SecondFormats(Enum):
    """Where in a file of a format a second format is searched for: see `polyglot`."""

    NOWHERE = auto()  # the file holds others as they are, or is not read by other programs
    ANYWHERE = auto()
    AROUND = auto()  # in front of and behind the ZIP archive that the file is


def never_blank() -> str | None:
    """Return None: the blank rule of formats that have none."""
    return None


@dataclass(frozen=True, slots=True)
class Examination:
    """What a format measured of a sound file, and why a reader would see nothing (None: it shows something)."""

    # `blank` is computed on demand, once; an `InspectionError` that it raises means not blank.
    measures: Mapping[str, Measure]
    blank: Callable[[], str | None] = never_blank
    # Facts and flags that cost less beside the examination than on their own; the others are added by `facts`.
    measured: FactSheet | None = None


def has_no_signature(_source: Source) -> bool:
    """Return False: the `matches` of text formats, which only a file name tells from each other."""
    return False


def has_no_flags(_subject: Subject, _sheet: FactSheet) -> None:
    """Add nothing: the `facts` of formats that hold nothing that a fact or a flag names."""


def named(name: str, codes: str) -> dict[str, str]:
    """Return one name for several codes. `{}` in it is replaced by the code in capitals."""
    return {code: name.format(code.upper()) for code in codes.split()}


_FACTS_OF_FAMILIES: Final = {
    Family.PICTURE: frozenset(
        {"width", "height", "pixels", "frames", "animated", "sharpness", "exposure", "skew", "text_height"}
    ),
    Family.DRAWING: frozenset({"width", "height", "pixels"}),
    Family.RECORDING: frozenset({"duration_ms", "has_audio", "has_video", "audio_codecs", "video_codecs"}),
    Family.ARCHIVE: frozenset(
        {"members", "depth", "unpacked_bytes", "programs", "scripts", "shortcuts", "program_kinds"}
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One file format, and all that the rest of the package knows of it.

    `examine` measures a sound file, or raises an `InspectionError` that says what is wrong. `facts` adds facts and
    flags of any file, sound or not, that `examine` did not measure, and raises `OSError` or an `InspectionError`.
    """

    name: str
    family: Family
    content_type: str
    extensions: frozenset[str]  # lower case, without the dot: the names that promise this content
    matches: Callable[[Source], bool] = has_no_signature  # reads the bytes, never the name, and is cheap
    # One of these begins all content that `matches`, behind at most `begins_within` other bytes. None: it may
    # begin in any way. Content that begins otherwise is not compared with the format, which then need not be loaded.
    begins: tuple[bytes, ...] | None = None
    begins_within: int = 0
    match_order: MatchOrder = MatchOrder.SIGNATURE
    examine: Callable[[Source, Limits], Examination]
    facts: Callable[[Subject, FactSheet], None]
    own_facts: frozenset[str] = frozenset()  # the names of `catalogue.FACTS` that it gives besides those of its family
    container: Container | None = None  # how it is opened within an archive; None if it is read as one member
    opener: Opener | None = None  # how the scan opens what is packed in it; None if nothing is, or for what is shared
    sample: Callable[[], bytes]  # makes a small good file for the start-up self-test
    # English names for people, by the name of the format, by extension or by the beginning of a media type. What has no
    # name is called by its letters in capitals. A catalogue of `sluice.messages` translates names that are words.
    names: Mapping[str, str] = field(default_factory=dict)
    tolerated_extensions: frozenset[str] = frozenset()  # promise another format, yet are no mismatch: .mkv for WebM
    missing_reader: str = ""  # the optional library that reads this content, if not installed: it is unsupported then
    # Names of the format under which a web page, too, is no mismatch: programs export pages as .doc, and a page is
    # Markdown.
    page_extensions: frozenset[str] = frozenset()
    is_text: bool = False
    is_any_text: bool = False  # every text is one: a browser may take it for a page by its first tags
    may_be_text: bool = False  # no text format, but many programs save text under its names: tables as .xls
    is_office: bool = False  # opened by Word, Excel or PowerPoint, which open other content under its names too
    disguise: str = ""  # the flag of this content under the name of an Office format
    second_formats: SecondFormats = SecondFormats.ANYWHERE
    # Where the content ends of a file that holds others as they are, by the measures of the examination. A second
    # format is searched for behind it only. It raises an `InspectionError` if that is not known.
    content_end: Callable[[Source, Mapping[str, Measure]], int] | None = None
    # The ranges of files that readers list as attached, in which nothing is a second format.
    attachments: Callable[[Source], Iterable[tuple[int, int]]] | None = None

    @property
    def gives(self) -> frozenset[str]:
        """The names of the facts that a report on such a file may have."""
        return _FACTS_OF_FAMILIES.get(self.family, frozenset()) | self.own_facts | {"flags_complete"}

    @property
    def promise(self) -> Promise | None:
        """What its extensions promise."""
        if self.family is Family.FONT:
            return None
        if self.family is Family.ARCHIVE:
            return Promise.ARCHIVE
        if self.is_text:
            return Promise.TEXT
        return Promise.DOCUMENT if self.may_be_text else Promise.BINARY


# Name, Python module or shared library of the system (either will do), and what is missing without it.
_OPTIONAL_READERS: Final = (
    ("PyAV (sluice[media])", "av", "", "sound and video are judged by their containers alone and never blank"),
    ("pillow-heif (sluice[heif])", "pillow_heif", "de265", "HEIC pictures are not decoded and never blank"),
    (
        "libarchive (of the system)",
        "",
        "archive",
        "packed RAR members, and 7z by PPMd, BCJ2 or ARM64, are not unpacked",
    ),
)


def load_library(
    paths: Iterable[str], signatures: Iterable[tuple[str, tuple[object, ...], object]]
) -> ctypes.CDLL | None:
    """Return the first shared library that loads, its functions declared by name, arguments and result."""
    for path in paths:
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(path)
            for name, arguments, result in signatures:
                function = getattr(library, name)
                function.argtypes, function.restype = arguments, result
            return library
    return None


def missing_readers() -> Iterator[str]:
    """Yield a sentence for each optional reader that is not installed. Content that only it reads is `unsupported`."""
    for name, module, library, consequence in _OPTIONAL_READERS:
        has_module = bool(module) and importlib.util.find_spec(module) is not None
        if not has_module and not (library and find_library(library)):
            yield f"without {name}, {consequence}"
