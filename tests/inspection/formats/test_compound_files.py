"""Compound files (OLE2): streams, chains and directories, sound and damaged."""

import struct
import time

import pytest

from sluice_inspect.office.compound import CompoundFile, Tree, make_compound
from sluice_inspect.report import Corrupt, TooComplex
from tests.inspection.formats.examining import source_of
from tests.rows import each_row

LONG = bytes(range(256)) * 40
TREE: Tree = {
    "Long": LONG,
    "Short": b"a few bytes",
    "Empty": b"",
    "Folder": {"Inner": b"x" * 100, "Deep": {"Leaf": LONG[:5000]}},
}
FILE = make_compound(TREE)
TABLE_AT = 512


def directory_at(data: bytes) -> int:
    return 512 * (1 + int.from_bytes(data[48:52], "little"))


def entry_at(data: bytes, name: str) -> int:
    return data.index(name.encode("utf-16-le") + b"\0\0", directory_at(data))


def changed(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + struct.pack("<L", value) + data[at + 4 :]


def count_sound_streams(data: bytes) -> int:
    with source_of(data) as source:
        return CompoundFile(source).check_streams()


def test_every_stream_reads_as_it_was_written() -> None:
    with source_of(FILE) as source:
        container = CompoundFile(source)
        streams = {path: container.read(entry) for path, entry in container.root.walk() if entry.is_stream}
    assert streams == {
        "Long": LONG,
        "Short": b"a few bytes",
        "Empty": b"",
        "Folder/Inner": b"x" * 100,
        "Folder/Deep/Leaf": LONG[:5000],
    }


def test_beginning_of_a_stream_can_be_read_alone() -> None:
    with source_of(FILE) as source:
        container = CompoundFile(source)
        entry = container.root.stream("nowhere", "long")
        assert entry is not None
        assert container.read(entry, 10) == LONG[:10]


def test_streams_are_counted() -> None:
    assert count_sound_streams(FILE) == 5


@each_row("length", [100, 600, len(FILE) // 2, len(FILE) - 600])
def test_truncated_file_is_corrupt(length: int) -> None:
    with pytest.raises(Corrupt):
        count_sound_streams(FILE[:length])


def test_file_may_end_with_the_last_byte_of_a_short_stream() -> None:
    file = make_compound({"Short": b"x" * 100})
    root = entry_at(file, "Root Entry")
    holder = 512 * (1 + int.from_bytes(file[root + 116 : root + 120], "little"))
    last = len(file) // 512 - 1
    moved = changed(changed(file, root + 116, last), TABLE_AT + 4 * last, 0xFFFFFFFE) + file[holder : holder + 100]
    assert count_sound_streams(moved) == 1
    with pytest.raises(Corrupt):
        count_sound_streams(moved[:-1])


@each_row("at", [28, 30])
def test_impossible_header_is_corrupt(at: int) -> None:
    with pytest.raises(Corrupt, match="header"):
        count_sound_streams(FILE[:at] + b"\x07\x07" + FILE[at + 2 :])


@each_row("name", ["Long", "Leaf"])
def test_looping_stream_is_corrupt(name: str) -> None:
    start = struct.unpack_from("<L", FILE, entry_at(FILE, name) + 116)[0]
    with pytest.raises(Corrupt, match=name):
        count_sound_streams(changed(FILE, TABLE_AT + 4 * start, start))


def test_overlapping_streams_are_corrupt() -> None:
    start = struct.unpack_from("<L", FILE, entry_at(FILE, "Long") + 116)[0]
    with pytest.raises(Corrupt, match="where another stream lies"):
        count_sound_streams(changed(FILE, entry_at(FILE, "Leaf") + 116, start))


@each_row(("name", "size"), [("Long", 2**31), ("Short", 4000), ("Root Entry", 0)])
def test_stream_shorter_than_its_stated_size_is_corrupt(name: str, size: int) -> None:
    with pytest.raises(Corrupt):
        count_sound_streams(changed(FILE, entry_at(FILE, name) + 120, size))


@each_row("link", [68, 72, 76])
def test_looping_directory_is_corrupt(link: int) -> None:
    with pytest.raises(Corrupt, match="directory"):
        count_sound_streams(changed(FILE, entry_at(FILE, "Folder") + link, 0))


def test_looping_difat_chain_is_read_once() -> None:
    data = changed(changed(FILE, 68, len(FILE) // 512 - 1), 72, 1) + struct.pack(
        "<128L", *[0xFFFFFFFF] * 127, len(FILE) // 512 - 1
    )
    assert count_sound_streams(data) == 5


def test_endless_directory_is_too_complex() -> None:
    sectors = 60_000
    header = FILE[:48] + struct.pack("<L", 500) + FILE[52:76]
    tables = [*range(-(-sectors // 128)), *[0xFFFFFFFF] * 109][:109]
    entry = b"R\0".ljust(64, b"\0") + struct.pack("<HBB", 4, 5, 1) + bytes(60)
    table = struct.pack(f"<{109 * 128}L", *range(1, 109 * 128 + 1))
    body = table + entry * 4 * (sectors - 109)
    with pytest.raises((TooComplex, Corrupt)):
        count_sound_streams(header + struct.pack("<109L", *tables) + body)


def test_looping_chain_ends_at_the_loop_despite_its_stated_length() -> None:
    at = entry_at(FILE, "Long")
    first = int.from_bytes(FILE[at + 116 : at + 120], "little")
    looping = changed(changed(FILE, TABLE_AT + 4 * first, first), at + 120, 0xFFFFFFFF)
    began = time.process_time()
    with pytest.raises(Corrupt, match="before its stated length"):
        count_sound_streams(looping)
    assert time.process_time() - began < 1
