"""What the commands for files in quarantine do with the database."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial

from sluice.cli.environment import on_database
from sluice.cli.outcomes import CommandRefused
from sluice.cli.tenants import deed, existing
from sluice.db.database import Database
from sluice.errors import NotFound
from sluice.files.record import Quarantined
from sluice.files.service import Quarantine


def list_all(tenant_id: str | None) -> Sequence[Quarantined]:
    """Answer the files of a tenant, or of all; raises `CommandRefused` when there is no such tenant."""

    async def act(database: Database) -> Sequence[Quarantined]:
        if tenant_id is not None:
            await existing(database, tenant_id)
        return [file async for file in Quarantine(database).files(tenant_id)]

    return on_database(act)


def release(file_id: str) -> None:
    """Release one file; raises `CommandRefused` when it is not in quarantine."""

    async def act(database: Database) -> None:
        try:
            await Quarantine(database).release(file_id, partial(deed, "file.released"))
        except NotFound as fault:
            raise CommandRefused(f"No file {file_id} is in quarantine: `sluice quarantine list` names them all.") from fault

    on_database(act)


def fields(file: Quarantined) -> Mapping[str, object]:
    """Answer the file for scripts."""
    return asdict(file)
