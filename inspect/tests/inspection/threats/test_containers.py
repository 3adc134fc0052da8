"""Every container is opened, and parts that clamd misses are written to the shared buffer for it."""

import gzip
import lzma
import os
import random
import zlib
from collections.abc import Mapping

import lz4.block
import zstandard

from sluice_inspect.archives import libarchive
from sluice_inspect.child.shared_buffer import SharedBuffer, SharedBufferWriter
from sluice_inspect.formats import rar
from sluice_inspect.threats.scan import scan_source
from tests.inspection.threats.containers import (
    MISSED_BY_CLAMD,
    OPENED_BY_CLAMD,
    OPENED_HERE,
    REQUIRED_CONTAINERS,
    Wrap,
    pdf_with,
    seven_zipped,
)
from tests.inspection.threats.packed_files import EICAR, scan_bytes, threat_in, verdict_of, zipped
from tests.rows import each_row
from tests.run_length import amount

HARMLESS = random.Random(1).randbytes(3000)
REQUIRED = {name: wrap for name, (_, wrap) in REQUIRED_CONTAINERS.items()}
CONTAINERS: Mapping[str, Wrap] = {**REQUIRED, **MISSED_BY_CLAMD, **OPENED_BY_CLAMD, **OPENED_HERE}


def with_zip_method(method: int) -> bytes:
    odd = bytearray(zipped({"b": HARMLESS}))
    for at in (8, odd.index(b"PK\x01\x02") + 10):
        odd[at] = method
    return bytes(odd)


def scan_with_buffer(
    data: bytes, *, everything: bool = False, room: int = 2**20
) -> tuple[dict[str, object], list[bytes]]:
    """Scan with a shared buffer and return the unpack report and the parts in the buffer."""
    buffer = SharedBuffer(room)
    fd = os.memfd_create("scanned")
    writer = SharedBufferWriter(os.dup(buffer.fd))
    try:
        os.write(fd, data)
        result = scan_source(fd, "", writer, everything=everything)
        places = result["laid"]
        assert isinstance(places, list)
        return result, [os.pread(buffer.fd, size, start) for start, size, _ in places]
    finally:
        writer.close()
        os.close(fd)
        buffer.close()


@each_row("name", CONTAINERS)
def test_eicar_is_found_in_every_container_and_harmless_bytes_are_clean(name: str) -> None:
    assert threat_in(CONTAINERS[name](EICAR)) == "Eicar-Test-File"
    assert verdict_of(scan_bytes(CONTAINERS[name](HARMLESS))) == verdict_of(scan_bytes(b""))


@each_row("name", MISSED_BY_CLAMD)
def test_parts_that_clamd_misses_are_written_to_the_shared_buffer(name: str) -> None:
    result, parts = scan_with_buffer(MISSED_BY_CLAMD[name](HARMLESS))
    assert result["complete"] is True
    assert any(HARMLESS in part for part in parts)


@each_row("name", [name for name in REQUIRED_CONTAINERS if name != "PDF attachment"])
def test_parts_that_clamd_opens_are_not_written_to_the_shared_buffer(name: str) -> None:
    assert scan_with_buffer(REQUIRED[name](HARMLESS))[1] == []


def test_every_part_is_written_to_the_shared_buffer_on_request() -> None:
    inner = zipped({"b": b"b" * 5000})
    result, parts = scan_with_buffer(zipped({"a.zip": inner, "c": b"c" * 600}), everything=True)
    assert parts == [b"b" * 5000, inner, b"c" * 600]
    places = result["laid"]
    assert isinstance(places, list)
    assert [opened for _, _, opened in places] == [False, True, False]


def test_parts_beyond_the_shared_buffer_are_incomplete() -> None:
    result, parts = scan_with_buffer(pdf_with(random.Random(1).randbytes(5000)), room=4096)
    assert (result["complete"], parts) == (False, [])
    assert "more parts that clamd does not see than there is room for" in str(result["why"])


def test_password_protected_document_is_reported_as_encrypted() -> None:
    import pikepdf  # noqa: PLC0415  (only for its names)

    locked = pdf_with(EICAR, encryption=pikepdf.Encryption(owner="x", user="y", R=6))
    assert (threat_in(locked), scan_bytes(locked)["encrypted"]) == (None, True)
    aes = seven_zipped(EICAR, b"\x06\xf1\x07\x01")
    assert scan_bytes(aes.replace(EICAR, bytes(68)))["encrypted"] is True


