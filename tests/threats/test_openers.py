"""Every wrapping is opened, whatever lies in it, and what clamd does not see is laid out for it."""

import gzip
import lzma
import os
import random
from collections.abc import Mapping

import lz4.block
import pytest
import zstandard

from sluice.engines.sandbox.tray import Tray, TrayWriter
from sluice.formats.archives import libarchive
from sluice.formats.kinds import rar
from sluice.threats.scan import scan_source
from tests.threats.packing import EICAR, scanned, threat_in, verdict, zipped
from tests.threats.wrappings import SEEN, TWELVE, UNSEEN, Wrap, pdf_with, seven_zipped

HARMLESS = random.Random(1).randbytes(3000)
WRAPPINGS: Mapping[str, Wrap] = {name: wrap for name, (_, wrap) in TWELVE.items()} | dict(UNSEEN) | dict(SEEN)


def block(data: bytes) -> bytes:
    packed: bytes = lz4.block.compress(data, store_size=False)
    return len(packed).to_bytes(4, "little") + packed


def laid_for(data: bytes, *, everything: bool = False, room: int = 2**20) -> tuple[dict[str, object], list[bytes]]:
    """Answer what the job that lays parts out says, and the parts."""
    tray = Tray(room)
    fd = os.memfd_create("scanned")
    writer = TrayWriter(os.dup(tray.fd))
    try:
        os.write(fd, data)
        answer = scan_source(fd, "", writer, everything=everything)
        places = answer["laid"]
        assert isinstance(places, list)
        return answer, [os.pread(tray.fd, size, start) for start, size, _ in places]
    finally:
        writer.close()
        os.close(fd)
        tray.close()


@pytest.mark.parametrize("name", WRAPPINGS)
def test_the_test_virus_is_found_in_every_wrapping(name: str) -> None:
    assert threat_in(WRAPPINGS[name](EICAR)) == "Eicar-Test-File"


@pytest.mark.parametrize("name", WRAPPINGS)
def test_harmless_bytes_are_clean_in_every_wrapping(name: str) -> None:
    assert verdict(scanned(WRAPPINGS[name](HARMLESS))) == verdict(scanned(b""))


@pytest.mark.parametrize("name", UNSEEN)
def test_what_clamd_does_not_see_is_laid_out(name: str) -> None:
    answer, parts = laid_for(UNSEEN[name](HARMLESS))
    assert answer["complete"] is True
    assert any(HARMLESS in part for part in parts)


@pytest.mark.parametrize("name", [name for name in TWELVE if name != "PDF attachment"])
def test_what_clamd_sees_is_not_laid_out(name: str) -> None:
    assert laid_for(TWELVE[name][1](HARMLESS))[1] == []


def test_everything_is_laid_out_where_that_is_asked_for() -> None:
    inner = zipped({"b": b"b" * 5000})
    answer, parts = laid_for(zipped({"a.zip": inner, "c": b"c" * 600}), everything=True)
    assert parts == [b"b" * 5000, inner, b"c" * 600]
    places = answer["laid"]
    assert isinstance(places, list)
    assert [opened for _, _, opened in places] == [False, True, False]


def test_more_than_there_is_room_for_is_incomplete() -> None:
    answer, parts = laid_for(pdf_with(random.Random(1).randbytes(5000)), room=4096)
    assert (answer["complete"], parts) == (False, [])
    assert "more parts that clamd does not see than there is room for" in str(answer["why"])


def test_a_password_on_a_document_is_noted() -> None:
    import pikepdf  # noqa: PLC0415  (for its names alone)

    locked = pdf_with(EICAR, encryption=pikepdf.Encryption(owner="x", user="y", R=6))
    assert (threat_in(locked), scanned(locked)["encrypted"]) == (None, True)
    aes = seven_zipped(EICAR, b"\x06\xf1\x07\x01")
    assert scanned(aes.replace(EICAR, bytes(68)))["encrypted"] is True


