"""The objects of a PDF, read with qpdf: streams that do not decode, and content besides the pages."""
# Streams are unpacked here, piece by piece and counted. qpdf unpacks only those that cannot grow much.

from __future__ import annotations

import base64
import binascii
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pikepdf

from sluice_inspect.budget import Deadline
from sluice_inspect.formats.pdf.raw import Inflated, inflate, is_bomb, unpacked_limit
from sluice_inspect.report import Corrupt, Finding, Limits, Unsafe

_FLATE: Final = frozenset({"/FlateDecode", "/Fl"})
# The most that a filter makes of a byte. Other filters (pictures, encryption) are not decoded here.
_GROWTH: Final = {
    "/FlateDecode": 1032, "/Fl": 1032, "/LZWDecode": 2600, "/LZW": 2600, "/RunLengthDecode": 64, "/RL": 64,
    "/ASCII85Decode": 4, "/A85": 4, "/ASCIIHexDecode": 1, "/AHx": 1,
}  # fmt: skip
_PICTURE_MOST: Final = 256 * 1024**2  # bytes up to which packed pictures are unpacked to find damage
_DECODED_MOST: Final = 128 * 1024**2  # bytes that qpdf may unpack at once
_SLIGHT_SHARE: Final = 0.1  # share of streams that may unpack to their end under another checksum
# Annotations of these types show nothing of their own.
_WITHOUT_CONTENT: Final = frozenset({"/Link", "/Popup", "/Widget", "/PrinterMark", "/TrapNet", "/Watermark", "/3D"})
_HIDDEN_FLAGS: Final = 0b100010  # annotation flags Hidden (2) and NoView (6)
_ANNOTATIONS_MOST: Final = 10_000
# Filters without a checksum, in several dialects, of which readers accept different ones: a failure proves little.
_LENIENT: Final = frozenset({"/LZWDecode", "/LZW", "/RunLengthDecode", "/RL"})


@dataclass(slots=True)
class StreamSummary:
    """What was found in the streams of a document."""

    pages: int = 0
    unread: int = 0  # content streams that were not decoded
    damaged: list[str] = field(default_factory=list)  # streams that do not unpack to what was packed
    packed: int = 0  # Flate streams that were unpacked
    check_failed: int = 0  # of them, those that unpacked to their end, but to another checksum
    largest: int = 0  # bytes of the largest unpacked stream that is not a picture
    most_pixels: int = 0  # of the largest picture
    object_seconds: float = 0.0  # how long an object of a page may take to draw
    finished: bool = True

    @property
    def is_damaged(self) -> bool:
        """Whether so much is damaged that the file is, not just one picture."""
        if self.broken:
            return len(self.damaged) > 1
        # All viewers show a stream that unpacks to its end under another checksum, so of those alone it takes more. If
        # all streams fail the check, their writer does not compute checksums.
        return self.check_failed < self.packed and self.check_failed > max(1, _SLIGHT_SHARE * self.packed)

    @property
    def broken(self) -> int:
        """Number of streams that fail before their end."""
        return len(self.damaged) - self.check_failed

    @property
    def can_be_shown(self) -> bool:
        """Whether there are pages with content, all of it sound."""
        return self.finished and self.pages > 0 and self.largest > 0 and not self.unread and not self.damaged


def check_streams(pdf: pikepdf.Pdf, limits: Limits, deadline: Deadline) -> StreamSummary:
    """Decode the content of all pages, then all other streams, until the deadline."""
    summary = StreamSummary()
    checked: set[tuple[int, int]] = set()
    for number, content in _page_contents(pdf, summary):
        if deadline.has_passed:
            summary.finished = False
            break
        if content.objgen not in checked:
            checked.add(content.objgen)
            _check_content(content, number, summary, limits)
    for item in pdf.objects:
        if deadline.has_passed:
            summary.finished = False
            break
        if isinstance(item, pikepdf.Stream) and item.objgen not in checked:
            _check_other(item, summary, limits)
    return summary


def _page_contents(pdf: pikepdf.Pdf, summary: StreamSummary) -> Iterator[tuple[int, pikepdf.Object]]:
    seen: set[tuple[int, int]] = set()
    try:
        for number, page in enumerate(pdf.pages, start=1):
            summary.pages = number
            content = page.obj.get("/Contents")
            if isinstance(content, pikepdf.Array) and content.is_indirect:
                if content.objgen in seen:  # pages may share a list of any length
                    continue
                seen.add(content.objgen)
            for part in [] if content is None else list(content) if isinstance(content, pikepdf.Array) else [content]:
                if isinstance(part, pikepdf.Stream):
                    yield number, part
                elif part is not None:
                    summary.unread += 1  # readers show the page without it
    except pikepdf.PikepdfError:
        return  # a page tree that only qpdf refuses: PDFium judges it


def _check_content(content: pikepdf.Object, number: int, summary: StreamSummary, limits: Limits) -> None:
    try:
        unpacked = _unpack(content, limits)
    except (pikepdf.PikepdfError, ValueError) as error:
        if _LENIENT.intersection(_filters(content)):
            summary.unread += 1
            return
        raise Corrupt(f"page {number}: its content stream does not decode") from error
    if unpacked is None:
        summary.unread += 1
        return
    summary.packed += bool(_filters(content))
    summary.check_failed += unpacked.check_failed
    if unpacked.check_failed:
        summary.damaged.append(f"the content of page {number}")
    elif unpacked.error:
        raise Corrupt(f"page {number}: its content stream does not decode ({unpacked.error})")
    _check_size(unpacked, content, summary, limits)


