"""`sluice login`, `logout` and `profiles`: the services that later commands reach without options."""

import os
import sys
from getpass import getpass
from typing import Annotated

import typer

from sluice_client.cli import output
from sluice_client.cli.options import Json, group_of
from sluice_client.cli.output import CommandRefused, Exit
from sluice_client.cli.profiles import DEFAULT_PROFILE, DEFAULT_URL, Target, forget, keep, profile_name, read_profiles
from sluice_client.cli.service import opened

group = group_of("List the services that `sluice login` keeps.")

ProfileName = Annotated[
    str, typer.Option("--profile", callback=profile_name, metavar="NAME", help="The name under which it is kept.")
]


def login(
    *,
    profile: ProfileName = DEFAULT_PROFILE,
    url: Annotated[
        str | None, typer.Option("--url", help="Address of the service. Without it and SLUICE_URL it is asked for.")
    ] = None,
    with_key: Annotated[
        bool, typer.Option("--with-key", help="Read the API key from standard input, for scripts.")
    ] = False,
) -> None:
    """Keep the address of a service and an API key, so that other commands need neither options nor variables.

    The key is asked for, hidden, and kept once the service accepts it: in the system's keyring, if the extra
    `keyring` is installed and a keyring works, else in a file that only you can read.
    """
    is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    address = url or os.environ.get("SLUICE_URL")
    if address is None:
        if not is_terminal or with_key:
            raise CommandRefused("Cannot prompt for the address: give it with --url.", Exit.USAGE)
        sys.stderr.write(f"Address of the service [{DEFAULT_URL}]: ")
        sys.stderr.flush()
        address = sys.stdin.readline().strip() or DEFAULT_URL
    if with_key:
        key = sys.stdin.readline().strip()
    elif is_terminal:
        key = getpass("API key (not shown): ", stream=sys.stderr).strip()
    else:
        raise CommandRefused("Cannot prompt for the API key: pass it on standard input with --with-key.", Exit.USAGE)
    if not key:
        raise CommandRefused("No API key was given.", Exit.USAGE)
    read_profiles()  # a broken file is reported before anything is sent
    with opened(Target(address, key)) as service:
        service.data("GET", "/api/v1/contexts", query={"page_size": 1})
    where = keep(profile, address, key)
    output.complain(f"Logged in to {address} as the profile {profile}. The key is in {where}.")


def logout(*, profile: ProfileName = DEFAULT_PROFILE) -> None:
    """Forget a profile and its key. The key itself stays valid: `sluice keys revoke` ends it."""
    found = forget(profile)
    output.complain(f"Forgot the profile {profile} of {found.url}.")


@group.command("list")
def list_profiles(*, json: Json = False) -> None:
    """List the profiles, and where the key of each is. With --json: one line per profile."""
    current = os.environ.get("SLUICE_PROFILE") or DEFAULT_PROFILE
    output.listing(
        ({"name": one.name, "url": one.url, "key": one.key_place} for one in read_profiles().values()),
        ("PROFILE", "URL", "KEY", "USED"),
        lambda one: (one["name"], one["url"], one["key"], "yes" if one["name"] == current else ""),
        json=json,
    )
