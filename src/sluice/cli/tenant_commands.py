"""The commands for tenants. Their words and options, and how their answers look; what may be done is in `tenants`."""

# ruff: noqa: PLC0415  (commands load their work when asked: `--help` must not wait for the database's library)

from typing import Annotated, Literal

import typer

from sluice.cli import show
from sluice.cli.options import Json, Name, group_of
from sluice.cli.options import TenantArgument as TenantId

group = group_of("Make, list, suspend and resume tenants.")


def add_to(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    app.add_typer(group, name="tenants", rich_help_panel="Access")


@group.command()
def create(
    *,
    name: Name,
    plan: Annotated[Literal["free", "unlimited"], typer.Option(help="`free` has a monthly limit of stored files.")] = "free",
    json: Json = False,
) -> None:
    """Make a tenant. It can do nothing until it has a key: **sluice keys create**, or a token of **sluice token**."""
    from sluice.cli import tenants

    tenant = tenants.create(name, plan)
    if json:
        show.as_json(tenants.fields(tenant))
    else:
        show.line(
            f"Made the tenant {tenant.tenant_id}. Its first key: sluice keys create --tenant {tenant.tenant_id} --name NAME --scope admin"
        )


@group.command("list")
def list_tenants(*, json: Json = False) -> None:
    """List all tenants, the oldest first. With --json: one line per tenant."""
    from sluice.cli import tenants

    found = tenants.list_all()
    if json:
        for tenant in found:
            show.as_json(tenants.fields(tenant))
        return
    rows = [(one.tenant_id, one.name, one.plan, one.status, show.moment(one.created_at)) for one in found]
    show.table(("tenant", "name", "plan", "status", "created"), rows)


@group.command()
def suspend(tenant: TenantId) -> None:
    """Refuse all credentials of a tenant from now on. Nothing of it is deleted."""
    from sluice.cli import tenants

    tenants.set_status(tenant, "suspended")
    show.line(f"The tenant {tenant} is suspended.")


@group.command()
def resume(tenant: TenantId) -> None:
    """Let a suspended tenant in again, with the credentials that it had."""
    from sluice.cli import tenants

    tenants.set_status(tenant, "active")
    show.line(f"The tenant {tenant} is active.")
