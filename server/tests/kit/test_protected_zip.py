"""Archives with a password, opened by 7-Zip."""

import random
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sluice.kit.protected_zip import LARGEST, ProtectedZip
from tests.required import require
from tests.rows import each_row


async def _archive(name: str, content: bytes, step: int = 4093) -> bytes:
    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(content), step):
            yield content[start : start + step]

    archive = ProtectedZip(name, len(content), b"infected")
    whole = b"".join([piece async for piece in archive.read(chunks())])
    assert len(whole) == archive.size
    return whole


def _opened(folder: Path, archive: bytes, password: str) -> subprocess.CompletedProcess[str]:
    require("7-Zip", "7z", apt="p7zip-full")
    path = folder / "archive.zip"
    path.write_bytes(archive)
    command = ["7z", "x", f"-p{password}", f"-o{folder / 'out'}", "-y", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@each_row("size", [0, 1, 15, 16, 17, 4093, 300_000])
async def test_seven_zip_opens_it_with_the_password_alone(tmp_path: Path, size: int) -> None:
    content = random.Random(size).randbytes(size)
    archive = await _archive("Bericht ä.pdf", content)
    done = _opened(tmp_path, archive, "infected")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "out" / "Bericht ä.pdf").read_bytes() == content
    assert content[:15] not in archive or size < 15
    assert _opened(tmp_path, archive, "wrong").returncode == 2


async def test_a_changed_byte_is_found(tmp_path: Path) -> None:
    archive = bytearray(await _archive("a.bin", b"x" * 1000))
    archive[500] ^= 1
    assert _opened(tmp_path, bytes(archive), "infected").returncode == 2


async def test_a_name_cannot_leave_the_folder_into_which_it_is_unpacked(tmp_path: Path) -> None:
    assert _opened(tmp_path, await _archive("../../a\\b.txt", b"x"), "infected").returncode == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["_.._a_b.txt"]


@each_row(
    "name, saved",
    [
        ("..", "download"), ("C:\\a.exe", "C__a.exe"), ("con.txt", "_con.txt"), ("a\u202efdp.exe", "a_fdp.exe"),
        ("a.txt. .", "a.txt"), ("a:b?.txt", "a_b_.txt"), ("x" * 300 + ".pdf", "x" * 196 + ".pdf"), ("a\0b", "a_b"),
    ],
)  # fmt: skip
async def test_a_name_is_one_that_any_system_saves(name: str, saved: str) -> None:
    archive = await _archive(name, b"x")
    assert archive[30 : 30 + len(saved) + 2] == saved.encode() + b"\x01\x99"  # the extra field follows the name


async def test_a_file_of_another_size_is_refused() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"12"

    with pytest.raises(ValueError, match="another size"):
        _ = [piece async for piece in ProtectedZip("a", 3, b"p").read(chunks())]
    with pytest.raises(ValueError, match="too large"):
        ProtectedZip("a", LARGEST + 1, b"p")
