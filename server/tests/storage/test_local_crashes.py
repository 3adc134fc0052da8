"""The local store after a crash, a full disk or a failing disk: complete objects or none."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.storage import StoreError, StoreFull
from sluice.storage.local import disk
from sluice.storage.local.store import LocalStore
from tests.repository import IMPORT_PATH
from tests.rows import each_row
from tests.storage.conftest import Seal, read_object

REPOSITORY = Path(__file__).parents[3]


CRASHING_PUT = """
import asyncio, hashlib, os, signal, sys
from pathlib import Path
from sluice.storage.local.store import LocalStore
from sluice_inspect.sandbox.sealed import Sealed

async def main(root, step, number):
    store = LocalStore(Path(root))
    fd = os.memfd_create("body")
    os.write(fd, b"whole" * 1000)
    kept, seen = getattr(os, step), []
    def crash(*arguments, **named):
        seen.append(step)
        if len(seen) == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        return kept(*arguments, **named)
    setattr(os, step, crash)
    await store.put("t/c/a", Sealed(fd, 5000, b""), content_type="text/plain")
    os._exit(0)

asyncio.run(main(*sys.argv[1:]))
"""


def crash(root: Path, step: str, number: int) -> int:
    """Kill a process at the given call of `os.<step>` during a put. Return its exit code."""
    command = [sys.executable, "-c", CRASHING_PUT, str(root), step, str(number)]
    return subprocess.run(command, env={"PYTHONPATH": IMPORT_PATH}, cwd=REPOSITORY, check=False).returncode


STEPS = [("sendfile", 1), ("mkdir", 1), ("link", 1), ("close", 1), *(("fsync", number) for number in range(1, 5))]


@each_row("step, number", STEPS)
async def test_crash_at_any_step_leaves_complete_object_or_none(tmp_path: Path, step: str, number: int) -> None:
    root = tmp_path / "store"
    assert crash(root, step, number) == -signal.SIGKILL
    store = LocalStore(root)
    assert await store.size("t/c/a") in {None, 5000}
    if await store.size("t/c/a"):
        assert await read_object(store, "t/c/a") == b"whole" * 1000
    await store.sweep(older_than_seconds=-1)
    assert list((root / ".tmp").iterdir()) == []
    await store.aclose()


async def test_sweep_removes_only_old_drafts(local: LocalStore, tmp_path: Path, seal: Seal) -> None:
    await local.put("kept", seal(b"x"), content_type="text/plain")
    drafts = tmp_path / "store/.tmp"
    for name, age in (("old", 7200), ("young", 60)):
        (drafts / name).write_bytes(b"half")
        moment = (drafts / name).stat().st_mtime - age
        os.utime(drafts / name, (moment, moment))
    assert await local.sweep(older_than_seconds=3600) == 1
    assert [draft.name for draft in drafts.iterdir()] == ["young"]
    assert await read_object(local, "kept") == b"x"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB; mounting it needs root."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


async def test_full_disk_raises_store_full_and_accepts_smaller_object(small_disk: Path, seal: Seal) -> None:
    store = LocalStore(small_disk)
    with pytest.raises(StoreFull, match="full"):
        await store.put("t/large", seal(bytes(2 * 1024 * 1024)), content_type="text/plain")
    assert await store.size("t/large") is None
    await store.put("t/small", seal(b"x"), content_type="text/plain")
    assert await read_object(store, "t/small") == b"x"
    await store.aclose()


@pytest.mark.parametrize(
    ("module", "name", "number", "error", "sentence"),
    [
        (disk, "sync_folder", errno.EIO, StoreError, "cannot write the object: Input/output error"),
        (os, "fsync", errno.ENOSPC, StoreFull, "."),
        (os, "fsync", errno.EDQUOT, StoreFull, "."),
    ],
)
async def test_failed_sync_leaves_no_object_and_a_full_disk_is_named(
    local: LocalStore,
    tmp_path: Path,
    seal: Seal,
    monkeypatch: pytest.MonkeyPatch,
    *,
    module: object,
    name: str,
    number: int,
    error: type[Exception],
    sentence: str,
) -> None:
    await local.put("t/first", seal(b"x"), content_type="text/plain")

    def failing(_what: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(module, name, failing)
        with pytest.raises(error, match=sentence):
            await local.put("t/a", seal(b"x"), content_type="text/plain")
    assert await local.size("t/a") is None
    assert list((tmp_path / "store/.tmp").iterdir()) == []
