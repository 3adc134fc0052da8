"""The keyring file: rotation, running processes that follow it, and damaged files."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluice.kit.cipher import CannotOpen, UnknownKey
from sluice.kit.keyring_file import KeyringFile, add_key, load_keyring, retire_keys
from sluice.kit.secret_files import SecretFileRefused, locked, make_secret_file
from tests.rows import each_row

BINDING = ("ten_1", "bkt_1", "secret_access_key")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys" / "keyring.json"
    load_keyring(path)
    return path


def test_the_first_start_makes_a_keyring_that_only_its_owner_can_read(tmp_path: Path) -> None:
    first, second = load_keyring(tmp_path / "keyring.json"), load_keyring(tmp_path / "keyring.json")
    assert (first.made, second.made) == (True, False)
    assert second.keyring.open(first.keyring.seal("secret", bound_to=BINDING), bound_to=BINDING) == "secret"
    assert stat.S_IMODE((tmp_path / "keyring.json").stat().st_mode) == 0o600


def test_a_rotation_keeps_old_secrets_readable_until_the_old_key_is_retired(path: Path) -> None:
    old = load_keyring(path).keyring.seal("secret", bound_to=BINDING)
    ring = add_key(path)
    assert ring.open(old, bound_to=BINDING) == "secret"
    assert not ring.is_current(old)
    again = ring.seal("secret", bound_to=BINDING)
    retired = retire_keys(path)
    assert retired.key_ids == {ring.primary}
    assert load_keyring(path).keyring.open(again, bound_to=BINDING) == "secret"
    with pytest.raises(UnknownKey):
        retired.open(old, bound_to=BINDING)


def test_a_running_process_uses_the_new_key_after_a_rotation(path: Path) -> None:
    running = KeyringFile(path)
    rotated = add_key(path)
    assert running.open(rotated.seal("secret", bound_to=BINDING), bound_to=BINDING) == "secret"
    rotated = add_key(path)
    assert rotated.is_current(blob := running.seal("secret", bound_to=BINDING))
    assert running.is_current(blob)
    foreign = load_keyring(path.with_name("other.json")).keyring.seal("secret", bound_to=BINDING)
    with pytest.raises(CannotOpen):
        running.open(foreign, bound_to=BINDING)


def test_concurrent_rotations_lose_no_key(path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        primaries = {ring.primary for ring in pool.map(lambda _: add_key(path), range(16))}
    assert len(primaries) == 16
    assert primaries < load_keyring(path).keyring.key_ids


def test_a_rotation_does_not_make_a_missing_keyring(tmp_path: Path) -> None:
    path = tmp_path / "keyring.json"
    for act in (add_key, retire_keys, lambda path: KeyringFile(path).open("3f9c02aa:x", bound_to=("a",))):
        with pytest.raises(SecretFileRefused, match="cannot be opened"):
            act(path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(SecretFileRefused, match="cannot be opened"), locked(tmp_path / "none"):
        pytest.fail("locked a missing folder")


KEY = "00" * 32


@each_row(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        *(json.dumps({"primary": "a", "keys": keys}).encode() for keys in ({}, {"b": KEY}, {"a": KEY[2:]}, {"a": 1})),
        json.dumps({"primary": "a", "keys": {"a": "canary"}}).encode(),
        json.dumps({"primary": 1, "keys": {"a": KEY}}).encode(),
        f'{{"primary": "a", "keys": {{"a": "{KEY}", "a": "{KEY}"}}}}'.encode(),
    ],
)
def test_a_damaged_keyring_is_refused_without_quoting_it(tmp_path: Path, content: bytes) -> None:
    make_secret_file(tmp_path / "keyring.json", content)
    with pytest.raises(SecretFileRefused, match="restore it from your copy") as refused:
        load_keyring(tmp_path / "keyring.json")
    assert "canary" not in str(refused.value)


def test_repr_never_shows_a_key(path: Path) -> None:
    keys = json.loads(path.read_text(encoding="utf-8"))["keys"]
    shown = f"{KeyringFile(path)!r} {load_keyring(path)!r}"
    assert not [key for key in keys.values() if key in shown]
