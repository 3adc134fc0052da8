"""The walk through everything that is packed in a file: rules are applied to each level."""
# A packing that cannot be opened here (cab, iso) is scanned as the bytes that it is, and noted.

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Final, Protocol

from sluice_inspect.extensions import Promise, extension_of, promise_of
from sluice_inspect.parts import ContentRange, Part, PasswordRequired, UnknownPacking, windows
from sluice_inspect.program_names import is_program_name
from sluice_inspect.registry import OPENERS
from sluice_inspect.source import MemorySource, RandomAccess, read_pieces
from sluice_inspect.threats import detect, encoded, rulebook
from sluice_inspect.threats.ar import ar_members, is_ar
from sluice_inspect.threats.budget import BufferFull, Meter, OverBudget
from sluice_inspect.threats.drawing import drawing_parts
from sluice_inspect.threats.mail import is_encoded_mail, mail_parts
from sluice_inspect.threats.ole import active_mime_parts, compound_parts, object_parts
from sluice_inspect.threats.operator_rules import OperatorScan
from sluice_inspect.threats.streams import (
    CompressedStreams,
    Packing,
    is_lzma_alone,
    packing_of,
    unpack_lzma_alone,
    unpacked,
)
from sluice_inspect.threats.tar import is_tar, tar_members
from sluice_inspect.threats.texts import is_encoded_other_text, is_other_text, other_text_parts
from sluice_inspect.threats.zip import RECORD_MAGICS, entry_content, find_records, has_record, zip_entries

_HEAD_BYTES: Final = 64 * 1024
_PIECE_BYTES: Final = 64 * 1024
_WRITTEN_BYTES: Final = 1024**2
_WINDOW_BYTES: Final = 8 * 1024**2  # rules that need two strings find them within one window
# Windows overlap: longer than a zip record, an encoding header, and what a rule's strings span.
_OVERLAP_BYTES: Final = 1024

_OPENERS: Final[Mapping[str, Callable[[RandomAccess], Iterator[Part]]]] = MappingProxyType({
    **{name: opener.parts for name, opener in OPENERS.items()},
    "compound": compound_parts,
    **dict.fromkeys(encoded.TEXT_FORMATS, encoded.text_parts),
    "mail": mail_parts,
    "ole1": object_parts,
    "activemime": active_mime_parts,
})  # fmt: skip
# Of the others, clamd may open more than is opened here: messages have further encodings, for one.
_FULLY_OPENED: Final = frozenset(name for name, opener in OPENERS.items() if opener.is_complete)
_MAY_BE_DRAWINGS: Final = frozenset({"svg", "html", "xml"})  # the XML parser decides
_PROMISES: Final = MappingProxyType({  # as the rules know them
    None: "", Promise.ARCHIVE: "", Promise.TEXT: "text", Promise.BINARY: "document", Promise.DOCUMENT: "document",
})  # fmt: skip
# Formats that can be opened only with random access to their bytes.
_NEED_RANDOM_ACCESS: Final = frozenset({*OPENERS, "compound", "activemime", "svg"})


class PartWriter(Protocol):
    """Where parts are written that clamd does not find itself."""

    @property
    def at(self) -> int:
        """Offset of the next byte."""

    def write(self, data: bytes | bytearray | memoryview) -> bool:
        """Append bytes; return False if there is no room."""


