"""Profiles: the address of a service and its credential, kept between commands. The commands are in `login`.

`config.toml` has no secrets. A key is kept in the system's keyring (the extra `keyring`) or in `credentials.toml`,
which only its owner can read.
"""

# ruff: noqa: PLC0415  (the keyring and TOML are loaded by the commands that need them)

import json as json_format
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import typer

from sluice_client.cli.output import CommandRefused, Exit

DEFAULT_URL: Final = "http://127.0.0.1:8000"
DEFAULT_PROFILE: Final = "default"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HEADING: Final = re.compile(r"""\s*\[\s*profiles\s*\.\s*["']?([A-Za-z0-9_-]{1,64})["']?\s*\]\s*(?:#.*)?""")
_WORD: Final = re.compile(r"[\w-]+")
_FIELDS: Final = frozenset({"url", "key"})
_PLACES: Final = ("keyring", "file")
_KEYRING_SERVICE: Final = "sluice"
_OWNER_ONLY: Final = 0o600
_OTHERS: Final = 0o077


@dataclass(frozen=True, slots=True)
class Profile:
    """A service as `config.toml` names it. `key_place` is where its key is kept: `keyring` or `file`."""

    name: str
    url: str
    key_place: str


@dataclass(frozen=True, slots=True)
class Target:
    """The service that a command reaches, and the credential that it sends; empty for none."""

    url: str
    credential: str = field(repr=False)


def profile_name(value: str | None) -> str | None:
    """Return the name of a profile unchanged. Raise a usage error for a text that cannot be one."""
    if value is not None and not _NAME.fullmatch(value):
        raise typer.BadParameter("expected 1 to 64 letters, digits, hyphens and underscores")
    return value


def target_of(url: str | None, api_key: str | None, profile: str | None) -> Target:
    """Return what the options, the environment and the profiles say, in this order. Raise `CommandRefused`.

    A profile that an option names goes before the environment. The key of a profile is sent to its own address only.
    """
    named = None if profile is None else _required(profile)
    url_of_environment = os.environ.get("SLUICE_URL") if named is None else None
    key_of_environment = os.environ.get("SLUICE_API_KEY") if named is None else None
    credential = api_key or key_of_environment
    address = url or url_of_environment
    if credential and address:
        return Target(address, credential)
    chosen = named or _chosen()
    if chosen is None:
        return Target(address or DEFAULT_URL, credential or "")
    if not credential and (address is None or _same(address, chosen.url)):
        credential = _stored_key(chosen)
    return Target(address or chosen.url, credential or "")


def _chosen() -> Profile | None:
    """Return the profile of `SLUICE_PROFILE`, else the default one, None if there is none."""
    name = os.environ.get("SLUICE_PROFILE")
    if name:
        if not _NAME.fullmatch(name):
            raise CommandRefused("SLUICE_PROFILE is no name of a profile.", Exit.USAGE)
        return _required(name)
    return read_profiles().get(DEFAULT_PROFILE)


def _required(name: str) -> Profile:
    found = read_profiles().get(name)
    if found is None:
        raise CommandRefused(
            f"There is no profile {name}: `sluice profiles list` names them all, `sluice login --profile {name}` makes "
            "it.",
            Exit.NOT_FOUND,
        )
    return found


def _same(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")


# --- The files


def config_folder() -> Path:
    """Return the folder of the configuration: `$XDG_CONFIG_HOME/sluice`, by default `~/.config/sluice`."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    # A relative path is invalid and to be ignored (XDG Base Directory Specification).
    if Path(base).is_absolute():
        return Path(base) / "sluice"
    try:
        return Path.home() / ".config" / "sluice"
    except RuntimeError as fault:
        raise CommandRefused("This user has no home folder: set XDG_CONFIG_HOME.") from fault


def read_profiles() -> Mapping[str, Profile]:
    """Return the profiles by their names. Raise `CommandRefused` that names the line that is wrong."""
    path = config_folder() / "config.toml"
    text = _read(path)
    found = _parsed(path, text)
    for name in found.keys() - {"profiles"}:
        raise _wrong(path, text, name, f"{name} is unknown, expected [profiles.NAME]")
    sections = found.get("profiles", {})
    if not isinstance(sections, dict):
        raise _wrong(path, text, "profiles", "profiles: expected [profiles.NAME]")
    return {name: _profile(path, text, name, fields) for name, fields in sections.items()}


def _profile(path: Path, text: str, name: str, fields: Any) -> Profile:
    if not _NAME.fullmatch(name) or not isinstance(fields, dict):
        raise _wrong(path, text, name, f"profiles.{name}: expected a section, its name of letters, digits, - and _")
    for unknown in sorted(fields.keys() - _FIELDS):
        raise _wrong(path, text, unknown, f"profiles.{name}.{unknown} is unknown, expected url and key", name)
    url, place = fields.get("url"), fields.get("key", "file")
    if not isinstance(url, str) or not url:
        raise _wrong(path, text, "url", f"profiles.{name}.url: expected an address in quotes", name)
    if place not in _PLACES:
        raise _wrong(path, text, "key", f"profiles.{name}.key: expected {' or '.join(_PLACES)}", name)
    return Profile(name, url, place)


def _read(path: Path, *, secret: bool = False) -> str:
    """Return the text of a file, empty if it does not exist. Raise `CommandRefused`."""
    try:
        with path.open("rb") as file:
            if secret and os.fstat(file.fileno()).st_mode & _OTHERS:
                raise CommandRefused(f"{path} can be read by others: run `chmod 600` on it, and replace its keys.")
            return file.read().decode()
    except FileNotFoundError:
        return ""
    except OSError as fault:
        raise CommandRefused(f"{path} cannot be read: {fault.strerror}.") from fault
    except UnicodeDecodeError as fault:
        line = fault.object[: fault.start].count(b"\n") + 1
        raise CommandRefused(f"{path}:{line}: this is not UTF-8.", Exit.USAGE) from fault


def _parsed(path: Path, text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        reason, place, where = str(fault).rpartition(" (at ")
        number = re.match(r"line (\d+)", where)
        line = int(number[1]) if number else len(text.splitlines())
        sentence = reason if place else str(fault)
        raise CommandRefused(f"{path}:{line}: {sentence}.", Exit.USAGE) from fault


def _wrong(path: Path, text: str, key: str, sentence: str, section: str = "") -> CommandRefused:
    """Return the refusal of a file that names the line of a key, or of its section."""
    line = beginning = 1
    inside = not section
    for number, words in enumerate(text.splitlines(), 1):
        if words.lstrip().startswith("["):
            inside = not section or _section_of(words) == section
            beginning = number if inside else beginning
            line = beginning
        if inside and key in _WORD.findall(words):
            line = number
            break
    return CommandRefused(f"{path}:{line}: {sentence}.", Exit.USAGE)


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner can read, from its first byte on, and put it in its place at once."""
    temporary = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_ONLY)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as fault:
        raise CommandRefused(f"{path} cannot be written: {fault.strerror}.") from fault


