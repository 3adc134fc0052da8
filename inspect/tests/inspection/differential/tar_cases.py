"""Makes TAR archives that are odd in ways in which readers differ, each from its number alone."""

import random
from typing import Final

BLOCK: Final = 512
MAGICS: Final = (b"ustar\x0000", b"ustar  \0", bytes(8), b"ustar\0\0\0", b"ustar 00", b"USTAR\x0000", b"ustar\x0099")
OUTSIDE: Final = (b"../e", b"/e", b"d/../../e", b"..", b"/etc/../e", b"./../e", b"d/../..", b"//e")
INSIDE: Final = (b"a", b"d/b.txt", b"d/", b"./c", b"..e", b"d/...", b"e..", b"n" * 99, b"n" * 100, b"d/" + b"m" * 98)
TYPES: Final = (b"0", b"0", b"0", b"\0", b"1", b"5", b"6", b"7", b"S", b"D", b"V", b"N", b"A", b"E", b"I", b"M", b"Z")
LINKS: Final = (b"2", b"3", b"4")
KEYWORDS: Final = (b"path", b"linkpath", b"size", b"GNU.sparse.name", b"GNU.sparse.realsize", b"GNU.sparse.size")
MORE_KEYWORDS: Final = (
    b"GNU.sparse.major", b"GNU.sparse.minor", b"GNU.sparse.map", b"GNU.sparse.numblocks", b"GNU.dumpdir",
    b"GNU.volume.filename", b"SCHILY.realsize", b"hdrcharset", b"mtime", b"comment",
)  # fmt: skip
SIZES: Final = (0, 0, 0, 1, 5, 100, 512, 513, 1024, 1536, 3000)


