"""The keyring as a file, created at the first start and rotated by a command, or as a text. Encryption is in `cipher`.

    {"primary": "3f9c02aa", "keys": {"3f9c02aa": "<64 hex digits>"}}

To rotate: `add_key` (it seals new secrets at once), seal again what is not `is_current`, then `retire_keys`.

A text has the same content. The operator rotates it: `keyring_line` makes the next one.
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
    """A keyring, and whether its file was created just now: the operator should then keep a copy of it."""

    keyring: Keyring
    made: bool


def load_keyring(path: Path) -> LoadedKeyring:
    """Load the keyring at `path`; create one with a random key when there is none. Raise `SecretFileRefused`."""
    file = load_or_make(path, _new_keyring)
    return LoadedKeyring(keyring=_parse_file(path, file.content)[0], made=file.made)


def parse_keyring(name: str, text: str) -> Keyring:
    """Return the keyring that `text` holds. Raise `SecretFileRefused`, whose sentence says `name` and not the text."""
    return _parse(name, text.encode())[0]


def keyring_line(name: str, text: str | None, *, new_key: bool = False, old_keys: bool = True) -> str:
    """Return the keyring of `text` in one line, None for a new one; with a new primary key, or without the old ones.

    Raise `SecretFileRefused` as `parse_keyring` does.
    """
    ring, keys = (None, dict[str, bytes]()) if text is None else _parse(name, text.encode())
    primary = "" if ring is None else ring.primary
    if not old_keys and ring is not None:
        keys = {primary: keys[primary]}
    if new_key or ring is None:
        primary, key = _new_key()
        keys = {**keys, primary: key}
    return json.dumps(_content(keys, primary), separators=(",", ":"))


def add_key(path: Path) -> Keyring:
    """Add a new random key as the primary one; the others stay. Raise `SecretFileRefused`."""
    with locked(path.parent):
        _, keys = _parse_file(path, read_secret_file(path))
        key_id, key = _new_key()
        return _replace(path, {**keys, key_id: key}, key_id)


def retire_keys(path: Path) -> Keyring:
    """Remove every key except the primary one. What the others sealed can never be opened again.

    Raise `SecretFileRefused`.
    """
    with locked(path.parent):
        ring, keys = _parse_file(path, read_secret_file(path))
        return _replace(path, {ring.primary: keys[ring.primary]}, ring.primary)


class KeyringFile:
    """A `Sealer` that follows its file, so that a rotation needs no restart.

    Sealing is rare and reads the file each time; opening reads it again only when a secret names an unknown key.
    """

    def __init__(self, path: Path) -> None:
        """Follow the file at `path`, which is read when it is first needed."""
        self._path = path
        self._read: Keyring | None = None

    def __repr__(self) -> str:
        return f"KeyringFile({str(self._path)!r})"

    def seal(self, plaintext: str, *, bound_to: tuple[str, ...]) -> str:
        """See `Sealer.seal`; raise `SecretFileRefused` when the file cannot be read any more."""
        return self._reread().seal(plaintext, bound_to=bound_to)

    def open(self, blob: str, *, bound_to: tuple[str, ...]) -> str:
        """See `Sealer.open`; raise `SecretFileRefused` when the file is needed and cannot be read any more."""
        try:
            return self._ring.open(blob, bound_to=bound_to)
        except UnknownKey:
            return self._reread().open(blob, bound_to=bound_to)

    def is_current(self, blob: str) -> bool:
        """See `Keyring.is_current`."""
        return self._ring.is_current(blob)

    @property
    def _ring(self) -> Keyring:
        return self._read or self._reread()

    def _reread(self) -> Keyring:
        self._read = _parse_file(self._path, read_secret_file(self._path))[0]
        return self._read


def _new_key() -> tuple[str, bytes]:
    return secrets.token_hex(4), secrets.token_bytes(KEY_BYTES)


def _new_keyring() -> bytes:
    key_id, key = _new_key()
    return _serialize({key_id: key}, key_id)


def _serialize(keys: dict[str, bytes], primary: str) -> bytes:
    return f"{json.dumps(_content(keys, primary), indent=2)}\n".encode()


def _content(keys: dict[str, bytes], primary: str) -> dict[str, object]:
    return {"primary": primary, "keys": {key_id: key.hex() for key_id, key in keys.items()}}


def _replace(path: Path, keys: dict[str, bytes], primary: str) -> Keyring:
    ring = Keyring(keys, primary)
    replace_secret_file(path, _serialize(keys, primary))
    return ring


def _parse_file(path: Path, content: bytes) -> tuple[Keyring, dict[str, bytes]]:
    return _parse(f"The keyring {path}", content)


def _parse(name: str, content: bytes) -> tuple[Keyring, dict[str, bytes]]:
    """Return the keyring and its keys. Errors say `name` and never quote the content."""
    try:
        match read_json(content):
            case {"primary": str(primary), "keys": dict(found)}:
                keys = {str(key_id): bytes.fromhex(str(key)) for key_id, key in found.items()}
                return Keyring(keys, primary), keys
    except (NotStrictJson, ValueError) as error:
        raise SecretFileRefused(f"{name} is damaged: restore it from your copy.") from error
    raise SecretFileRefused(f"{name} is not a keyring: restore it from your copy.")
