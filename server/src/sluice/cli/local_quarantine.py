"""The quarantine in the database of this machine, as its operator has it: `sluice quarantine` with `--local`."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the database's library)

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sluice.cli.environment import on_database, operator_action, read_settings
from sluice.cli.tenants import require_tenant
from sluice_client.cli.output import CommandRefused, Exit

if TYPE_CHECKING:
    from sluice.db.database import Database
    from sluice.files.record import Quarantined
    from sluice.settings import Settings

T = TypeVar("T")


def list_all(tenant: str | None) -> list[dict[str, Any]]:
    """Return the files in quarantine of a tenant, or of all, in the order of their uploads."""

    async def act(settings: "Settings", database: "Database") -> "list[Quarantined]":
        from sluice.wiring.assembly import make_quarantine

        if tenant is not None:
            await require_tenant(database, tenant)
        return [file async for file in make_quarantine(settings, database).files(tenant)]

    return [asdict(one) for one in _with_settings(act)]


def decide(file: str, word: Literal["release", "refuse", "rescan"], comment: str) -> dict[str, Any]:
    """Decide on a file and return its id and its new state."""
    from sluice.errors import NotFound, SluiceError

    async def act(settings: "Settings", database: "Database") -> str:
        from sluice.wiring.assembly import make_quarantine

        quarantine = make_quarantine(settings, database)
        try:
            tenant_id = await quarantine.tenant_of(file)
            if word == "rescan":
                await quarantine.ask_rescan(operator_action("file.rescan_asked", tenant_id), file, comment)
                return "rescan"
            action = "file.released" if word == "release" else "file.refused"
            return await quarantine.review(operator_action(action, tenant_id), file, word, comment)
        except NotFound as fault:
            raise CommandRefused(
                f"No file {file} is in quarantine: `sluice quarantine list --local` names them all.", Exit.NOT_FOUND
            ) from fault
        except SluiceError as fault:  # held, or decided by the same person before
            raise CommandRefused(f"{fault.message}: {'; '.join(fault.errors)}.") from fault

    return {"file_id": file, "outcome": _with_settings(act)}


def _with_settings(act: "Callable[[Settings, Database], Awaitable[T]]") -> T:
    settings = read_settings()
    return on_database(lambda database: act(settings, database))