class _Case:
    """One archive in the making. Only some cases hold a name that leads outside, and then few."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        self.share_outside = self.random.choice((0.0, 0.03, 0.1, 0.25))
        self.share_odd = self.random.choice((0.0, 0.02, 0.1))

    def name(self) -> bytes:
        pool = OUTSIDE if self.random.random() < self.share_outside else INSIDE
        return self.random.choice(pool)

    def is_odd(self) -> bool:
        return self.random.random() < self.share_odd

    def number(self, value: int, width: int) -> bytes:
        digits = width - 1
        if not self.is_odd():
            return b"%0*o\0" % (digits, value)
        binary = value.to_bytes(digits, "big")
        forms = (
            b"\x80" + binary, b"%*o \0" % (digits - 1, value), b"%0*o" % (width, value), b"\0%0*o" % (digits, value),
            b"0o%o" % value, b"\t%o" % value, b"+%o" % value, b"%o 7" % value, b"1_%o" % value, b"\xff" * width,
            bytes(width), b"\x81" + binary,
        )  # fmt: skip
        return self.random.choice(forms).ljust(width, b"\0")[:width]

    def header(self, name: bytes, type_flag: bytes, size: int, link: bytes = b"", magic: bytes | None = None) -> bytes:
        pick = self.random
        block = bytearray(BLOCK)
        block[: len(name[:100])] = name[:100]
        block[100:124] = b"0000644\0" + b"0000000\0" * 2
        block[124:136] = self.number(size, 12)
        block[136:148] = self.number(1_700_000_000, 12)
        block[156:157] = type_flag
        block[157 : 157 + len(link[:100])] = link[:100]
        block[257:265] = pick.choice(MAGICS) if magic is None else magic
        if pick.random() < 0.15:
            prefix = pick.choice((self.name(), b"15300621730\0" * 2, b"d/" + b"p" * 124 + b"/..x", b"p" * 155))
            block[345 : 345 + len(prefix)] = prefix
        if type_flag == b"S":
            block[386:410] = b"%011o\0%011o\0" % (0, size)
            block[482] = pick.choice((0, 0, 1))
            block[483:495] = self.number(size, 12)
        if self.is_odd():
            at = pick.randrange(BLOCK)
            change = pick.choice((b"\0", b"/", b"..", b"../", b"\xff", b"7", b" ", b"L", b"1"))
            block[at : at + len(change)] = change
            del block[BLOCK:]
        return self.summed(block)

    def summed(self, block: bytearray) -> bytes:
        block[148:156] = b" " * 8
        total = sum(block)
        if self.is_odd():
            signed = total - 256 * sum(byte >= 0x80 for byte in block)
            forms = [
                b"%06o\0 " % max(0, signed),
                *(form % total for form in (b"%07o\0", b"%6o\0 ", b"%08o", b"0o%o\0\0")),
            ]
            block[148:156] = self.random.choice((*forms, b"\x80\0\0\0" + total.to_bytes(4, "big")))[:8].ljust(8, b"\0")
        else:
            block[148:156] = b"%06o\0 " % total
        return bytes(block)

    def padded(self, data: bytes) -> bytes:
        padding = -len(data) % BLOCK
        return data + (self.name() * BLOCK)[:padding] if padding and self.is_odd() else data + bytes(padding)

    def content(self, size: int) -> bytes:
        pieces = []
        for _ in range(0, size, BLOCK):
            kind = self.random.random()
            if kind < 0.2:
                pieces.append(self.header(self.name(), self.random.choice((b"0", b"5", b"2", b"1")), 0, self.name()))
            else:
                pieces.append(bytes(BLOCK) if kind < 0.3 else b"words of a text " * 32)
        return b"".join(pieces)[:size]

    def member(self) -> bytes:
        type_flag = self.random.choice(LINKS if self.random.random() < self.share_outside / 4 else TYPES)
        has_data = type_flag not in b"1256" or self.random.random() < 0.15
        size = self.random.choice(SIZES) if has_data or type_flag == b"\0" else 0
        link = self.name() if type_flag in b"12" or self.is_odd() else b""
        head = self.header(self.name(), type_flag, size, link)
        if type_flag == b"S" and head[482]:
            more = bytearray(self.content(BLOCK).ljust(BLOCK, b"\0"))
            more[504] = self.random.random() < 0.2
            head += bytes(more)
        if type_flag == b"D" and self.random.random() < 0.7:
            marks = (b"Y", b"N", b"D", b"R", b"T", b"X")
            data = b"".join(self.random.choice(marks) + self.name() + b"\0" for _ in range(3))
        elif type_flag == b"N" and self.random.random() < 0.7:
            data = b"Rename %s to %s\nSymlink %s to %s\n" % (self.name(), self.name(), self.name(), self.name())
        else:
            data = self.content(size)
            has_data = has_data and self.random.random() < (0.5 if type_flag in b"1256" else 0.98)
            return head + (self.padded(data) if has_data else b"")
        return self.header(head[:100].rstrip(b"\0"), type_flag, len(data)) + self.padded(data)

    def record(self) -> bytes:
        pick = self.random
        keyword = pick.choice(KEYWORDS if pick.random() < 0.8 else MORE_KEYWORDS)
        if keyword in {b"path", b"linkpath", b"GNU.sparse.name", b"GNU.volume.filename"}:
            value = self.name() + (b"\0" + self.name() if self.is_odd() else b"")
        elif keyword == b"GNU.dumpdir":
            value = b"Y" + self.name() + b"\0R" + self.name() + b"\0T" + self.name() + b"\0\0"
        elif keyword == b"GNU.sparse.map":
            value = b"0,%d" % pick.choice(SIZES)
        elif keyword == b"hdrcharset":
            value = pick.choice((b"BINARY", b"ISO-IR 10646 2000 UTF-8"))
        else:
            value = b"%d" % pick.choice(SIZES) if not self.is_odd() else pick.choice((b"", b"+5", b"1_0", b"x", b" 5"))
        body = b" %s=%s\n" % (keyword, value)
        length = len(body) + 1
        while len(b"%d" % length) + len(body) != length:
            length += 1
        return b"%d" % (length + (pick.choice((-1, 1, 2)) if self.is_odd() else 0)) + body

    def extension(self) -> bytes:
        pick = self.random
        kind = pick.choice(b"xxxxLLKgXAV")
        if kind in b"LK":
            data = self.name() + (b"\0" if pick.random() < 0.9 else b"") + (self.name() if self.is_odd() else b"")
        elif kind in b"AV":
            data = self.content(pick.choice((0, 0, 5, BLOCK)))
        else:
            data = b"".join(self.record() for _ in range(pick.choice((1, 1, 1, 2, 3))))
        name = self.name() if kind in b"AV" else b"././@LongLink"
        stated = max(0, len(data) + (pick.choice((-5, 5, BLOCK)) if self.is_odd() else 0))
        return self.header(name, bytes([kind]), stated) + self.padded(data)

    def archive(self) -> bytes:
        pick = self.random
        parts = []
        for _ in range(pick.choice((1, 1, 2, 3, 4))):
            parts += [self.extension() for _ in range(pick.choice((0, 0, 1, 1, 2, 3)))]
            parts.append(self.member())
            if self.is_odd():
                parts.append(pick.choice((bytes(BLOCK), bytes(2 * BLOCK), b"x" * BLOCK)))
        parts.append(bytes(2 * BLOCK) if pick.random() < 0.9 else b"")
        if self.is_odd():
            parts += [pick.choice((b"", b"x" * BLOCK)), self.member(), bytes(2 * BLOCK)]
        return b"".join(parts)


def tar_case(number: int) -> bytes:
    """Return the archive of a number."""
    return _Case(number).archive()
