import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace

import pytest

from sluice.formats.archives import nested
from sluice.formats.budget import Budget
from sluice.formats.kind import Kind
from sluice.formats.kinds import bzip2, gz, sevenzip, tar, xz
from sluice.formats.kinds import zip as zip_kind
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.judging import judge, source_of

Wrap = Callable[[str, bytes], bytes]


def in_tar(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as opened:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        opened.addfile(info, io.BytesIO(content))
    return file.getvalue()


def in_zip(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr(name, content)
    return file.getvalue()


def in_sevenzip(name: str, content: bytes) -> bytes:
    py7zr = pytest.importorskip("py7zr")
    file = io.BytesIO()
    with py7zr.SevenZipFile(file, "w") as opened:
        opened.writestr(content, name)
    return file.getvalue()


def in_gzip(_name: str, content: bytes) -> bytes:
    return gzip.compress(content)


OUTER: list[tuple[Kind, Wrap]] = [
    (zip_kind.KIND, in_zip),
    (tar.KIND, in_tar),
    (gz.KIND, in_gzip),
    (gz.KIND, lambda name, content: gzip.compress(in_tar(name, content))),
    (bzip2.KIND, lambda _name, content: bz2.compress(content)),
    (xz.KIND, lambda name, content: lzma.compress(in_tar(name, content))),
    (sevenzip.KIND, in_sevenzip),
]
INNER: list[Wrap] = [in_zip, in_tar, lambda name, content: gzip.compress(in_tar(name, content)), in_sevenzip]
NAMES = ["zip", "tar", "gz", "tar.gz", "bz2", "tar.xz", "7z"]
each_outer = pytest.mark.parametrize(("kind", "wrap"), OUTER, ids=NAMES)


@each_outer
@pytest.mark.parametrize("inner", [in_zip, in_tar], ids=["zip", "tar"])
def test_unsafe_members_are_found_within_every_kind(kind: Kind, wrap: Wrap, inner: Wrap) -> None:
    assert judge(kind, wrap("inner", inner("a", b"x"))).passes
    assert judge(kind, wrap("inner", inner("../a", b"x"))).finding is Finding.ARCHIVE_UNSAFE


@each_outer
def test_bytes_of_inner_archives_count_against_the_outer_budget(kind: Kind, wrap: Wrap) -> None:
    limits = replace(Limits(), ratio_floor_bytes=1_000_000)
    inner = in_zip("zeros", bytes(10_000_000))
    assert judge(kind, wrap("inner", inner), limits).finding is Finding.ARCHIVE_BOMB


@each_outer
def test_a_damaged_inner_archive_leaves_the_outer_one_sound(kind: Kind, wrap: Wrap) -> None:
    for inner in (in_zip("a", b"x" * 500)[:-30], in_tar("a", b"x" * 2000)[:1500], gzip.compress(b"x" * 500)[:-4]):
        found = judge(kind, wrap("inner", inner))
        assert (found.outcome, found.blank) == (Outcome.OK, None)


@pytest.mark.parametrize(("kind", "wrap"), OUTER[:4], ids=NAMES[:4])
def test_damage_of_the_outer_archive_is_found_through_an_inner_one(kind: Kind, wrap: Wrap) -> None:
    data = wrap("inner", in_tar("a", b"x" * 5000))
    assert judge(kind, data[: int(len(data) * 0.4)]).outcome is Outcome.CORRUPT


@each_outer
def test_an_archive_that_holds_only_empty_archives_is_blank(kind: Kind, wrap: Wrap) -> None:
    assert judge(kind, wrap("inner", in_zip("a", b"\n"))).blank
    assert judge(kind, wrap("inner", in_tar("a", b""))).blank
    assert judge(kind, wrap("inner", in_tar("a", b"x"))).blank is None


def test_archives_within_archives_pass_up_to_the_depth() -> None:
    limits = replace(Limits(), max_depth=3)
    data = in_tar("a", b"x")
    for wrap in (in_zip, in_sevenzip):
        data = wrap("inner", data)
    assert judge(sevenzip.KIND, data, limits).passes
    found = judge(tar.KIND, in_tar("outer", data), limits)
    assert found.finding is Finding.ARCHIVE_BOMB
    assert "3 deep" in found.detail


def test_a_compressed_tar_is_one_archive_and_not_two() -> None:
    data = b"x"
    for _ in range(3):
        data = gzip.compress(in_tar("a", data))
    assert judge(gz.KIND, data, replace(Limits(), max_depth=3)).passes
    assert judge(gz.KIND, data, replace(Limits(), max_depth=2)).finding is Finding.ARCHIVE_BOMB


def test_streams_within_streams_end_at_the_depth() -> None:
    data = b"x"
    for _ in range(5):
        data = gzip.compress(data)
    assert judge(gz.KIND, data).finding is Finding.ARCHIVE_BOMB


def test_where_the_unsafe_member_is_can_be_read_from_the_detail() -> None:
    data = in_zip("outer.tar.gz", gzip.compress(in_tar("inner.zip", in_zip("../a", b"x"))))
    found = judge(zip_kind.KIND, data)
    assert "in 'outer.tar.gz': in 'inner.zip': member '../a'" in found.detail


def test_an_inner_archive_too_large_to_hold_is_only_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested, "_HELD_MOST", 50)
    found = judge(tar.KIND, in_tar("inner", in_zip("../a", b"x")))
    assert (found.outcome, found.finding, found.blank) == (Outcome.OK, None, None)


def test_a_walk_that_takes_too_long_ends_and_says_so() -> None:
    data = in_zip("a", b"x")
    with source_of(data) as source:
        measures = zip_kind.KIND.check(source, replace(Limits(), soft_seconds=-1.0))
        assert measures["partially_checked"] is True
        assert zip_kind.KIND.blank(source, Limits()) is None


def test_the_look_counts_members_of_the_outermost_archive() -> None:
    look = nested.Look(Budget(Limits(), packed_bytes=100))
    look.member("a", iter([in_tar("b", b"x")]))
    look.member("c", iter([b"text"]))
    assert (look.members, look.has_content) == (2, True)
