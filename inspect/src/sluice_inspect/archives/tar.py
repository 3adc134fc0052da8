"""Reads TAR archives from the first header to the end blocks: every header, every byte of content, links, names."""
# Archives without end blocks, or with another archive behind them, are read by common tools and pass. A member can be
# named in five places, of which each reader prefers another: every name in every place is judged, and where no writer
# has a reason to state two different things, an archive that does is refused.

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from sluice_inspect.archives.safety import (
    check_trailing,
    decoded_name,
    refuse_device,
    refuse_hard_link,
    refuse_link,
    refuse_name,
)
from sluice_inspect.archives.tar_headers import (
    BLOCK,
    DEVICES,
    HARD_LINK,
    PAX_MAPS,
    SYMBOLIC_LINK,
    WITHOUT_DATA,
    TarHeader,
    claims_header,
    dumped_names,
    has_pax_map,
    is_header,
    pax_number,
    read_further_map,
    read_header,
    read_pax,
    renamed_names,
)
from sluice_inspect.budget import Budget
from sluice_inspect.report import Corrupt, Finding, Measure, Unsafe
from sluice_inspect.unpacking import Feed, StreamContainer, Visitor

_RECORD: Final = 20 * BLOCK  # most writers fill up a record with zeros
_EMPTY: Final = bytes(BLOCK)

_EXTENDED: Final = frozenset({b"x", b"X"})
_GLOBAL: Final = b"g"
_LONG_NAMES: Final = {b"L": "path", b"K": "linkpath"}
# Access lists, labels, folder lists, old name tables: no content of a member, though some readers unpack them as files.
_LABEL: Final = b"V"
_ACCESS_LIST: Final = b"A"
_FOLDER_DUMP: Final = b"D"
_METADATA: Final = frozenset({_ACCESS_LIST, b"E", b"I", b"N", _LABEL, _FOLDER_DUMP})
_LISTED_FOLDERS: Final = frozenset({_ACCESS_LIST, _FOLDER_DUMP})  # they may be named like a folder and have data
_LISTS_OF_NAMES: Final = {_FOLDER_DUMP: dumped_names, b"N": renamed_names}
_MAX_HEADER_BYTES: Final = 4 * 1024**2  # of an extended header or a long name: no writer comes near

_PAX_NAMES: Final = ("GNU.sparse.name", "path")
_PAX_REAL_SIZES: Final = ("GNU.sparse.realsize", "GNU.sparse.size")
_STAR_REAL_SIZE: Final = "SCHILY.realsize"
_PAX_SPARSE: Final = "GNU.sparse."
_FOLDER_LIST: Final = "GNU.dumpdir"
_NAMES: Final = frozenset({*_PAX_NAMES, "linkpath", "GNU.volume.filename"})
# What one member has once: readers differ in whether the first or the last statement counts.
_STATED_ONCE: Final = _NAMES | {"size", *_PAX_REAL_SIZES, _STAR_REAL_SIZE}
_MAX_MAP_BYTES: Final = 1024**2  # of a map of holes in front of the content


def walk(feed: Feed, budget: Budget, visitor: Visitor) -> Mapping[str, Measure]:
    """Show every member to the visitor. Raise as `StreamContainer` says."""
    reader = _TarReader(feed, budget, visitor)
    reader.read()
    return {"members": reader.members, "hard_links": reader.hard_links, "trailing_bytes": reader.trailing_bytes}


