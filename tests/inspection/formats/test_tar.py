import io
import tarfile
from collections.abc import Mapping
from dataclasses import replace

import pytest

from sluice.formats.archives.tar_records import BLOCK
from sluice.formats.kinds.tar import KIND
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.judging import Judged, corpus, judge, needs_corpus

TEXT = b"some text\n" * 200


def entry(name: str = "a.txt", content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def archive(
    *entries: tuple[tarfile.TarInfo, bytes], layout: int = tarfile.PAX_FORMAT, pax: Mapping[str, str] | None = None
) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=layout, pax_headers=pax) as opened:
        for info, content in entries:
            opened.addfile(info, io.BytesIO(content))
    return file.getvalue()


def summed(block: bytes) -> bytes:
    total = sum(block[:148]) + 8 * 32 + sum(block[156:])
    return block[:148] + b"%06o\0 " % total + block[156:]


def header(name: bytes, size: bytes, kind: bytes = b"0", **places: bytes) -> bytes:
    block = bytearray(BLOCK)
    for at, value in ((0, name), (124, size), (156, kind), *((int(place[1:]), value) for place, value in places.items())):
        block[at : at + len(value)] = value
    return summed(bytes(block))


def judged(data: bytes, limits: Limits | None = None) -> Judged:
    return judge(KIND, data, limits)


GOOD = archive(entry("a.txt", TEXT), entry("b/", type=tarfile.DIRTYPE), entry("b/c.bin", bytes(range(256)) * 40))
BARE = GOOD.rstrip(b"\0") + bytes(-len(GOOD.rstrip(b"\0")) % BLOCK)
END = bytes(2 * BLOCK)


