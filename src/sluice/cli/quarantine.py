"""`sluice quarantine`: list the files in quarantine, download one, release it, refuse it, or have it scanned again."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the database's library)

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar
from urllib.parse import quote

import typer

from sluice.cli import output
from sluice.cli.environment import on_database, operator_action, read_settings
from sluice.cli.options import Json, TenantOrNone, comment_text, group_of
from sluice.cli.output import CommandRefused
from sluice.cli.service import DEFAULT_URL, ApiKey, SaveTo, Url, save, service_client
from sluice.cli.tenants import require_tenant

if TYPE_CHECKING:
    from sluice.db.database import Database
    from sluice.files.record import Quarantined
    from sluice.settings import Settings

T = TypeVar("T")

group = group_of(
    "List the stored files that nobody can download, and decide on them: download, release, refuse, rescan."
)


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

    async def act(settings: "Settings", database: "Database") -> "list[Quarantined]":
        from sluice.wiring.assembly import make_quarantine

        if tenant is not None:
            await require_tenant(database, tenant)
        return [file async for file in make_quarantine(settings, database).files(tenant)]

    found = _with_settings(act)
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


_Word = Literal["release", "refuse", "rescan"]
File = Annotated[str, typer.Argument(metavar="FILE", help="Id of the file: file_…")]
Comment = Annotated[
    str, typer.Option(callback=comment_text, metavar="TEXT", help="Why. It is kept in the tenant's audit log.")
]


@group.command()
def download(file: File, to: SaveTo = None, *, url: Url = DEFAULT_URL, api_key: ApiKey = "") -> None:
    """Download a file in quarantine from a running service, as a ZIP archive with the password **infected**.

    The API key needs the scope `review`. The tenant's audit log shows who did it.
    """
    path = f"/api/v1/quarantine/{quote(file, safe='')}/download"
    with service_client(url, api_key) as client, client.stream("GET", path) as response:
        save(response, url, to)


@group.command()
def release(file: File, *, comment: Comment) -> None:
    """Make a file in quarantine available again, and record that in its tenant's audit log.

    From now on the threat it was found for is ignored in this file, whatever the signatures; another threat puts it
    back. With SLUICE_REVIEW_TWO_PERSONS it takes two persons.
    """
    output.line(_decide(file, "release", comment))


@group.command()
def refuse(file: File, *, comment: Comment) -> None:
    """Delete a file in quarantine, and record that in its tenant's audit log.

    Until its object is purged it can be restored, into quarantine. With SLUICE_REVIEW_TWO_PERSONS it takes two persons.
    """
    output.line(_decide(file, "refuse", comment))


@group.command()
def rescan(file: File, *, comment: Comment) -> None:
    """Have the worker scan a file in quarantine again. It stays there, whatever the scan finds."""
    output.line(_decide(file, "rescan", comment))


def _decide(file: str, word: _Word, comment: str) -> str:
    """Do what was asked for and return the sentence about it."""
    from sluice.errors import NotFound, SluiceError

    async def act(settings: "Settings", database: "Database") -> str:
        from sluice.wiring.assembly import make_quarantine

        quarantine = make_quarantine(settings, database)
        try:
            tenant_id = await quarantine.tenant_of(file)
            if word == "rescan":
                await quarantine.ask_rescan(operator_action("file.rescan_asked", tenant_id), file, comment)
                return f"The file {file} will be scanned."
            action = "file.released" if word == "release" else "file.refused"
            outcome = await quarantine.review(operator_action(action, tenant_id), file, word, comment)
        except NotFound as fault:
            raise CommandRefused(
                f"No file {file} is in quarantine: `sluice quarantine list` names them all."
            ) from fault
        except SluiceError as fault:  # held, or decided by the same person before
            raise CommandRefused(f"{fault.message}: {'; '.join(fault.errors)}.") from fault
        if outcome == "awaits_second":
            return f"Noted for the file {file}. Another person has to decide the same."
        return f"The file {file} is {outcome}."

    return _with_settings(act)


def _with_settings(act: "Callable[[Settings, Database], Awaitable[T]]") -> T:
    settings = read_settings()
    return on_database(lambda database: act(settings, database))
