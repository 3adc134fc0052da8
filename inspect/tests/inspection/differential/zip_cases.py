"""Makes ZIP archives that are odd in ways in which readers differ, each from its number alone."""

import random
import stat
import struct
import zlib
from dataclasses import dataclass
from typing import Final

OUTSIDE: Final = (b"../e", b"/e", b"d/../../e", b"..", b"/etc/../e", b"./../e", b"d/../..", b"//e")
INSIDE: Final = (b"a", b"d/b.txt", b"d/", b"./c", b"..e", b"d/...", b"e..", b"\x82", b"\xc3\xa9", b"A", b"n" * 90)
SYSTEMS: Final = (0, 0, 3, 3, 1, 2, 7, 10, 11, 18, 19, 255)
NOT_FILES: Final = (stat.S_IFLNK | 0o777, stat.S_IFCHR | 0o666, stat.S_IFBLK | 0o666, stat.S_IFIFO | 0o600)
FILES: Final = (0, stat.S_IFREG | 0o644, stat.S_IFREG | 0o644)
FLAGS: Final = (0, 0, 0, 0x0008, 0x0800, 0x0808, 0x2000, 0x0001, 0x2041)
FULL: Final = 0xFFFFFFFF


@dataclass(slots=True)
class _Header:
    """What both headers of a member state. The local one is a copy in which a little may differ."""

    name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    unpacked: int
    extra: bytes


