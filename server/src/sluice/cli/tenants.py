"""`sluice tenants`: create, list, change, suspend, resume and delete tenants."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the database's library)

from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sluice.cli.environment import on_database, operator_action
from sluice_client.cli import output
from sluice_client.cli.options import Json, Name, NameOrNone, TenantArgument, group_of
from sluice_client.cli.output import CommandRefused, Exit

if TYPE_CHECKING:
    from sluice.db.database import Database
    from sluice.tenants import Tenant
    from sluice.tenants.tenant import TenantStatus

group = group_of("Make, list, change, suspend, resume and delete tenants.")


@group.command()
def create(
    *,
    name: Name,
    plan: Annotated[
        Literal["free", "unlimited"], typer.Option(help="`free` has a monthly limit of stored files.")
    ] = "free",
    json: Json = False,
) -> None:
    """Make a tenant. It can do nothing until it has a key: **sluice keys create**, or a token of **sluice token**."""
    from sluice.tenants.service import Tenants

    tenant = on_database(
        lambda database: Tenants(database).create(name, plan, action_of=partial(operator_action, "tenant.created"))
    )
    if json:
        output.as_json(asdict(tenant))
        return
    key = f"sluice keys create --tenant {tenant.tenant_id} --name NAME --scope admin"
    output.line(f"Made the tenant {tenant.tenant_id}. Its first key: {key}")


@group.command("list")
def list_tenants(*, json: Json = False) -> None:
    """List all tenants, the oldest first. With --json: one line per tenant."""
    from sluice.tenants.service import Tenants

    found = on_database(lambda database: Tenants(database).list_all())
    output.listing(
        map(asdict, found),
        ("tenant", "name", "plan", "status", "created"),
        lambda one: (one["tenant_id"], one["name"], one["plan"], one["status"], output.moment(one["created_at"])),
        json=json,
    )


@group.command()
def show(tenant: TenantArgument, *, json: Json = False) -> None:
    """Show one tenant."""
    found = asdict(on_database(lambda database: require_tenant(database, tenant)))
    if not json:
        found = {name: output.moment(value) if isinstance(value, datetime) else value for name, value in found.items()}
    output.fields(found, json=json)


@group.command()
def update(
    tenant: TenantArgument,
    *,
    name: NameOrNone = None,
    plan: Annotated[
        Literal["free", "unlimited"] | None, typer.Option(help="`free` has a monthly limit of stored files.")
    ] = None,
    json: Json = False,
) -> None:
    """Change the name or the plan of a tenant. Every server judges uploads by the new plan at once."""
    from sluice.tenants.service import Tenants

    if name is None and plan is None:
        raise typer.BadParameter("expected --name or --plan")
    action = operator_action("tenant.changed", tenant)

    async def act(database: "Database") -> "Tenant":
        await require_tenant(database, tenant)
        return await Tenants(database).change(action, name=name, plan=plan)

    changed = on_database(act)
    if json:
        output.as_json(asdict(changed))
        return
    output.line(f"The tenant {tenant} is {changed.name}, with the plan {changed.plan}.")


@group.command()
def delete(
    tenant: TenantArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. There is no way back.")] = False,
    json: Json = False,
) -> None:
    """Delete a tenant for ever: all of its files, objects, contexts, buckets, keys and records but the audit log.

    Its credentials are refused at once. A worker deletes the rest, as a job; objects in a bucket that fails are tried
    again until they are gone.
    """
    from sluice.errors import FileHeld
    from sluice.jobs.service import TenantDeletion

    async def act(database: "Database") -> str:
        found = await require_tenant(database, tenant)
        if found.status == "deleted":
            raise CommandRefused(f"The tenant {tenant} is deleted already.")
        if not yes:
            raise CommandRefused(
                f"The tenant {tenant} ({found.name}) is not deleted: add --yes to delete all that it has, for ever."
            )
        try:
            return (await TenantDeletion(database).begin(operator_action("tenant.deleted", tenant))).job_id
        except FileHeld as held:
            raise CommandRefused(f"The tenant {tenant} is not deleted: end its legal holds first.") from held

    job_id = on_database(act)
    if json:
        output.as_json({"tenant_id": tenant, "job_id": job_id})
        return
    output.line(f"The tenant {tenant} is deleted. A worker removes what it has: {job_id}.")


@group.command()
def suspend(tenant: TenantArgument, *, json: Json = False) -> None:
    """Refuse all credentials of a tenant from now on. Nothing of it is deleted."""
    _set_status(tenant, "suspended")
    output.done({"tenant_id": tenant, "status": "suspended"}, f"The tenant {tenant} is suspended.", json=json)


@group.command()
def resume(tenant: TenantArgument, *, json: Json = False) -> None:
    """Let a suspended tenant in again, with the credentials that it had."""
    _set_status(tenant, "active")
    output.done({"tenant_id": tenant, "status": "active"}, f"The tenant {tenant} is active.", json=json)


def _set_status(tenant_id: str, status: "TenantStatus") -> None:
    from sluice.tenants.service import Tenants

    action = operator_action("tenant.suspended" if status == "suspended" else "tenant.resumed", tenant_id)

    async def act(database: "Database") -> None:
        await require_tenant(database, tenant_id)
        await Tenants(database).set_status(action, status)

    on_database(act)


async def require_tenant(database: "Database", tenant_id: str) -> "Tenant":
    """Return the tenant. Raise `CommandRefused` if it does not exist."""
    from sluice.errors import NotFound
    from sluice.tenants.service import Tenants

    try:
        return await Tenants(database).get(tenant_id)
    except NotFound as fault:
        raise CommandRefused(
            f"There is no tenant {tenant_id}: `sluice tenants list` names them all.", Exit.NOT_FOUND
        ) from fault
