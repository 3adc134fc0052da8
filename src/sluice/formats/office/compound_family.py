"""Which kind of document is in a compound file? Told by the streams of its root. What the streams mean is known by the kinds.

Where the directory is damaged, the names that are left tell; where none is, the content may be any of them, and the name is believed.
"""

from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

from sluice.formats.office.compound import MAGIC, CompoundFile
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Judgement, Measure

_UNREADABLE: Final = "unreadable"

ENCRYPTED: Final = "encrypted package"
"""A document of Office Open XML behind a password."""
_STREAMS: Final[Mapping[str, tuple[str, ...]]] = {
    ENCRYPTED: ("encryptedpackage",),
    "doc": ("worddocument",),
    "xls": ("workbook", "book"),
    "ppt": ("powerpoint document", "pp40", "pp97_dualstorage"),
    "msg": ("__properties_version1.0", "__nameid_version1.0"),
}
_MARKS: Final[Mapping[str, tuple[bytes, ...]]] = {
    family: tuple(name.encode("utf-16-le") for name in names)
    for family, names in {
        ENCRYPTED: ("EncryptedPackage",),
        "doc": ("WordDocument",),
        "xls": ("Workbook", "Book"),
        "ppt": ("PowerPoint Document",),
        "msg": ("__properties_version1.0", "__nameid_version1.0", "__substg1.0_"),
    }.items()
}
_SUMMARIES: Final = ("\x05summaryinformation", "\x05documentsummaryinformation")
_SUMMARY_BEGIN: Final = b"\xfe\xff"

_families: Final[WeakKeyDictionary[Source, str | None]] = WeakKeyDictionary()
"""Many kinds ask the same of one source."""


def recognises(source: Source, family: str) -> bool:
    """Whether the content is a document of this family, or a compound file too damaged to tell."""
    if not source.head.startswith(MAGIC):
        return False
    if source not in _families:
        _families[source] = _look_up(source)
    return _families[source] in {family, _UNREADABLE}


def open_container(source: Source) -> tuple[CompoundFile, Mapping[str, Measure]]:
    """Answer the container with all of its streams checked, and how many there are. Raises `Corrupt`, `TooComplex`."""
    container = CompoundFile(source)
    measures = {"streams": container.check_streams()}
    for name in _SUMMARIES:
        summary = container.root.stream(name)
        if summary is not None and container.read(summary, len(_SUMMARY_BEGIN)) != _SUMMARY_BEGIN:
            raise Corrupt("the container is damaged: the summary of its document is none")
    return container, measures


def _look_up(source: Source) -> str | None:
    try:
        names = CompoundFile(source).root.children
    except Judgement:
        return _by_marks(source)
    found = next((family for family, streams in _STREAMS.items() if any(name in names for name in streams)), None)
    return found or ("msg" if any(name.startswith("__substg1.0_") for name in names) else None)


def _by_marks(source: Source) -> str:
    seen = source.head + source.tail
    return next((family for family, marks in _MARKS.items() if any(mark in seen for mark in marks)), _UNREADABLE)