def test_unknown_packing_is_reported_as_unopened() -> None:
    brotli = scan_bytes(seven_zipped(HARMLESS, b"\x04\xf7\x11\x02"))
    assert brotli["unopened"] == ["7z"] or "7z archive that cannot be unpacked" in str(brotli["why"])
    assert scan_bytes(with_zip_method(98))["unopened"] == ["zip method 98"]
    assert scan_bytes(b"LZIP\x01" + HARMLESS)["unopened"] == ["lzip"]


def test_rar_members_are_unpacked_when_libarchive_is_installed() -> None:
    result, parts = scan_with_buffer(rar.sample())
    if libarchive.is_installed():
        assert parts == [b"A sluice is a gate.\n"]
    else:
        assert result["unopened"] == ["rar"]


BLOCK: bytes = lz4.block.compress(EICAR, store_size=False)
LARGE_WINDOW = zstandard.ZstdCompressionParameters(window_log=28)
LARGE_PACKER = zstandard.ZstdCompressor(compression_params=LARGE_WINDOW).compressobj()


@each_row(
    ("case", "packed"),
    [
        ("Zstandard after a skippable frame", b"\x50\x2a\x4d\x18\x04\0\0\0skip" + zstandard.compress(EICAR)),
        ("legacy LZ4", b"\x02\x21\x4c\x18" + len(BLOCK).to_bytes(4, "little") + BLOCK),
        ("gzip after padding", gzip.compress(b"first") + bytes(512) + gzip.compress(EICAR)),
        ("xz after padding", lzma.compress(b"first") + bytes(8) + lzma.compress(EICAR)),
    ],
)
def test_eicar_is_found_in_unusual_streams(case: str, packed: bytes) -> None:
    assert threat_in(packed) == "Eicar-Test-File"


@each_row(
    ("data", "why"),
    [
        (rar.sample()[:30], "rar archive that cannot be unpacked to its end"),
        (LARGE_PACKER.compress(HARMLESS) + LARGE_PACKER.flush(), "needs more memory to unpack than is allowed"),
    ],
)
def test_truncated_archive_or_stream_that_needs_much_memory_is_incomplete(data: bytes, why: str) -> None:
    assert why in str(scan_bytes(data)["why"])


@each_row(("start", "name"), [(b"MSCF\0\0\0\0", "cab"), (b"ITSF", "chm")])
def test_packing_that_only_clamd_opens_is_reported_as_foreign(start: bytes, name: str) -> None:
    assert scan_bytes(start + HARMLESS)["foreign"] == [name]
    assert scan_bytes(zipped({"a": start + HARMLESS}))["foreign"] == [name]


def test_disk_image_of_macos_is_reported_as_foreign() -> None:
    trailer = b"koly" + bytes(508)
    assert scan_bytes(HARMLESS + trailer)["foreign"] == ["dmg"]
    assert scan_bytes(HARMLESS + trailer + b"\n")["foreign"] == []
    assert threat_in(zlib.compress(b"first") + zlib.compress(EICAR) + b"<plist/>" + trailer) == "Eicar-Test-File"


@each_row("text", [b"8O clock is late", b"x = 1 and more text", b"H\t1", b"x\x9c", b"x\x9c" + HARMLESS])
def test_bytes_that_begin_as_a_zlib_stream_by_chance_are_none(text: bytes) -> None:
    result = scan_bytes(text)
    assert (result["members"], result["opened"]) == (0, False)


@each_row(("method", "expansion"), [(6, 160), (9, 30_000)])
def test_member_that_only_clamd_opens_counts_with_its_maximum_size(method: int, expansion: int) -> None:
    packed = int.from_bytes(zipped({"b": HARMLESS})[18:22], "little")
    result = scan_bytes(with_zip_method(method))
    assert (result["foreign"], result["unopened"]) == ([f"zip method {method}"], [])
    assert result["largest"] == expansion * packed


def test_sizes_are_measured() -> None:
    result = scan_bytes(zipped({"a": bytes(5000), "in.zip": zipped({"b": bytes(9000)})}))
    assert (result["largest"], result["members"], result["depth"]) == (9000, 3, 2)
    assert result["unpacked"] == 14_000 + len(zipped({"b": bytes(9000)}))


@each_row("seed", range(amount("DAMAGES", short=6, full=200)))
def test_damaged_container_raises_no_exception(seed: int) -> None:
    chance = random.Random(seed)
    for wrap in CONTAINERS.values():
        data = bytearray(wrap(HARMLESS))
        for _ in range(8):
            data[chance.randrange(len(data))] = chance.randrange(256)
        cut = bytes(data[: chance.randrange(1, len(data) + 1)])
        assert scan_bytes(cut)["threat"] is None