class ThreatWalk:
    """The scan of one file. `writer` gets the parts that clamd does not see, or with `everything` all.

    `operator_scan` applies the operator's rules to the file and to every part.
    """

    def __init__(
        self,
        meter: Meter,
        writer: PartWriter | None = None,
        *,
        everything: bool = False,
        operator_scan: OperatorScan | None = None,
    ) -> None:
        self._meter = meter
        self._writer = writer
        self._everything = everything
        self._operator_scan = operator_scan
        self.findings = rulebook.ScanFindings()

    def scan(
        self, source: RandomAccess, name: str, depth: int = 0, *, format_name: str = "", records_known: bool = False
    ) -> bool:
        """Scan bytes of random access, and whatever is packed in them.

        Return whether they begin as something that is opened here in full, as far as is known: then its parts stand for
        all of it. `records_known`: the zip records in these bytes were followed before, as a part of the archive around
        them. Raise `ThreatFound`, or `OverBudget` if not all of it was scanned.
        """
        if self._operator_scan is not None:
            self._operator_scan.apply(source, name)
        head = source.read_at(0, _HEAD_BYTES)
        formats = [format_name] if format_name in _OPENERS else detect.formats_of(head)
        packing = packing_of(head)
        self._note_packings(head, source.read_at(max(0, source.size - detect.TRAILER_BYTES), detect.TRAILER_BYTES))
        records = self._scan_windows(source, name, format_name or next(iter(formats), ""))
        if records and not records_known:
            self._scan_zip_entries(source, records, depth, hidden_from_clamd=packing is not None)
        is_named_drawing = extension_of(name) == "svg"
        if is_named_drawing or not _MAY_BE_DRAWINGS.isdisjoint(formats):
            self._scan_parts(drawing_parts(source, named=is_named_drawing, begins="svg" in formats), depth)
        for each in formats:
            if each in _OPENERS:
                self._scan_parts(_OPENERS[each](source), depth)
        if is_other_text(head, formats, extension_of(name)):
            self._scan_parts(other_text_parts(source, extension_of(name), is_mail="mail" in formats), depth)
        pieces = read_pieces(source, piece_bytes=_PIECE_BYTES)
        is_stream = self._scan_stream(pieces, head, name, depth, packing=packing, records_known=True)
        return is_stream or head.startswith(RECORD_MAGICS) or not _FULLY_OPENED.isdisjoint(formats[:1])

    def _note_packings(self, head: bytes, tail: bytes = b"") -> None:
        self.findings.foreign.update(detect.packings_of_clamd(head, tail))
        self.findings.unopened.update(detect.packings_of_nobody(head))

    def _scan_windows(self, source: RandomAccess, name: str, format_name: str) -> list[int]:
        records: list[int] = []
        for begin, window in windows(source, _WINDOW_BYTES, _OVERLAP_BYTES):
            self._apply_rules(window, name, format_name, begin)
            records += [begin + at for at in find_records(window)]
            if len(records) > 3 * self._meter.budget.max_members:  # a local header and a directory entry each
                raise OverBudget(f"more than {self._meter.budget.max_members} members")
        return sorted(set(records))

    def _apply_rules(self, window: bytes, name: str, format_name: str, offset: int) -> None:
        extension = extension_of(name)
        rulebook.apply(
            window,
            self.findings,
            format_name=format_name,
            promised=_PROMISES[promise_of(extension)],
            extension=extension,
            is_program_name=bool(format_name) and is_program_name(name),  # no rule for other bytes asks for it
            offset=offset,
        )

    def _scan_zip_entries(
        self, source: RandomAccess, records: list[int], depth: int, *, hidden_from_clamd: bool
    ) -> None:
        for entry in zip_entries(source, records):
            self.findings.encrypted = self.findings.encrypted or entry.encrypted
            if entry.is_packed:
                hidden = hidden_from_clamd or entry.hidden_from_clamd
                self._scan_member(entry_content(source, entry), entry.name, depth, hidden_from_clamd=hidden)
            elif entry.is_stored:
                stored = ContentRange(source, entry.start, entry.end)
                self._meter.count_member()
                self._meter.count_bytes(stored.size)
                opened = self.scan(stored, entry.name, self._meter.deeper(depth), records_known=True)
                self._finish(stored, hidden_from_clamd=hidden_from_clamd, opened=opened)
            elif not entry.encrypted:
                method, size = f"zip method {entry.method}", entry.max_size_in_clamd
                if size is None:
                    self.findings.unopened.add(method)
                else:
                    self.findings.foreign.add(method)
                    self.findings.largest = max(self.findings.largest, size)

    def _scan_parts(self, parts: Iterator[Part], depth: int) -> None:
        try:
            for part in parts:
                if part.is_picture and not self._everything and self._operator_scan is None:
                    self._meter.count_member()
                    continue
                self._scan_member(
                    part.content,
                    part.name,
                    depth,
                    format_name=part.format_name,
                    hidden_from_clamd=part.hidden_from_clamd,
                )
        except PasswordRequired:
            self.findings.encrypted = True
        except UnknownPacking as packing:
            self.findings.unopened.add(str(packing))

    def _scan_stream(
        self,
        content: Iterator[bytes],
        head: bytes,
        name: str,
        depth: int,
        *,
        packing: Packing | None,
        records_known: bool,
    ) -> bool:
        """Open compressed streams, tar and ar archives, which are read in order. Return whether it was one."""
        without_extension = name.rpartition(".")[0]
        if packing is not None:
            streams = CompressedStreams(packing, content, self._meter.count_member)
            # Whether clamd sees all of it is known only when all streams were read.
            self._scan_member(
                streams.pieces(), without_extension, depth, hidden_from_clamd=streams.are_hidden_from_clamd
            )
        elif is_lzma_alone(head):
            self._scan_member(unpacked(content, unpack_lzma_alone), without_extension, depth, hidden_from_clamd=True)
        elif is_tar(head):
            for member_name, member in tar_members(content):
                self._scan_member(member, member_name, depth, records_known=records_known)
        elif is_ar(head):
            for member_name, member in ar_members(content):
                self._scan_member(member, member_name, depth, hidden_from_clamd=True, records_known=records_known)
        else:
            return False
        return True

    def _scan_member(
        self,
        content: Iterator[bytes],
        name: str,
        depth: int,
        *,
        format_name: str = "",
        hidden_from_clamd: bool | Callable[[], bool] = False,
        records_known: bool = False,
    ) -> None:
        """Scan bytes that come once and in order, held in memory if they fit, to be read in any order."""

        def is_hidden() -> bool:
            return hidden_from_clamd() if callable(hidden_from_clamd) else hidden_from_clamd

        self._meter.count_member()
        deeper = self._meter.deeper(depth)
        counted = self._counted(content)
        held = bytearray()
        reserved = 0
        for piece in counted:
            held += piece
            if len(held) <= _HEAD_BYTES:  # so little may always be held
                continue
            if not self._meter.reserve(len(held) - reserved):
                self._meter.release(reserved)
                if self._operator_scan is not None:
                    self._operator_scan.skip(len(held))
                self._scan_large(held, counted, name, deeper, records_known=records_known)
                if self._is_written(hidden_from_clamd=is_hidden()):
                    raise OverBudget(
                        f"a part of more than {self._meter.budget.max_held_bytes} bytes that clamd does not see"
                    )
                return
            reserved = len(held)
        source = MemorySource(held)
        opened = self.scan(source, name, deeper, format_name=format_name, records_known=records_known)
        self._finish(source, hidden_from_clamd=is_hidden(), opened=opened)
        self._meter.release(reserved)

    def _scan_large(
        self, held: bytearray, rest: Iterator[bytes], name: str, depth: int, *, records_known: bool
    ) -> None:
        """Scan bytes that are too many to be held. Formats that need random access cannot be opened."""
        head = bytes(held[:_HEAD_BYTES])
        formats = detect.formats_of(head)
        self._note_packings(head)
        if not _NEED_RANDOM_ACCESS.isdisjoint(formats):
            raise OverBudget(f"a document of more than {self._meter.budget.max_held_bytes} bytes in an archive")
        content = self._scan_passing(
            chain(read_pieces(MemorySource(held), piece_bytes=_WRITTEN_BYTES), rest),
            name,
            formats,
            refuse_zip=not records_known and not is_tar(head) and not is_ar(head),
        )
        self._scan_stream(content, head, name, depth, packing=packing_of(head), records_known=False)
        for _ in content:
            pass  # the rules are applied to what a stream or archive left over, too

    def _finish(self, source: RandomAccess, *, hidden_from_clamd: bool, opened: bool) -> None:
        """Note a part that was scanned, and write it to the buffer if clamd is to scan it as well."""
        self.findings.largest = max(self.findings.largest, source.size)
        if not source.size or not self._is_written(hidden_from_clamd=hidden_from_clamd) or self._writer is None:
            return
        start = self._writer.at
        if not all(self._writer.write(piece) for piece in read_pieces(source, piece_bytes=_WRITTEN_BYTES)):
            raise BufferFull("more parts that clamd does not see than there is room for")
        self.findings.written.append((start, source.size, opened))

    def _is_written(self, *, hidden_from_clamd: bool) -> bool:
        """Return whether clamd is to get a part. Note it if there is no buffer, for another scan."""
        if hidden_from_clamd and self._writer is None:
            self.findings.has_hidden_parts = True
        return self._writer is not None and (hidden_from_clamd or self._everything)

    def _counted(self, content: Iterator[bytes]) -> Iterator[bytes]:
        size = 0
        for piece in content:
            self._meter.count_bytes(len(piece))
            size += len(piece)
            yield piece
        self.findings.largest = max(self.findings.largest, size)

    def _scan_passing(
        self, content: Iterator[bytes], name: str, formats: Sequence[str], *, refuse_zip: bool
    ) -> Iterator[bytes]:
        """Apply the rules to bytes and pass them on. Raise `OverBudget` for what should be opened and cannot be."""
        is_mail, is_markup = "mail" in formats, not encoded.TEXT_FORMATS.isdisjoint(formats)
        is_text: bool | None = None
        offset, carry = 0, b""
        for piece in content:
            window = carry + piece
            if is_text is None:
                is_text = is_other_text(window[:_HEAD_BYTES], formats, extension_of(name))
            self._apply_rules(window, name, next(iter(formats), ""), offset - len(carry))
            if (
                (refuse_zip and has_record(window))
                or (is_mail and is_encoded_mail(window))
                or (is_markup and encoded.is_encoded_text(window))
                or (is_text and is_encoded_other_text(window))
            ):
                raise OverBudget(
                    f"an archive or message of more than {self._meter.budget.max_held_bytes} bytes in an archive"
                )
            offset += len(piece)
            carry = window[-_OVERLAP_BYTES:]
            yield piece
