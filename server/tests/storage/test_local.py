"""The local store: where its files are, and in which order they become durable."""

import asyncio
import errno
import hashlib
import os
import shutil
import stat
import threading
from pathlib import Path

import pytest

from sluice.kit.health import EngineState
from sluice.storage import StoreError
from sluice.storage.local import disk
from sluice.storage.local.store import LocalStore
from sluice_inspect.sandbox.sealed import Sealed
from tests.storage.conftest import Seal, read_object


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def record_synced_folders(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list to which every synced folder is added."""
    synced: list[Path] = []
    sync_folder = disk.sync_folder

    def recording_sync(folder: Path) -> None:
        synced.append(folder)
        sync_folder(folder)

    monkeypatch.setattr(disk, "sync_folder", recording_sync)
    return synced


async def test_object_is_stored_for_its_owner_only_and_leaves_no_draft(
    local: LocalStore, tmp_path: Path, seal: Seal
) -> None:
    await local.put("t/c/file.png", seal(b"x"), content_type="image/png")
    with pytest.raises(StoreError):
        await local.put("t/c/file.png", seal(b"y"), content_type="text/plain")
    root = tmp_path / "store"
    assert (root / "objects/t/c/file.png").read_bytes() == b"x"
    assert mode(root / "objects/t/c/file.png") == 0o600
    assert {mode(folder) for folder in (root, root / "objects", root / "objects/t", root / ".tmp")} == {0o700}
    assert list((root / ".tmp").iterdir()) == []


async def test_symbolic_link_is_not_an_object(local: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "store/objects/link").symlink_to(tmp_path / "secret")
    assert await local.size("link") is None
    with pytest.raises(StoreError):
        await read_object(local, "link")


async def test_two_stores_can_share_a_folder(local: LocalStore, tmp_path: Path, seal: Seal) -> None:
    second = LocalStore(tmp_path / "store")
    await second.put("t/a", seal(b"second"), content_type="text/plain")
    assert await read_object(local, "t/a") == b"second"
    await second.aclose()


async def test_one_of_many_concurrent_puts_to_same_key_wins(local: LocalStore, seal: Seal) -> None:
    puts = [local.put("t/one", seal(bytes([n]) * 1000), content_type="text/plain") for n in range(20)]
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    [winner] = [n for n, outcome in enumerate(outcomes) if outcome is None]
    assert await read_object(local, "t/one") == bytes([winner]) * 1000


@pytest.mark.parametrize("shared_extents", [True, False])
async def test_copy_continues_where_last_step_ended(
    local: LocalStore, tmp_path: Path, seal: Seal, monkeypatch: pytest.MonkeyPatch, *, shared_extents: bool
) -> None:
    monkeypatch.setattr(disk, "_COPY_BYTES", 1000)
    monkeypatch.setattr(disk, "_SMALL_BYTES", 0)
    body = os.urandom(10_500)
    sealed = seal(body)  # memory and disk are different file systems, so the store uses `sendfile`
    if shared_extents:
        (tmp_path / "spool").write_bytes(body)
        with (tmp_path / "spool").open("rb") as spool:
            await local.put("a", Sealed(spool.fileno(), len(body), sealed.sha256), content_type="text/plain")
    else:
        await local.put("a", sealed, content_type="text/plain")
    assert await read_object(local, "a") == body


async def test_put_survives_an_empty_copy(local: LocalStore, seal: Seal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "copy_file_range", lambda *_arguments: 0)
    monkeypatch.setattr(disk, "_SMALL_BYTES", 0)
    await local.put("a", seal(b"x" * 100), content_type="text/plain")
    assert await read_object(local, "a") == b"x" * 100


async def test_put_syncs_bytes_before_linking_and_folder_before_returning(
    local: LocalStore, tmp_path: Path, seal: Seal, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, link = os.fsync, os.link
    root = tmp_path / "store"

    def recording_fsync(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink().relative_to(root)
        steps.append("fsync draft" if path.parts[0] == ".tmp" else f"fsync {path}")
        fsync(fd)

    def recording_link(draft: str, target: Path, *, src_dir_fd: int, follow_symlinks: bool) -> None:
        steps.append(f"link {target.relative_to(root)}")
        link(draft, target, src_dir_fd=src_dir_fd, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(os, "link", recording_link)
    await local.put("t/c/a", seal(b"x"), content_type="text/plain")
    await local.put("t/c/b", seal(b"x"), content_type="text/plain")
    first = ["fsync draft", "fsync objects", "fsync objects/t", "link objects/t/c/a", "fsync objects/t/c"]
    assert steps == [*first, "fsync draft", "link objects/t/c/b", "fsync objects/t/c"]


async def test_concurrent_puts_share_one_folder_sync_with_own_results(
    local: LocalStore, tmp_path: Path, seal: Seal, monkeypatch: pytest.MonkeyPatch
) -> None:
    await local.put("t/taken", seal(b"first"), content_type="text/plain")
    synced = record_synced_folders(monkeypatch)
    keys = ["t/head", *(f"t/{number}" for number in range(10)), "t/taken", "u/other"]
    puts = [local.put(key, seal(key.encode()), content_type="text/plain") for key in keys]
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    assert [key for key, outcome in zip(keys, outcomes, strict=True) if outcome is not None] == ["t/taken"]
    expected = [b"first" if key == "t/taken" else key.encode() for key in keys]
    assert [await read_object(local, key) for key in keys] == expected
    # the first three puts are stored alone, all that arrived meanwhile together
    assert synced.count(tmp_path / "store/objects/t") == 4


async def test_unnamed_file_on_same_file_system_is_linked(local: LocalStore, tmp_path: Path, seal: Seal) -> None:
    body = os.urandom(300_000)
    spool = os.open(tmp_path, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(spool, body)
    sealed = Sealed(spool, len(body), seal(body).sha256)
    await local.put("t/first", sealed, content_type="text/plain")
    await local.put("t/second", sealed, content_type="text/plain")
    first, second = (tmp_path / "store/objects/t" / name for name in ("first", "second"))
    assert first.stat().st_ino == os.fstat(spool).st_ino
    assert mode(first) == 0o600
    os.close(spool)
    assert second.stat().st_ino != first.stat().st_ino  # the file has a name by now, so the second object is a copy
    assert first.read_bytes() == second.read_bytes() == body


async def test_file_unlinked_or_with_extra_bytes_is_copied(local: LocalStore, tmp_path: Path, seal: Seal) -> None:
    with (tmp_path / "once").open("w+b") as spool:
        spool.write(b"x")
        spool.flush()
        (tmp_path / "once").unlink()
        await local.put("t/a", Sealed(spool.fileno(), 1, seal(b"x").sha256), content_type="text/plain")
    assert await read_object(local, "t/a") == b"x"
    unnamed = os.open(tmp_path, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(unnamed, b"the bytes and more")
    await local.put("t/b", Sealed(unnamed, 9, seal(b"the bytes").sha256), content_type="text/plain")
    os.close(unnamed)
    assert await read_object(local, "t/b") == b"the bytes"


async def test_drafts_get_names_without_o_tmpfile(tmp_path: Path, seal: Seal, monkeypatch: pytest.MonkeyPatch) -> None:
    original_open, drafts = os.open, []

    def without_tmpfile(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "no unnamed files here")
        if path.parent == tmp_path / "store/.tmp":
            drafts.append(path)
        return original_open(path, flags, mode)

    monkeypatch.setattr(os, "open", without_tmpfile)
    local = LocalStore(tmp_path / "store")
    await local.put("t/a", seal(b"x"), content_type="text/plain")
    with pytest.raises(StoreError, match="already"):
        await local.put("t/a", seal(b"y"), content_type="text/plain")
    assert len(drafts) == 2
    assert list((tmp_path / "store/.tmp").iterdir()) == []
    assert await read_object(local, "t/a") == b"x"
    await local.aclose()


async def test_put_on_closed_store_raises_error(local: LocalStore, seal: Seal) -> None:
    await local.aclose()
    for size in (1, 300 * 1024):
        with pytest.raises(StoreError, match="closed"):
            await local.put("a", seal(bytes(size)), content_type="text/plain")


async def test_folder_made_by_another_process_is_synced_and_a_removed_one_created_again(
    tmp_path: Path, local: LocalStore, seal: Seal, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "store/objects/t").mkdir()
    synced = record_synced_folders(monkeypatch)
    await local.put("t/a", seal(b"x"), content_type="text/plain")
    assert tmp_path / "store/objects" in synced
    await local.put("t/c/a", seal(b"x"), content_type="text/plain")
    shutil.rmtree(tmp_path / "store/objects/t")
    await local.put("t/c/b", seal(b"y"), content_type="text/plain")
    assert await read_object(local, "t/c/b") == b"y"


class Held:
    """A call of the module `os` that waits until the test lets it continue."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self._entered, self._proceed = threading.Event(), threading.Event()
        self._original = getattr(os, name)
        monkeypatch.setattr(os, name, self._call)

    def _call(self, fd: int) -> object:
        self._entered.set()
        self._proceed.wait(10)
        return self._original(fd)

    async def cancelled(self, task: "asyncio.Task[object]") -> None:
        """Cancel the task while the call waits, and let it continue: the task waits for it."""
        await asyncio.to_thread(self._entered.wait, 10)
        task.cancel()
        await asyncio.wait({task}, timeout=0.05)
        assert not task.done()
        self._proceed.set()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_cancelled_put_closes_its_files(local: LocalStore, seal: Seal, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed, before, held = seal(b"x"), open_files(), Held(monkeypatch, "fsync")
    await held.cancelled(asyncio.create_task(local.put("a", sealed, content_type="text/plain")))
    assert await local.size("a") == 1
    assert open_files() == before


async def test_cancelled_read_closes_its_file(local: LocalStore, seal: Seal, monkeypatch: pytest.MonkeyPatch) -> None:
    await local.put("a", seal(b"x"), content_type="text/plain")
    held, before = Held(monkeypatch, "fstat"), open_files()
    await held.cancelled(asyncio.create_task(read_object(local, "a")))
    assert open_files() == before


async def test_health_is_degraded_when_disk_space_is_low(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store", low_space_bytes=1 << 62)
    health = await store.health()
    assert health.state is EngineState.DEGRADED
    assert health.limits["free_bytes"] == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.2)
    await store.aclose()


async def test_store_without_its_folder_is_down(local: LocalStore, tmp_path: Path, seal: Seal) -> None:
    shutil.rmtree(tmp_path / "store")
    health = await local.health()
    detail = "The object store cannot look at its disk: No such file or directory."
    assert (health.state, health.detail) == (EngineState.DOWN, detail)
    with pytest.raises(StoreError, match="cannot write the object"):
        await local.put("a", seal(b"x"), content_type="text/plain")
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot make its folders"):
        LocalStore(tmp_path / "file")


async def test_created_file_is_an_object_like_any_other(local: LocalStore) -> None:
    with os.fdopen(await local.create_file("folder/part"), "wb") as file:
        file.write(b"first")
    assert await read_object(local, "folder/part") == b"first"
    with os.fdopen(await local.open_file("folder/part", writable=True), "r+b") as file:
        os.pwrite(file.fileno(), b" second", 5)
    with os.fdopen(await local.open_file("folder/part"), "rb") as file:
        assert file.read() == b"first second"
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(file.fileno(), b"x")
    with pytest.raises(StoreError):
        await local.create_file("folder/part")
    with pytest.raises(KeyError):
        await local.open_file("missing")


@pytest.mark.parametrize("size", [5, 2 * 1_048_576])
@pytest.mark.parametrize("can_link", [True, False])
async def test_named_file_is_linked_if_allowed(local: LocalStore, tmp_path: Path, *, size: int, can_link: bool) -> None:
    body = os.urandom(size)
    fd = await local.create_file("_incoming/part")
    os.write(fd, body)
    await local.put("whole", Sealed(fd, size, hashlib.sha256(body).digest(), can_link), content_type="")
    os.close(fd)
    part, whole = (tmp_path / "store" / "objects" / name for name in ("_incoming/part", "whole"))
    assert part.samefile(whole) is can_link
    await local.delete("_incoming/part")
    assert await read_object(local, "whole") == body
