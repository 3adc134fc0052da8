"""The commands for credentials: API keys, and tokens of the local key. Their words and options; what may be done is in `keys`."""

# ruff: noqa: PLC0415  (commands load their work when asked: `--help` must not wait for the database's library)

from typing import Annotated, Literal

import typer

from sluice.access import Scope
from sluice.cli import show
from sluice.cli.options import Json, Name, Tenant, group_of, printable

_ACCESS = "Access"

group = group_of("Make, list and revoke API keys.")

Scopes = Annotated[list[Scope], typer.Option("--scope", help="What the credential may do; give it again for more. `admin` is all.")]


def add_to(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    app.add_typer(group, name="keys", rich_help_panel=_ACCESS)
    app.command(rich_help_panel=_ACCESS)(token)


@group.command()
def create(
    *,
    tenant: Tenant,
    name: Name,
    scope: Scopes,
    test: Annotated[
        bool, typer.Option("--test", help="Make a test key: its files count against no plan and go after a day.")
    ] = False,
    expires_in_days: Annotated[int | None, typer.Option(min=1, max=365, help="Days until it expires. Default: never.")] = None,
    json: Json = False,
) -> None:
    """Make an API key. Its text is shown once and kept nowhere."""
    from sluice.cli import keys

    issued = keys.create(tenant, name, [one.value for one in scope], test=test, expires_in_days=expires_in_days)
    if json:
        show.as_json(keys.fields(issued.key) | {"api_key": issued.text})
        return
    show.line(f"Made the key {issued.key.api_key_id} of {tenant}, shown now and never again:")
    show.line(f"  {issued.text}")


@group.command("list")
def list_keys(
    *,
    tenant: Tenant,
    status: Annotated[Literal["active", "disabled", "revoked"] | None, typer.Option(help="Only keys in this state.")] = None,
    json: Json = False,
) -> None:
    """List the keys of a tenant, the newest first, each by the part that is safe to show. With --json: one line per key."""
    from sluice.cli import keys

    found = keys.list_all(tenant, status)
    if json:
        for one in found:
            show.as_json(keys.fields(one))
        return
    rows = [
        (
            one.api_key_id,
            one.key_prefix,
            one.name,
            " ".join(one.scopes),
            one.status,
            show.moment(one.created_at),
            show.moment(one.expires_at),
            show.moment(one.last_used_at),
        )
        for one in found
    ]
    show.table(("key", "begins with", "name", "scopes", "status", "created", "expires", "last used"), rows)


@group.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Id of the key: key_…, not its text.")],
    *,
    tenant: Tenant,
) -> None:
    """Revoke a key: refused from now on, in every process, for ever. A second time changes nothing."""
    from sluice.cli import keys

    keys.revoke(tenant, key)
    show.line(f"The key {key} is revoked.")


def token(
    *,
    tenant: Tenant,
    subject: Annotated[
        str, typer.Option(callback=printable, help="Id of the user that the token stands for; recorded as the uploader.")
    ],
    name: Annotated[
        str | None, typer.Option(callback=printable, help="The user's name, shown beside the files. Default: the subject.")
    ] = None,
    scope: Scopes,
    expires_in: Annotated[int, typer.Option(min=1, max=31_536_000, help="Seconds until it expires.")] = 3600,
) -> None:
    """Print a JWT signed by this machine's own key (made by **sluice init** or the first start), and nothing else.

    It cannot be revoked: it works until it expires, or the tenant is suspended.
    """
    from sluice.cli import keys

    show.line(keys.token(tenant, subject, name or subject, [one.value for one in scope], expires_in))