class _Case:
    """One archive in the making. Only some cases hold a name that leads outside, and then few."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        self.share_outside = self.random.choice((0.0, 0.03, 0.1, 0.25))
        self.share_odd = self.random.choice((0.0, 0.03, 0.1))
        self.body = bytearray()
        self.directory = bytearray()
        self.count = 0

    def is_odd(self) -> bool:
        return self.random.random() < self.share_odd

    def name(self) -> bytes:
        return self.random.choice(OUTSIDE if self.random.random() < self.share_outside else INSIDE)

    def mode(self) -> int:
        return self.random.choice(NOT_FILES if self.random.random() < self.share_outside / 2 else FILES)

    def number(self, value: int) -> int:
        return self.random.choice((0, value + 1, FULL, value ^ 0x100, 30)) if self.is_odd() else value

    def field(self, name: bytes, sizes: tuple[int, int, int]) -> bytes:
        pick = self.random
        kind = pick.choice((0x7075, 0x7075, 0x0001, 0x756E, 0x000D, 0x5455, 0xD935))
        if kind == 0x7075:
            crc = zlib.crc32(name) if pick.random() < 0.7 else pick.randrange(2**32)
            shown = name if pick.random() < 0.6 else self.name()
            data = struct.pack("<BL", pick.choice((1, 1, 1, 2)), crc) + shown
        elif kind == 0x0001:
            values = [value if pick.random() < 0.8 else self.number(value) for value in sizes]
            data = b"".join(struct.pack("<Q", value) for value in values[: pick.choice((0, 1, 2, 2, 3))])
        elif kind == 0x756E:
            target = self.name() if pick.random() < self.share_outside else b""
            data = struct.pack("<HL2H", self.mode(), len(target), 0, 0) + target
            data = struct.pack("<L", zlib.crc32(data)) + data
        elif kind == 0x000D:
            data = bytes(12) + (self.name() if pick.random() < self.share_outside else b"")
        else:
            data = bytes(5)
        return struct.pack("<2H", kind, len(data) + (1 if self.is_odd() else 0)) + data

    def extra(self, name: bytes, sizes: tuple[int, int, int]) -> bytes:
        fields = [self.field(name, sizes) for _ in range(self.random.choice((0, 0, 0, 1, 1, 2)))]
        return b"".join(fields) + (b"\0\0\0" if self.is_odd() else b"")

    def member(self) -> None:
        pick = self.random
        content = b"" if pick.random() < 0.2 else pick.choice((b"words", b"words of a text " * 20, self.inner()))
        method = pick.choice((0, 8))
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = packer.compress(content) + packer.flush() if method else content
        packed += self.inner() if self.is_odd() else b""
        name, flags, offset = self.name(), pick.choice(FLAGS), len(self.body)
        sizes = (len(content), len(packed), offset)
        crc = zlib.crc32(content)
        central = _Header(name, flags, method, crc, len(packed), len(content), self.extra(name, sizes))
        local = _Header(
            self.name() if self.is_odd() else name,
            pick.choice(FLAGS) if self.is_odd() else flags,
            method,
            self.number(crc),
            self.number(len(packed)),
            self.number(len(content)),
            central.extra if pick.random() < 0.5 else self.extra(name, sizes),
        )
        if flags & 0x0008 and pick.random() < 0.8:
            local.crc = local.packed = local.unpacked = 0
        self.write_local(local, packed, central)
        self.write_central(central, offset)

    def inner(self) -> bytes:
        """Return a whole local header and its data, which a reader that looks in the wrong place finds."""
        name = self.name()
        return struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 33, zlib.crc32(b"x"), 1, 1, len(name), 0) + name + b"x"

    def write_local(self, local: _Header, packed: bytes, central: _Header) -> None:
        self.body += struct.pack(
            "<4s5H3L2H",
            b"PK\3\4", 20, local.flags, local.method, 0, 33, local.crc, local.packed, local.unpacked,
            len(local.name), len(local.extra),
        )  # fmt: skip
        self.body += local.name + local.extra + packed
        if local.flags & 0x0008 and not self.is_odd():
            layout = self.random.choice(("<4s3L", "<4s3L", "<4sL2Q"))
            values = (self.number(central.crc), self.number(central.packed), self.number(central.unpacked))
            descriptor = struct.pack(layout, b"PK\7\x08", *values)
            self.body += descriptor[4:] if self.is_odd() else descriptor
        if self.is_odd():
            self.body += self.random.choice((bytes(4), b"PK\7\x08", self.inner(), b"text"))

    def write_central(self, central: _Header, offset: int) -> None:
        packed, unpacked, place = self.number(central.packed), self.number(central.unpacked), self.number(offset)
        if central.extra[:2] == b"\1\0" and self.random.random() < 0.5:
            unpacked = FULL
        version = self.random.choice(SYSTEMS) << 8 | 20
        comment = b"PK\5\6" + bytes(18) if self.is_odd() else b""
        self.directory += struct.pack(
            "<4s6H3L5H2L",
            b"PK\1\2", version, 20, central.flags, central.method, 0, 33, central.crc, packed, unpacked,
            len(central.name), len(central.extra), len(comment), 0, 0, self.mode() << 16, place,
        )  # fmt: skip
        self.directory += central.name + central.extra + comment
        self.count += 1

    def archive(self) -> bytes:
        pick = self.random
        for _ in range(pick.choice((1, 1, 2, 3))):
            self.member()
        prefix = pick.choice((b"", b"text\n", bytes(self.body))) if self.is_odd() else b""
        start, size = len(self.body), len(self.directory)
        parts = [prefix, bytes(self.body), bytes(self.directory)]
        if pick.random() < 0.1:
            at = sum(map(len, parts)) - len(prefix) * pick.choice((0, 1))
            record_size = self.number(44)
            counts = (self.number(self.count), self.number(self.count))
            sizes = (record_size, 45, 45, 0, 0, *counts, size, self.number(start))
            parts.append(struct.pack("<4sQ2H2L4Q", b"PK\6\6", *sizes))
            parts.append(struct.pack("<4sLQL", b"PK\6\7", 0, self.number(at), 1))
        count = 0xFFFF if len(parts) > 3 and pick.random() < 0.7 else self.count
        comment = pick.choice((b"text", b"PK\5\6" + bytes(18), self.inner())) if self.is_odd() else b""
        places = (self.number(size), self.number(start), len(comment))
        end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, *places)
        parts += [end, comment, pick.choice((bytes(4), self.inner(), end)) if self.is_odd() else b""]
        return b"".join(parts)


def zip_case(number: int) -> bytes:
    """Return the archive of a number."""
    return _Case(number).archive()
