"""What a PDF does by itself, and what is attached to it: scripts, launch actions, attachments by kind."""
# Objects are written out by qpdf, which is fast and spells every name in one way, and only those with a telling name
# are walked through.

import re
import zlib
from collections.abc import Iterator
from typing import Final

import pikepdf

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.subject import Subject
from sluice_inspect.programs import HEAD_BYTES, attachment_flag
from sluice_inspect.report import FactSheet

_TELLING: Final = re.compile(rb"/(?:JS|JavaScript|Launch|EF|XFA)\b")
_FLATE: Final = frozenset({"/FlateDecode", "/Fl"})
_FORM_SCRIPT: Final = re.compile(rb"<(?:\w+:)?script[\s>/]", re.IGNORECASE)
_FORM_BYTES: Final = 4 * 1024**2
_FORMS_MOST: Final = 50  # parts of a form; writers make some ten
_MAX_DEPTH: Final = 40
_FILE_NAMES: Final = ("/UF", "/F", "/Unix", "/DOS", "/Mac")


def measure_pdf(subject: Subject, sheet: FactSheet) -> None:
    """Add pages, attachments and flags if the examination did not; `encrypted` unless damage hides it."""
    if "attachments" not in sheet.facts:
        _read_again(subject, sheet)
    pages = subject.count("pages")
    if pages is not None:
        sheet.facts |= {"pages": pages, "encrypted": False}


def _read_again(subject: Subject, sheet: FactSheet) -> None:
    try:
        with pikepdf.open(subject.source.open(), suppress_warnings=True) as pdf:
            sheet.facts["encrypted"] = False
            sheet.facts["pages"] = len(pdf.pages)
            collect(pdf, Deadline(subject.limits.soft_seconds), sheet)
    except pikepdf.PasswordError:
        sheet.facts["encrypted"] = True
        sheet.complete = False
    except (pikepdf.PikepdfError, ValueError, RuntimeError, OverflowError):
        sheet.complete = False


def collect(pdf: pikepdf.Pdf, deadline: Deadline, sheet: FactSheet) -> None:
    """Add attachments and flags of an open document, as far as it can be read. Raise nothing."""
    found = _ActiveContent(sheet)
    try:
        for each in pdf.objects:
            if deadline.has_passed:
                sheet.complete = False
                break
            holder = each.stream_dict if isinstance(each, pikepdf.Stream) else each
            is_holder = isinstance(holder, pikepdf.Dictionary | pikepdf.Array)
            if is_holder and _TELLING.search(holder.unparse(resolved=True)):
                found.walk(holder, 0)
    except (pikepdf.PikepdfError, ValueError, TypeError, AttributeError, RuntimeError):
        sheet.complete = False
    sheet.facts["attachments"] = len(found.attachments)


class _ActiveContent:
    def __init__(self, sheet: FactSheet) -> None:
        self.attachments: set[tuple[int, int]] = set()
        self._forms: set[tuple[int, int]] = set()
        self._sheet = sheet

    def walk(self, node: pikepdf.Object, depth: int) -> None:
        """Look at a dictionary or list and what is written within it. What it only refers to comes by itself."""
        if depth > _MAX_DEPTH:
            self._sheet.complete = False
            return
        if isinstance(node, pikepdf.Dictionary):
            for key, value in node.items():
                self._examine_entry(node, key, value)
                if not getattr(value, "is_indirect", False):
                    self.walk(value, depth + 1)
        elif isinstance(node, pikepdf.Array):
            for value in node:
                if not getattr(value, "is_indirect", False):
                    self.walk(value, depth + 1)

    def _examine_entry(self, holder: pikepdf.Object, key: str, value: pikepdf.Object) -> None:
        if key in {"/JS", "/JavaScript"} or (key == "/S" and value == "/JavaScript"):
            self._sheet.flags.add("script.pdf")
        elif key == "/S" and value == "/Launch":
            self._sheet.flags.add("launch.pdf")
        elif key == "/EF" and isinstance(value, pikepdf.Dictionary):
            names = (holder.get(name) for name in _FILE_NAMES)
            name = next((str(name) for name in names if isinstance(name, pikepdf.String)), "")
            for stream in value.values():
                if isinstance(stream, pikepdf.Stream) and stream.objgen not in self.attachments:
                    self.attachments.add(stream.objgen)
                    self._sheet.flags.add(attachment_flag(name, _content(stream, HEAD_BYTES)))
        elif key == "/XFA":
            for each in _streams(value):
                if each.objgen not in self._forms and len(self._forms) < _FORMS_MOST:
                    self._forms.add(each.objgen)
                    if _FORM_SCRIPT.search(_content(each, _FORM_BYTES)):
                        self._sheet.flags.add("script.pdf")


def _streams(value: pikepdf.Object) -> Iterator[pikepdf.Stream]:
    parts = list(value) if isinstance(value, pikepdf.Array) else [value]
    yield from (part for part in parts if isinstance(part, pikepdf.Stream))


def _content(stream: pikepdf.Stream, most: int) -> bytes:
    """Return the first bytes of a stream, as they are if they are packed otherwise than by Flate."""
    try:
        raw = stream.read_raw_bytes()
        filters = stream.get("/Filter")
        names = [str(each) for each in filters] if isinstance(filters, pikepdf.Array) else [str(filters)]
        return zlib.decompressobj().decompress(raw, most) if _FLATE.issuperset(names) else raw[:most]
    except (pikepdf.PikepdfError, ValueError, TypeError, RuntimeError, zlib.error):
        return b""
