"""What a PDF does by itself, and what is attached to it: scripts, launch actions, attachments by kind."""
# Objects are written out by qpdf, which is fast and spells every name in one way, and only those with a telling name
# are walked through.

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import pikepdf

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.fields import is_remote
from sluice_inspect.formats.pdf.forms import loads_or_sends
from sluice_inspect.formats.pdf.parts import stream_content
from sluice_inspect.formats.pdf.reading import PdfReading
from sluice_inspect.formats.pdf.scripts import decode_script
from sluice_inspect.formats.pdf.written import ACTIVE_NAME, read_unlisted, read_written
from sluice_inspect.programs import HEAD_BYTES, attachment_flag
from sluice_inspect.report import FactSheet
from sluice_inspect.subject import Subject
from sluice_inspect.threats.budget import OverBudget

# Addresses are of interest if they begin as those of scripts and files do, or are not written in letters.
_TELLING: Final = re.compile(
    rb"/(?:JS|JavaScript|Launch|EF|XFA|OpenAction|AA|OnInstantiate|Scripts|Ref|OPI)\b"
    rb"|/URI (?:<|\(\s{0,20}(?:[jJvVfF]|\\))"
)
_FORM_SCRIPT: Final = re.compile(r"<(?:[^\s<>/=:]{1,100}:)?script[\s>/]", re.IGNORECASE)
_FORM_BYTES: Final = 12 * 1024**2  # of all forms together
_PARTS_MOST: Final = 10_000  # of all forms; writers make some ten
_FILE_NAMES: Final = ("/UF", "/F", "/Unix", "/DOS", "/Mac")
_OPENING: Final = frozenset({"/GoToR", "/GoToE", "/Thread"})
_SENDING: Final = frozenset({"/SubmitForm", "/ImportData"})
_CLICKS: Final = frozenset({"/D", "/U"})  # triggers of a button that is pressed and released
_BLANKS: Final = re.compile(r"[\x00-\x20]+")
_SCRIPT_ADDRESS: Final = re.compile(r"(?:javascript|vbscript):")
_WRITTEN_FLAGS: Final = {"JS": "script.pdf", "JavaScript": "script.pdf", "Launch": "launch.pdf"}
_TOO_DEEP: Final = "deeply nested"  # what qpdf says of an object of more than 500 levels, which it leaves out


def measure_pdf(subject: Subject, sheet: FactSheet) -> None:
    """Add pages, attachments and flags if the examination did not; `encrypted` unless damage hides it."""
    if "attachments" not in sheet.facts:
        _read_again(subject, sheet)
    pages = subject.count("pages")
    if pages is not None:
        sheet.facts |= {"pages": pages, "encrypted": False}


def _read_again(subject: Subject, sheet: FactSheet) -> None:
    reading = subject.source.cached(PdfReading)
    if reading.is_costly:
        sheet.complete = False
        return
    try:
        with reading.qpdf() as pdf:
            sheet.facts["encrypted"] = False
            sheet.facts["pages"] = len(pdf.pages)
            collect(pdf, reading, Deadline(subject.limits.soft_seconds), sheet)
    except pikepdf.PasswordError:
        sheet.facts["encrypted"] = True
        sheet.complete = False
    except (pikepdf.PikepdfError, ValueError, RuntimeError, OverflowError):
        sheet.complete = False


def collect(pdf: pikepdf.Pdf, reading: PdfReading, deadline: Deadline, sheet: FactSheet) -> None:
    """Add attachments and flags of an open document, as far as it can be read. Raise nothing."""
    found = _ActiveContent(sheet, deadline)
    try:
        for each in pdf.objects:
            if deadline.has_passed:
                sheet.complete = False
                break
            found.examine(each)
        warnings = [*reading.object_warnings, *map(str, pdf.get_warnings())]
        if any(_TOO_DEEP in warning for warning in warnings):
            # No writer nests its objects like that, and some readers follow what is in them.
            sheet.flags |= {"script.pdf", "launch.pdf"}
            sheet.complete = False
        else:
            _add_written(reading.data, found.names, sheet, is_damaged=bool(warnings))
    except (pikepdf.PikepdfError, ValueError, TypeError, AttributeError, RuntimeError):
        sheet.complete = False
    sheet.facts["attachments"] = len(found.attachments)


