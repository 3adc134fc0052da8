"""The extra fields of ZIP headers: sizes beyond 32 bits, further names, and links as some systems record them."""
# Layouts: PKWARE APPNOTE 6.3.10, 4.5.3 and 4.5.7 (0x000d), 4.6.9 (0x7075); Info-ZIP's extrafld.txt (0x756e).

import stat
import struct
import zlib
from collections.abc import Sequence
from typing import Final

from sluice_inspect.archives.safety import decoded_name, refuse_link, refuse_name
from sluice_inspect.report import Corrupt, Finding, Unsafe

_ZIP64, _UNICODE_PATH, _PKWARE_UNIX, _ASI_UNIX = 0x0001, 0x7075, 0x000D, 0x756E
_ZIP64_BYTES: Final = frozenset({0, 4, 8, 12, 16, 20, 24, 28})  # up to three values of 8 bytes, and one of 4
_FIELD: Final = struct.Struct("<2H")
_UNICODE_HEAD: Final = struct.Struct("<BL")
_PKWARE_UNIX_BYTES: Final = 12  # times and owner; a link's target or a device's numbers follow
_ASI_UNIX_FORMAT: Final = struct.Struct("<LHL2H")  # checksum, mode, size of a link's target or device, owner
_NOT_FILES: Final = frozenset({stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK})
_STANDARD_INPUT: Final = "-"
_FULL_16, _FULL_32 = 0xFFFF, 0xFFFFFFFF


def read_extras(raw: bytes, name: str, *, is_padded: bool) -> dict[int, list[bytes]]:
    """Return the extra fields of a header, by their numbers.

    Raise `Unsafe` if readers take one from different places, and `Corrupt` if one is malformed.
    """
    # Aligners pad local headers with zeros, and some with whatever was there.
    found: dict[int, list[bytes]] = {}
    at = 0
    while len(raw) - at >= _FIELD.size:
        field, size = _FIELD.unpack_from(raw, at)
        begin = at + _FIELD.size
        if begin + size > len(raw):
            break
        if field == _ZIP64 and field in found:
            raise Unsafe(
                Finding.ARCHIVE_UNSAFE,
                f"member {name!r} has two ZIP64 fields: readers differ in which counts",
            )
        data = raw[begin : begin + size]
        if field == _ZIP64 and size not in _ZIP64_BYTES:
            raise Corrupt(f"member {name!r} has a ZIP64 field of {size} bytes, which no set of its values has")
        found.setdefault(field, []).append(data)
        _refuse_unsafe(field, data, name)
        at = begin + size
    # Aligners pad with zeros, and bytes that are too few for a field are skipped by readers.
    if not is_padded and len(raw) - at >= _FIELD.size and raw[at:].strip(b"\0"):
        raise Corrupt(f"member {name!r} has an extra field that is longer than the space for it")
    return found


def _refuse_unsafe(field: int, data: bytes, name: str) -> None:
    if field == _UNICODE_PATH:
        # Some readers do not compare the checksum, so that a name that does not hold counts too.
        unicode_name = decoded_name(data[_UNICODE_HEAD.size :])
        refuse_name(unicode_name)
        refuse_zero_byte(unicode_name)
    elif field == _PKWARE_UNIX and data[_PKWARE_UNIX_BYTES:].strip(b"\0"):
        refuse_link(name, data[_PKWARE_UNIX_BYTES:].decode("utf-8", "replace"))
    elif field == _ASI_UNIX and len(data) >= _ASI_UNIX_FORMAT.size:
        _, mode, *_ = _ASI_UNIX_FORMAT.unpack_from(data)
        target = data[_ASI_UNIX_FORMAT.size :].decode("utf-8", "replace")
        refuse_mode(mode, name)
        if target:
            refuse_link(name, target)


def refuse_zero_byte(name: str) -> None:
    """Raise `Unsafe` for a zero byte in a name."""
    if "\0" in name:
        raise Unsafe(
            Finding.ARCHIVE_UNSAFE, f"member {name!r} has a zero byte in its name: readers differ in where it ends"
        )


