"""Twice the archive costs at most 2.3 times the work, counted in calls, which no busy machine changes."""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

from sluice_inspect.archives.tar import TAR
from sluice_inspect.archives.zip.archive import ZIP
from sluice_inspect.budget import Budget
from sluice_inspect.report import InspectionError, Limits
from sluice_inspect.source import MemorySource
from sluice_inspect.unpacking import Feed
from tests.inspection.formats.test_tar import END, header
from tests.inspection.formats.test_tar_unsafe import POSIX, data, extended, long_name, member, record
from tests.inspection.formats.zip_samples import Member, extra_field, written
from tests.rows import each_row

FACTOR: Final = 2.3


class Reading:
    """Reads every member to its end."""

    def member(self, _name: str, pieces: Iterator[bytes]) -> None:
        for _ in pieces:
            pass

    def payload(self, pieces: Iterator[bytes]) -> None:
        self.member("", pieces)


def walk_tar(archive: bytes) -> None:
    TAR.walk(Feed([archive]), Budget(Limits(), len(archive)), Reading())


def walk_zip(archive: bytes) -> None:
    ZIP.walk(MemorySource(bytearray(archive)), Budget(Limits(), len(archive)), Reading())


def calls(walk: Callable[[bytes], None], archive: bytes) -> int:
    """Return how many functions are called, those of the interpreter included."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        walk(archive)
    except InspectionError:
        pass
    finally:
        sys.setprofile(None)
    return count


TARS: Final[dict[str, Callable[[int], bytes]]] = {
    "members": lambda size: member(content=b"x") * size + END,
    "extended headers before one member": lambda size: extended(mtime="1") * size + member() + END,
    "long names": lambda size: (long_name(b"n" * 300) + member()) * size + END,
    "records of one header": lambda size: member(content=record("comment", "x" * 9) * size, type_flag=b"x") + member(),
    "folders that state sizes": lambda size: header(b"d", b"%011o\0" % 2**30, b"5", p257=POSIX) * size + END,
    "lists of names": lambda size: member(b"d/", b"Yname\0" * size, b"D") + END,
    "renamed names": lambda size: member(b"n", b"Rename a to b to c\n" * size, b"N") + END,
    "a map of holes": lambda size: header(b"s", b"%011o\0" % 0, b"S", p482=b"\1") + (bytes(504) + b"\1" * 8) * size,
    "a map of holes in the content": lambda size: (
        extended(GNU__sparse__major="1", GNU__sparse__minor="0", GNU__sparse__realsize="9")
        + member(content=b"%d\n" % size + b"0\n4\n" * size)
        + END
    ),
    "zeros": lambda size: member() + bytes(512) * size,
    "stale headers": lambda size: member(content=bytes(9000)) + END + b"\7" * 512 + data(b"x") * size,
}
ZIPS: Final[dict[str, Callable[[int], bytes]]] = {
    "members": lambda size: written(*(Member(name=b"%d" % each) for each in range(size))),
    "extra fields": lambda size: written(
        Member(extra=extra_field(9, b"x") * size, local_extra=extra_field(9, b"x") * size)
    ),
    "end records in the comment": lambda size: written(Member(), comment=(b"PK\5\6" + bytes(18)) * size),
    "gaps": lambda size: written(*(Member(name=b"%d" % each, behind=b"x" * 40) for each in range(size))),
}


@each_row("make", TARS.values(), ids=TARS)
def test_work_on_a_tar_archive_is_linear(make: Callable[[int], bytes]) -> None:
    assert calls(walk_tar, make(1000)) <= FACTOR * calls(walk_tar, make(500)) + 500


@each_row("make", ZIPS.values(), ids=ZIPS)
def test_work_on_a_zip_archive_is_linear(make: Callable[[int], bytes]) -> None:
    assert calls(walk_zip, make(1000)) <= FACTOR * calls(walk_zip, make(500)) + 500
