"""The way through one file: every level of packing is opened in turn, and each level's bytes are looked at.

How levels open lives in `unzip`, `untar`, `unpack`, `mail`, `unpdf`, `unole`, `unrtf`, `encoded`, `un7z`; what is looked for, in `rulebook`. A
packing that is not known here (rar, cab) is looked at as the bytes that it is, and noted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Final, Protocol

from sluice.formats.archives.nested import Held
from sluice.threats import encoded, foreign, kinds, mail, rulebook, un7z, unole, unpdf, unrtf, untar, unzip
from sluice.threats.budget import Meter, NoRoom, OverBudget
from sluice.threats.bytesview import Slice, View, pieces
from sluice.threats.findings import Findings
from sluice.threats.part import Locked, Part, Unknown
from sluice.threats.unpack import Packing, Streams, is_lzma, lzma_alone, packing_of, unpacked

_HEAD_BYTES: Final = 64 * 1024
_IN_BYTES: Final = 64 * 1024
_WINDOW_BYTES: Final = 8 * 1024**2
"""So much is looked at at once: a rule that needs two signs finds them within one window."""
_SEAM_BYTES: Final = 1024  # longer than a zip record, an encoding header, and what a rule's strings span
_OPENERS: Final[Mapping[str, Callable[[View], Iterator[Part]]]] = MappingProxyType({
    "pdf": unpdf.parts,
    "compound": unole.parts,
    "rtf": unrtf.parts,
    **dict.fromkeys(encoded.KINDS, encoded.parts),
    "7z": un7z.sevenzip_parts,
    "rar": un7z.rar_parts,
    "mail": mail.parts,
    "ole1": unole.embedded,
})  # fmt: skip
_WHOLLY_OPENED: Final = frozenset({"pdf", "7z", "rar"})
"""Of the others, clamd may open more than is opened here: messages have further encodings, for one."""
_ANY_ORDER: Final = frozenset({"pdf", "compound", "rtf", "7z", "rar"})
"""What must be read in any order to be opened."""


class Lay(Protocol):
    """Where what clamd does not see is laid out for it."""

    @property
    def at(self) -> int:
        """Where the next byte will lie."""

    def lay(self, data: bytes | bytearray | memoryview) -> bool:
        """Lay bytes down; answers False when there is no room."""


def _never() -> bool:
    return False


class Walk:
    """One look through one file. With `lay`, what clamd does not see is laid out, or with `everything` every part there is."""

    def __init__(self, meter: Meter, lay: Lay | None = None, *, everything: bool = False) -> None:
        self._meter = meter
        self._lay = lay
        self._everything = everything
        self.findings = Findings()

    def look_at(self, view: View, name: str, depth: int = 0, *, kind: str = "", records_known: bool = False) -> bool:
        """Look at bytes that can be read in any order, and into whatever is packed in them.

        Answers whether they begin as something that is opened here in full, as far as anybody knows: then its parts stand for the whole of it.
        `records_known`: the zip records in these bytes were followed already, as part of the archive around them.
        Raises `ThreatFound`, or `OverBudget` when not all of it was looked at.
        """
        head = view.read_at(0, _HEAD_BYTES)
        forms, packing = [kind] if kind in _OPENERS else kinds.kinds_of(head), packing_of(head)
        foreign.note(head, self.findings)
        records = self._look_at_bytes(view, name, kind or next(iter(forms), ""))
        if records and not records_known:
            self._look_into_zip(view, records, depth, hidden=packing is not None)
        for form in forms:
            if form in _OPENERS:
                self._look_at_parts(_OPENERS[form](view), depth)
        in_order = self._look_into_stream(pieces(view, size=_IN_BYTES), head, name, depth, packing=packing, records_known=True)
        return in_order or head.startswith(unzip.RECORDS) or not _WHOLLY_OPENED.isdisjoint(forms[:1])

    def _look_at_bytes(self, view: View, name: str, kind: str) -> list[int]:
        """Apply the rules to the bytes as they stand; answers where zip records are."""
        records: list[int] = []
        offset, carry = 0, b""
        for piece in pieces(view, size=_WINDOW_BYTES):
            window = carry + piece
            begin = offset - len(carry)
            self._apply(window, name, kind, begin)
            records += [begin + at for at in unzip.record_places(window)]
            if len(records) > 3 * self._meter.budget.max_members:  # a local header and a directory entry each
                raise OverBudget(f"more than {self._meter.budget.max_members} members")
            offset += len(piece)
            carry = window[-_SEAM_BYTES:]
        return sorted(set(records))

    def _apply(self, window: bytes, name: str, kind: str, offset: int) -> None:
        extension = kinds.extension_of(name)
        rulebook.apply(window, self.findings, kind=kind, says=kinds.says(extension), extension=extension, offset=offset)

    def _look_into_zip(self, view: View, records: list[int], depth: int, *, hidden: bool) -> None:
        for member in unzip.members(view, records):
            self.findings.encrypted = self.findings.encrypted or member.encrypted
            if member.is_packed:
                self._look_at_member(unzip.content(view, member), member.name, depth, unseen=_same(hidden or member.is_unseen))
            elif member.is_stored:
                stored = Slice(view, member.start, member.end)
                self._meter.member()
                self._meter.unpacked(stored.size)
                opened = self.look_at(stored, member.name, self._meter.deeper(depth), records_known=True)
                self._finish(stored, unseen=hidden, opened=opened)
            elif not member.encrypted:
                most = member.most_by_clamd
                self.findings.largest = max(self.findings.largest, most or 0)
                (self.findings.unopened if most is None else self.findings.foreign).add(f"zip method {member.method}")

    def _look_at_parts(self, parts: Iterator[Part], depth: int) -> None:
        try:
            for part in parts:
                if part.is_picture and not self._everything:
                    continue
                self._look_at_member(part.content, part.name, depth, kind=part.kind, unseen=_same(part.unseen))
        except Locked:
            self.findings.encrypted = True
        except Unknown as packing:
            self.findings.unopened.add(str(packing))

    def _look_into_stream(
        self, content: Iterator[bytes], head: bytes, name: str, depth: int, *, packing: Packing | None, records_known: bool
    ) -> bool:
        """Look into compressed streams and tar archives, which are read in order; answers whether it was one."""
        if packing is not None:
            streams = Streams(packing, content, self._meter.member)
            self._look_at_member(streams.pieces(), _without_extension(name), depth, unseen=streams.are_unseen)
        elif is_lzma(head):
            self._look_at_member(unpacked(content, lzma_alone), _without_extension(name), depth, unseen=_same(True))
        elif untar.is_tar(head):
            for member_name, member in untar.members(content):
                self._look_at_member(member, member_name, depth, records_known=records_known)
        else:
            return False
        return True

    def _look_at_member(
        self,
        content: Iterator[bytes],
        name: str,
        depth: int,
        *,
        kind: str = "",
        unseen: Callable[[], bool] = _never,
        records_known: bool = False,
    ) -> None:
        """Look at bytes that come once and in order: held in memory where they fit, so that they can be read in any order."""
        self._meter.member()
        deeper = self._meter.deeper(depth)
        counted = self._counted(content)
        held = bytearray()
        claimed = 0
        for piece in counted:
            held += piece
            if len(held) <= _HEAD_BYTES:  # so little may always be held
                continue
            if not self._meter.may_hold(len(held) - claimed):
                self._meter.let_go(claimed)
                self._look_at_large(held, counted, name, deeper, records_known=records_known)
                if self._is_wanted(unseen=unseen()):
                    raise OverBudget(f"a part of more than {self._meter.budget.max_held_bytes} bytes that clamd does not see")
                return
            claimed = len(held)
        view = Held(held)
        opened = self.look_at(view, name, deeper, kind=kind, records_known=records_known)
        self._finish(view, unseen=unseen(), opened=opened)
        self._meter.let_go(claimed)

    def _look_at_large(self, held: bytearray, rest: Iterator[bytes], name: str, depth: int, *, records_known: bool) -> None:
        """Look at bytes that come in order and are too many to be held: what must be read in any order cannot be looked into."""
        head = bytes(held[:_HEAD_BYTES])
        forms = kinds.kinds_of(head)
        foreign.note(head, self.findings)
        if not _ANY_ORDER.isdisjoint(forms):
            raise OverBudget(f"a document of more than {self._meter.budget.max_held_bytes} bytes in an archive")
        content = self._watched(
            chain(pieces(Held(held)), rest),
            name,
            forms,
            zip_matters=not records_known and not untar.is_tar(head),
        )
        self._look_into_stream(content, head, name, depth, packing=packing_of(head), records_known=False)
        for _ in content:
            pass  # what a stream or archive left over passes the watch, too

    def _finish(self, view: View, *, unseen: bool, opened: bool) -> None:
        """Note a part that was looked at, and lay it out where clamd is to look at it as well."""
        self.findings.largest = max(self.findings.largest, view.size)
        if not view.size or not self._is_wanted(unseen=unseen) or self._lay is None:
            return
        start = self._lay.at
        if not all(self._lay.lay(piece) for piece in pieces(view)):
            raise NoRoom("more parts that clamd does not see than there is room for")
        self.findings.laid.append((start, view.size, opened))

    def _is_wanted(self, *, unseen: bool) -> bool:
        """Answer whether clamd is to be handed a part, and note where that cannot be: it may be the reason for another look."""
        self.findings.hides = self.findings.hides or (unseen and self._lay is None)
        return self._lay is not None and (unseen or self._everything)

    def _counted(self, content: Iterator[bytes]) -> Iterator[bytes]:
        size = 0
        for piece in content:
            self._meter.unpacked(len(piece))
            size += len(piece)
            yield piece
        self.findings.largest = max(self.findings.largest, size)

    def _watched(self, content: Iterator[bytes], name: str, forms: Sequence[str], *, zip_matters: bool) -> Iterator[bytes]:
        """Pass bytes on and look at them on their way; raises `OverBudget` for what should be looked into and cannot be."""
        offset, carry = 0, b""
        for piece in content:
            window = carry + piece
            self._apply(window, name, next(iter(forms), ""), offset - len(carry))
            if (zip_matters and unzip.has_record(window)) or _is_encoded(window, forms):
                raise OverBudget(f"an archive or message of more than {self._meter.budget.max_held_bytes} bytes in an archive")
            offset += len(piece)
            carry = window[-_SEAM_BYTES:]
            yield piece


def _is_encoded(window: bytes, forms: Sequence[str]) -> bool:
    return ("mail" in forms and mail.has_encoding(window)) or (not encoded.KINDS.isdisjoint(forms) and encoded.has_mark(window))


def _without_extension(name: str) -> str:
    return name.rpartition(".")[0]


def _same(answer: bool) -> Callable[[], bool]:  # noqa: FBT001  (what is to be answered)
    return lambda: answer