@pytest.mark.parametrize("layout", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_archives_of_every_layout_are_sound(layout: int) -> None:
    assert judged(archive(entry("a/" * 60 + "b.txt", TEXT), entry("c", b"x"), layout=layout)) == Judged(
        recognised=True, outcome=Outcome.OK
    )


@pytest.mark.parametrize("layout", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_names_and_sizes_in_extended_headers_are_read(layout: int) -> None:
    assert judged(archive(entry("ü" * 200, TEXT), entry("b", TEXT, uid=2**40), layout=layout)).passes


def test_an_archive_without_magic_is_sound() -> None:
    assert judged(header(b"old.txt", b"%011o\0" % 5) + b"hello".ljust(BLOCK, b"\0") + END).passes


def test_a_checksum_of_signed_bytes_is_right() -> None:
    block = header("ää and more".encode(), b"%011o\0" % 0)
    total = int(block[148:154], 8) - 256 * 4
    assert judged(block[:148] + b"%06o\0 " % total + block[156:] + END).passes


def test_an_archive_without_end_blocks_passes() -> None:
    assert judged(BARE).passes


def test_an_archive_behind_another_is_walked_too() -> None:
    assert judged(GOOD + GOOD).passes
    assert judged(GOOD + archive(entry("../a", b"x"))).finding is Finding.ARCHIVE_UNSAFE


@pytest.mark.parametrize("kept", [0.1, 0.4, 0.7])
def test_an_archive_cut_within_a_member_is_corrupt(kept: float) -> None:
    found = judged(BARE[: int(len(BARE) * kept)])
    assert found.outcome is Outcome.CORRUPT
    assert "cut" in found.detail


@pytest.mark.parametrize("cut", [1, 300, 511])
def test_a_block_that_is_not_whole_is_corrupt(cut: int) -> None:
    assert judged((BARE + END)[:-cut]).outcome is Outcome.CORRUPT
    assert judged(BARE[:-cut]).outcome is Outcome.CORRUPT


def test_a_changed_header_is_corrupt_and_its_place_is_named() -> None:
    at = GOOD.index(b"b/c.bin") // BLOCK * BLOCK
    data = bytearray(GOOD)
    data[at + 3] ^= 0x20
    found = judged(bytes(data))
    assert found.outcome is Outcome.CORRUPT
    assert str(at) in found.detail


def test_zeros_that_wiped_a_header_out_are_not_taken_for_the_end() -> None:
    at = GOOD.index(b"b/c.bin") // BLOCK * BLOCK
    data = GOOD[: at - BLOCK] + bytes(3 * BLOCK) + GOOD[at + 2 * BLOCK :] + archive(entry("z", b"z"))
    assert judged(data).outcome is Outcome.CORRUPT


def test_stale_bytes_in_the_last_record_of_a_tape_pass() -> None:
    first = archive(entry("a.bin", bytes(range(256)) * 60))
    body = first.rstrip(b"\0")
    body += bytes(-len(body) % BLOCK) + END
    stale = header(b"older.txt", b"%011o\0" % 0)
    assert judged(body + b"\x07" * BLOCK + stale).passes


def test_line_ends_changed_in_transfer_are_corrupt() -> None:
    assert judged(GOOD.replace(b"\n", b"\r\n")).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("size", [b"\xff" * 12, b"0000000x000\0"])
def test_an_impossible_size_is_corrupt(size: bytes) -> None:
    assert judged(header(b"a", size) + END).outcome is Outcome.CORRUPT


def test_a_size_in_base_256_is_read() -> None:
    assert judged(header(b"a", b"\x80" + (5).to_bytes(11, "big")) + b"hello".ljust(BLOCK, b"\0") + END).passes


@pytest.mark.parametrize("records", [b"12 path=a\n", b"path=a\n", b"9 path=abc", b"999 a=b\n", b"6 abc\n"])
def test_a_malformed_extended_header_is_corrupt(records: bytes) -> None:
    extended = header(b"x", b"%011o\0" % len(records), b"x") + records.ljust(BLOCK, b"\0")
    assert judged(extended + header(b"a", b"%011o\0" % 0) + END).outcome is Outcome.CORRUPT


def test_an_extended_size_outweighs_the_one_in_the_header() -> None:
    extended = header(b"x", b"%011o\0" % 11, b"x") + b"11 size=10\n".ljust(BLOCK, b"\0")
    assert judged(extended + header(b"a", b"%011o\0" % 0) + b"0123456789".ljust(BLOCK, b"\0") + END).passes


@pytest.mark.parametrize("name", ["../a", "a/../../b", "/etc/a", "C:/a", "..\\a"])
@pytest.mark.parametrize("layout", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_a_name_that_leaves_the_folder_is_unsafe(name: str, layout: int) -> None:
    assert judged(archive(entry(name, b"x"), layout=layout)).finding is Finding.ARCHIVE_UNSAFE


def test_the_name_in_an_extended_header_is_the_one_that_counts() -> None:
    info, content = entry("harmless", b"x")
    info.pax_headers = {"GNU.sparse.name": "../../a"}
    assert judged(archive((info, content))).finding is Finding.ARCHIVE_UNSAFE


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
def test_symbolic_links_and_devices_are_unsafe(kind: bytes) -> None:
    found = judged(archive(entry("a", type=kind, linkname="b")))
    assert found.finding is Finding.ARCHIVE_UNSAFE
    assert "'a'" in found.detail


def test_a_hard_link_passes_unless_it_leads_outside() -> None:
    assert judged(archive(entry("a", b"x"), entry("b", type=tarfile.LNKTYPE, linkname="a"))).passes
    assert judged(archive(entry("b", type=tarfile.LNKTYPE, linkname="/etc/passwd"))).finding is Finding.ARCHIVE_UNSAFE


def test_a_hard_link_that_states_the_size_of_its_file_has_no_data() -> None:
    link = header(b"b", b"%011o\0" % 5000, b"1", p157=b"a")
    assert judged(archive(entry("a", b"x"))[: 2 * BLOCK] + link + header(b"c", b"%011o\0" % 0) + END).passes


def test_a_sparse_file_of_old_gnu_tar_is_read_with_all_its_map() -> None:
    first = header(b"holes", b"%011o\0" % 5, b"S", p257=b"ustar  \0", p482=b"\1", p483=b"%011o\0" % 10**6)
    assert judged(first + bytes(BLOCK) + b"hello".ljust(BLOCK, b"\0") + END).passes


def test_holes_that_unpack_to_too_much_are_a_bomb() -> None:
    info, content = entry("holes", b"0\n".ljust(BLOCK, b"\0"))
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.realsize": str(2**40)}
    assert judged(archive((info, content))).finding is Finding.ARCHIVE_BOMB


def test_too_many_members_are_a_bomb() -> None:
    limits = replace(Limits(), max_members=10)
    assert judged(archive(*(entry(str(number)) for number in range(12)), layout=tarfile.USTAR_FORMAT), limits).finding is (
        Finding.ARCHIVE_BOMB
    )


def test_text_behind_passes_unless_it_is_html() -> None:
    assert judged(GOOD + b"-- sent by a gateway\n").passes
    assert judged(GOOD + b"<!DOCTYPE html><html><body>502</body></html>").outcome is Outcome.CORRUPT


def test_a_zip_archive_behind_is_a_second_format() -> None:
    assert judged(GOOD + b"PK\x03\x04" + bytes(30)).finding is Finding.POLYGLOT


@pytest.mark.parametrize("data", [b"", b"text", bytes(1024), b"a" * 2000, b"%PDF-1.7" + bytes(600)])
def test_other_content_is_not_recognised(data: bytes) -> None:
    assert not judged(data).recognised


@pytest.mark.parametrize(
    "entries",
    [
        (),
        (entry("folder", type=tarfile.DIRTYPE),),
        (entry("a"), entry("b")),
        (entry("a", b" \r\n\t"),),
        (entry("__MACOSX/._a", b"\0\5\x16\7"), entry("b/.DS_Store", b"Bud1")),
    ],
)
def test_an_archive_without_content_is_blank(entries: tuple[tuple[tarfile.TarInfo, bytes], ...]) -> None:
    data = archive(*entries)
    assert judge(KIND, data).blank


@pytest.mark.parametrize("entries", [(entry("a", b"x"),), (entry("a"), entry("b", b"0")), (entry("a", bytes(400_000) + b"x"),)])
def test_an_archive_with_any_content_is_not_blank(entries: tuple[tuple[tarfile.TarInfo, bytes], ...]) -> None:
    assert judge(KIND, archive(*entries)).blank is None


def test_the_sample_is_good() -> None:
    assert judged(KIND.sample()).passes


@needs_corpus
def test_corpus_good_files_are_not_corrupt() -> None:
    judgements = {path.name: judge(KIND, path.read_bytes()) for path in corpus("tar", "valid", "not_blank")}
    assert [name for name, found in judgements.items() if found.outcome is Outcome.CORRUPT] == []


@needs_corpus
def test_corpus_broken_files_are_found() -> None:
    assert [path.name for path in corpus("tar", "corrupt") if judge(KIND, path.read_bytes()).passes] == []
