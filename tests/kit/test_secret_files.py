"""Secret files: made once, private to their owner, replaced without a trace."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluice.kit.secret_files import (
    SecretFileRefused,
    load_or_make,
    make_secret_file,
    read_secret_file,
    replace_secret_file,
)
from tests.rows import each_row


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_missing_secret_file_is_made_once(tmp_path: Path) -> None:
    first = load_or_make(tmp_path / "secret", lambda: b"one")
    second = load_or_make(tmp_path / "secret", lambda: b"two")
    assert (first.content, first.made) == (b"one", True)
    assert (second.content, second.made) == (b"one", False)


@each_row("umask", [0o000, 0o022, 0o077])
@pytest.mark.asvs("13.3.1")
def test_a_new_secret_file_is_private_to_its_owner_for_any_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        load_or_make(tmp_path / "folder" / "secret", lambda: b"x")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "folder" / "secret") == 0o600
    assert mode_of(tmp_path / "folder") == 0o700


@each_row("mode", [0o640, 0o604, 0o620, 0o602, 0o666, 0o611])
def test_a_secret_file_that_others_can_access_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"x")
    path.chmod(mode)
    with pytest.raises(
        SecretFileRefused,
        match=rf"^The secret file .* can be used by others \(mode {mode:04o}\): run chmod 600 on it\.$",
    ):
        read_secret_file(path)


def test_a_mounted_secret_file_is_read_by_a_group_of_this_process_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"x")
    path.chmod(0o440)
    assert read_secret_file(path) == b"x"
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    assert read_secret_file(path) == b"x"
    monkeypatch.setattr(os, "getegid", lambda: path.stat().st_gid + 1)
    monkeypatch.setattr(os, "getgroups", list)
    with pytest.raises(SecretFileRefused, match="can be used by others"):
        read_secret_file(path)


@each_row("mode", [0o400, 0o600, 0o700])
def test_a_private_secret_file_is_read(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"x")
    path.chmod(mode)
    assert read_secret_file(path) == b"x"


def test_making_a_secret_file_does_not_overwrite_an_existing_one(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    assert make_secret_file(path, b"one")
    assert not make_secret_file(path, b"two")
    assert path.read_bytes() == b"one"


def test_making_a_secret_file_does_not_follow_a_dangling_link(tmp_path: Path) -> None:
    (tmp_path / "secret").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SecretFileRefused, match="cannot be opened"):
        load_or_make(tmp_path / "secret", lambda: b"x")
    assert not (tmp_path / "elsewhere").exists()


def test_a_secret_file_behind_a_symbolic_link_is_read(tmp_path: Path) -> None:
    make_secret_file(tmp_path / "data", b"x")
    (tmp_path / "secret").symlink_to(tmp_path / "data")
    assert read_secret_file(tmp_path / "secret") == b"x"


def test_concurrent_starts_make_one_secret_that_all_of_them_read(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        files = list(pool.map(lambda n: load_or_make(tmp_path / "secret", lambda: b"%d" % n), range(64)))
    assert sum(file.made for file in files) == 1
    assert len({file.content for file in files}) == 1


def test_no_temporary_file_is_left(tmp_path: Path) -> None:
    load_or_make(tmp_path / "secret", lambda: b"x")
    make_secret_file(tmp_path / "secret", b"y")
    replace_secret_file(tmp_path / "secret", b"z")
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_a_replaced_secret_file_is_private_and_holds_the_new_bytes(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    make_secret_file(path, b"one")
    replace_secret_file(path, b"two")
    assert (read_secret_file(path), mode_of(path)) == (b"two", 0o600)


def test_a_folder_cannot_be_replaced_by_a_secret_file(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    with pytest.raises(SecretFileRefused, match="cannot be replaced"):
        replace_secret_file(tmp_path / "secret", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_a_secret_that_is_not_a_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    for name in ("pipe", "folder"):
        with pytest.raises(SecretFileRefused, match="not a regular file"):
            read_secret_file(tmp_path / name)


def test_an_oversized_secret_file_is_refused(tmp_path: Path) -> None:
    make_secret_file(tmp_path / "secret", b"x" * 65537)
    with pytest.raises(SecretFileRefused, match="larger than 65536 bytes"):
        read_secret_file(tmp_path / "secret")


def test_an_unusable_folder_is_refused_with_a_clear_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SecretFileRefused, match="cannot be made: "):
        load_or_make(tmp_path / "file" / "secret", lambda: b"x")


def test_repr_never_shows_the_content(tmp_path: Path) -> None:
    assert "canary" not in repr(load_or_make(tmp_path / "secret", lambda: b"canary"))
