"""Reads the headers of TAR archives: blocks, numbers, extended records, and every name that some reader sees there."""
# Layouts: POSIX.1-2017 (ustar, pax), GNU tar's manual (base-256 numbers, long names, sparse, incremental), star(5), V7.

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sluice_inspect.archives.safety import decoded_name
from sluice_inspect.report import Corrupt, Finding, Unsafe

BLOCK: Final = 512
HARD_LINK, SYMBOLIC_LINK, FOLDER, PIPE, SPARSE = b"1", b"2", b"5", b"6", b"S"
DEVICES: Final = frozenset({b"3", b"4", PIPE})  # a pipe blocks its reader, as some devices do
# The size in their headers counts nothing in most archives.
WITHOUT_DATA: Final = frozenset({HARD_LINK, SYMBOLIC_LINK, FOLDER}) | DEVICES

_NAME: Final = slice(0, 100)
_MODE, _UID, _GID, _MTIME = slice(100, 108), slice(108, 116), slice(116, 124), slice(136, 148)
_SIZE: Final = slice(124, 136)
_CHECKSUM: Final = slice(148, 156)
_TYPE: Final = slice(156, 157)
_LINK: Final = slice(157, 257)
_MAGIC: Final = slice(257, 263)
_PREFIX: Final = slice(345, 500)
_STAR_PREFIX: Final = slice(345, 476)  # star keeps two times behind it
_GNU_SPARSE_MAP: Final = range(386, 482, 24)  # an offset and a length each, up to the first that is empty
_GNU_SPARSE_CONTINUES: Final = 482
_GNU_SPARSE_SIZE: Final = slice(483, 495)
_FURTHER_MAP: Final = range(0, 504, 24)  # the same in a block of its own
_FURTHER_MAP_CONTINUES: Final = 504
_POSIX: Final = b"ustar\0"
_GNU: Final = b"ustar  \0"
_GNU_MAGIC: Final = slice(257, 265)
_HIGH_BIT: Final = 0x80
_NEGATIVE: Final = 0xFF

PAX_MAPS: Final = frozenset(f"GNU.sparse.{key}" for key in ("major", "minor", "map", "numblocks", "offset", "numbytes"))
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")
_MAP: Final = re.compile(r"[0-9]{1,19}(?:,[0-9]{1,19})+")
_MAP_IN_CONTENT: Final = re.compile(rb"[0-9]{1,9}\n(?:[0-9]{1,19}\n)*")
_DIGITS: Final = re.compile(rb"\s*\0?[+-]?(?:0[oO])?([0-7_]+)")
_RENAME: Final = re.compile(rb"^(Rename|Symlink) (.*)$", re.MULTILINE)
_RENAME_TO: Final = b" to "

_NAME_KEYWORDS: Final = frozenset({b"path", b"linkpath", b"GNU.sparse.name", b"GNU.dumpdir"})


@dataclass(frozen=True, slots=True)
class SparseMap:
    """The map of an old GNU sparse file as far as it was read: where its data lies between the holes."""

    data_bytes: int  # stored in the archive
    end: int  # of the last piece of data, in the file with its holes
    continues: bool  # another block of the map follows


@dataclass(frozen=True, slots=True)
class TarHeader:
    """One header block. `name` is that of POSIX; `names` are all that readers take from the block."""

    name: str
    names: tuple[str, ...]
    type_flag: bytes
    link: str
    size: int
    real_size: int  # of an old GNU sparse file with its holes, else 0
    sparse_map: SparseMap | None  # of an old GNU sparse file
    is_posix: bool


def is_header(block: bytes) -> bool:
    """Whether a block carries its own checksum."""
    stated = _octal(block[_CHECKSUM])
    return len(block) == BLOCK and bool(stated) and stated in _sums(block)


def claims_header(block: bytes) -> bool:
    """Whether a block is a header for the most lenient reader, or would be one but for its checksum."""
    if block[_MAGIC].startswith(b"ustar") or is_header(block):
        return True
    if len(block) < BLOCK:
        return False
    # Python's tarfile reads what `int` reads and base-256 numbers, libarchive the digits in front of anything else.
    digits = _DIGITS.match(block[_CHECKSUM])
    stated = {int(digits[1].replace(b"_", b"") or b"0", 8)} if digits else set()
    if block[_CHECKSUM.start] & _HIGH_BIT:
        stated.add(int.from_bytes(block[_CHECKSUM][1:], "big"))
    return not stated.isdisjoint(_sums(block))