@dataclass(slots=True)
class _TarReader:
    feed: Feed
    budget: Budget
    visitor: Visitor
    pax: dict[str, str] = field(default_factory=dict)  # of the extended headers in front of the next member
    has_pax: bool = False
    landings: list[int] = field(default_factory=list)  # where readers that skip stated data continue: a heap
    members: int = 0
    hard_links: int = 0
    trailing_bytes: int = 0

    def read(self) -> None:
        while block := self.feed.take(BLOCK):
            offset = self.feed.position - len(block)
            if len(block) < BLOCK:
                raise Corrupt(f"the archive is cut: it ends at byte {self.feed.position}, in the middle of a TAR block")
            if block != _EMPTY:
                self.budget.count(1)
                self._check_landings(offset)
                self._read_entry(read_header(block, offset))
            elif not self._continues_behind_end(offset):
                return

    def _read_entry(self, header: TarHeader) -> None:
        flag = header.type_flag
        if flag in _EXTENDED or flag == _GLOBAL:
            self.has_pax = True
            self._extend(read_pax(self._header_data(header), self.feed.position), is_global=flag == _GLOBAL)
        elif flag in _LONG_NAMES:
            name = decoded_name(self._header_data(header).split(b"\0", 1)[0])
            self._extend([(_LONG_NAMES[flag], name)], is_global=False)
        elif flag in _METADATA:
            self._read_metadata(header)
        else:
            pax, self.pax = self.pax, {}
            self._read_member(header, pax)

    def _extend(self, records: Iterable[tuple[str, str]], *, is_global: bool) -> None:
        for keyword, value in records:
            if keyword in _NAMES:
                _refuse_extended_name(keyword, value)
            if keyword == _FOLDER_LIST:
                for name in dumped_names(value.encode()):
                    refuse_name(name)
            if is_global and (keyword in _STATED_ONCE or keyword.startswith(_PAX_SPARSE)):
                raise Unsafe(Finding.ARCHIVE_UNSAFE, f"the archive states one {keyword} for all of its members")
            if keyword in _STATED_ONCE and self.pax.get(keyword, value) != value:
                raise Unsafe(
                    Finding.ARCHIVE_UNSAFE,
                    f"the archive states two values for one {keyword}: {self.pax[keyword]!r} and {value!r}",
                )
            if not is_global:
                self.pax[keyword] = value

    def _read_metadata(self, header: TarHeader) -> None:
        name = next((self.pax[key] for key in _PAX_NAMES if key in self.pax), header.name)
        _refuse_unsafe(header, name, "")
        # A label has no data: readers continue right after its header. So do some after what is named like a folder.
        is_empty = header.type_flag == _LABEL or (
            header.type_flag not in _LISTED_FOLDERS and _names_folder(header, name)
        )
        if (is_empty and header.size) or _has_holes(self.pax):
            raise _two_sizes(name)
        _refuse_contradictions(header, name, self.pax)
        if header.type_flag not in _LISTED_FOLDERS and not _NAMES.isdisjoint(self.pax):
            raise Unsafe(Finding.ARCHIVE_UNSAFE, f"the name {name!r} is of a label or table, or of the next member")
        if header.type_flag != _ACCESS_LIST:  # an access list stands between a member and its extended headers
            self.pax = {}
        content = self._without_headers(name, self._content(name, header.size))
        if header.type_flag in _LISTS_OF_NAMES and header.size <= _MAX_HEADER_BYTES:
            for each in _LISTS_OF_NAMES[header.type_flag](b"".join(content)):
                refuse_name(each)
        elif header.type_flag in _LISTS_OF_NAMES:
            raise Corrupt(f"the list of names of {name!r} claims to be {header.size} bytes long")
        for _ in content:
            pass
        self._skip_padding(name, header.size)

    def _read_member(self, header: TarHeader, pax: Mapping[str, str]) -> None:
        name = next((pax[key] for key in _PAX_NAMES if key in pax), header.name)
        size = pax_number(pax, ("size",), header.size)
        real_size = pax_number(pax, (*_PAX_REAL_SIZES, _STAR_REAL_SIZE), header.real_size)
        self.members += 1
        _refuse_unsafe(header, name, pax.get("linkpath", header.link))
        self.hard_links += header.type_flag == HARD_LINK
        if real_size > self.budget.limits.max_unpacked_bytes:
            raise Unsafe(
                Finding.ARCHIVE_BOMB, f"member {name!r} unpacks to {real_size} bytes, nearly all of them holes"
            )
        _refuse_contradictions(header, name, pax)
        if _has_holes(pax) and not has_pax_map(pax, header, self.feed.peek(min(size, _MAX_MAP_BYTES))):
            raise Unsafe(
                Finding.ARCHIVE_UNSAFE, f"member {name!r} states a map of holes that only some readers understand"
            )
        self._read_sparse_map(header, name)
        if size and (header.type_flag in WITHOUT_DATA or _names_folder(header, name)):
            self._read_folder_with_data(header, name, size)
        elif header.type_flag not in WITHOUT_DATA:
            content = self._content(name, size)
            self.visitor.member(name, content if size == header.size else self._without_headers(name, content))
            self._skip_padding(name, size)

    def _read_folder_with_data(self, header: TarHeader, name: str, size: int) -> None:
        """Read a member that is no file but states a size: some readers skip that size, others continue at once."""
        block = self.feed.peek(BLOCK)
        has_data = header.type_flag not in WITHOUT_DATA or block.strip(b"\0")
        if has_data and not is_header(block):
            for _ in self._without_headers(name, self._content(name, size)):
                pass
            self._skip_padding(name, size)
        elif header.type_flag != HARD_LINK or self.has_pax:
            # Hard links from old writers state their file's size: readers ignore it, but not after pax headers.
            heapq.heappush(self.landings, self.feed.position + size + -size % BLOCK)

    def _check_landings(self, offset: int) -> None:
        while self.landings and self.landings[0] <= offset:
            if heapq.heappop(self.landings) < offset:
                raise Unsafe(
                    Finding.ARCHIVE_UNSAFE,
                    f"before byte {offset} a member that is no file states a size: readers differ in where to continue",
                )

    def _content(self, name: str, size: int) -> Iterator[bytes]:
        left = size
        for piece in self.feed.pieces(size):
            left -= len(piece)
            yield piece
        if left:
            at = self.feed.position
            raise Corrupt(f"the archive is cut: it ends at byte {at}, {left} bytes before the end of member {name!r}")

    def _without_headers(self, name: str, content: Iterator[bytes]) -> Iterator[bytes]:
        """Yield content that some readers skip and others read as members. Raise `Unsafe` if there is one in it."""
        rest = b""
        for piece in content:
            yield piece
            rest += piece
            whole = len(rest) // BLOCK * BLOCK
            blocks, rest = rest[:whole], rest[whole:]
            if any(claims_header(blocks[at : at + BLOCK]) for at in range(0, whole, BLOCK)):
                raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} holds what some readers take for another member")
        if rest and claims_header(rest + self.feed.peek(BLOCK - len(rest))):
            raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} holds what some readers take for another member")

    def _skip_padding(self, name: str, size: int) -> bytes:
        padding = -size % BLOCK
        skipped = self.feed.take(padding)
        if len(skipped) < padding:
            at = self.feed.position
            raise Corrupt(f"the archive is cut: it ends at byte {at}, inside the last block of member {name!r}")
        return skipped

    def _header_data(self, header: TarHeader) -> bytes:
        at = self.feed.position
        if header.size > _MAX_HEADER_BYTES:
            raise Corrupt(f"an extended header before byte {at} of the archive claims to be {header.size} bytes long")
        data = b"".join(self._content(header.name, header.size))
        if self._skip_padding(header.name, header.size).strip(b"\0"):
            raise Unsafe(
                Finding.ARCHIVE_UNSAFE,
                f"the extended header at byte {at} continues after its end, where some readers read",
            )
        return data

    def _read_sparse_map(self, header: TarHeader, name: str) -> None:
        """Skip the rest of a map of holes. Raise `Unsafe` if it contradicts the sizes, which some readers skip."""
        sparse_map = header.sparse_map
        while sparse_map and sparse_map.continues:
            block = self.feed.take(BLOCK)
            if len(block) < BLOCK:
                at = self.feed.position
                raise Corrupt(f"the archive is cut: it ends at byte {at}, in the map of holes of member {name!r}")
            sparse_map = read_further_map(block, sparse_map)
            if sparse_map is None:
                raise Corrupt(f"the map of holes of member {name!r} is damaged")
        if sparse_map and (sparse_map.data_bytes != header.size or sparse_map.end > header.real_size):
            raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} has a map of holes that contradicts its sizes")

    def _continues_behind_end(self, offset: int) -> bool:
        """Skip the end blocks, the first of which is at `offset`. Return whether another archive follows them."""
        while self.feed.peek(BLOCK) == _EMPTY:
            self.feed.take(BLOCK)
        if is_header(self.feed.peek(BLOCK)):
            return True
        rest = Feed(self._behind_end(offset), self.feed.position)
        block = rest.peek(BLOCK)
        if block and not block.strip(b"\0"):
            raise Corrupt(f"the archive is cut: it ends at byte {self.feed.position}, in the middle of a TAR block")
        if block:
            self.trailing_bytes = check_trailing(rest, "TAR", None)
        return False

    def _behind_end(self, offset: int) -> Iterator[bytes]:
        # Headers behind the end are lost members, unless in the last record, where old tape writers left stale bytes.
        stale = (offset // _RECORD + 1) * _RECORD if offset >= _RECORD else 0
        while block := self.feed.take(BLOCK):
            start = self.feed.position - len(block)
            if is_header(block):
                if start >= stale:
                    raise Corrupt(
                        f"the archive is damaged from byte {offset} on: it seems to end there,"
                        f" but members continue at byte {start}"
                    )
                header = read_header(block, start)
                _refuse_unsafe(header, header.name, header.link)
            yield block


def _refuse_unsafe(header: TarHeader, name: str, target: str) -> None:
    """Raise `Unsafe` for a symbolic link, a device or pipe, or a name or target that leads outside for any reader."""
    for each in header.names:
        refuse_name(each)
    if header.type_flag == SYMBOLIC_LINK:
        refuse_link(name, target)
    if header.type_flag in DEVICES:
        refuse_device(name)
    for each in (target, header.link):  # of a file, too: BusyBox makes a link of any that names one
        refuse_hard_link(name, each)


def _refuse_contradictions(header: TarHeader, name: str, pax: Mapping[str, str]) -> None:
    """Raise `Unsafe` for extended headers that contradict the header of a member in what decides on other members."""
    size = pax_number(pax, ("size",), header.size)
    # Beyond 8 GiB the size is in the extended header only, and that in the header is zero.
    if (
        size < header.size
        or (size != header.size and header.type_flag in _METADATA)
        or ("size" in pax and _has_holes(pax))
    ):
        raise _two_sizes(name)
    if "linkpath" in pax and header.type_flag != HARD_LINK:
        raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} has the target of a link and is none")


def _refuse_extended_name(keyword: str, value: str) -> None:
    if "\0" in value:
        raise Unsafe(
            Finding.ARCHIVE_UNSAFE, f"the {keyword} {value!r} holds a zero byte: readers differ in where it ends"
        )
    if keyword == "linkpath":
        refuse_hard_link("", value)
    else:
        refuse_name(value)


def _names_folder(header: TarHeader, name: str) -> bool:
    return any(each.endswith("/") for each in (name, *header.names))


def _has_holes(pax: Mapping[str, str]) -> bool:
    return any(key in _PAX_REAL_SIZES or key in PAX_MAPS for key in pax)


def _two_sizes(name: str) -> Unsafe:
    return Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} states two sizes: readers differ in where the next begins")


TAR: Final = StreamContainer("tar", is_header, walk)
