"""The commands for the keys that seal secrets at rest. Their words and options; what they do is in `rotating`."""

# ruff: noqa: PLC0415  (commands load their work when asked: `--help` must not wait for the database's library)

import typer

from sluice.cli import show
from sluice.cli.options import group_of

group = group_of("Change the key that seals bucket credentials.")


def add_to(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    app.add_typer(group, name="secrets", rich_help_panel="Access")


@group.command()
def rotate() -> None:
    """Make a new key, seal every bucket's credentials with it, and keep the old keys until **sluice secrets retire**.

    Running servers need no restart: they look the new key up in the keyring's file. Where several machines have copies of that file, copy
    it to all of them before the old keys are retired. A rotation that was cut off is finished by running this again, with no further key.
    """
    from sluice.cli.rotating import rotate

    done = rotate()
    show.line(
        f"{'Made the key' if done.is_new else 'Finished with the key'} {done.key_id}: sealed {done.sealed} secret(s) with it."
    )
    show.line("Keep a copy of the keyring, then let the old keys go: sluice secrets retire")


@group.command()
def retire() -> None:
    """Take every key off the ring that seals nothing any more. Refused while any secret is still sealed with one of them."""
    from sluice.cli.rotating import retire

    gone = retire()
    show.line(f"Let go of {gone} old key(s)." if gone else "There is no old key.")
