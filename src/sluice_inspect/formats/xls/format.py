"""Excel workbooks before Excel 2007 (.xls and its templates), in compound files."""
# As with XLSX, a workbook is blank without a visible value, or when every sheet with values has column headings alone.
# Pictures that show something, charts, shapes and comments are content. Hidden sheets are not read.

import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.format import Examination, Format
from sluice_inspect.formats.xls.cells import SheetCells, SheetEntry, WorkbookGlobals, visible_rows
from sluice_inspect.formats.xls.records import (
    BARE_BEGINNINGS,
    OLD_BEGINNINGS,
    VERSION_5,
    VERSION_8,
    Workbook,
    check_records,
    open_workbook,
)
from sluice_inspect.office.compound import CompoundFile, check_container, is_compound_document, make_compound
from sluice_inspect.office.officeart import MAX_PICTURE_BYTES, PictureCheck, has_picture_ink, pictures
from sluice_inspect.report import Encrypted, Limits, Measure, Unsupported
from sluice_inspect.source import Source
from sluice_inspect.text.header_row import is_heading

_BARE: Final = (*OLD_BEGINNINGS, *BARE_BEGINNINGS)
_CLOCK_INTERVAL: Final = 4096

# Excel encrypts workbooks that are only protected against changes with this password, and opens them without asking
# for it ([MS-OFFCRYPTO] 2.3).
_DEFAULT_PASSWORD: Final = "VelvetSweatshop"  # noqa: S105  (published by the maker of the format)
_OBFUSCATED: Final = b"\0\0"
_STANDARD: Final = b"\1\0\1\0\1\0"
_CRYPTO_API: Final = frozenset({b"\2\0", b"\3\0", b"\4\0"})
_RC4_BITS: Final = 40


def _examine(source: Source, limits: Limits) -> Examination:
    container: CompoundFile | None = None
    measures: Mapping[str, Measure] = {}
    if not source.head.startswith(_BARE):
        container, measures = check_container(source)
    workbook = open_workbook(source, container)
    if workbook.version not in {0, VERSION_5, VERSION_8}:
        raise Unsupported(f"the workbook is of version {workbook.version:#06x}, which is not known here")
    walk = check_records(workbook, limits.soft_seconds)
    if walk.encryption is not None and not opens_with_default_password(walk.encryption):
        raise Encrypted("the workbook is protected by a password")
    book: WorkbookGlobals | None = None
    checked = PictureCheck()
    if walk.encryption is None and workbook.version:
        book = WorkbookGlobals.read(workbook)
        data = _drawings(book)
        for picture in pictures(data):
            checked.add(data, picture)
    measures = {
        **measures,
        **checked.measures(),
        "records": walk.records,
        "sheets": walk.sheets,
        **({} if walk.finished else {"partially_checked": True}),
        **({} if walk.encryption is None else {"open_password": True}),
    }
    return Examination(measures, lambda: _blank(workbook, book, limits))


def _blank(workbook: Workbook, book: WorkbookGlobals | None, limits: Limits) -> str | None:
    if not workbook.version:
        book = WorkbookGlobals(sheets=[SheetEntry(0, is_hidden=False, has_cells=True)])
    elif book is None:
        book = WorkbookGlobals.read(workbook)
    shown = [sheet for sheet in book.sheets if not sheet.is_hidden]
    if book.is_encrypted or any(not sheet.has_cells for sheet in shown):
        return None
    headings, has_pictures, deadline = 0, False, Deadline(limits.soft_seconds)
    for entry in shown:
        sheet = SheetCells(workbook.version, book.invisible)
        for count, record in enumerate(workbook.sheet(entry.at)):
            sheet.add(record)
            if sheet.has_content or (count % _CLOCK_INTERVAL == 0 and deadline.has_passed):
                return None
        rows = visible_rows(list(sheet.rows.values()), book.strings)
        if len(rows) > 1 or (rows and not is_heading(rows[0])):
            return None
        headings += len(rows)
        has_pictures |= sheet.has_pictures
    if has_pictures:
        data = _drawings(book)
        found = list(pictures(data))
        # Sheets place a picture, but none was found: it may show anything.
        if not found or any(has_picture_ink(data, picture, limits) for picture in found):
            return None
    if headings:
        return "the workbook has column headings and no row below them"
    return "no sheet of the workbook shows a value or an object"


def _drawings(book: WorkbookGlobals) -> bytes:
    return b"" if sum(map(len, book.drawings)) > MAX_PICTURE_BYTES else b"".join(book.drawings)


