"""What a PDF carries: attachments, scripts, targets of launch actions, and the streams that are no pictures."""
# clamd misses attachments as qpdf and pikepdf write them (measured, 1.4.6), so those are `hidden_from_clamd`. Filters
# that can make much of little are undone here, piece by piece.

from __future__ import annotations

import base64
import binascii
import io
import re
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from typing import Final

import pikepdf

from sluice_inspect.formats.pdf.reading import PdfReading
from sluice_inspect.formats.pdf.scripts import decode_script, readings_of
from sluice_inspect.formats.pdf.unlisted import unlisted_objects
from sluice_inspect.formats.pdf.written import ACTIVE_NAME, read_written
from sluice_inspect.parts import Certainty, Opener, Part, PasswordRequired
from sluice_inspect.program_names import is_program_name
from sluice_inspect.source import RandomAccess, read_pieces
from sluice_inspect.threats.budget import OverBudget
from sluice_inspect.threats.streams import inflate

_HEADER_WITHIN: Final = 1024
_FLATE_FILTERS: Final = frozenset({"/FlateDecode", "/Fl"})
_TEXT_FILTERS: Final = frozenset({"/ASCII85Decode", "/A85", "/ASCIIHexDecode", "/AHx"})
_NO_DIGITS: Final = re.compile(rb"[^0-9A-Fa-f]+")
_QPDF_FILTERS: Final = frozenset({
    "/FlateDecode", "/Fl", "/LZWDecode", "/LZW", "/RunLengthDecode", "/RL", "/ASCII85Decode", "/A85", "/ASCIIHexDecode",
    "/AHx", "/Crypt",
})  # fmt: skip
# qpdf unpacks a stream as a whole: its filters make at most some thousand times as much of it.
_MAX_QPDF_BYTES: Final = 64 * 1024
_LAUNCH_TARGETS: Final = ("/F", "/UF", "/P", "/D", "/DOS", "/Mac", "/Unix")
_LAUNCH_HOLDERS_MOST: Final = 50
_LAUNCH_SYSTEMS: Final = ("/Win", "/Unix", "/Mac", "/DOS")
_ATTACHMENT_KEY: Final = re.compile(rb"EmbeddedFile|/EF\b")
_SEARCHED_BYTES: Final = 1024**2
_MAX_SCRIPTS: Final = 4 * 1024**2  # the rules see as much at once, also with characters of two bytes


def sample() -> bytes:
    """Return a small document with an empty password: reading it loads all that other documents may need."""
    out = io.BytesIO()
    with pikepdf.new() as document:
        document.add_blank_page()
        document.save(out, encryption=pikepdf.Encryption(owner="", user="", R=6))
    return out.getvalue()


def pdf_parts(source: RandomAccess) -> Iterator[Part]:
    """Yield the parts. Raise `PasswordRequired`, and `OverBudget` for what cannot be read and may hold attachments."""
    reading = source.cached(PdfReading)
    if reading.is_costly:
        raise OverBudget("a PDF whose repair takes too long")
    with ExitStack() as opened:
        try:
            pdf = opened.enter_context(reading.qpdf())
        except pikepdf.PasswordError as error:
            raise PasswordRequired from error
        except (pikepdf.PdfError, ValueError, RuntimeError, OverflowError) as error:
            if any(_ATTACHMENT_KEY.search(piece) for piece in read_pieces(source, piece_bytes=_SEARCHED_BYTES)):
                raise OverBudget("a damaged PDF with attachments that cannot be unpacked") from error
            return
        listed = {getattr(each, "objgen", (0, 0)) for each in pdf.objects}  # numbers come as such
        yield from _document_parts(pdf)
        names = _active_names(pdf)
        is_damaged = bool(reading.object_warnings or pdf.get_warnings())
    if reading.data is None:
        return
    yield from _unlisted_parts(reading.data, listed)
    if is_damaged:
        yield from _damaged_parts(reading.data, names)


def _unlisted_parts(data: bytes, listed: AbstractSet[tuple[int, int]]) -> Iterator[Part]:
    unlisted = unlisted_objects(data, listed)
    if unlisted is not None:
        try:
            pdf = pikepdf.open(io.BytesIO(unlisted), suppress_warnings=True)
        except (pikepdf.PdfError, ValueError, RuntimeError, OverflowError):
            return  # nothing that any reader takes for objects
        with pdf:
            yield from _document_parts(pdf)


