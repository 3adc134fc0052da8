"""Common parts of every start: the folders and the secret files of an installation."""

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from pydantic import SecretStr

from sluice.files.links import load_signing_secret
from sluice.identity.local import LocalKey, load_local_key, make_local_key
from sluice.identity.tokens import ClaimRules
from sluice.kit.cipher import Keyring, Sealer
from sluice.kit.keyring_file import KeyringFile, load_keyring, parse_keyring
from sluice.kit.secret_files import OTHERS, SecretFileRefused, SecretPlace, SecretSetting
from sluice.receipts.signing import load_receipt_keys
from sluice.settings import Settings
from sluice.wiring.refusal import StartRefused

KEYRING = "buckets.json"
KEYRING_SETTING = "SLUICE_KEYRING"
LINK_SECRET = "links.hex"  # noqa: S105  (the name of a file)
SIGNING_KEY = "jwt.pem"
RECEIPT_KEYS = "receipts.json"
SECRET_FILES = (KEYRING, LINK_SECRET, SIGNING_KEY, RECEIPT_KEYS)
# The setting that may hold a secret instead of its file.
_SETTINGS = {LINK_SECRET: "link_secret", SIGNING_KEY: "signing_key", RECEIPT_KEYS: "receipt_keys", KEYRING: "keyring"}

KEPT_RULES = "yara-rules"  # a folder in the data folder

# What Sluice puts into the data folder besides folders that settings name: the database with its companions, locks, an
# audit's position, and rules.
_OWN_FILES = ("sluice.db", "first-start.lock", "audit-position.json", KEPT_RULES)
_LOCAL_ISSUER = "sluice"


class _Loaded(Protocol):
    """A secret that was loaded; `made` if its file was created by that."""

    @property
    def made(self) -> bool: ...


def make_folder(folder: Path) -> None:
    """Create a folder that only its owner can enter, and its parents; an existing one is only tried.

    Raise `StartRefused` also if it cannot be written to, as a tmpfs of root's over it: uploads would fail later.
    """
    _make(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StartRefused(f"The folder {folder} cannot be written to by user {os.geteuid()}.")


def make_data_folder(settings: Settings) -> None:
    """Create the data folder, or take the rights of others from an existing one. Raise `StartRefused`.

    One that holds other things, or belongs to another user, is left alone: see `is_open_to_others`.
    """
    folder = settings.data_dir
    _make(folder)
    own = {settings.keys_dir, settings.resolved_storage_dir, settings.resolved_spool_dir}
    with suppress(OSError):
        status = folder.stat()
        holds_only_ours = all(path in own or path.name.startswith(_OWN_FILES) for path in folder.iterdir())
        if status.st_mode & OTHERS and status.st_uid == os.geteuid() and holds_only_ours:
            folder.chmod(stat.S_IMODE(status.st_mode) & ~OTHERS)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as fault:
        raise StartRefused(f"The folder {folder} cannot be made: {fault.strerror}.") from fault


def is_open_to_others(folder: Path) -> bool:
    """Return whether users other than its owner can enter a folder."""
    return folder.is_dir() and bool(folder.stat().st_mode & OTHERS)


def secret_setting(settings: Settings, name: str) -> SecretSetting | None:
    """Return the secret that a setting holds instead of the file `name`, None if the file is used."""
    value: SecretStr | None = getattr(settings, _SETTINGS[name])
    if value is None:
        return None
    return SecretSetting(f"SLUICE_{_SETTINGS[name].upper()}", value.get_secret_value().strip().encode())


def secret_place(settings: Settings, name: str) -> SecretPlace:
    """Return where a secret is: in a setting, or in its file. Raise as `secret_file` does."""
    return secret_setting(settings, name) or secret_file(settings, name)


def secret_file(settings: Settings, name: str) -> Path:
    """Return the path of a secret file. Raise `StartRefused` in production if the file is missing."""
    path = settings.keys_dir / name
    # A file that a start creates silently has no copy. In production an operator creates it and keeps one.
    if settings.production and not path.exists():
        raise StartRefused(f"The secret file {path} is missing; run `sluice init` once and keep a copy of it.")
    make_folder(settings.keys_dir)
    return path


def make_key_files(settings: Settings) -> Sequence[Path]:
    """Create the secret files that are missing and return those that were created. Raise `SecretFileRefused`.

    A secret that a setting holds needs no file.
    """
    make_folder(settings.keys_dir)
    loaders: Mapping[str, Callable[[Path], _Loaded]] = {
        KEYRING: load_keyring,
        LINK_SECRET: load_signing_secret,
        SIGNING_KEY: make_local_key,
        RECEIPT_KEYS: load_receipt_keys,
    }
    paths = {name: settings.keys_dir / name for name in loaders if secret_setting(settings, name) is None}
    return [path for name, path in paths.items() if loaders[name](path).made]


def missing_secret_files(settings: Settings) -> Sequence[Path]:
    """Return the secret files that are needed and not there."""
    names = [name for name in SECRET_FILES if secret_setting(settings, name) is None]
    return [path for path in (settings.keys_dir / name for name in names) if not path.exists()]


def refused_secret_files(settings: Settings) -> Sequence[str]:
    """Return a sentence for each secret, in its file or in a setting, that is there and cannot be used."""
    loaders: Mapping[str, Callable[[SecretPlace], object]] = {
        KEYRING: lambda place: load_keyring(place) if isinstance(place, Path) else environment_keyring(settings),
        LINK_SECRET: load_signing_secret,
        SIGNING_KEY: load_local_key,
        RECEIPT_KEYS: load_receipt_keys,
    }
    missing, refused = missing_secret_files(settings), list[str]()
    for name, load in loaders.items():
        place = secret_setting(settings, name) or settings.keys_dir / name
        try:
            if place not in missing:
                load(place)
        except SecretFileRefused as fault:
            refused.append(str(fault))
    return refused


def environment_keyring(settings: Settings) -> Keyring | None:
    """Return the keyring of the environment, None if the one in the file is used. Raise `SecretFileRefused`."""
    if settings.keyring is None:
        return None
    return parse_keyring(KEYRING_SETTING, settings.keyring.get_secret_value())


def keyring(settings: Settings) -> Sealer:
    """Return what seals secrets: the keyring of the environment, or the one in its file, read when it is first needed.

    Raise `SecretFileRefused` if the environment's cannot be used.
    """
    return environment_keyring(settings) or KeyringFile(settings.keys_dir / KEYRING)


def keyring_path(settings: Settings) -> Path:
    """Return the path of the keyring file, which is created if missing, except in production."""
    path = secret_file(settings, KEYRING)
    load_keyring(path)
    return path


def receipt_keys_place(settings: Settings) -> SecretPlace:
    """Return where the keys of receipts are; their file is created if missing, except in production."""
    place = secret_place(settings, RECEIPT_KEYS)
    load_receipt_keys(place)
    return place


def load_signing_key(settings: Settings) -> LocalKey:
    """Return the key that signs the tokens of `sluice token`, created on the first start."""
    return make_local_key(secret_place(settings, SIGNING_KEY)).key


def local_rules(settings: Settings) -> ClaimRules:
    """Return the claims that a locally signed token must have."""
    return ClaimRules(_LOCAL_ISSUER, settings.jwt_audience, settings.jwt_tenant_claim)
