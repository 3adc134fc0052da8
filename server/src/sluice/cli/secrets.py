"""`sluice secrets`: rotate the key that seals secrets of buckets, webhooks and external checks, and retire old keys."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the database's library)

from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.environment import opened_database, task_settings
from sluice_client.cli import output
from sluice_client.cli.options import group_of
from sluice_client.cli.output import CommandRefused

if TYPE_CHECKING:
    from sluice.db.database import Database
    from sluice.kit.cipher import Sealer

group = group_of("Change the key that seals credentials of buckets and secrets of webhooks.")


@group.command()
def keyring(
    *,
    new_key: Annotated[bool, typer.Option("--new-key", help="With a new key added, which seals from then on.")] = False,
) -> None:
    """Print the keyring in use in one line, as SLUICE_KEYRING takes it; a new one if there is none. Change nothing.

    Who has it opens all sealed secrets: send it to where secrets are kept, not to a terminal.
    """
    from sluice.kit.keyring_file import keyring_line
    from sluice.kit.secret_files import read_secret_file
    from sluice.wiring.start import KEYRING, KEYRING_SETTING

    settings = task_settings()
    path = settings.keys_dir / KEYRING
    if settings.keyring is not None:
        output.line(keyring_line(KEYRING_SETTING, settings.keyring.get_secret_value(), new_key=new_key))
    elif path.exists():
        output.line(
            keyring_line(f"The keyring {path}", read_secret_file(path).decode(errors="replace"), new_key=new_key)
        )
    else:
        output.line(keyring_line(KEYRING_SETTING, None))


@group.command()
def rotate() -> None:
    """Make a new key, seal all secrets of buckets and webhooks with it, keep old keys until **sluice secrets retire**.

    Running servers need no restart: they read the new key from the keyring file. If several machines have copies of
    that file, copy it to all of them before the old keys are retired. After an interrupted rotation, run this again:
    it finishes with the same key.

    With a keyring in SLUICE_KEYRING, start all servers with the output of **sluice secrets keyring --new-key** first:
    no other key is made then.
    """
    import asyncio

    from sluice.buckets.service import Secrets
    from sluice.contexts.service import ExternalCheckSecrets
    from sluice.kit.keyring_file import add_key, load_keyring
    from sluice.webhooks.service import EndpointSecrets
    from sluice.wiring.start import environment_keyring, keyring_path

    settings = task_settings()

    async def seal_all() -> tuple[str, bool, int]:
        ring = environment_keyring(settings) or load_keyring(keyring_path(settings)).keyring
        async with opened_database(settings) as database:
            # Secrets under an old key mean that a rotation was interrupted; another key would not help.
            is_new = settings.keyring is None and not await _count_old(database, ring)
            if is_new:
                ring = add_key(keyring_path(settings))
            sealed = await Secrets(database, ring).seal_again()
            sealed += await EndpointSecrets(database, ring).seal_again()
            sealed += await ExternalCheckSecrets(database, ring).seal_again()
            return ring.primary, is_new, sealed

    key_id, is_new, sealed = asyncio.run(seal_all())
    output.line(f"{'Made the key' if is_new else 'Finished with the key'} {key_id}: sealed {sealed} secret(s) with it.")
    output.line("Keep a copy of the keyring, then remove the old keys: sluice secrets retire")


@group.command()
def retire() -> None:
    """Remove every key from the keyring that seals nothing. Refused while a secret is still sealed with an old key.

    With a keyring in SLUICE_KEYRING, print what is left of it: start all servers with that.
    """
    import asyncio

    from sluice.kit.keyring_file import keyring_line, load_keyring, retire_keys
    from sluice.wiring.start import KEYRING_SETTING, environment_keyring, keyring_path

    settings = task_settings()

    async def remove_old_keys() -> int:
        ring = environment_keyring(settings) or load_keyring(keyring_path(settings)).keyring
        async with opened_database(settings) as database:
            waiting = await _count_old(database, ring)
            if waiting:
                raise CommandRefused(
                    f"{waiting} secret(s) are still sealed with an old key: run `sluice secrets rotate` first."
                )
        if settings.keyring is None:
            return len(ring.key_ids - retire_keys(keyring_path(settings)).key_ids)
        return len(ring.key_ids) - 1

    removed = asyncio.run(remove_old_keys())
    if not removed:
        output.line("There is no old key.")
    elif settings.keyring is None:
        output.line(f"Removed {removed} old key(s).")
    else:
        output.line(f"Nothing is sealed with {removed} old key(s). Start all servers with this SLUICE_KEYRING:")
        output.line(keyring_line(KEYRING_SETTING, settings.keyring.get_secret_value(), old_keys=False))


async def _count_old(database: "Database", keyring: "Sealer") -> int:
    from sluice.buckets.service import Secrets
    from sluice.contexts.service import ExternalCheckSecrets
    from sluice.webhooks.service import EndpointSecrets

    checks = await ExternalCheckSecrets(database, keyring).count_old()
    return checks + await Secrets(database, keyring).count_old() + await EndpointSecrets(database, keyring).count_old()