def refuse_mode(mode: int, name: str) -> None:
    """Raise `Unsafe` for a Unix mode that makes a link, a device or a pipe, whatever system the writer claims to be."""
    kind = stat.S_IFMT(mode)
    # Info-ZIP records what it read from its standard input under this name, and as a pipe if it came through one.
    if kind in _NOT_FILES and (kind, name) != (stat.S_IFIFO, _STANDARD_INPUT):
        raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} is a link, a device or a pipe, not a file")


def unicode_name(extras: dict[int, list[bytes]], raw_name: bytes) -> str | None:
    """Return the name of Info-ZIP's extra field 0x7075, which some readers prefer. It is valid for one exact name.

    Raise `Unsafe` if there are two names, or one that is not UTF-8.
    """
    head = _UNICODE_HEAD.pack(1, zlib.crc32(raw_name))
    names = [extra[len(head) :] for extra in extras.get(_UNICODE_PATH, ()) if extra.startswith(head) and extra != head]
    if len(names) > 1:
        raise Unsafe(
            Finding.ARCHIVE_UNSAFE, f"member {raw_name!r} has two Unicode names: readers differ in which counts"
        )
    try:
        return names[0].decode("utf-8") if names else None
    except UnicodeDecodeError:
        raise Unsafe(
            Finding.ARCHIVE_UNSAFE, f"member {raw_name!r} has a Unicode name that is not UTF-8: readers differ in it"
        ) from None


def widen(extras: dict[int, list[bytes]], fields: Sequence[int], name: str) -> tuple[int, int, int, int]:
    """Return (unpacked, packed, offset, disk) with full ones replaced by those of the ZIP64 extra field.

    The extra field holds only the values that are full, in this order (APPNOTE 4.5.3). Raise `Corrupt` if it lacks one,
    and `Unsafe` if it contradicts the header.
    """
    extra = extras.get(_ZIP64, [b""])[0]
    at, wide = 0, list(fields)
    for index, value in enumerate(fields[:3]):
        if value == _FULL_32 and extra:
            if len(extra) < at + 8:
                raise Corrupt(f"member {name!r} lacks a size or an offset in its ZIP64 field")
            wide[index] = struct.unpack_from("<Q", extra, at)[0]
            at += 8
    if fields[3] == _FULL_16 and len(extra) >= at + 4:
        wide[3] = struct.unpack_from("<L", extra, at)[0]
        at += 4
    # Some writers state all values, full or not. Readers that take them from fixed places must find the same.
    stated = [struct.unpack_from("<Q", extra, place)[0] for place in range(0, min(len(extra) - 7, 24), 8)]
    if at != len(extra) and any(value != true for value, true in zip(stated, wide, strict=False)):
        raise Unsafe(
            Finding.ARCHIVE_UNSAFE,
            f"the ZIP64 field of member {name!r} contradicts its header: readers differ in which counts",
        )
    return wide[0], wide[1], wide[2], wide[3]


def widened_packed(extras: dict[int, list[bytes]], unpacked: int, packed: int) -> int:
    """Return the packed size that a local header states, with or without its ZIP64 field."""
    values = extras.get(_ZIP64, [b""])[0][8 if unpacked == _FULL_32 else 0 :]
    is_wide = packed == _FULL_32 and len(values) >= 8
    return int.from_bytes(values[:8], "little") if is_wide else packed


def refuse_other_sizes(
    extras: dict[int, list[bytes]], local: tuple[int, int], sizes: tuple[int, int], name: str
) -> None:
    """Raise `Unsafe` for a ZIP64 field in a local header that states other sizes than the directory. 0 is unknown."""
    extra = extras.get(_ZIP64, [b""])[0]
    full = sum(value == _FULL_32 for value in local)
    if extra and len(extra) < 8 * full:
        raise Unsafe(
            Finding.ARCHIVE_UNSAFE,
            f"the ZIP64 field before the data of member {name!r} lacks a size that its header leaves to it",
        )
    # A lone value is that of the field that is full.
    expected = sizes if len(extra) >= 16 or local[0] == _FULL_32 else sizes[1:]
    for place, size in zip(range(0, len(extra) - 7, 8), expected, strict=False):
        if struct.unpack_from("<Q", extra, place)[0] not in {0, size}:
            raise Unsafe(
                Finding.ARCHIVE_UNSAFE,
                f"the ZIP64 field before the data of member {name!r} states another size than the directory",
            )
