"""Archives in archives: safety, budgets and blankness."""

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from dataclasses import replace

import pytest

from sluice_inspect.archives import nested
from sluice_inspect.budget import Budget
from sluice_inspect.format import Format
from sluice_inspect.formats import compressed, sevenzip, tar
from sluice_inspect.formats import zip as zip_format
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats import test_tar
from tests.inspection.formats.examining import examine_bytes, source_of
from tests.inspection.formats.zip_samples import archive
from tests.rows import each_row

Wrap = Callable[[str, bytes], bytes]


def in_tar(name: str, content: bytes) -> bytes:
    return test_tar.archive(test_tar.entry(name, content))


def in_zip(name: str, content: bytes) -> bytes:
    return archive((name, content))


def in_sevenzip(name: str, content: bytes) -> bytes:
    py7zr = pytest.importorskip("py7zr")
    file = io.BytesIO()
    with py7zr.SevenZipFile(file, "w") as opened:
        opened.writestr(content, name)
    return file.getvalue()


OUTER: list[tuple[Format, Wrap]] = [
    (zip_format.FORMAT, in_zip),
    (tar.FORMAT, in_tar),
    (compressed.GZIP, lambda _name, content: gzip.compress(content)),
    (compressed.GZIP, lambda name, content: gzip.compress(in_tar(name, content))),
    (compressed.BZIP2, lambda _name, content: bz2.compress(content)),
    (compressed.XZ, lambda name, content: lzma.compress(in_tar(name, content))),
    (sevenzip.FORMAT, in_sevenzip),
]
NAMES = ["zip", "tar", "gz", "tar.gz", "bz2", "tar.xz", "7z"]
each_outer = each_row(("format_", "wrap"), OUTER, ids=NAMES)


@each_outer
def test_inner_archive_is_judged_in_every_outer_format(format_: Format, wrap: Wrap) -> None:
    def word(inner: bytes, limits: Limits | None = None) -> str:
        return examine_bytes(format_, wrap("inner", inner), limits).word

    for inner in (in_zip, in_tar):
        assert (word(inner("a", b"x")), word(inner("../a", b"x"))) == ("ok", "archive_unsafe")
    # Its bytes count against the budget of the outer one.
    limits = replace(Limits(), ratio_floor_bytes=1_000_000)
    assert word(in_zip("zeros", bytes(10_000_000)), limits) == "archive_bomb"
    # Damage leaves the outer one sound.
    damaged = (in_zip("a", b"x" * 500)[:-30], in_tar("a", b"x" * 2000)[:1500], gzip.compress(b"x" * 500)[:-4])
    assert [word(each) for each in damaged] == ["ok"] * 3
    assert [word(each) for each in (in_zip("a", b"\n"), in_tar("a", b""), in_tar("a", b"x"))] == [
        "blank",
        "blank",
        "ok",
    ]


@each_row(("format_", "wrap"), OUTER[:4], ids=NAMES[:4])
def test_damage_of_the_outer_archive_around_an_inner_one_is_corrupt(format_: Format, wrap: Wrap) -> None:
    data = wrap("inner", in_tar("a", b"x" * 5000))
    assert examine_bytes(format_, data[: int(len(data) * 0.4)]).outcome is Outcome.CORRUPT


def test_nested_archives_pass_up_to_the_depth_limit() -> None:
    limits = replace(Limits(), max_depth=3)
    data = in_tar("a", b"x")
    for wrap in (in_zip, in_sevenzip):
        data = wrap("inner", data)
    assert examine_bytes(sevenzip.FORMAT, data, limits).passes
    result = examine_bytes(tar.FORMAT, in_tar("outer", data), limits)
    assert result.finding is Finding.ARCHIVE_BOMB
    assert "3 deep" in result.detail


def test_compressed_tar_counts_as_one_level_and_streams_stop_at_the_depth_limit() -> None:
    packed = data = b"x"
    for _ in range(3):
        data = gzip.compress(in_tar("a", data))
    assert examine_bytes(compressed.GZIP, data, replace(Limits(), max_depth=3)).passes
    assert examine_bytes(compressed.GZIP, data, replace(Limits(), max_depth=2)).finding is Finding.ARCHIVE_BOMB
    for _ in range(5):
        packed = gzip.compress(packed)
    assert examine_bytes(compressed.GZIP, packed).finding is Finding.ARCHIVE_BOMB


def test_detail_names_the_path_of_the_unsafe_member() -> None:
    data = in_zip("outer.tar.gz", gzip.compress(in_tar("inner.zip", in_zip("../a", b"x"))))
    result = examine_bytes(zip_format.FORMAT, data)
    assert "in 'outer.tar.gz': in 'inner.zip': member '../a'" in result.detail


def test_inner_archive_too_large_for_memory_is_only_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested, "_MAX_HELD_BYTES", 50)
    result = examine_bytes(tar.FORMAT, in_tar("inner", in_zip("../a", b"x")))
    assert (result.outcome, result.finding, result.blank) == (Outcome.OK, None, None)


def test_walk_past_the_time_limit_is_partial() -> None:
    data = in_zip("a", b"x")
    with source_of(data) as source:
        examination = zip_format.FORMAT.examine(source, replace(Limits(), soft_seconds=-1.0))
        assert examination.measures["partially_checked"] is True
        assert examination.blank() is None


def test_walk_counts_members_of_the_outermost_archive() -> None:
    walk = nested.ArchiveWalk(Budget(Limits(), packed_bytes=100))
    walk.member("a", iter([in_tar("b", b"x")]))
    walk.member("c", iter([b"text"]))
    assert (walk.members, walk.has_content) == (2, True)
