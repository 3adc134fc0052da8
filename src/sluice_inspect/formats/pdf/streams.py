"""Walks the objects of a PDF with qpdf: do the pages' content streams decode, and what else is damaged. Renders nothing.

Streams are unpacked here, piece by piece and counted, never by qpdf in one go, unless their filters cannot make much of them.
"""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pikepdf

from sluice.formats.budget import Deadline
from sluice.formats.pdf.pdf_bytes import Inflated, inflate, is_bomb, most_from
from sluice.formats.verdict import Corrupt, Finding, Limits, Unsafe

_FLATE: Final = frozenset({"/FlateDecode", "/Fl"})
_GROWTH: Final = {
    "/FlateDecode": 1032, "/Fl": 1032, "/LZWDecode": 2600, "/LZW": 2600, "/RunLengthDecode": 64, "/RL": 64,
    "/ASCII85Decode": 4, "/A85": 4, "/ASCIIHexDecode": 1, "/AHx": 1,
}  # fmt: skip
"""How many times its size a filter can make of its input at most; others (pictures, encryption) are not decoded here."""
_PICTURE_MOST: Final = 256 * 1024**2
"""Bytes up to which packed pictures are unpacked to find damage."""
_DECODED_MOST: Final = 128 * 1024**2
"""Bytes that qpdf may be asked to unpack at once."""
_SLIGHT_SHARE: Final = 0.1
"""Of streams that unpack to their end under another checksum: the checksum itself was lost, by a writer or on the way."""
_LENIENT: Final = frozenset({"/LZWDecode", "/LZW", "/RunLengthDecode", "/RL"})
"""Filters without a checksum and with dialects, of which readers take different ones: that one fails says little."""


@dataclass(slots=True)
class Streams:
    """What the walk saw."""

    pages: int = 0
    unread: int = 0
    """Content streams that could not be looked at within the budget."""
    damaged: list[str] = field(default_factory=list)
    """Streams other than page content that do not unpack to what was packed: pictures, fonts, forms."""
    packed: int = 0
    """How many Flate streams were unpacked."""
    check_failed: int = 0
    """How many of them unpacked to their end, but to another checksum. If all did, their writer does not know checksums."""
    largest: int = 0
    """Bytes of the largest unpacked stream that is no picture."""
    most_pixels: int = 0
    """Of the largest picture."""
    finished: bool = True

    @property
    def is_damaged(self) -> bool:
        """Whether so much is damaged that it happened to the file, not to one picture.

        A stream that unpacks to its end under another checksum is shown by all viewers, so of those alone it takes more.
        """
        if self.broken:
            return len(self.damaged) > 1
        return self.check_failed < self.packed and self.check_failed > max(1, _SLIGHT_SHARE * self.packed)

    @property
    def broken(self) -> int:
        """How many streams fail before their end."""
        return len(self.damaged) - self.check_failed

    @property
    def can_be_shown(self) -> bool:
        """Whether there are pages with content, all of it sound."""
        return self.finished and self.pages > 0 and self.largest > 0 and not self.unread and not self.damaged


def walk(pdf: pikepdf.Pdf, limits: Limits, deadline: Deadline) -> Streams:
    """Decode the content of all pages, then look at all other streams until the deadline.

    Raises `Corrupt` for page content that does not decode, `Unsafe` for a stream that unpacks to far more than it is.
    """
    streams = Streams()
    seen: set[tuple[int, int]] = set()
    for number, content in _contents(pdf, streams):
        if deadline.has_passed:
            streams.finished = False
            break
        if content.objgen not in seen:
            seen.add(content.objgen)
            _check_content(content, number, streams, limits)
    for thing in pdf.objects:
        if deadline.has_passed:
            streams.finished = False
            break
        if isinstance(thing, pikepdf.Stream) and thing.objgen not in seen:
            _look_at(thing, streams, limits)
    return streams


def _contents(pdf: pikepdf.Pdf, streams: Streams) -> Iterator[tuple[int, pikepdf.Object]]:
    try:
        for number, page in enumerate(pdf.pages, start=1):
            streams.pages = number
            content = page.obj.get("/Contents")
            for part in [] if content is None else list(content) if isinstance(content, pikepdf.Array) else [content]:
                if isinstance(part, pikepdf.Stream):
                    yield number, part
                elif part is not None:
                    streams.unread += 1  # readers show the page without it
    except pikepdf.PikepdfError:
        return  # a page tree that only qpdf refuses: the other reader has judged it


def _check_content(content: pikepdf.Object, number: int, streams: Streams, limits: Limits) -> None:
    try:
        unpacked = _unpack(content, limits)
    except (pikepdf.PikepdfError, ValueError) as error:
        if _LENIENT.intersection(_filters(content)):
            streams.unread += 1
            return
        raise Corrupt(f"page {number}: its content stream does not decode") from error
    if unpacked is None:
        streams.unread += 1
        return
    streams.packed += bool(_filters(content))
    streams.check_failed += unpacked.check_failed
    if unpacked.check_failed:
        streams.damaged.append(f"the content of page {number}")
    elif unpacked.error:
        raise Corrupt(f"page {number}: its content stream does not decode ({unpacked.error})")
    _count(unpacked, content, streams, limits)


