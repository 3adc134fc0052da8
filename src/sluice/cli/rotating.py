"""What the commands for sealing keys do: add a key, seal again, let old keys go. How secrets are sealed lives in `kit.cipher`."""

import asyncio
from dataclasses import dataclass

from sluice.buckets.service import Secrets
from sluice.cli.configured import settings_for_a_task
from sluice.cli.environment import opened_database
from sluice.cli.outcomes import CommandRefused
from sluice.kit.keyring_file import KeyringFile, add_key, load_keyring, retire_keys
from sluice.settings import Settings
from sluice.wiring.secrets import keyring_path


@dataclass(frozen=True, slots=True)
class Rotated:
    """How a rotation ended: the key that seals now, whether it is new, and how many secrets were sealed with it."""

    key_id: str
    is_new: bool
    sealed: int


def rotate() -> Rotated:
    """Seal every secret with a new key, or with the newest when an earlier rotation was cut off. Raises `SecretFileRefused`."""
    return asyncio.run(_rotate(settings_for_a_task()))


def retire() -> int:
    """Take the old keys off the ring and answer how many; raises `CommandRefused` while one of them is needed."""
    return asyncio.run(_retire(settings_for_a_task()))


async def _rotate(settings: Settings) -> Rotated:
    path = keyring_path(settings)
    async with opened_database(settings) as database:
        is_new = not await Secrets(database, KeyringFile(path)).old()
        if is_new:
            add_key(path)
        keyring = KeyringFile(path)
        sealed = await Secrets(database, keyring).seal_again()
        return Rotated(load_keyring(path).keyring.primary, is_new, sealed)


async def _retire(settings: Settings) -> int:
    path = keyring_path(settings)
    async with opened_database(settings) as database:
        waiting = await Secrets(database, KeyringFile(path)).old()
        if waiting:
            raise CommandRefused(f"{waiting} secret(s) are still sealed with an old key: run `sluice secrets rotate` first.")
        before = load_keyring(path).keyring.key_ids
        return len(before - retire_keys(path).key_ids)
