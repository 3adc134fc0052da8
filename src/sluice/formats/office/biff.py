"""The records of Excel's binary workbooks ([MS-XLS], BIFF): how they follow each other. What cells show is known by `biff_cells.py`."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from sluice.formats.budget import Deadline
from sluice.formats.office.biff_strings import SharedStrings
from sluice.formats.office.compound import CompoundFile
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt

BOF: Final = 0x0809
EOF: Final = 0x000A
FILEPASS: Final = 0x002F
BOUNDSHEET: Final = 0x0085
SHARED_STRINGS: Final = 0x00FC
CONTINUE: Final = 0x003C
SHARED_TEXT: Final = 0x00FD
_CELLS: Final = {0x0201: 6, 0x0203: 14, 0x0205: 8, 0x027E: 10, SHARED_TEXT: 10}
"""Lengths of empty cells, numbers, truth values, short numbers, shared texts; from Excel 5 on."""
VERSION_5: Final = 0x0500
VERSION_8: Final = 0x0600

OLD_BEGINNINGS: Final = (b"\x09\x00\x04\x00", b"\x09\x00\x06\x00", b"\x09\x02\x06\x00", b"\x09\x04\x06\x00")
"""Sheets of Excel 2, 3 and 4, which are no compound files."""
BARE_BEGINNINGS: Final = (b"\x09\x08\x08\x00\x00\x05", b"\x09\x08\x10\x00\x00\x06", b"\x09\x08\x08\x00\x00\x06")
"""Workbooks that a writer has left without their container."""
_BEGINNINGS: Final = frozenset({BOF, 0x0409, 0x0209, 0x0009})
_HEADER: Final = struct.Struct("<HH")
_BODY_MOST: Final = 8228
_KNOWN: Final = ((0x0000, 0x0600), (0x0800, 0x0900), (0x1000, 0x1100))
"""Numbers of records lie in these ranges: of cells and sheets, of later additions, of charts."""
_IS_KNOWN: Final = bytes(any(first <= page << 8 < end for first, end in _KNOWN) for page in range(256))
_LOOK_AT_CLOCK: Final = 4096


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its place in the stream, its number, its body."""

    at: int
    kind: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Workbook:
    """A stream of records. `version` is 0x0500 (Excel 5 and 95), 0x0600 (97 and later), or 0 (a sheet of Excel 2 to 4)."""

    stream: BinaryIO
    size: int
    version: int

    def records(self, at: int = 0) -> Iterator[Record]:
        """Yield the records from a place on. Raises `Corrupt` where there is none."""
        self.stream.seek(at)
        read = self.stream.read
        while len(header := read(_HEADER.size)) == _HEADER.size:
            kind, length = _HEADER.unpack(header)
            body = read(length)
            if length > _BODY_MOST or not _IS_KNOWN[kind >> 8]:
                raise Corrupt(f"the workbook is damaged at byte {at} of its stream: there is no such record")
            if len(body) < length:
                raise Corrupt("the workbook is cut or damaged: its last record is not whole")
            yield Record(at, kind, body)
            at += _HEADER.size + length

    def part(self, at: int) -> Iterator[Record]:
        """Yield the records of the sheet that begins at a place, without those of charts in it."""
        depth = 0
        for record in self.records(at):
            if record.kind in _BEGINNINGS:
                depth += 1
            elif record.kind == EOF:
                depth -= 1
                if not depth:
                    return
            elif depth == 1:
                yield record


@dataclass(slots=True)
class Walked:
    """What the walk over all records has seen."""

    records: int = 0
    finished: bool = True
    locked: bytes | None = None
    """The record that says how the workbook is encrypted."""
    shared_texts: int = 0
    _beginnings: set[int] = field(default_factory=set)
    _sheets: list[int] = field(default_factory=list)
    _table: list[bytes] = field(default_factory=list)
    _table_open: bool = False

    def see(self, record: Record) -> None:
        """Note what one record says of the others. Raises `Corrupt` for a cell that no sheet has."""
        kind, body = record.kind, record.body
        if self._table_open and kind != CONTINUE:
            self._close_table()
        if kind in _BEGINNINGS:
            self._beginnings.add(record.at)
        elif kind == FILEPASS:
            self.locked = body
        elif self.locked is not None:
            return
        elif kind in _CELLS:
            self._check_cell(record)
        elif kind == BOUNDSHEET:
            self._sheets.append(int.from_bytes(body[:4], "little"))
        elif kind == SHARED_STRINGS or (kind == CONTINUE and self._table_open):
            self._table.append(body)
            self._table_open = True

    def check_sheets(self) -> None:
        """Raise `Corrupt` when a sheet is not where the workbook says."""
        if not self._beginnings.issuperset(self._sheets):
            raise Corrupt("the workbook is damaged: one of its sheets is not where its list of sheets says")

    @property
    def sheets(self) -> int:
        """How many sheets the workbook lists."""
        return len(self._sheets)

    def _close_table(self) -> None:
        table = SharedStrings(self._table)
        table.walk()
        self.shared_texts, self._table, self._table_open = table.count, [], False

    def _check_cell(self, record: Record) -> None:
        body, length = record.body, _CELLS[record.kind]
        if len(body) < length or body[length:].strip(b"\0") or body[3]:  # some writers put zeros behind a number
            raise Corrupt(f"the workbook is damaged at byte {record.at} of its stream: there is no such cell")
        if record.kind == SHARED_TEXT and int.from_bytes(body[6:10], "little") >= self.shared_texts:
            raise Corrupt(f"the workbook is damaged at byte {record.at} of its stream: the cell's text does not exist")


def open_workbook(source: Source, container: CompoundFile | None) -> Workbook:
    """Answer the records of a workbook in its container, or without one. Raises `Corrupt` when it has no beginning."""
    if container is None:
        stream, size = source.open(), source.size
    else:
        entry = container.root.stream("workbook", "book")
        if entry is None:
            raise Corrupt("the workbook has no content")
        stream, size = container.open(entry), entry.size
    beginning = stream.read(6)
    if len(beginning) < 6 or _HEADER.unpack_from(beginning)[0] not in _BEGINNINGS:  # noqa: PLR2004  (a header and a version)
        raise Corrupt("the workbook does not begin with the record that begins workbooks")
    is_old = _HEADER.unpack_from(beginning)[0] != BOF
    return Workbook(stream, size, 0 if is_old else int.from_bytes(beginning[4:6], "little"))


def walk(workbook: Workbook, soft_seconds: float) -> Walked:
    """Read all records, to the end or until the time is over. Raises `Corrupt` where they do not fit together."""
    deadline, walked, depth, zeros = Deadline(soft_seconds), Walked(), 0, 0
    for record in workbook.records():
        if record.kind in _BEGINNINGS:
            depth += 1
        elif record.kind == EOF:
            depth -= 1
        zeros = zeros + 1 if not record.kind and not record.body else 0
        if depth < 0 or (not depth and record.kind not in {0, EOF}):
            raise Corrupt(f"the workbook is damaged at byte {record.at} of its stream: there is something between two sheets")
        if zeros and not depth:
            break
        if zeros > 1:
            raise Corrupt(f"the workbook is damaged at byte {record.at} of its stream: there are zeros instead of records")
        walked.see(record)
        walked.records += 1
        if walked.records % _LOOK_AT_CLOCK == 0 and deadline.has_passed:
            walked.finished = False
            return walked
    if depth:
        raise Corrupt("the workbook is cut: the end of its last sheet is missing")
    walked.check_sheets()
    return walked