def _active_names(pdf: pikepdf.Pdf) -> Counter[str]:
    names = Counter[str]()
    for each in pdf.objects:
        holder = each.stream_dict if isinstance(each, pikepdf.Stream) else each
        if isinstance(holder, pikepdf.Dictionary | pikepdf.Array):
            names.update(name.decode() for name in ACTIVE_NAME.findall(holder.unparse(resolved=True)))
    return names


def _damaged_parts(data: bytes, found: Counter[str]) -> Iterator[Part]:
    """Yield scripts and targets in objects that qpdf gives up. Raise `OverBudget` after them if there may be more."""
    written = read_written(data)
    hidden = written.exceeds(found)
    if "Launch" in hidden:
        targets = written.strings["Launch"]
        name = next(filter(is_program_name, (text.decode("utf-8", "replace") for text in targets)), "")
        yield Part(name, iter((b"\n".join(targets),)), format_name="pdf_launch")
    if not hidden.isdisjoint({"JS", "JavaScript"}):
        texts = dict.fromkeys((*written.strings.get("JS", ()), *written.strings.get("JavaScript", ())))
        for reading in dict.fromkeys(readings_of([decode_script(text) for text in texts])):
            yield Part("", iter((reading.encode("utf-8", "replace"),)), format_name="pdf_script")
    if not hidden.isdisjoint({"JS", "JavaScript", "Launch", "EF", "XFA"}):
        raise OverBudget("a damaged PDF with scripts, actions or attachments that only some readers find")


def _document_parts(pdf: pikepdf.Pdf) -> Iterator[Part]:
    objects = list(pdf.objects)
    catalog = _ScriptFinder()
    for each in objects:
        catalog.collect(each)
    for text in catalog.launches:
        targets = text.decode("utf-8", "replace").split("\n")
        name = next(filter(is_program_name, targets), "")
        yield Part(name, iter((text,)), format_name="pdf_launch")
    yield from _script_parts(objects, catalog)
    for each in objects:
        if isinstance(each, pikepdf.Stream):
            yield from _stream_part(each, catalog)


def _stream_part(stream: pikepdf.Stream, catalog: _ScriptFinder) -> Iterator[Part]:
    is_attachment = stream.objgen in catalog.attachments or stream.get("/Type") == "/EmbeddedFile"
    if not is_attachment and stream.get("/Type") == "/XRef":
        return
    yield Part(
        catalog.attachments.get(stream.objgen, ""),
        stream_content(stream, is_active=is_attachment),
        hidden_from_clamd=is_attachment,
        is_picture=not is_attachment and stream.get("/Subtype") == "/Image",
    )


class _ScriptFinder:
    """What the dictionaries refer to: attachments, scripts in streams and strings, and targets of launch actions."""

    def __init__(self) -> None:
        self.attachments: dict[tuple[int, int], str] = {}
        self.script_streams: set[tuple[int, int]] = set()
        self.forms: dict[tuple[int, int], pikepdf.Stream] = {}
        self.scripts: list[str] = []
        self.launches: list[bytes] = []

    def collect(self, node: pikepdf.Object) -> None:
        """Note what an object and all that is written within it refer to."""
        left = [node]
        while left:
            holder = left.pop()
            if isinstance(holder, pikepdf.Dictionary | pikepdf.Stream):
                entries = list(holder.items())
                for key, value in entries:
                    self._collect_entry(holder, key, value)
                left += [value for _, value in entries if not getattr(value, "is_indirect", False)]
            elif isinstance(holder, pikepdf.Array):
                left += [value for value in holder if not getattr(value, "is_indirect", False)]

    def _collect_entry(self, holder: pikepdf.Object, key: str, value: pikepdf.Object) -> None:
        if key == "/EF" and isinstance(value, pikepdf.Dictionary):
            file_name = _text(holder.get("/UF", holder.get("/F"))).decode("utf-8", "replace")
            for stream in value.values():
                if isinstance(stream, pikepdf.Stream):
                    self.attachments[stream.objgen] = file_name
        elif key in {"/JS", "/OnInstantiate"} and isinstance(value, pikepdf.Stream):
            self.script_streams.add(value.objgen)
        elif key == "/JS":
            self.scripts.append(decode_script(bytes(value)) if isinstance(value, pikepdf.String) else "")
        elif key == "/XFA":
            # One stream, or names and streams in turn.
            packets = list(value) if isinstance(value, pikepdf.Array) else [value]
            self.forms |= {each.objgen: each for each in packets if isinstance(each, pikepdf.Stream)}
        elif key == "/S" and value == "/Launch":
            self.launches.append(b"\n".join(_launch_targets(holder)))


