"""What a PDF carries: attachments, scripts, targets of launch actions, and the streams that are no pictures. Reads leniently, judges nothing.

clamd misses attachments as qpdf and pikepdf write them (measured, 1.4.6), so those are `unseen`. The objects are found by qpdf, which also
opens documents whose password is empty; filters are undone here, piece by piece, where they can make much of little.
"""

import io
import re
from collections.abc import Iterator
from typing import Final

import pikepdf

from sluice.threats.budget import OverBudget
from sluice.threats.bytesview import View, as_file, pieces
from sluice.threats.part import Locked, Part
from sluice.threats.unpack import inflate

_FLATE: Final = frozenset({"/FlateDecode", "/Fl"})
_BY_QPDF: Final = frozenset({
    "/FlateDecode", "/Fl", "/LZWDecode", "/LZW", "/RunLengthDecode", "/RL", "/ASCII85Decode", "/A85", "/ASCIIHexDecode", "/AHx",
})  # fmt: skip
_MOST_PACKED: Final = 64 * 1024
"""So much may qpdf unpack at once: its filters make at most some thousand times as much of it."""
_DEEPEST: Final = 40
_TARGETS: Final = ("/F", "/UF", "/P", "/D")
_SYSTEMS: Final = ("/Win", "/Unix", "/Mac", "/DOS")
_ATTACHMENT_SIGN: Final = re.compile(rb"EmbeddedFile|/EF\b")


def sample() -> bytes:
    """Answer a small document whose password is empty: reading it loads all that reading others may need, qpdf's random device among it."""
    out = io.BytesIO()
    with pikepdf.new() as document:
        document.add_blank_page()
        document.save(out, encryption=pikepdf.Encryption(owner="", user="", R=6))
    return out.getvalue()


def parts(view: View) -> Iterator[Part]:
    """Iterate over the parts. Raises `Locked`, and `OverBudget` for what cannot be looked at and may hold attachments."""
    try:
        pdf = pikepdf.open(as_file(view), suppress_warnings=True)
    except pikepdf.PasswordError as locked:
        raise Locked from locked
    except (pikepdf.PdfError, ValueError, RuntimeError, OverflowError) as damage:
        if any(_ATTACHMENT_SIGN.search(piece) for piece in pieces(view)):
            raise OverBudget("a damaged PDF with attachments that cannot be unpacked") from damage
        return
    with pdf:
        yield from _parts(pdf)


def _parts(pdf: pikepdf.Pdf) -> Iterator[Part]:
    found = _Found()
    things = list(pdf.objects)
    for thing in things:
        found.look_at(thing, 0)
    for kind, texts in (("pdf_script", found.scripts), ("pdf_launch", found.launches)):
        for text in texts:
            yield Part("", iter((text,)), kind=kind)
    for thing in things:
        if isinstance(thing, pikepdf.Stream):
            yield from _stream(thing, found)


def _stream(stream: pikepdf.Stream, found: "_Found") -> Iterator[Part]:
    attached = stream.objgen in found.attachments or stream.get("/Type") == "/EmbeddedFile"
    if not attached and stream.get("/Type") == "/XRef":
        return
    is_picture = not attached and stream.get("/Subtype") == "/Image"
    kind = "pdf_script" if stream.objgen in found.script_streams else ""
    content = _content(stream, attached=attached)
    yield Part(found.attachments.get(stream.objgen, ""), content, unseen=attached, kind=kind, is_picture=is_picture)


class _Found:
    """What the dictionaries tell: which streams are attachments or scripts, scripts in strings, and what would be launched."""

    def __init__(self) -> None:
        self.attachments: dict[tuple[int, int], str] = {}
        self.script_streams: set[tuple[int, int]] = set()
        self.scripts: list[bytes] = []
        self.launches: list[bytes] = []

    def look_at(self, thing: pikepdf.Object, depth: int) -> None:
        if depth > _DEEPEST:
            return
        if isinstance(thing, pikepdf.Dictionary | pikepdf.Stream):
            for name, value in thing.items():
                self._note(thing, name, value)
                if not getattr(value, "is_indirect", False):
                    self.look_at(value, depth + 1)
        elif isinstance(thing, pikepdf.Array):
            for value in thing:
                if not getattr(value, "is_indirect", False):
                    self.look_at(value, depth + 1)

    def _note(self, holder: pikepdf.Object, name: str, value: pikepdf.Object) -> None:
        if name == "/EF" and isinstance(value, pikepdf.Dictionary):
            file_name = _text(holder.get("/UF", holder.get("/F"))).decode("utf-8", "replace")
            for stream in value.values():
                if isinstance(stream, pikepdf.Stream):
                    self.attachments[stream.objgen] = file_name
        elif name == "/JS" and isinstance(value, pikepdf.Stream):
            self.script_streams.add(value.objgen)
        elif name == "/JS":
            self.scripts.append(_text(value))
        elif name == "/S" and value == "/Launch":
            self.launches.append(b"\n".join(_targets(holder)))


def _targets(action: pikepdf.Object) -> Iterator[bytes]:
    for holder in (action, *(action.get(system) for system in _SYSTEMS)):
        if isinstance(holder, pikepdf.Dictionary):
            for name in _TARGETS:
                value = holder.get(name)
                yield from _targets(value) if isinstance(value, pikepdf.Dictionary) else (_text(value),)


def _text(value: object) -> bytes:
    """Answer a string in UTF-8; nothing for what is none."""
    if not isinstance(value, pikepdf.String | str):
        return b""
    return str(value).encode("utf-8", "replace")


def _content(stream: pikepdf.Stream, *, attached: bool) -> Iterator[bytes]:
    try:
        raw = stream.read_raw_bytes()
        filters = _filters(stream)
        if not filters:
            yield raw
        elif _FLATE.issuperset(filters) and not _is_predicted(stream):
            yield from inflate(raw, times=len(filters))
        elif _BY_QPDF.issuperset(filters) and len(raw) <= _MOST_PACKED:
            yield stream.read_bytes()
        elif attached:
            raise OverBudget("a PDF with an attachment that is packed in an unusual way")
        else:
            yield raw
    except (pikepdf.PdfError, ValueError, TypeError, RuntimeError) as damage:
        if attached:
            raise OverBudget("a PDF with a damaged attachment that cannot be unpacked") from damage


def _filters(stream: pikepdf.Stream) -> list[str]:
    filters = stream.get("/Filter")
    if filters is None:
        return []
    return [str(name) for name in filters] if isinstance(filters, pikepdf.Array) else [str(filters)]


def _is_predicted(stream: pikepdf.Stream) -> bool:
    parameters = stream.get("/DecodeParms", stream.get("/DP"))
    one = list(parameters) if isinstance(parameters, pikepdf.Array) else [parameters]
    return any(isinstance(each, pikepdf.Dictionary) and int(each.get("/Predictor", 1)) > 1 for each in one)