def _add_written(data: bytes | None, found: Counter[str], sheet: FactSheet, *, is_damaged: bool) -> None:
    """Add what is written in a document and was not found in its objects: another reader may find it."""
    if data is None:
        sheet.complete = False
        return
    if is_damaged:
        written = read_written(data)
        sheet.complete &= written.is_complete and written.exceeds(found) <= _WRITTEN_FLAGS.keys()
    else:
        written = read_unlisted(data)
    sheet.flags |= {flag for name, flag in _WRITTEN_FLAGS.items() if written.names[name] and not found[name]}


class _ActiveContent:
    def __init__(self, sheet: FactSheet, deadline: Deadline) -> None:
        self.attachments: set[tuple[int, int]] = set()
        self.names = Counter[str]()
        self._sheet = sheet
        self._deadline = deadline
        self._forms: set[tuple[tuple[int, int], ...]] = set()
        self._form_parts_left = _PARTS_MOST
        self._form_bytes_left = _FORM_BYTES
        self._started: set[tuple[int, int]] = set()

    def examine(self, each: pikepdf.Object) -> None:
        """Look at an object of the document. One that cannot be read hides no other."""
        try:
            holder = each
            if isinstance(each, pikepdf.Stream):
                holder = each.stream_dict
                if "/F" in holder and is_remote(_file_name(holder)):
                    self._sheet.flags.add("link.external")  # the content of the stream is in another file
            is_holder = isinstance(holder, pikepdf.Dictionary | pikepdf.Array)
            if is_holder:
                text = holder.unparse(resolved=True)
                self.names.update(name.decode() for name in ACTIVE_NAME.findall(text))
                if _TELLING.search(text):
                    self._walk(holder)
        except (pikepdf.PikepdfError, ValueError, TypeError, AttributeError, RuntimeError):
            self._sheet.complete = False

    def _walk(self, node: pikepdf.Object) -> None:
        """Look at a dictionary or list and what is written within it. What it only refers to comes by itself."""
        left = [node]
        while left:
            holder = left.pop()
            if isinstance(holder, pikepdf.Dictionary):
                entries = list(holder.items())
                for key, value in entries:
                    self._examine_entry(holder, key, value)
                left += [value for _, value in entries if not getattr(value, "is_indirect", False)]
            elif isinstance(holder, pikepdf.Array):
                left += [value for value in holder if not getattr(value, "is_indirect", False)]

    def _examine_entry(self, holder: pikepdf.Object, key: str, value: pikepdf.Object) -> None:
        if key in {"/JS", "/JavaScript"} or (key == "/S" and value == "/JavaScript"):
            self._sheet.flags.add("script.pdf")
        elif key == "/OnInstantiate" or (key == "/Scripts" and isinstance(value, pikepdf.Array)):
            self._sheet.flags.add("script.pdf")  # of a model in three dimensions, or of a rich medium
        elif key == "/S" and value == "/Launch":
            self._sheet.flags.add("launch.pdf")
        elif key == "/URI" and _SCRIPT_ADDRESS.match(_address(value)):
            self._sheet.flags.add("script.pdf")
        elif key == "/OpenAction":
            self._start(value)
        elif key == "/AA" and isinstance(value, pikepdf.Dictionary):
            self._start(*(action for trigger, action in value.items() if trigger not in _CLICKS))
        elif key == "/EF" and isinstance(value, pikepdf.Dictionary):
            self._examine_attached(_file_name(holder), value)
        elif key == "/XFA":
            self._examine_form(value)
        elif key in {"/Ref", "/OPI"} and isinstance(value, pikepdf.Dictionary):
            # A page of another document; a picture of another file, by version of OPI.
            holders = [value] if key == "/Ref" else list(value.values())
            files = [_file_name(each) for each in holders if isinstance(each, pikepdf.Dictionary)]
            if any(map(is_remote, files)):
                self._sheet.flags.add("link.external")

    def _examine_attached(self, name: str, files: pikepdf.Object) -> None:
        for stream in files.values():
            if isinstance(stream, pikepdf.Stream) and stream.objgen not in self.attachments:
                self.attachments.add(stream.objgen)
                self._sheet.flags.add(attachment_flag(name, self._content(stream, HEAD_BYTES)))

    def _start(self, *actions: pikepdf.Object) -> None:
        """Look at actions that start by themselves, and at those that follow them."""
        left: list[pikepdf.Object | None] = list(actions)
        while left:
            each = left.pop()
            if isinstance(each, pikepdf.Array):
                left.extend(each)
            elif isinstance(each, pikepdf.Dictionary) and each.objgen not in self._started:
                if each.is_indirect:
                    self._started.add(each.objgen)
                self._examine_started(each)
                following = each.get("/Next")
                if following is not None:
                    left.append(following)

    def _examine_started(self, action: pikepdf.Object) -> None:
        action_type = str(action.get("/S"))
        if action_type == "/URI":
            target = _address(action.get("/URI"))
        elif action_type in _OPENING | _SENDING:
            target = _file_name(action)
        else:
            return
        is_local = not is_remote(target)
        if not is_local and not _SCRIPT_ADDRESS.match(target):
            self._sheet.flags.add("link.external")
        if target.lower().startswith("file:") or (action_type in _OPENING and not is_local):
            self._sheet.flags.add("launch.pdf")

    def _examine_form(self, form: pikepdf.Object) -> None:
        """Look at a form of XML: one stream, or names and streams in turn, which may cut it anywhere."""
        packets = list(form) if isinstance(form, pikepdf.Array) else [form]
        streams = [each for each in packets if isinstance(each, pikepdf.Stream)]
        identity = tuple(each.objgen for each in streams)
        if identity in self._forms:
            return
        self._forms.add(identity)
        parts: list[bytes] = []
        for each in streams:
            self._form_parts_left -= 1
            if self._form_parts_left < 0 or self._form_bytes_left <= 0:
                self._sheet.complete = False
                break
            parts.append(self._content(each, self._form_bytes_left))
            self._form_bytes_left -= len(parts[-1])
        # Each packet may have an encoding of its own, or be a piece of a text that has one.
        for text in dict.fromkeys((decode_script(b"".join(parts)), "".join(map(decode_script, parts)))):
            is_loading = loads_or_sends(text, self._deadline)
            if is_loading:
                self._sheet.flags.add("link.external")
            self._sheet.complete &= is_loading is not None
            if _FORM_SCRIPT.search(text.replace("\ufeff", "")):
                self._sheet.flags.add("script.pdf")
            if "<!ENTITY" in text:
                self._sheet.complete = False  # it may stand for elements

    def _content(self, stream: pikepdf.Stream, most: int) -> bytes:
        """Return the first bytes of a stream."""
        content = bytearray()
        try:
            for piece in stream_content(stream, is_active=True):
                content += piece
                if len(content) >= most:
                    break
        except OverBudget:
            self._sheet.complete = False
        return bytes(content[:most])


def _address(value: pikepdf.Object | None) -> str:
    return _BLANKS.sub("", str(value)).lower() if isinstance(value, pikepdf.String) else ""


def _file_name(holder: pikepdf.Object) -> str:
    """Return the name of a file or an address: of a file specification, or of what refers to one."""
    for _ in range(2):
        values = [holder.get(key) for key in _FILE_NAMES]
        names = [str(value) for value in values if isinstance(value, pikepdf.String)]
        if names:
            return next(filter(is_remote, names), names[0])
        holder = next((value for value in values if isinstance(value, pikepdf.Dictionary)), pikepdf.Dictionary())
    return ""
