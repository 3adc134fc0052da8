"""`sluice console`: print a link that signs a person in to the web console."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the database's library)

from typing import TYPE_CHECKING, Annotated

import typer

from sluice.access import Scope
from sluice.cli.environment import on_database, operator_action, read_settings
from sluice.cli.tenants import require_tenant
from sluice_client.cli import output
from sluice_client.cli.options import TenantOrNone, group_of, printable
from sluice_client.cli.output import CommandRefused, Exit

if TYPE_CHECKING:
    from sluice.db.database import Database
    from sluice.sessions.service import IssuedLink

group = group_of("Sign in to the web console.")


@group.command()
def login(
    *,
    tenant: TenantOrNone = None,
    user: Annotated[
        str | None,
        typer.Option(callback=printable, help="Name of the person, for the audit log. Default: the user of the shell."),
    ] = None,
    scope: Annotated[
        list[Scope] | None,
        typer.Option("--scope", help="What the person may do; give it again for more. Default: `admin`, which is all."),
    ] = None,
) -> None:
    """Print a link to the console that works once, for a minute, in the browser that opens it first.

    Without --tenant it is the only tenant there is.
    """
    from sluice.sessions.service import CONSOLE_SCOPES, Sessions

    scopes = scope or [Scope.ADMIN]
    if CONSOLE_SCOPES.isdisjoint(scopes):
        raise CommandRefused(
            "Such a user would see nothing in the console: give --scope metadata, review or admin.", Exit.USAGE
        )
    settings = read_settings()
    if not settings.console:
        raise CommandRefused("The console is switched off: SLUICE_CONSOLE.")

    async def act(database: "Database") -> "IssuedLink":
        tenant_id = tenant or await _only_tenant(database)
        await require_tenant(database, tenant_id)
        by = operator_action("console.link_created", tenant_id)
        name = user or by.principal.actor_name
        user_id = by.principal.actor_id if user is None else f"console|{user}"
        return await Sessions(database).create_link(by, user_id, name, [one.value for one in scopes])

    issued = on_database(act)
    output.line(f"{settings.resolved_public_url}/console/login/{issued.text}")


async def _only_tenant(database: "Database") -> str:
    from sluice.tenants.service import Tenants

    found = [tenant for tenant in await Tenants(database).list_all() if tenant.status == "active"]
    if len(found) != 1:
        raise CommandRefused("Name the tenant with --tenant: `sluice tenants list` names them all.", Exit.USAGE)
    return found[0].tenant_id
