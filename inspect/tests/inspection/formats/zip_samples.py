"""Make ZIP archives in memory."""

import io
import struct
import zipfile
import zlib
from dataclasses import dataclass


def archive(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as opened:
        for name, content in members:
            opened.writestr(name, content)
    return file.getvalue()


@dataclass(frozen=True, slots=True)
class Member:
    """A stored member of which every field of both headers can be chosen; None follows from the others."""

    name: bytes = b"a"
    content: bytes = b"text"
    flags: int = 0
    system: int = 3
    mode: int = 0
    extra: bytes = b""
    local_name: bytes | None = None
    local_flags: int | None = None
    local_extra: bytes = b""
    behind: bytes = b""  # between the data and the next header
    unpacked: int | None = None  # as the directory states it
    local_sizes: tuple[int, int] | None = None  # packed, unpacked
    method: int = 0
    packed: bytes | None = None


def extra_field(field: int, data: bytes) -> bytes:
    return struct.pack("<2H", field, len(data)) + data


def unicode_path(shown: bytes, name: bytes = b"a", *, version: int = 1) -> bytes:
    return extra_field(0x7075, struct.pack("<BL", version, zlib.crc32(name)) + shown)


def written(*members: Member, between: bytes = b"", comment: bytes = b"", entries: int | None = None) -> bytes:
    """Return an archive of these members; `between` precedes the end record."""
    body, directory = b"", b""
    for each in members:
        packed = each.content if each.packed is None else each.packed
        crc, sizes = zlib.crc32(each.content), (len(packed), len(each.content))
        offset, flags = len(body), each.flags if each.local_flags is None else each.local_flags
        name = each.name if each.local_name is None else each.local_name
        lengths = (len(name), len(each.local_extra))
        body += struct.pack(
            "<4s5H3L2H", b"PK\3\4", 20, flags, each.method, 0, 33, crc, *(each.local_sizes or sizes), *lengths
        )
        body += name + each.local_extra + packed + each.behind
        unpacked = sizes[1] if each.unpacked is None else each.unpacked
        version, place = each.system << 8 | 20, (0, 0, 0, each.mode << 16, offset)
        stated = (version, 20, each.flags, each.method, 0, 33, crc, sizes[0], unpacked, len(each.name), len(each.extra))
        directory += struct.pack("<4s6H3L5H2L", b"PK\1\2", *stated, *place) + each.name + each.extra
    count = len(members) if entries is None else entries
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(directory), len(body), len(comment))
    return body + directory + between + end + comment
