"""The keyring as a file of its owner's: made at the first start, rotated by a command. How secrets are sealed lives in `cipher`.

    {"primary": "3f9c02aa", "keys": {"3f9c02aa": "<64 hex digits>"}}

To rotate: `add_key` (new secrets are sealed with it at once), seal again what `is_current` denies, then `retire_keys`.
"""

import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from sluice.kit.cipher import KEY_BYTES, Keyring, UnknownKey
from sluice.kit.secret_files import SecretFileRefused, load_or_make, locked, read_secret_file, replace_secret_file
from sluice.kit.strict_json import NotStrictJson, read_json


@dataclass(frozen=True, slots=True)
class LoadedKeyring:
    """A keyring and whether its file was made just now: a person should then be told to keep a copy of it."""

    keyring: Keyring
    made: bool


def load_keyring(path: Path) -> LoadedKeyring:
    """Answer the keyring at `path`, made with one random key when there is none. Raises `SecretFileRefused`."""
    file = load_or_make(path, _first_ring)
    return LoadedKeyring(keyring=_read(path, file.content)[0], made=file.made)


def add_key(path: Path) -> Keyring:
    """Put a new random key on the ring and make it the one that seals; the others stay. Raises `SecretFileRefused`."""
    with locked(path.parent):
        _, keys = _read(path, read_secret_file(path))
        key_id, key = _new_key()
        return _replace(path, {**keys, key_id: key}, key_id)


def retire_keys(path: Path) -> Keyring:
    """Take every key off the ring but the one that seals. What the others sealed can never be opened again.

    Raises `SecretFileRefused`.
    """
    with locked(path.parent):
        ring, keys = _read(path, read_secret_file(path))
        return _replace(path, {ring.primary: keys[ring.primary]}, ring.primary)


class KeyringFile:
    """A `Sealer` that follows its file, so that a rotation needs no restart.

    Sealing reads the file each time, which is rare; opening reads it again only when a secret names a key that it does not know.
    """

    def __init__(self, path: Path) -> None:
        """Reads the existing file at `path`; raises `SecretFileRefused`."""
        self._path = path
        self._ring = self._reread()

    def __repr__(self) -> str:
        return f"KeyringFile({str(self._path)!r})"

    def seal(self, plaintext: str, *, bound_to: tuple[str, ...]) -> str:
        """See `Sealer.seal`; raises `SecretFileRefused` when the file cannot be read any more."""
        self._ring = self._reread()
        return self._ring.seal(plaintext, bound_to=bound_to)

    def open(self, blob: str, *, bound_to: tuple[str, ...]) -> str:
        """See `Sealer.open`; raises `SecretFileRefused` when the file is needed and cannot be read any more."""
        try:
            return self._ring.open(blob, bound_to=bound_to)
        except UnknownKey:
            self._ring = self._reread()
            return self._ring.open(blob, bound_to=bound_to)

    def is_current(self, blob: str) -> bool:
        """See `Keyring.is_current`."""
        return self._ring.is_current(blob)

    def _reread(self) -> Keyring:
        return _read(self._path, read_secret_file(self._path))[0]


def _new_key() -> tuple[str, bytes]:
    return secrets.token_hex(4), secrets.token_bytes(KEY_BYTES)


def _first_ring() -> bytes:
    key_id, key = _new_key()
    return _written({key_id: key}, key_id)


def _written(keys: dict[str, bytes], primary: str) -> bytes:
    return (json.dumps({"primary": primary, "keys": {key_id: key.hex() for key_id, key in keys.items()}}, indent=2) + "\n").encode()


def _replace(path: Path, keys: dict[str, bytes], primary: str) -> Keyring:
    ring = Keyring(keys, primary)
    replace_secret_file(path, _written(keys, primary))
    return ring


def _read(path: Path, content: bytes) -> tuple[Keyring, dict[str, bytes]]:
    """Answer the ring and its keys. The file's content never stands in an error."""
    try:
        match read_json(content):
            case {"primary": str(primary), "keys": dict(written)}:
                keys = {str(key_id): bytes.fromhex(str(key)) for key_id, key in written.items()}
                return Keyring(keys, primary), keys
    except (NotStrictJson, ValueError) as error:
        raise SecretFileRefused(f"The keyring {path} is damaged: restore it from your copy.") from error
    raise SecretFileRefused(f"The keyring {path} is not a keyring: restore it from your copy.")
