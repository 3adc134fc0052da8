"""Walks TAR archives from the first header to the end blocks: every header, every byte of content, links and names. Single headers are read in `tar_records`.

Archives that end without end blocks, or go on behind them with another archive, are read by common tools and pass. Symbolic links and
devices do not; hard links, under which `tar` stores a file's second name, do as long as they stay in the archive.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from sluice.formats.archives.containers import StreamContainer, Visitor
from sluice.formats.archives.feed import Feed
from sluice.formats.archives.names import refuse_device, refuse_hard_link, refuse_link, refuse_name
from sluice.formats.archives.tar_records import (
    BLOCK,
    EMPTY,
    RECORD,
    Header,
    has_more_sparse,
    is_header,
    number_of,
    read_header,
    read_pax,
)
from sluice.formats.archives.trailing import judge_trailing
from sluice.formats.budget import Budget
from sluice.formats.verdict import Corrupt, Finding, Measure, Unsafe

_HARD_LINK, _SYMBOLIC_LINK, _FOLDER, _PIPE = b"1", b"2", b"5", b"6"
_DEVICES: Final = frozenset({b"3", b"4"})
_WITHOUT_DATA: Final = frozenset({_HARD_LINK, _SYMBOLIC_LINK, _FOLDER, _PIPE}) | _DEVICES
"""Their size field counts nothing in most archives."""
_EXTENDED: Final = frozenset({b"x", b"X"})
_LONG_NAMES: Final = {b"L": "path", b"K": "linkpath"}
_ASIDE: Final = frozenset({b"g", b"A", b"E", b"I", b"N", b"V", b"D"})
"""Global headers, access lists, old name tables, labels, folder lists: no content of a member."""
_HEADER_MOST: Final = 4 * 1024**2
"""Bytes of an extended header or a long name: no writer comes near."""
_NAMES: Final = ("GNU.sparse.name", "path")
_REAL_SIZES: Final = ("GNU.sparse.realsize", "GNU.sparse.size", "SCHILY.realsize")


def walk(feed: Feed, budget: Budget, visitor: Visitor) -> Mapping[str, Measure]:
    """Show every member to the visitor. Raises as `StreamContainer` says."""
    tar = _Walk(feed, budget, visitor)
    tar.run()
    return {"members": tar.members, "hard_links": tar.hard_links, "trailing_bytes": tar.trailing}


@dataclass(slots=True)
class _Walk:
    feed: Feed
    budget: Budget
    visitor: Visitor
    pax: dict[str, str] = field(default_factory=dict)
    """Of the extended headers in front of the next member."""
    members: int = 0
    hard_links: int = 0
    trailing: int = 0

    def run(self) -> None:
        while block := self.feed.take(BLOCK):
            offset = self.feed.position - len(block)
            if len(block) < BLOCK:
                raise Corrupt(f"the archive is cut: it ends at byte {self.feed.position}, in the middle of a TAR block")
            if block == EMPTY:
                if not self.goes_on(offset):
                    return
                continue
            self.budget.count(1)
            self.entry(read_header(block, offset))

    def entry(self, header: Header) -> None:
        """Read what a header announces."""
        if header.kind in _EXTENDED:
            self.pax |= read_pax(self.text(header), self.feed.position)
        elif header.kind in _LONG_NAMES:
            self.pax[_LONG_NAMES[header.kind]] = self.text(header).split(b"\0", 1)[0].decode("utf-8", "replace")
        elif header.kind in _ASIDE:
            self.read_through(header.name, header.size)
        else:
            pax, self.pax = self.pax, {}
            self.member(header, pax)

    def member(self, header: Header, pax: Mapping[str, str]) -> None:
        name = next((pax[key] for key in _NAMES if key in pax), header.name)
        target = pax.get("linkpath", header.link)
        size = _stated(pax, ("size",), header.size)
        real_size = _stated(pax, _REAL_SIZES, header.real_size)
        self.members += 1
        refuse_name(name)
        if header.kind == _SYMBOLIC_LINK:
            refuse_link(name, target)
        if header.kind in _DEVICES:
            refuse_device(name)
        if header.kind == _HARD_LINK:
            refuse_hard_link(name, target)
            self.hard_links += 1
        if real_size > self.budget.limits.max_unpacked_bytes:
            raise Unsafe(Finding.ARCHIVE_BOMB, f"member {name!r} unpacks to {real_size} bytes, nearly all of them holes")
        if header.has_more:
            self.skip_sparse_map(name)
        if header.kind not in _WITHOUT_DATA:
            self.visitor.member(name, self.content(name, size))
            self.pad(name, size)
        elif size and not self.is_at_header():
            self.read_through(name, size)

    def content(self, name: str, size: int) -> Iterator[bytes]:
        left = size
        for piece in self.feed.pieces(size):
            left -= len(piece)
            yield piece
        if left:
            raise Corrupt(
                f"the archive is cut: it ends at byte {self.feed.position}, {left} bytes before the end of member {name!r}"
            )

    def pad(self, name: str, size: int) -> None:
        padding = -size % BLOCK
        if len(self.feed.take(padding)) < padding:
            raise Corrupt(f"the archive is cut: it ends at byte {self.feed.position}, inside the last block of member {name!r}")

    def read_through(self, name: str, size: int) -> None:
        for _ in self.content(name, size):
            pass
        self.pad(name, size)

    def text(self, header: Header) -> bytes:
        if header.size > _HEADER_MOST:
            raise Corrupt(
                f"an extended header before byte {self.feed.position} of the archive claims to be {header.size} bytes long"
            )
        data = b"".join(self.content(header.name, header.size))
        self.pad(header.name, header.size)
        return data

    def skip_sparse_map(self, name: str) -> None:
        more = True
        while more:
            block = self.feed.take(BLOCK)
            if len(block) < BLOCK:
                raise Corrupt(f"the archive is cut: it ends at byte {self.feed.position}, in the map of holes of member {name!r}")
            more = has_more_sparse(block)

    def is_at_header(self) -> bool:
        block = self.feed.peek(BLOCK)
        return not block.strip(b"\0") or is_header(block)

    def goes_on(self, offset: int) -> bool:
        """Pass over end blocks, the first of which lies at `offset`; answer whether another archive follows them."""
        while self.feed.peek(BLOCK) == EMPTY:
            self.feed.take(BLOCK)
        if is_header(self.feed.peek(BLOCK)):
            return True
        rest = Feed(self.behind(offset), self.feed.position)
        block = rest.peek(BLOCK)
        if block and not block.strip(b"\0"):
            raise Corrupt(f"the archive is cut: it ends at byte {self.feed.position}, in the middle of a TAR block")
        if block:
            self.trailing = judge_trailing(rest, "TAR", None)
        return False

    def behind(self, offset: int) -> Iterator[bytes]:
        """Yield what follows the end. Headers in it are lost members, unless in the last record, where old tape writers left stale bytes."""
        stale = (offset // RECORD + 1) * RECORD if offset >= RECORD else 0
        while block := self.feed.take(BLOCK):
            start = self.feed.position - len(block)
            if start >= stale and is_header(block):
                raise Corrupt(
                    f"the archive is damaged from byte {offset} on: it seems to end there, but members go on at byte {start}"
                )
            yield block


def _stated(pax: Mapping[str, str], keys: tuple[str, ...], otherwise: int) -> int:
    """Answer the number that an extended header states under one of the keys. Raises `Corrupt` for what is none."""
    text = next((pax[key] for key in keys if key in pax), None)
    if text is None:
        return otherwise
    number = number_of(text)
    if number is None:
        raise Corrupt(f"an extended header of the archive states the size {text[:40]!r}")
    return number


TAR: Final = StreamContainer("tar", is_header, walk)
