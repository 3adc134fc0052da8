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


def start_of(name: str) -> int:
    return int.from_bytes(FILE[entry_at(FILE, name) + 116 :][:4], "little")


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


def test_streams_are_counted_and_a_looping_difat_chain_read_once() -> None:
    assert count_sound_streams(FILE) == 5
    last = len(FILE) // 512 - 1
    looping = changed(changed(FILE, 68, last), 72, 1) + struct.pack("<128L", *[0xFFFFFFFF] * 127, last)
    assert count_sound_streams(looping) == 5


def test_file_may_end_with_the_last_byte_of_a_short_stream() -> None:
    file = make_compound({"Short": b"x" * 100})
    root = entry_at(file, "Root Entry")
    holder = 512 * (1 + int.from_bytes(file[root + 116 : root + 120], "little"))
    last = len(file) // 512 - 1
    moved = changed(changed(file, root + 116, last), TABLE_AT + 4 * last, 0xFFFFFFFE) + file[holder : holder + 100]
    assert count_sound_streams(moved) == 1
    with pytest.raises(Corrupt):
        count_sound_streams(moved[:-1])


@each_row(
    ("case", "data", "error"),
    [
        *((f"cut at {length}", FILE[:length], "") for length in (100, 600, len(FILE) // 2, len(FILE) - 600)),
        *((f"header at {at}", FILE[:at] + b"\x07\x07" + FILE[at + 2 :], "header") for at in (28, 30)),
        *((f"loop of {name}", changed(FILE, TABLE_AT + 4 * start_of(name), start_of(name)), name) for name in ("Long", "Leaf")),
        ("overlap", changed(FILE, entry_at(FILE, "Leaf") + 116, start_of("Long")), "where another stream lies"),
        ("size of Long", changed(FILE, entry_at(FILE, "Long") + 120, 2**31), ""),
        ("size of Short", changed(FILE, entry_at(FILE, "Short") + 120, 4000), ""),
        ("size of the root", changed(FILE, entry_at(FILE, "Root Entry") + 120, 0), ""),
        *((f"directory loop at {link}", changed(FILE, entry_at(FILE, "Folder") + link, 0), "directory") for link in (68, 72, 76)),
    ],
)  # fmt: skip
def test_truncated_or_contradictory_file_is_corrupt(case: str, data: bytes, error: str) -> None:
    with pytest.raises(Corrupt, match=error or None):
        count_sound_streams(data)


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
    first = start_of("Long")
    looping = changed(changed(FILE, TABLE_AT + 4 * first, first), entry_at(FILE, "Long") + 120, 0xFFFFFFFF)
    began = time.process_time()
    with pytest.raises(Corrupt, match="before its stated length"):
        count_sound_streams(looping)
    assert time.process_time() - began < 1