def _look_at(stream: pikepdf.Object, streams: Streams, limits: Limits) -> None:
    try:
        is_picture = stream.get("/Subtype") == "/Image"
        if is_picture:
            streams.most_pixels = max(streams.most_pixels, _pixels(stream))
        if not _filters(stream) or _filters(stream)[0] not in _FLATE:
            return
        raw = stream.read_raw_bytes()
        unpacked = inflate(raw, _PICTURE_MOST if is_picture else most_from(len(raw), limits))
    except (pikepdf.PikepdfError, ValueError, TypeError, AttributeError):
        return  # not a stream that a reader would open as such
    streams.packed += 1
    streams.check_failed += unpacked.check_failed
    if unpacked.error and "header" not in unpacked.error:
        streams.damaged.append(f"object {stream.objgen[0]}")
    if not is_picture:
        _count(unpacked, stream, streams, limits)


def _count(unpacked: Inflated, stream: pikepdf.Object, streams: Streams, limits: Limits) -> None:
    streams.largest = max(streams.largest, unpacked.size)
    if is_bomb(unpacked.size, unpacked.packed, limits):
        raise Unsafe(Finding.ARCHIVE_BOMB, f"object {stream.objgen[0]} unpacks to more than {limits.max_ratio} times its size")


def _unpack(content: pikepdf.Object, limits: Limits) -> Inflated | None:
    """Unpack page content, or answer None when that could cost too much."""
    filters = _filters(content)
    if not filters:
        size = len(content.read_raw_bytes())
        return Inflated(size, size, ended=True)
    raw = content.read_raw_bytes()
    while len(filters) > 1 and filters[0] in {"/ASCII85Decode", "/A85", "/ASCIIHexDecode", "/AHx"}:
        raw = _from_text(raw, filters.pop(0))
    if len(filters) == 1 and filters[0] in _FLATE:
        return inflate(raw, most_from(len(raw), limits))
    size = len(raw)
    for name in filters:
        size *= _GROWTH.get(name, _DECODED_MOST)
    if size > _DECODED_MOST:
        return None
    return Inflated(len(content.read_bytes(pikepdf.StreamDecodeLevel.specialized)), len(raw), ended=True)


def _from_text(raw: bytes, name: str) -> bytes:
    if name in {"/ASCIIHexDecode", "/AHx"}:
        digits = b"".join(raw.partition(b">")[0].split())
        return binascii.unhexlify(digits + b"0" * (len(digits) % 2))
    return base64.a85decode(raw.partition(b"~>")[0].strip().removeprefix(b"<~"), ignorechars=b" \t\n\r\f\v\0")


def _filters(stream: pikepdf.Object) -> list[str]:
    names = stream.get("/Filter")
    if names is None:
        return []
    return [_name(name) for name in names] if isinstance(names, pikepdf.Array) else [_name(names)]


def _name(thing: object) -> str:
    """Answer a name, whose bytes need not be characters; nobody's name for what is none."""
    return thing.unparse().decode("latin-1") if isinstance(thing, pikepdf.Name) else "/?"


def _pixels(picture: pikepdf.Object) -> int:
    return int(picture.get("/Width", 0)) * int(picture.get("/Height", 0))


_NOT_SEEN: Final = frozenset({"/Link", "/Popup", "/Widget", "/PrinterMark", "/TrapNet", "/Watermark", "/3D"})
_HIDDEN_FLAGS: Final = 0b100010
"""Annotation flags Hidden (2) and NoView (6)."""
_NOTES_MOST: Final = 10_000


def shows_beside_pages(pdf: pikepdf.Pdf) -> bool:
    """Whether readers show something that is not on the pages: attachments, notes, values of form fields."""
    try:
        names = pdf.Root.get("/Names")
        if isinstance(names, pikepdf.Dictionary) and _has_entries(names.get("/EmbeddedFiles")):
            return True
        form = pdf.Root.get("/AcroForm")
        if isinstance(form, pikepdf.Dictionary) and any(_is_filled(each) for each in _dictionaries(form.get("/Fields"))):
            return True
        notes = (note for page in pdf.pages for note in _dictionaries(page.obj.get("/Annots")))
        return any(_is_note(note) for _, note in zip(range(_NOTES_MOST), notes, strict=False))
    except (pikepdf.PikepdfError, ValueError, TypeError, AttributeError):
        return True  # nobody knows


def _dictionaries(things: object) -> Iterator[pikepdf.Object]:
    if isinstance(things, pikepdf.Array):
        yield from (thing for thing in things if isinstance(thing, pikepdf.Dictionary))


def _has_entries(tree: object) -> bool:
    if not isinstance(tree, pikepdf.Dictionary):
        return False
    lists = (tree.get(key) for key in ("/Names", "/Kids"))
    return any(isinstance(entries, pikepdf.Array) and len(entries) > 0 for entries in lists)


def _is_filled(form_field: pikepdf.Object) -> bool:
    value = form_field.get("/V")
    if isinstance(value, pikepdf.String):
        return bool(str(value).strip())
    if isinstance(value, pikepdf.Name):
        return str(value) != "/Off"
    return any(_is_filled(kid) for kid in _dictionaries(form_field.get("/Kids")))


def _is_note(annotation: pikepdf.Object) -> bool:
    if str(annotation.get("/Subtype")) in _NOT_SEEN or int(annotation.get("/F", 0)) & _HIDDEN_FLAGS:
        return False
    return bool(str(annotation.get("/Contents", "")).strip()) or "/FS" in annotation
