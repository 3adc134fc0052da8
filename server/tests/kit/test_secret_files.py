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


def refused(path: Path, why: str) -> None:
    """Assert that the file is not read, and why."""
    with pytest.raises(SecretFileRefused, match=why):
        read_secret_file(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "secret"


def test_a_missing_secret_file_is_made_once_and_its_content_never_shown(tmp_path: Path) -> None:
    first = load_or_make(tmp_path / "secret", lambda: b"canary")
    second = load_or_make(tmp_path / "secret", lambda: b"two")
    assert (first.content, first.made) == (b"canary", True)
    assert (second.content, second.made) == (b"canary", False)
    assert "canary" not in repr(first)


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


@each_row("mode", [0o640, 0o604, 0o620, 0o602, 0o666, 0o611, 0o400, 0o600, 0o700])
def test_a_secret_file_is_read_unless_others_can_access_it(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"x")
    path.chmod(mode)
    if mode & 0o077:
        sentence = rf"^The secret file .* can be used by others \(mode {mode:04o}\): run chmod 600 on it\.$"
        refused(path, sentence)
    else:
        assert read_secret_file(path) == b"x"


def test_a_mounted_secret_file_is_read_by_a_group_of_the_process(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"x")
    path.chmod(0o440)
    assert read_secret_file(path) == b"x"
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    assert read_secret_file(path) == b"x"
    monkeypatch.setattr(os, "getegid", lambda: path.stat().st_gid + 1)
    monkeypatch.setattr(os, "getgroups", list)
    refused(path, "can be used by others")


def test_a_secret_file_is_replaced_and_never_overwritten_and_no_temporary_file_is_left(path: Path) -> None:
    assert make_secret_file(path, b"one")
    assert not make_secret_file(path, b"two")
    assert path.read_bytes() == b"one"
    replace_secret_file(path, b"three")
    assert (read_secret_file(path), mode_of(path)) == (b"three", 0o600)
    assert [each.name for each in path.parent.iterdir()] == ["secret"]


def test_a_secret_file_behind_a_symbolic_link_is_read_and_none_is_made_behind_a_dangling_one(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    path.symlink_to(elsewhere)
    with pytest.raises(SecretFileRefused, match="cannot be opened"):
        load_or_make(path, lambda: b"x")
    assert not elsewhere.exists()
    make_secret_file(elsewhere, b"x")
    assert read_secret_file(path) == b"x"


def test_concurrent_starts_make_one_secret_that_all_of_them_read(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        files = list(pool.map(lambda n: load_or_make(tmp_path / "secret", lambda: b"%d" % n), range(64)))
    assert (sum(file.made for file in files), len({file.content for file in files})) == (1, 1)


def test_what_is_no_secret_file_is_refused_with_a_clear_message(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    make_secret_file(tmp_path / "large", b"x" * 65537)
    for name, why in (("pipe", "a regular file"), ("folder", "a regular file"), ("large", "larger than 65536 bytes")):
        refused(tmp_path / name, why)
    with pytest.raises(SecretFileRefused, match="cannot be replaced"):
        replace_secret_file(tmp_path / "folder", b"x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "large", "pipe"]
    with pytest.raises(SecretFileRefused, match="cannot be made: "):
        load_or_make(tmp_path / "large" / "secret", lambda: b"x")