def test_a_packing_that_nothing_here_opens_is_noted() -> None:
    brotli = scanned(seven_zipped(HARMLESS, b"\x04\xf7\x11\x02"))
    assert brotli["unopened"] == ["7z"] or "7z archive that cannot be unpacked" in str(brotli["why"])
    odd = bytearray(zipped({"b": HARMLESS}))
    for at in (8, odd.index(b"PK\x01\x02") + 10):
        odd[at] = 98
    assert scanned(bytes(odd))["unopened"] == ["zip method 98"]
    assert scanned(b"LZIP\x01" + HARMLESS)["unopened"] == ["lzip"]


def test_the_members_of_a_rar_archive_are_laid_out_where_libarchive_is_there() -> None:
    archive = rar.sample()
    answer, parts = laid_for(archive)
    if libarchive.is_installed():
        assert parts == [b"A sluice is a gate.\n"]
    else:
        assert answer["unopened"] == ["rar"]


def test_a_rar_archive_that_ends_early_is_incomplete() -> None:
    assert "rar archive that cannot be unpacked to its end" in str(scanned(rar.sample()[:30])["why"])


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(b"\x50\x2a\x4d\x18\x04\0\0\0skip" + zstandard.compress(EICAR), id="Zstandard behind a frame to be skipped"),
        pytest.param(b"\x02\x21\x4c\x18" + block(EICAR), id="LZ4 of the oldest kind"),
        pytest.param(gzip.compress(b"first") + bytes(512) + gzip.compress(EICAR), id="gzip behind padding"),
        pytest.param(lzma.compress(b"first") + bytes(8) + lzma.compress(EICAR), id="xz behind padding"),
    ],
)
def test_unusual_streams_are_read_as_their_tools_read_them(packed: bytes) -> None:
    assert threat_in(packed) == "Eicar-Test-File"


def test_a_stream_that_needs_much_memory_is_incomplete() -> None:
    packer = zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters(window_log=28)).compressobj()
    packed = packer.compress(HARMLESS) + packer.flush()
    assert "needs more memory to unpack than is allowed" in str(scanned(packed)["why"])


@pytest.mark.parametrize(("start", "name"), [(b"MSCF\0\0\0\0", "cab"), (b"ITSF", "chm")])
def test_a_packing_that_only_clamd_opens_is_noted(start: bytes, name: str) -> None:
    assert scanned(start + HARMLESS)["foreign"] == [name]
    assert scanned(zipped({"a": start + HARMLESS}))["foreign"] == [name]


@pytest.mark.parametrize(("method", "most"), [(6, 160), (9, 30_000)])
def test_a_member_that_only_clamd_opens_counts_as_the_most_that_it_may_come_to(method: int, most: int) -> None:
    odd = bytearray(zipped({"b": HARMLESS}))
    packed = int.from_bytes(odd[18:22], "little")
    for at in (8, odd.index(b"PK\x01\x02") + 10):
        odd[at] = method
    answer = scanned(bytes(odd))
    assert (answer["foreign"], answer["unopened"], answer["largest"]) == ([f"zip method {method}"], [], most * packed)


def test_sizes_are_measured() -> None:
    answer = scanned(zipped({"a": bytes(5000), "in.zip": zipped({"b": bytes(9000)})}))
    assert (answer["largest"], answer["members"], answer["depth"]) == (9000, 3, 2)
    assert answer["unpacked"] == 14_000 + len(zipped({"b": bytes(9000)}))


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_wrapping_raises_nothing(seed: int) -> None:
    chance = random.Random(seed)
    for wrap in WRAPPINGS.values():
        data = bytearray(wrap(HARMLESS))
        for _ in range(8):
            data[chance.randrange(len(data))] = chance.randrange(256)
        cut = bytes(data[: chance.randrange(1, len(data) + 1)])
        assert scanned(cut)["threat"] is None
