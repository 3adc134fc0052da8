"""`sluice quarantine`: list the stored files in which a later scan found a threat, and release one."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the database's library)

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli import output
from sluice.cli.environment import on_database, operator_action
from sluice.cli.options import Json, TenantOrNone, group_of
from sluice.cli.output import CommandRefused
from sluice.cli.tenants import require_tenant

if TYPE_CHECKING:
    from sluice.db.database import Database
    from sluice.files.record import Quarantined

group = group_of("List the stored files in which a later scan found a threat, and release one after a false alarm.")


@group.command("list")
def list_quarantined(
    *,
    tenant: TenantOrNone = None,
    json: Json = False,
) -> None:
    """List the files in quarantine of all tenants, in the order of their uploads. With --json: one line per file.

    Such a file cannot be downloaded. It keeps its record, its object and its share of the quota, and its tenant may
    delete it.
    """
    from sluice.files.service import Quarantine

    async def act(database: "Database") -> "list[Quarantined]":
        if tenant is not None:
            await require_tenant(database, tenant)
        return [file async for file in Quarantine(database).files(tenant)]

    found = on_database(act)
    if json:
        for one in found:
            output.as_json(asdict(one))
        return
    rows = [
        (
            one.file_id,
            one.tenant_id,
            one.context_key,
            one.original_filename,
            one.threat or "-",
            output.moment(one.quarantined_at),
        )
        for one in found
    ]
    output.table(("file", "tenant", "context", "name", "threat", "since"), rows)


@group.command()
def release(file: Annotated[str, typer.Argument(metavar="FILE", help="Id of the file: file_…")]) -> None:
    """Make a file in quarantine available again, and record that in its tenant's audit log.

    From now on the threat it was found for is ignored in this file, whatever the signatures; another threat puts it
    back.
    """
    from sluice.errors import NotFound
    from sluice.files.service import Quarantine

    async def act(database: "Database") -> None:
        try:
            await Quarantine(database).release(file, partial(operator_action, "file.released"))
        except NotFound as fault:
            raise CommandRefused(
                f"No file {file} is in quarantine: `sluice quarantine list` names them all."
            ) from fault

    on_database(act)
    output.line(f"The file {file} is released.")
