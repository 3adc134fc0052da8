"""Records of Excel's binary workbooks ([MS-XLS], BIFF): their sequence, strings, and the table of shared strings."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from sluice_inspect.budget import Deadline
from sluice_inspect.office.compound import CompoundFile
from sluice_inspect.report import Corrupt
from sluice_inspect.source import Source

BOF, EOF, FILEPASS, BOUNDSHEET = 0x0809, 0x000A, 0x002F, 0x0085
SHARED_STRINGS, CONTINUE, SHARED_TEXT, VERSION_5 = 0x00FC, 0x003C, 0x00FD, 0x0500
VERSION_8: Final = 0x0600
# Sheets of Excel 2, 3 and 4, which are not compound files.
OLD_BEGINNINGS: Final = (b"\x09\x00\x04\x00", b"\x09\x00\x06\x00", b"\x09\x02\x06\x00", b"\x09\x04\x06\x00")
# Workbooks that a writer left without their container.
BARE_BEGINNINGS: Final = (b"\x09\x08\x08\x00\x00\x05", b"\x09\x08\x10\x00\x00\x06", b"\x09\x08\x08\x00\x00\x06")

# Lengths of empty cells, numbers, truth values, short numbers, shared texts; from Excel 5 on.
_CELLS: Final = {0x0201: 6, 0x0203: 14, 0x0205: 8, 0x027E: 10, SHARED_TEXT: 10}
_BEGINNINGS: Final = frozenset({BOF, 0x0409, 0x0209, 0x0009})
_HEADER: Final = struct.Struct("<HH")
_MAX_BODY_BYTES: Final = 8228
# Record types are in these ranges: cells and sheets, later additions, charts.
_KNOWN_RANGES: Final = ((0x0000, 0x0600), (0x0800, 0x0900), (0x1000, 0x1100))
_IS_KNOWN: Final = bytes(any(first <= page << 8 < end for first, end in _KNOWN_RANGES) for page in range(256))
_CLOCK_INTERVAL: Final = 4096

_TABLE_HEADER: Final = struct.Struct("<4xL")
_WIDE, _PHONETIC, _RICH, _RUN_BYTES = 1, 4, 8, 4
_KEPT: Final = 1000  # characters of a string that are kept


@dataclass(frozen=True, slots=True)
class BiffRecord:
    """One record; `at` is its offset in the stream."""

    at: int
    type: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Workbook:
    """A stream of records. `version` is 0x0500 (Excel 5, 95), 0x0600 (97 and later), or 0 (a sheet of Excel 2 to 4)."""

    stream: BinaryIO
    size: int
    version: int

    def records(self, at: int = 0) -> Iterator[BiffRecord]:
        """Yield the records from an offset on. Raises `Corrupt` where there is none."""
        self.stream.seek(at)
        read = self.stream.read
        while len(header := read(_HEADER.size)) == _HEADER.size:
            record_type, length = _HEADER.unpack(header)
            body = read(length)
            if length > _MAX_BODY_BYTES or not _IS_KNOWN[record_type >> 8]:
                raise Corrupt(f"the workbook is damaged at byte {at} of its stream: there is no such record")
            if len(body) < length:
                raise Corrupt("the workbook is cut or damaged: its last record is not whole")
            yield BiffRecord(at, record_type, body)
            at += _HEADER.size + length

    def sheet(self, at: int) -> Iterator[BiffRecord]:
        """Yield the records of the sheet that begins at an offset, without those of charts in it."""
        depth = 0
        for record in self.records(at):
            if record.type in _BEGINNINGS:
                depth += 1
            elif record.type == EOF:
                depth -= 1
                if not depth:
                    return
            elif depth == 1:
                yield record


def open_workbook(source: Source, container: CompoundFile | None) -> Workbook:
    """Return the workbook in its container, or without one. Raises `Corrupt` when it does not begin as workbooks do."""
    if container is None:
        stream, size = source.open(), source.size
    else:
        entry = container.root.stream("workbook", "book")
        if entry is None:
            raise Corrupt("the workbook has no content")
        stream, size = container.open(entry), entry.size
    beginning = stream.read(6)
    if len(beginning) < 6 or _HEADER.unpack_from(beginning)[0] not in _BEGINNINGS:
        raise Corrupt("the workbook does not begin with the record that begins workbooks")
    is_old = _HEADER.unpack_from(beginning)[0] != BOF
    return Workbook(stream, size, 0 if is_old else int.from_bytes(beginning[4:6], "little"))


@dataclass(slots=True)
class RecordCheck:
    """State of the check of all records: counts, and what the records state about each other."""

    # `encryption` is the record that describes how the workbook is encrypted; records behind it are not readable.
    records: int = 0
    finished: bool = True
    encryption: bytes | None = None
    shared_texts: int = 0
    _beginnings: set[int] = field(default_factory=set)
    _sheets: list[int] = field(default_factory=list)
    _table: list[bytes] = field(default_factory=list)
    _table_open: bool = False

    @property
    def sheets(self) -> int:
        """How many sheets the workbook lists."""
        return len(self._sheets)

    def add(self, record: BiffRecord) -> None:
        """Take one record into account. Raises `Corrupt` for an impossible cell."""
        record_type, body = record.type, record.body
        if self._table_open and record_type != CONTINUE:
            table = SharedStrings(self._table)
            table.read()
            self.shared_texts, self._table, self._table_open = table.count, [], False
        if record_type in _BEGINNINGS:
            self._beginnings.add(record.at)
        elif record_type == FILEPASS:
            self.encryption = body
        elif self.encryption is not None:
            return
        elif record_type in _CELLS:
            self._check_cell(record)
        elif record_type == BOUNDSHEET:
            self._sheets.append(int.from_bytes(body[:4], "little"))
        elif record_type == SHARED_STRINGS or (record_type == CONTINUE and self._table_open):
            self._table.append(body)
            self._table_open = True

    def check_sheets(self) -> None:
        """Raise `Corrupt` when a sheet is not where the workbook states."""
        if not self._beginnings.issuperset(self._sheets):
            raise Corrupt("the workbook is damaged: one of its sheets is not where its list of sheets says")

    def _check_cell(self, record: BiffRecord) -> None:
        body, length = record.body, _CELLS[record.type]
        # Some writers put zeros behind a number.
        if len(body) < length or body[length:].strip(b"\0") or body[3]:
            raise Corrupt(f"the workbook is damaged at byte {record.at} of its stream: there is no such cell")
        if record.type == SHARED_TEXT and int.from_bytes(body[6:10], "little") >= self.shared_texts:
            raise Corrupt(f"the workbook is damaged at byte {record.at} of its stream: the cell's text does not exist")


def check_records(workbook: Workbook, soft_seconds: float) -> RecordCheck:
    """Read all records, to the end or until time runs out. Raises `Corrupt` where they do not fit together."""
    deadline, check, depth, zeros = Deadline(soft_seconds), RecordCheck(), 0, 0
    for record in workbook.records():
        if record.type in _BEGINNINGS:
            depth += 1
        elif record.type == EOF:
            depth -= 1
        zeros = zeros + 1 if not record.type and not record.body else 0
        if depth < 0 or (not depth and record.type not in {0, EOF}):
            raise Corrupt(
                f"the workbook is damaged at byte {record.at} of its stream: there is something between two sheets"
            )
        if zeros and not depth:
            break  # the rest of the stream is padding
        if zeros > 1:
            raise Corrupt(
                f"the workbook is damaged at byte {record.at} of its stream: there are zeros instead of records"
            )
        check.add(record)
        check.records += 1
        if check.records % _CLOCK_INTERVAL == 0 and deadline.has_passed:
            check.finished = False
            return check
    if depth:
        raise Corrupt("the workbook is cut: the end of its last sheet is missing")
    check.check_sheets()
    return check


def read_string(body: bytes, at: int, *, has_flags: bool) -> str:
    """Return the string (2.5.294) at a position of a record. It has no flags before Excel 97."""
    length = int.from_bytes(body[at : at + 2], "little")
    if not has_flags:
        return body[at + 2 : at + 2 + length].decode("cp1252", "replace")
    if len(body) < at + 3:
        return ""
    flags, at = body[at + 2], at + 3
    at += (2 if flags & _RICH else 0) + (4 if flags & _PHONETIC else 0)
    return _decode(body[at : at + length * (1 + (flags & _WIDE))], flags)


class SharedStrings:
    """Reader of the table of shared strings (2.4.265), in one record and those that continue it."""

    def __init__(self, bodies: Sequence[bytes]) -> None:
        self._bodies = bodies
        self._body = bodies[0]
        self._index = 0
        self._at = _TABLE_HEADER.size
        self.count: int = _TABLE_HEADER.unpack_from(self._body)[0] if len(self._body) >= _TABLE_HEADER.size else 0

    def read(self, wanted: frozenset[int] = frozenset()) -> dict[int, str]:
        """Read all strings. Return the beginnings of the wanted ones by number."""
        texts: dict[int, str] = {}
        for index in range(self.count):
            if self._at >= len(self._body) and self._index + 1 >= len(self._bodies):
                self.count = index  # writers miscount
                break
            text = self._read_string(keeps=index in wanted)
            if index in wanted:
                texts[index] = text
        return texts

    def _read_string(self, *, keeps: bool) -> str:
        length, flags = struct.unpack("<HB", self._take(3))
        runs = int.from_bytes(self._take(2), "little") if flags & _RICH else 0
        phonetic = int.from_bytes(self._take(4), "little") if flags & _PHONETIC else 0
        text = self._read_letters(length, flags, keeps=keeps)
        left = _RUN_BYTES * runs + phonetic
        while left > (held := len(self._body) - self._at):
            left -= held
            self._next_record()
        self._at += left
        return text

    def _read_letters(self, length: int, flags: int, *, keeps: bool) -> str:
        text = ""
        while length:
            if self._at >= len(self._body):
                # Letters that continue in the next record have flags of their own: their width may differ.
                self._next_record()
                flags = self._take(1)[0]
            width = 1 + (flags & _WIDE)
            held = min(length, (len(self._body) - self._at) // width)
            if not held:
                raise Corrupt("the workbook is damaged: a shared text is torn within a letter")
            if keeps and len(text) < _KEPT:
                text += _decode(self._body[self._at : self._at + held * width], flags)
            self._at += held * width
            length -= held
        return text

    def _take(self, size: int) -> bytes:
        taken = self._body[self._at : self._at + size]
        self._at += len(taken)
        while len(taken) < size:
            self._next_record()
            more = self._body[: size - len(taken)]
            self._at = len(more)
            taken += more
        return taken

    def _next_record(self) -> None:
        self._index += 1
        if self._index >= len(self._bodies):
            raise Corrupt("the workbook is damaged: its last shared text is shorter than stated")
        self._body, self._at = self._bodies[self._index], 0


def _decode(letters: bytes, flags: int) -> str:
    return letters.decode("utf-16-le" if flags & _WIDE else "latin-1", "replace")