def opens_with_default_password(encryption: bytes) -> bool:
    """Whether readers open a workbook with this encryption record without asking. False when in doubt."""
    try:
        if encryption.startswith(_OBFUSCATED):
            return int.from_bytes(encryption[4:6], "little") == _obfuscation_verifier()
        if encryption.startswith(_STANDARD):
            salt = encryption[6:22]
            verifier = encryption[22:38]
            digest = encryption[38:54]
            # [MS-OFFCRYPTO] 2.3.6.2 and 2.3.6.4
            half = _md5(_DEFAULT_PASSWORD.encode("utf-16-le"))[:5]
            key = _md5(_md5((half + salt) * 16)[:5] + bytes(4))
            stream = _rc4(key)
            return _md5(_decrypt(verifier, stream)) == _decrypt(digest, stream)
        return encryption[2:4] in _CRYPTO_API and _verify_crypto_api(encryption[6:])
    except (struct.error, IndexError):
        return False


def _obfuscation_verifier() -> int:
    # [MS-OFFCRYPTO] 2.3.7.1, method 1
    verifier = 0
    letters = _DEFAULT_PASSWORD.encode("ascii")
    for byte in reversed(bytes([len(letters)]) + letters):
        verifier = (verifier >> 14 & 1 | verifier << 1 & 0x7FFF) ^ byte
    return verifier ^ 0xCE4B


def _verify_crypto_api(header: bytes) -> bool:
    # [MS-OFFCRYPTO] 2.3.5.2 and 2.3.5.6
    size: int = struct.unpack_from("<4xL", header)[0]
    bits: int = struct.unpack_from("<L", header, 8 + 16)[0] or _RC4_BITS
    salt_bytes, salt, verifier, digest_bytes = struct.unpack_from("<L16s16sL", header, 8 + size)
    digest = header[8 + size + 40 : 8 + size + 40 + digest_bytes]
    key = _sha1(_sha1(salt[:salt_bytes] + _DEFAULT_PASSWORD.encode("utf-16-le")) + bytes(4))[: bits // 8]
    stream = _rc4(key.ljust(16, b"\0") if bits == _RC4_BITS else key)
    return _sha1(_decrypt(verifier, stream)) == _decrypt(digest, stream)[:20]


def _rc4(key: bytes) -> Iterator[int]:
    state, mixed = list(range(256)), 0
    for index in range(256):
        mixed = (mixed + state[index] + key[index % len(key)]) & 0xFF
        state[index], state[mixed] = state[mixed], state[index]
    first = second = 0
    while True:
        first = (first + 1) & 0xFF
        second = (second + state[first]) & 0xFF
        state[first], state[second] = state[second], state[first]
        yield state[(state[first] + state[second]) & 0xFF]


def _decrypt(data: bytes, stream: Iterator[int]) -> bytes:
    return bytes(byte ^ next(stream) for byte in data)


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()


def make_workbook(
    sheets: Sequence[bytes], *, before: bytes = b"", hidden: Sequence[int] = (), version: int = 0x0600
) -> bytes:
    """Return a workbook of these sheets. `before` are its own records, `hidden` numbers of sheets."""
    stream = make_stream(sheets, before=before, hidden=hidden, version=version)
    return make_compound({"Workbook" if version == 0x0600 else "Book": stream})


def make_stream(
    sheets: Sequence[bytes], *, before: bytes = b"", hidden: Sequence[int] = (), version: int = 0x0600
) -> bytes:
    """Return the same without its container."""
    bodies = [make_beginning(version, 0x10) + cells + make_record(0x0A) for cells in sheets]
    ending = make_record(0x0A)
    at = len(make_beginning(version, 5)) + len(before) + len(sheets) * len(make_record(0x85, bytes(8))) + len(ending)
    listed = b""
    for number, body in enumerate(bodies):
        listed += make_record(0x85, struct.pack("<LBBBB", at, number in hidden, 0, 0, 0))
        at += len(body)
    return make_beginning(version, 5) + before + listed + ending + b"".join(bodies)


def make_beginning(version: int, substream: int) -> bytes:
    """Return the record that begins a workbook (5), a sheet (16), a chart (32)."""
    return make_record(0x0809, struct.pack("<4H", version, substream, 0, 0) + (bytes(8) if version == 0x0600 else b""))


def make_record(record_type: int, body: bytes = b"") -> bytes:
    """Return one record."""
    return struct.pack("<HH", record_type, len(body)) + body


def make_number(row: int, column: int, value: float, style: int = 0) -> bytes:
    """Return a cell of a number."""
    return make_record(0x0203, struct.pack("<HHHd", row, column, style, value))


def make_label(row: int, column: int, text: str, style: int = 0) -> bytes:
    """Return a cell of a text."""
    return make_record(0x0204, struct.pack("<HHHHB", row, column, style, len(text), 1) + text.encode("utf-16-le"))


FORMAT: Final = Format(
    name="xls",
    content_type="application/vnd.ms-excel",
    extensions=frozenset({"xls", "xlt", "xla"}),
    matches=lambda source: source.head.startswith(_BARE) or is_compound_document(source, "xls"),
    examine=_examine,
    sample=lambda: make_workbook([make_number(0, 0, 1)]),
)