def _sums(block: bytes) -> set[int]:
    rest = block[: _CHECKSUM.start] + b" " * 8 + block[_CHECKSUM.stop :]
    # Some writers sum up signed bytes.
    return {sum(rest), sum(rest) - 256 * sum(byte >= _HIGH_BIT for byte in rest)}


def read_further_map(block: bytes, before: SparseMap) -> SparseMap | None:
    """Return the map of a sparse file together with its next block, or None if that is no map."""
    return _read_map(block, _FURTHER_MAP, before, continues=block[_FURTHER_MAP_CONTINUES] != 0)


def _read_map(block: bytes, entries: range, before: SparseMap, *, continues: bool) -> SparseMap | None:
    # Readers differ in what they make of gaps, of overlaps, and of a map that continues after an empty entry.
    data_bytes, end = before.data_bytes, before.end
    is_at_end = False
    for at in entries:
        entry = block[at : at + 24]
        offset, length = _number(entry[:12]), _number(entry[12:])
        is_at_end = is_at_end or not entry.strip(b"\0")
        if is_at_end:
            if entry.strip(b"\0"):
                return None
        elif not entry[0] or not entry[12] or offset is None or length is None or offset < end or length < 0:
            return None
        else:
            data_bytes, end = data_bytes + length, offset + length
    return None if is_at_end and continues else SparseMap(data_bytes, end, continues)


def read_header(block: bytes, offset: int) -> TarHeader:
    """Return the header in a block. Raise `Corrupt` if it is none, `Unsafe` if only some readers take it for one."""
    if not is_header(block):
        raise Corrupt(
            f"the archive is damaged at byte {offset}: there is no TAR header with a right checksum, where one must be"
        )
    plain = _text(block[_NAME])
    # GNU tar keeps times in the place of the prefix, which Python's tarfile reads as a prefix all the same.
    prefixes = dict.fromkeys(_text(block[place]) for place in (_PREFIX, _STAR_PREFIX))
    names = tuple(f"{prefix}/{plain}" if prefix else plain for prefix in prefixes)
    is_posix = block[_MAGIC] == _POSIX
    name = names[0] if is_posix else plain
    size = _number(block[_SIZE])
    if size is None or size < 0:
        raise Corrupt(f"member {name!r} has an impossible size in its header at byte {offset}")
    if None in (_number(block[field]) for field in (_MODE, _UID, _GID, _MTIME)):
        # 7z does not take such a block for a header and continues after it, others read as much as they can.
        raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} has a mode, an owner or a time that is no number")
    is_gnu = block[_GNU_MAGIC] == _GNU
    sparse_map, real_size = None, None
    if block[_TYPE] == SPARSE:
        continues = block[_GNU_SPARSE_CONTINUES] != 0
        sparse_map = _read_map(block, _GNU_SPARSE_MAP, SparseMap(0, 0, continues), continues=continues)
        real_size = _number(block[_GNU_SPARSE_SIZE])
        if sparse_map is None or real_size is None or (continues and not is_gnu):
            raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} has a map of holes that readers read differently")
    elif is_gnu and block[_GNU_SPARSE_MAP.start]:
        # libarchive skips as much as such a map says, whatever the type of the member.
        raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} has a map of holes and is no sparse file")
    return TarHeader(
        name=name,
        names=(plain, *names),
        type_flag=block[_TYPE],
        link=_text(block[_LINK]),
        size=size,
        real_size=real_size or 0,
        sparse_map=sparse_map,
        is_posix=is_posix,
    )


