"""What is in an archive: the names and sizes of its first members, and how many there are. Nothing is unpacked."""
# Only of a compressed TAR as much is unpacked as its first headers need.

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, Protocol

from sluice_inspect.archives.rar.headers import read_layout
from sluice_inspect.archives.sevenzip.walk import read_directory
from sluice_inspect.archives.tar import TAR
from sluice_inspect.archives.tar_headers import read_header, read_pax
from sluice_inspect.archives.zip.records import find_end, read_members
from sluice_inspect.budget import Budget, Deadline
from sluice_inspect.format import Format
from sluice_inspect.report import Corrupt, Encrypted, Limits, Unsafe, Unsupported
from sluice_inspect.source import RandomAccess, Source, read_pieces
from sluice_inspect.unpacking import Feed, StreamContainer

_LISTED_MOST: Final = 100  # more than a page holds
_NAME_MOST: Final = 300
_BLOCK: Final = 512
_EXTENDED, _LONG_NAME = frozenset({b"x", b"X"}), b"L"
_NO_MEMBER: Final = frozenset({b"g", b"K", b"V", b"M", b"N"})
_MAP_CONTINUES: Final = slice(504, 505)
_HEADER_MOST: Final = 1024**2
_UNPACKING_SECONDS: Final = 2.0
_UNITS: Final = ("bytes", "KB", "MB", "GB", "TB")
_UNIT: Final = 1000


@dataclass(frozen=True, slots=True)
class _Listing:
    """The first members with their sizes, None where it is not stated; `total` of all members, if that is known."""

    members: list[tuple[str, int | None]]
    total: int | None = None


class _Listed(Exception):
    """The members of a stream were listed: reading ends."""

    def __init__(self, listing: _Listing) -> None:
        super().__init__()
        self.listing = listing


def list_members(source: Source, archive: Format, filename: str, limits: Limits) -> str:
    """Return a line for each of the first members of an archive, below one on all. Raise an `InspectionError`."""
    if archive.name in _LISTS:
        listing = _LISTS[archive.name](source, limits)
    elif isinstance(archive.container, StreamContainer):
        listing = _list_stream(source, archive.container, filename, limits)
    else:
        raise Unsupported(f"the members of {archive.name} files are not listed")
    lines = [name[:_NAME_MOST] + ("" if size is None else f"  ({_size(size)})") for name, size in listing.members]
    if listing.total is None:
        return "\n".join(lines)
    return "\n".join([f"{listing.total:,} member{'' if listing.total == 1 else 's'}", "", *lines])


def _list_zip(source: Source, limits: Limits) -> _Listing:
    end = source.cached(find_end)
    if end is None:
        raise Corrupt("the archive has no end record: its end is missing, or it is no archive")
    members = source.cached(read_members, end, limits)
    return _Listing([(each.shown_name, each.unpacked) for each in members[:_LISTED_MOST]], len(members))


def _list_rar(source: Source, limits: Limits) -> _Listing:
    layout = source.cached(read_layout, limits)
    if layout.is_encrypted:
        raise Encrypted("the archive is protected by a password, the names of its members too")
    return _Listing([(each.name, each.unpacked) for each in layout.members[:_LISTED_MOST]], len(layout.members))


def _list_7z(source: Source, limits: Limits) -> _Listing:
    directory = source.cached(read_directory, limits)
    sizes = (each.size for each in chain.from_iterable(directory.table.substreams))
    files = directory.files
    listed = [(each.name, next(sizes, None) if each.has_stream else 0) for each in files[:_LISTED_MOST]]
    return _Listing(listed, len(files))


def _list_tar(source: Source, _limits: Limits) -> _Listing:
    return _Listing(list(islice(_tar_members(_Blocks(source)), _LISTED_MOST)))


_LISTS: Final[Mapping[str, Callable[[Source, Limits], _Listing]]] = {
    "7z": _list_7z,
    "rar": _list_rar,
    "tar": _list_tar,
    "zip": _list_zip,
}


