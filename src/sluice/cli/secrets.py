"""`sluice secrets`: rotate the key that seals secrets of buckets and webhooks, and retire old keys."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the database's library)

from typing import TYPE_CHECKING

from sluice.cli import output
from sluice.cli.environment import opened_database, task_settings
from sluice.cli.options import group_of
from sluice.cli.output import CommandRefused

if TYPE_CHECKING:
    from sluice.db.database import Database
    from sluice.kit.cipher import Sealer

group = group_of("Change the key that seals credentials of buckets and secrets of webhooks.")


@group.command()
def rotate() -> None:
    """Make a new key, seal all secrets of buckets and webhooks with it, keep old keys until **sluice secrets retire**.

    Running servers need no restart: they read the new key from the keyring file. If several machines have copies of
    that file, copy it to all of them before the old keys are retired. After an interrupted rotation, run this again:
    it finishes with the same key.
    """
    import asyncio

    from sluice.buckets.service import Secrets
    from sluice.kit.keyring_file import KeyringFile, add_key, load_keyring
    from sluice.webhooks.service import EndpointSecrets
    from sluice.wiring.start import keyring_path

    settings = task_settings()

    async def seal_all() -> tuple[str, bool, int]:
        path = keyring_path(settings)
        async with opened_database(settings) as database:
            # Secrets under an old key mean that a rotation was interrupted; another key would not help.
            is_new = not await _count_old(database, KeyringFile(path))
            if is_new:
                add_key(path)
            sealed = await Secrets(database, KeyringFile(path)).seal_again()
            sealed += await EndpointSecrets(database, KeyringFile(path)).seal_again()
            return load_keyring(path).keyring.primary, is_new, sealed

    key_id, is_new, sealed = asyncio.run(seal_all())
    output.line(f"{'Made the key' if is_new else 'Finished with the key'} {key_id}: sealed {sealed} secret(s) with it.")
    output.line("Keep a copy of the keyring, then remove the old keys: sluice secrets retire")


@group.command()
def retire() -> None:
    """Remove every key from the keyring that seals nothing. Refused while a secret is still sealed with an old key."""
    import asyncio

    from sluice.kit.keyring_file import KeyringFile, load_keyring, retire_keys
    from sluice.wiring.start import keyring_path

    settings = task_settings()

    async def remove_old_keys() -> int:
        path = keyring_path(settings)
        async with opened_database(settings) as database:
            waiting = await _count_old(database, KeyringFile(path))
            if waiting:
                raise CommandRefused(
                    f"{waiting} secret(s) are still sealed with an old key: run `sluice secrets rotate` first."
                )
            before = load_keyring(path).keyring.key_ids
            return len(before - retire_keys(path).key_ids)

    removed = asyncio.run(remove_old_keys())
    output.line(f"Removed {removed} old key(s)." if removed else "There is no old key.")


async def _count_old(database: "Database", keyring: "Sealer") -> int:
    from sluice.buckets.service import Secrets
    from sluice.webhooks.service import EndpointSecrets

    return await Secrets(database, keyring).count_old() + await EndpointSecrets(database, keyring).count_old()