def read_pax(data: bytes, offset: int) -> list[tuple[str, str]]:
    """Return the records of an extended header in their order. Raise `Corrupt` if it is malformed."""
    records: list[tuple[str, str]] = []
    at = 0
    while at < len(data) and data[at : at + 1] != b"\0":
        digits, space, _ = data[at : at + 24].partition(b" ")
        end = at + int(digits) if digits.isdigit() and space else 0
        keyword, equals, value = data[at + len(digits) + 1 : end - 1].partition(b"=")
        if not at < end <= len(data) or not equals or data[end - 1 : end] != b"\n":
            raise Corrupt(f"the extended header at byte {offset} of the archive is malformed")
        text = decoded_name(value) if keyword in _NAME_KEYWORDS else value.decode("utf-8", "replace")
        records.append((keyword.decode("utf-8", "replace"), text))
        at = end
    return records


def pax_number(pax: Mapping[str, str], keys: Sequence[str], default: int) -> int:
    """Return the number that an extended header states under the first of the keys that it has, or `default`.

    Raise `Corrupt` if it is not a number of at most 19 digits.
    """
    text = next((pax[key] for key in keys if key in pax), None)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise Corrupt(f"an extended header of the archive states the size {text[:40]!r}")
    return int(text)


def has_pax_map(pax: Mapping[str, str], header: TarHeader, content: bytes) -> bool:
    """Whether a sparse file is declared as GNU tar does, in full: otherwise readers differ in where its data ends."""
    if not header.is_posix:
        return False
    if "GNU.sparse.major" in pax:
        lines = _MAP_IN_CONTENT.match(content)
        version = [pax.get(f"GNU.sparse.{part}") for part in ("major", "minor")]
        others = {"GNU.sparse.size", "GNU.sparse.map", "GNU.sparse.numblocks"} & pax.keys()
        if version != ["1", "0"] or others or lines is None:
            return False
        numbers = lines[0].split()  # the first of them counts the others, in pairs
        return len(numbers) > 2 * int(numbers[0])
    keys = list(pax)
    blocks = pax.get("GNU.sparse.numblocks", "")
    pairs = pax.get("GNU.sparse.map", "").count(",") + 1
    follow = [keys.index(key) for key in ("GNU.sparse.map", "GNU.sparse.offset") if key in pax]
    return (
        "GNU.sparse.size" in pax
        and "GNU.sparse.realsize" not in pax
        and bool(_NUMBER.fullmatch(blocks))
        and len(follow) == 1
        and keys.index("GNU.sparse.numblocks") < follow[0]
        and ("GNU.sparse.map" not in pax or (bool(_MAP.fullmatch(pax["GNU.sparse.map"])) and pairs == 2 * int(blocks)))
        and ("GNU.sparse.offset" in pax) == ("GNU.sparse.numbytes" in pax)
    )


def dumped_names(folder_list: bytes) -> Iterator[str]:
    """Yield the names in the list of a folder that GNU tar's incremental archives hold: a code, a name and a zero."""
    for entry in folder_list.split(b"\0"):
        yield decoded_name(entry[1:])


def renamed_names(table: bytes) -> Iterator[str]:
    """Yield the names in a table of long names of GNU tar before 1.11. Raise `Unsafe` for a symbolic link."""
    for line in _RENAME.finditer(table):
        if line[1] == b"Symlink":
            raise Unsafe(Finding.ARCHIVE_UNSAFE, f"the archive's table of names makes a symbolic link: {line[2]!r}")
        for name in line[2].split(_RENAME_TO):
            yield decoded_name(name)


def _text(raw: bytes) -> str:
    return decoded_name(raw.split(b"\0", 1)[0])


def _number(raw: bytes) -> int | None:
    """Return an octal or a base-256 number; 0 for an empty field, None for anything else."""
    if raw[0] == _NEGATIVE:
        return int.from_bytes(raw, "big", signed=True)
    if raw[0] & _HIGH_BIT:
        return int.from_bytes(bytes([raw[0] & ~_HIGH_BIT]) + raw[1:], "big")
    # GNU tar reads digits behind a leading zero byte, which ends the field for others.
    return None if raw[0] == 0 and raw.strip(b"\0 ") else _octal(raw)


def _octal(raw: bytes) -> int | None:
    digits = raw.lstrip(b" ").split(b"\0", 1)[0].rstrip(b" ")
    if not digits:
        return 0
    return None if digits.strip(b"01234567") else int(digits, 8)