def _list_stream(source: Source, container: StreamContainer, filename: str, limits: Limits) -> _Listing:
    """List the members of a compressed TAR; of another stream the name of what is compressed."""
    budget = Budget(limits, packed_bytes=source.size)
    try:
        container.walk(Feed(read_pieces(source)), budget, _StreamVisitor(filename))
    except _Listed as found:
        return found.listing
    return _Listing([(_without_extension(filename), 0)])


class _StreamVisitor:
    def __init__(self, filename: str) -> None:
        self._filename = filename

    def member(self, name: str, _pieces: Iterator[bytes]) -> None:
        raise _Listed(_Listing([(name, None)]))

    def payload(self, pieces: Iterator[bytes]) -> None:
        feed = Feed(pieces)
        if not TAR.matches(feed.peek(_BLOCK)):
            raise _Listed(_Listing([(_without_extension(self._filename), None)]))
        deadline = Deadline(_UNPACKING_SECONDS)
        members: list[tuple[str, int | None]] = []
        try:
            members.extend(islice(_tar_members(_FedBlocks(feed, deadline)), _LISTED_MOST))
        except Unsafe:  # it unpacks to more than is allowed
            if not members:
                raise
        raise _Listed(_Listing(members))


class _TarBlocks(Protocol):
    def take(self, size: int) -> bytes:
        """Return the next bytes, fewer only at the end."""

    def skip(self, size: int) -> None:
        """Leave out the next bytes."""


class _Blocks:
    """The blocks of a TAR whose bytes can be read in any order."""

    def __init__(self, source: RandomAccess) -> None:
        self._source = source
        self._at = 0

    def take(self, size: int) -> bytes:
        taken = self._source.read_at(self._at, size)
        self._at += len(taken)
        return taken

    def skip(self, size: int) -> None:
        self._at = min(self._at + size, self._source.size)


class _FedBlocks:
    """The blocks of a TAR that is unpacked in order, until its time is over."""

    def __init__(self, feed: Feed, deadline: Deadline) -> None:
        self._feed = feed
        self._deadline = deadline

    def take(self, size: int) -> bytes:
        return b"" if self._deadline.has_passed else self._feed.take(size)

    def skip(self, size: int) -> None:
        for _ in self._feed.pieces(size):
            if self._deadline.has_passed:
                return


def _tar_members(blocks: _TarBlocks) -> Iterator[tuple[str, int | None]]:
    """Yield name and size of each member, to the end of the archive. Raise `Corrupt` where no header is."""
    long_name = ""
    while len(block := blocks.take(_BLOCK)) == _BLOCK and block.strip(b"\0"):
        header = read_header(block, 0)
        padded = -(-header.size // _BLOCK) * _BLOCK
        if header.type_flag in _EXTENDED or header.type_flag == _LONG_NAME:
            if padded > _HEADER_MOST:
                raise Corrupt("a header of the archive is longer than any name")
            data = blocks.take(padded)[: header.size]
            if header.type_flag == _LONG_NAME:
                long_name = data.split(b"\0", 1)[0].decode("utf-8", "replace")
            else:
                long_name = dict(read_pax(data, 0)).get("path", "")
            continue
        more_map = header.sparse_map is not None and header.sparse_map.continues
        while more_map:
            more_map = blocks.take(_BLOCK)[_MAP_CONTINUES] not in {b"", b"\0"}
        if header.type_flag not in _NO_MEMBER:
            yield long_name or header.name, header.real_size or header.size
            long_name = ""
        blocks.skip(padded)


def _without_extension(filename: str) -> str:
    name = filename.replace("\\", "/").rpartition("/")[2]
    return name.rpartition(".")[0] or name


def _size(size: int) -> str:
    """Return a size in the largest unit of which it has one, with three digits."""
    if size == 1:
        return "1 byte"
    number: float = size
    for unit in _UNITS[:-1]:
        if number < _UNIT:
            return f"{number:.3g} {unit}"
        number /= _UNIT
    return f"{number:.3g} {_UNITS[-1]}"
