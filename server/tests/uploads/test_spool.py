"""The spool: it keeps the bytes of an upload, seals them, and leaves nothing behind."""

import asyncio
import fcntl
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.errors import StorageFull
from sluice.uploads.spool import Spool
from tests.rows import each_row

CHUNK = bytes(range(256)) * 1024


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def spooled(
    folder: Path, chunks: list[bytes], memory: int, *, kept_here: bool = False
) -> tuple[bytes, int, bytes]:
    spool = Spool(memory, folder, kept_here=kept_here)
    for chunk in chunks:
        await spool.write(chunk)
    sealed = await spool.seal()
    fd = sealed.reopen()
    with os.fdopen(fd, "rb") as file:
        content = file.read()
    spool.close()
    return content, sealed.size, sealed.sha256


@given(chunks=st.lists(st.binary(max_size=200)), memory=st.integers(0, 400), kept_here=st.booleans())
@settings(deadline=None)
async def test_returns_the_written_bytes_with_size_and_digest(
    tmp_path_factory: pytest.TempPathFactory,
    chunks: list[bytes],
    memory: int,
    kept_here: bool,  # noqa: FBT001  (hypothesis passes it by name)
) -> None:
    expected, folder = b"".join(chunks), tmp_path_factory.getbasetemp()
    out = await spooled(folder, chunks, memory, kept_here=kept_here)
    assert out == (expected, len(expected), hashlib.sha256(expected).digest())


@each_row("memory", [0, 4 * 1024 * 1024])
async def test_large_uploads_are_kept_unchanged_in_memory_and_on_disk(tmp_path: Path, memory: int) -> None:
    chunks = [CHUNK] * 10
    content, _, digest = await spooled(tmp_path, chunks, memory)
    assert hashlib.sha256(content).digest() == digest == hashlib.sha256(CHUNK * 10).digest()


@each_row("memory", [0, 1024])
async def test_sealed_bytes_cannot_be_changed_and_have_no_file_name(tmp_path: Path, memory: int) -> None:
    spool = Spool(memory, tmp_path)
    await spool.write(CHUNK * 8)
    sealed = await spool.seal()
    assert names_in(tmp_path) == []
    with pytest.raises(OSError, match=r"not permitted|Bad file descriptor"):
        os.write(sealed.fd, b"x")
    spool.close()


async def test_two_readers_have_independent_offsets(tmp_path: Path) -> None:
    spool = Spool(1024, tmp_path)
    await spool.write(b"abcdef")
    sealed = await spool.seal()
    one, other = sealed.reopen(), sealed.reopen()
    assert (os.read(one, 3), os.read(other, 3)) == (b"abc", b"abc")
    assert fcntl.fcntl(one, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    os.close(one)
    os.close(other)
    spool.close()


async def test_a_full_disk_raises_storage_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.uploads.spool._unlinked_file", lambda _folder: os.open("/dev/full", os.O_RDWR))
    for is_last in (False, True):
        spool = Spool(0, tmp_path)
        await spool.write(CHUNK * 8)
        with pytest.raises(StorageFull):
            await (spool.seal() if is_last else spool.write(CHUNK * 8))
        spool.close()


async def test_closing_during_a_write_waits_for_the_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()  # a pipe takes 64 KiB; a writer waits with the rest
    monkeypatch.setattr("sluice.uploads.spool._unlinked_file", lambda _folder: write_end)
    spool = Spool(0, tmp_path)
    await spool.write(CHUNK * 8)
    for _ in range(2):
        spool.close()
    with os.fdopen(read_end, "rb") as written:
        assert await asyncio.to_thread(written.read) == CHUNK * 8


@pytest.mark.asvs("1.4.3")
async def test_closing_frees_the_descriptor(tmp_path: Path) -> None:
    before = len(names_in(Path("/proc/self/fd")))
    for memory in (0, 1 << 20):
        spool = Spool(memory, tmp_path)
        await spool.write(CHUNK * 8)
        await spool.seal()
        spool.close()
        spool.close()
    assert len(names_in(Path("/proc/self/fd"))) == before