def _script_parts(objects: list[pikepdf.Object], catalog: _ScriptFinder) -> Iterator[Part]:
    """Yield the scripts of a document together, once for each way to read them."""
    streams = [each for each in objects if isinstance(each, pikepdf.Stream) and each.objgen in catalog.script_streams]
    scripts = [*catalog.scripts, *map(decode_script, map(_stream_bytes, streams))]
    packets = list(map(_stream_bytes, catalog.forms.values()))
    # A packet may be a piece of a text, cut anywhere, or have an encoding of its own.
    forms = dict.fromkeys((decode_script(b"".join(packets)), "".join(map(decode_script, packets))))
    scripts += (form for form in forms if "script" in form)
    if not scripts:
        return
    if sum(map(len, scripts)) > _MAX_SCRIPTS:
        raise OverBudget(f"a PDF with scripts of more than {_MAX_SCRIPTS} characters")
    for reading in dict.fromkeys(readings_of(scripts)):
        yield Part("", iter((reading.encode("utf-8", "replace"),)), format_name="pdf_script")


def _stream_bytes(stream: pikepdf.Stream) -> bytes:
    content = bytearray()
    for piece in stream_content(stream, is_active=True):
        content += piece
        if len(content) > _MAX_SCRIPTS:
            raise OverBudget(f"a PDF with a script of more than {_MAX_SCRIPTS} bytes")
    return bytes(content)


def _launch_targets(action: pikepdf.Object) -> Iterator[bytes]:
    """Yield what an action names: itself, for one system, or in file specifications, which may refer to each other."""
    left, seen = [action], set[tuple[int, int]]()
    for holder in left:
        if holder.is_indirect and holder.objgen in seen:
            continue
        seen.add(holder.objgen)
        for key in dict.fromkeys((*_LAUNCH_TARGETS, *_LAUNCH_SYSTEMS)):
            value = holder.get(key)
            if not isinstance(value, pikepdf.Dictionary):
                yield _text(value)
            elif len(left) < _LAUNCH_HOLDERS_MOST:
                left.append(value)


def _text(value: object) -> bytes:
    if not isinstance(value, pikepdf.String | str):
        return b""
    return str(value).encode("utf-8", "replace")


def stream_content(stream: pikepdf.Stream, *, is_active: bool) -> Iterator[bytes]:
    """Yield what a stream unpacks to, piece by piece; the packed bytes if its filters are those of pictures.

    Raise `OverBudget` if it cannot be unpacked and `is_active`: an attachment or a script.
    """
    try:
        raw = stream.read_raw_bytes()
        filters = _filters(stream)
        content, flates = raw, list(filters)
        while flates and flates[0] in _TEXT_FILTERS:
            content = _from_text(content, flates.pop(0))
        if not flates:
            yield content
        elif _FLATE_FILTERS.issuperset(flates) and not _has_predictor(stream):
            yield from inflate(content, times=len(flates))
        elif _QPDF_FILTERS.issuperset(filters) and len(raw) <= _MAX_QPDF_BYTES:
            yield stream.read_bytes()
        elif is_active:
            raise OverBudget("a PDF with an attachment or script that is packed in an unusual way")
        else:
            yield raw
    except (pikepdf.PdfError, ValueError, TypeError, RuntimeError) as error:
        if is_active:
            raise OverBudget("a PDF with a damaged attachment or script that cannot be unpacked") from error


def _from_text(raw: bytes, name: str) -> bytes:
    if name in {"/ASCIIHexDecode", "/AHx"}:
        digits = _NO_DIGITS.sub(b"", raw.partition(b">")[0])  # readers skip what is no digit
        return binascii.unhexlify(digits + b"0" * (len(digits) % 2))
    return base64.a85decode(raw.partition(b"~")[0].strip().removeprefix(b"<~"), ignorechars=b" \t\n\r\f\v\0")


def _filters(stream: pikepdf.Stream) -> list[str]:
    filters = stream.get("/Filter")
    if filters is None:
        return []
    return [str(name) for name in filters] if isinstance(filters, pikepdf.Array) else [str(filters)]


def _has_predictor(stream: pikepdf.Stream) -> bool:
    parameters = stream.get("/DecodeParms", stream.get("/DP"))
    each_filter = list(parameters) if isinstance(parameters, pikepdf.Array) else [parameters]
    return any(isinstance(each, pikepdf.Dictionary) and int(each.get("/Predictor", 1)) > 1 for each in each_filter)


OPENER: Final = Opener(
    begins=lambda head: b"%PDF-" in head[:_HEADER_WITHIN],
    certainty=Certainty.HEADER,
    parts=pdf_parts,
    is_complete=True,
    sample=sample,
)