def _section_replaced(text: str, name: str, section: str) -> str:
    """Return a configuration with the section of one profile replaced, or added. All else stays as it was written."""
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.lstrip().startswith("["):
            inside = _section_of(line) == name
        if not inside:
            kept.append(line)
    before = "\n".join(kept).strip()
    return "\n\n".join(part for part in (before, section) if part) + "\n" if before or section else ""


def _section_of(heading: str) -> str | None:
    """Return the name of the profile that a heading begins, None for any other heading."""
    found = _HEADING.fullmatch(heading)
    return None if found is None else found[1]


# --- The keys


def _stored_key(profile: Profile) -> str:
    if profile.key_place == "file":
        path = config_folder() / "credentials.toml"
        found = _parsed(path, _read(path, secret=True)).get(profile.name)
        stored = found if isinstance(found, str) else None
    else:
        stored = _key_in_keyring(profile)
    if not stored:
        raise CommandRefused(
            f"The key of the profile {profile.name} is missing: run `sluice login --profile {profile.name}`.",
            Exit.CREDENTIALS,
        )
    return stored


def _key_in_keyring(profile: Profile) -> str | None:
    try:
        import keyring
    except ImportError as fault:
        raise CommandRefused(
            f"The key of the profile {profile.name} is in the keyring: install 'sluice-client[keyring]', or log in "
            "again.",
            Exit.CREDENTIALS,
        ) from fault
    try:
        found: str | None = keyring.get_password(_KEYRING_SERVICE, profile.name)
    except Exception as fault:
        raise CommandRefused(
            f"The keyring does not give the key of the profile {profile.name}: {' '.join(str(fault).split())}.",
            Exit.CREDENTIALS,
        ) from fault
    return found


def _keep_in_keyring(name: str, key: str) -> bool:
    """Keep a key in the keyring; return False if there is none that works."""
    try:
        import keyring
    except ImportError:
        return False
    with suppress(Exception):  # whatever a backend raises: a locked or missing service, no session bus
        if keyring.get_keyring().priority < 1:  # a backend that keeps nothing, or keeps it in plain text
            return False
        keyring.set_password(_KEYRING_SERVICE, name, key)
        return bool(keyring.get_password(_KEYRING_SERVICE, name) == key)
    return False


def _forget_in_keyring(name: str) -> None:
    with suppress(Exception):  # not installed, or not there any more
        import keyring

        keyring.delete_password(_KEYRING_SERVICE, name)


def _change_key_file(name: str, key: str | None) -> None:
    """Put a key into the file of keys, or take it out."""
    path = config_folder() / "credentials.toml"
    before = _parsed(path, _read(path, secret=True))
    after = {other: value for other, value in before.items() if other != name} | ({name: key} if key else {})
    if after != before:
        _write(path, "".join(f"{other} = {_quoted(str(value))}\n" for other, value in after.items()))


def _quoted(text: str) -> str:
    """Return a basic string of TOML: the escapes of JSON, and DEL escaped besides."""
    return json_format.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def keep(name: str, url: str, key: str) -> str:
    """Keep a profile and its key, and return where the key is now."""
    in_keyring = _keep_in_keyring(name, key)
    _change_key_file(name, None if in_keyring else key)
    place = "keyring" if in_keyring else "file"
    path = config_folder() / "config.toml"
    section = f'[profiles.{name}]\nurl = {_quoted(url)}\nkey = "{place}"'
    _write(path, _section_replaced(_read(path), name, section))
    return "the keyring of this system" if in_keyring else str(config_folder() / "credentials.toml")


def forget(name: str) -> Profile:
    """Remove a profile and its key, and return what it was. Raise `CommandRefused` if there is none."""
    found = _required(name)
    if found.key_place == "keyring":
        _forget_in_keyring(name)
    _change_key_file(name, None)
    path = config_folder() / "config.toml"
    _write(path, _section_replaced(_read(path), name, ""))
    return found
