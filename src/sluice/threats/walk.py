"""The way through one file: every level of packing is opened in turn, and each level's bytes are looked at.

How levels open lives in `unzip`, `untar`, `unpack` and `mail`; what is looked for, in `eicar` and `programs`. Packings that are not known
here (7z, rar, streams inside PDF) are looked at as the bytes that they are.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from sluice.threats import mail, untar, unzip
from sluice.threats.budget import Meter, OverBudget
from sluice.threats.bytesview import Held, Slice, View, pieces
from sluice.threats.eicar import EICAR_NAME, EicarFinder
from sluice.threats.programs import disguised_program
from sluice.threats.unpack import unpacked, unpacker_for

_HEAD_BYTES: Final = 64 * 1024
_IN_BYTES: Final = 64 * 1024
_SEAM_BYTES: Final = 256  # longer than a zip record or an encoding header


class ThreatFound(Exception):
    """A known threat. `name` is what it is called."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Walk:
    """One look through one file. `encrypted` tells afterwards whether a zip member behind a password was met."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.encrypted = False

    def look_at(self, view: View, name: str, depth: int = 0, *, records_known: bool = False) -> None:
        """Look at bytes that can be read in any order, and into whatever is packed in them.

        `records_known`: the zip records in these bytes were followed already, as part of the archive around them.
        Raises `ThreatFound`, or `OverBudget` when not all of it was looked at.
        """
        head = view.read_at(0, _HEAD_BYTES)
        _refuse_disguise(name, head)
        records = self._look_at_bytes(view)
        if records and not records_known:
            self._look_into_zip(view, records, depth)
        if mail.is_mail(head):
            for part in mail.parts(view):
                self._look_at_member(mail.decoded(view, part), part.name, depth)
        self._look_into_stream(pieces(view, size=_IN_BYTES), head, name, depth, records_known=True)

    def _look_at_bytes(self, view: View) -> list[int]:
        """Look for threats in the bytes as they stand; answers where zip records are."""
        finder = EicarFinder()
        records: list[int] = []
        offset, carry = 0, b""
        for piece in pieces(view):
            _refuse_eicar(finder, piece)
            window = carry + piece
            records += [offset - len(carry) + found.start() for found in unzip.RECORD.finditer(window)]
            if len(records) > 2 * self._meter.budget.max_members:  # a local header and a directory entry each
                raise OverBudget(f"more than {self._meter.budget.max_members} members")
            offset += len(piece)
            carry = window[-(unzip.RECORD_BYTES - 1) :]
        return records

    def _look_into_zip(self, view: View, records: list[int], depth: int) -> None:
        for member in unzip.members(view, records):
            self.encrypted = self.encrypted or member.encrypted
            if member.is_packed:
                self._look_at_member(unzip.content(view, member), member.name, depth)
            elif member.is_stored:
                stored = Slice(view, member.start, member.end)
                self._meter.member()
                self._meter.unpacked(stored.size)
                self.look_at(stored, member.name, self._meter.deeper(depth), records_known=True)

    def _look_into_stream(self, content: Iterator[bytes], head: bytes, name: str, depth: int, *, records_known: bool) -> None:
        """Look into compressed streams and tar archives, which are read in order."""
        if new := unpacker_for(head):
            inner = name.rpartition(".")[0]
            self._look_at_member(unpacked(content, new, on_next=self._meter.member), inner, depth)
        elif untar.is_tar(head):
            for member_name, member in untar.members(content):
                self._look_at_member(member, member_name, depth, records_known=records_known)

    def _look_at_member(self, content: Iterator[bytes], name: str, depth: int, *, records_known: bool = False) -> None:
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
                return
            claimed = len(held)
        self.look_at(Held(held), name, deeper, records_known=records_known)
        self._meter.let_go(claimed)

    def _look_at_large(self, held: bytearray, rest: Iterator[bytes], name: str, depth: int, *, records_known: bool) -> None:
        """Look at bytes that come in order and are too many to be held: what must be read in any order cannot be looked into."""
        head = bytes(held[:_HEAD_BYTES])
        _refuse_disguise(name, head)
        content = self._watched(
            chain(pieces(Held(held)), rest),
            zip_matters=not records_known and not untar.is_tar(head),
            mail_matters=mail.is_mail(head),
        )
        self._look_into_stream(content, head, name, depth, records_known=False)
        for _ in content:
            pass  # what a stream or archive left over passes the watch, too

    def _counted(self, content: Iterator[bytes]) -> Iterator[bytes]:
        for piece in content:
            self._meter.unpacked(len(piece))
            yield piece

    def _watched(self, content: Iterator[bytes], *, zip_matters: bool, mail_matters: bool) -> Iterator[bytes]:
        """Pass bytes on and look at them on their way; raises `OverBudget` for what should be looked into and cannot be."""
        finder = EicarFinder()
        carry = b""
        for piece in content:
            _refuse_eicar(finder, piece)
            window = carry + piece
            if (zip_matters and unzip.has_record(window)) or (mail_matters and mail.has_encoding(window)):
                raise OverBudget(f"an archive or message of more than {self._meter.budget.max_held_bytes} bytes in an archive")
            carry = window[-_SEAM_BYTES:]
            yield piece


def _refuse_disguise(name: str, head: bytes) -> None:
    if kind := disguised_program(name, head):
        raise ThreatFound(f"Disguised-Program.{kind}")


def _refuse_eicar(finder: EicarFinder, piece: bytes) -> None:
    if finder.finds(piece):
        raise ThreatFound(EICAR_NAME)