def _check_other(stream: pikepdf.Object, summary: StreamSummary, limits: Limits) -> None:
    try:
        is_picture = stream.get("/Subtype") == "/Image"
        if is_picture:
            summary.most_pixels = max(summary.most_pixels, int(stream.get("/Width", 0)) * int(stream.get("/Height", 0)))
        if not _filters(stream) or _filters(stream)[0] not in _FLATE:
            return
        raw = stream.read_raw_bytes()
        unpacked = inflate(raw, _PICTURE_MOST if is_picture else unpacked_limit(len(raw), limits))
    except (pikepdf.PikepdfError, ValueError, TypeError, AttributeError):
        return  # not a stream that a reader would open as such
    summary.packed += 1
    summary.check_failed += unpacked.check_failed
    if unpacked.error and "header" not in unpacked.error:
        summary.damaged.append(f"object {stream.objgen[0]}")
    if not is_picture:
        _check_size(unpacked, stream, summary, limits)


def _check_size(unpacked: Inflated, stream: pikepdf.Object, summary: StreamSummary, limits: Limits) -> None:
    summary.largest = max(summary.largest, unpacked.size)
    if is_bomb(unpacked.size, unpacked.packed, limits):
        raise Unsafe(
            Finding.ARCHIVE_BOMB, f"object {stream.objgen[0]} unpacks to more than {limits.max_ratio} times its size"
        )


def _unpack(content: pikepdf.Object, limits: Limits) -> Inflated | None:
    """Unpack page content. Return None if that could cost too much."""
    filters = _filters(content)
    if not filters:
        size = len(content.read_raw_bytes())
        return Inflated(size, size, ended=True)
    raw = content.read_raw_bytes()
    # Text encodings are undone here, so that the usual Flate stream below them is unpacked piece by piece.
    while len(filters) > 1 and filters[0] in {"/ASCII85Decode", "/A85", "/ASCIIHexDecode", "/AHx"}:
        raw = _from_text(raw, filters.pop(0))
    if len(filters) == 1 and filters[0] in _FLATE:
        return inflate(raw, unpacked_limit(len(raw), limits))
    size = len(raw)
    for name in filters:
        size *= _GROWTH.get(name, _DECODED_MOST)
    if size > _DECODED_MOST:
        return None
    return Inflated(len(content.read_bytes(pikepdf.StreamDecodeLevel.specialized)), len(raw), ended=True)


def unpacked_content(stream: pikepdf.Object, most: int) -> bytes | None:
    """Return what a stream unpacks to. None if it does not, to more than `most` bytes, or at too high
    a cost.
    """
    filters, raw = _filters(stream), stream.read_raw_bytes()
    try:
        while len(filters) > 1 and filters[0] in {"/ASCII85Decode", "/A85", "/ASCIIHexDecode", "/AHx"}:
            raw = _from_text(raw, filters.pop(0))
        if len(filters) == 1 and filters[0] in _FLATE:
            raw = zlib.decompressobj().decompress(raw, most + 1)
        elif filters:
            size = math.prod((_GROWTH.get(name, _DECODED_MOST) for name in filters), start=len(raw))
            if size > _DECODED_MOST:
                return None
            raw = stream.read_bytes(pikepdf.StreamDecodeLevel.specialized)
    except (pikepdf.PikepdfError, ValueError, zlib.error):
        return None
    return raw if len(raw) <= most else None


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


def _name(value: object) -> str:
    # The bytes of a name need not be characters; "/?" represents what is not a name.
    return value.unparse().decode("latin-1") if isinstance(value, pikepdf.Name) else "/?"


def has_content_beside_pages(pdf: pikepdf.Pdf) -> bool:
    """Return whether readers show something besides the pages: attachments, notes, values of form fields."""
    try:
        names = pdf.Root.get("/Names")
        if isinstance(names, pikepdf.Dictionary) and _has_entries(names.get("/EmbeddedFiles")):
            return True
        form, seen = pdf.Root.get("/AcroForm"), set[tuple[int, int]]()
        if isinstance(form, pikepdf.Dictionary) and any(
            _is_filled(each, seen) for each in _dictionaries(form.get("/Fields"))
        ):
            return True
        notes = (note for page in pdf.pages for note in _dictionaries(page.obj.get("/Annots")))
        return any(_is_note(note) for _, note in zip(range(_ANNOTATIONS_MOST), notes, strict=False))
    except (pikepdf.PikepdfError, ValueError, TypeError, AttributeError):
        return True  # unknown: in doubt the document is not blank


def _dictionaries(values: object) -> Iterator[pikepdf.Object]:
    if isinstance(values, pikepdf.Array):
        yield from (value for value in values if isinstance(value, pikepdf.Dictionary))


def _has_entries(tree: object) -> bool:
    if not isinstance(tree, pikepdf.Dictionary):
        return False
    lists = (tree.get(key) for key in ("/Names", "/Kids"))
    return any(isinstance(entries, pikepdf.Array) and len(entries) > 0 for entries in lists)


def _is_filled(form_field: pikepdf.Object, seen: set[tuple[int, int]]) -> bool:
    # Fields may hold one another, so each is examined once: `seen` has the numbers of those that were.
    if form_field.is_indirect:
        if form_field.objgen in seen:
            return False
        seen.add(form_field.objgen)
    value = form_field.get("/V")
    if isinstance(value, pikepdf.String):
        return bool(str(value).strip())
    if isinstance(value, pikepdf.Name):
        return str(value) != "/Off"
    return any(_is_filled(kid, seen) for kid in _dictionaries(form_field.get("/Kids")))


def _is_note(annotation: pikepdf.Object) -> bool:
    if str(annotation.get("/Subtype")) in _WITHOUT_CONTENT or int(annotation.get("/F", 0)) & _HIDDEN_FLAGS:
        return False
    return bool(str(annotation.get("/Contents", "")).strip()) or "/FS" in annotation
