"""`sluice quarantine`: list the files in quarantine, download one, release it, refuse it, or have it scanned again."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import typer

from sluice_client.cli import output
from sluice_client.cli.options import Json, TenantOrNone, Yes, comment_text, group_of
from sluice_client.cli.output import CommandRefused, Exit
from sluice_client.cli.server_commands import on_this_machine
from sluice_client.cli.service import SaveTo, Service, complete_context, on_service, on_service_unless, segment

group = group_of(
    "List the stored files that cannot be downloaded, and decide on them: download, release, refuse, rescan. The API "
    "key needs the scope `review`; with --local the operator works on the database of this machine, without a key."
)

_PATH: Final = "/api/v1/quarantine"
_PAGE: Final = 100
File = Annotated[str, typer.Argument(metavar="FILE", help="Id of the file: file_…")]
Comment = Annotated[
    str, typer.Option(callback=comment_text, metavar="TEXT", help="Why. It is kept in the tenant's audit log.")
]
Local = Annotated[
    bool, typer.Option("--local", help="Work on the database of this machine, as its operator, for all tenants.")
]


@group.command("list")
@on_service_unless("local")
def list_quarantined(
    *,
    local: Local = False,
    tenant: TenantOrNone = None,
    context: Annotated[
        str | None,
        typer.Option("--context", metavar="KEY", autocompletion=complete_context, help="Only files of this context."),
    ] = None,
    service: Service | None,
    json: Json = False,
) -> None:
    """List the files in quarantine, in the order of their uploads. With --json: one line per file.

    Such a file cannot be downloaded. It keeps its record, its object and its share of the quota, and its tenant may
    delete it.
    """
    if service is None:
        found: Any = (
            one
            for one in on_this_machine("quarantine").list_all(tenant)
            if context is None or one["context_key"] == context
        )
    elif tenant is not None:
        raise CommandRefused("--tenant is for --local: a service shows the files of the key's tenant.", Exit.USAGE)
    else:
        found = _pages(service, context)
    output.listing(
        found,
        ("file", "context", "name", "why", "since", *(("tenant",) if local else ())),
        lambda one: (
            one["file_id"],
            one["context_key"],
            one["original_filename"],
            one["threat"] or one["reason"] or "-",
            _moment(one["quarantined_at"]),
            *((one["tenant_id"],) if local else ()),
        ),
        json=json,
    )


@group.command()
@on_service
def download(file: File, to: SaveTo = None, *, service: Service) -> None:
    """Download a file in quarantine from a running service, as a ZIP archive with the password **infected**.

    The tenant's audit log shows who did it.
    """
    service.download(f"{_PATH}/{segment(file)}/download", to)


@group.command()
@on_service
def preview(
    file: File,
    to: SaveTo = None,
    *,
    size: Annotated[Literal["200", "1200"], typer.Option("--size", help="Pixels of the longer side at most.")] = "1200",
    service: Service,
) -> None:
    """Get a picture of a file in quarantine from a running service, as a PNG, which holds nothing of it but pixels.

    The tenant's audit log shows who did it.
    """
    service.download(f"{_PATH}/{segment(file)}/preview?size={size}", to)


@group.command()
@on_service_unless("local")
def release(file: File, *, comment: Comment, local: Local = False, service: Service | None, json: Json = False) -> None:
    """Make a file in quarantine available again, and record that in its tenant's audit log.

    From now on the threat it was found for is ignored in this file, whatever the signatures; another threat puts it
    back. With SLUICE_REVIEW_TWO_PERSONS it takes two persons.
    """
    _decide(file, "release", comment, None if local else service, json=json)


@group.command()
@on_service_unless("local")
def refuse(
    file: File,
    *,
    comment: Comment,
    yes: Yes = False,
    local: Local = False,
    service: Service | None,
    json: Json = False,
) -> None:
    """Delete a file in quarantine, and record that in its tenant's audit log.

    Until its object is purged it can be restored, into quarantine. With SLUICE_REVIEW_TWO_PERSONS it takes two persons.
    """
    output.confirm(f"Delete the file {file}, which is in quarantine", yes=yes)
    _decide(file, "refuse", comment, None if local else service, json=json)


@group.command()
@on_service_unless("local")
def rescan(file: File, *, comment: Comment, local: Local = False, service: Service | None, json: Json = False) -> None:
    """Have the worker scan a file in quarantine again. It stays there, whatever the scan finds."""
    _decide(file, "rescan", comment, None if local else service, json=json)


def _decide(
    file: str, word: Literal["release", "refuse", "rescan"], comment: str, service: Service | None, *, json: bool
) -> None:
    if service is None:
        found = on_this_machine("quarantine").decide(file, word, comment)
    else:
        found = service.data("POST", f"{_PATH}/{segment(file)}/{word}", body={"comment": comment})
    outcome = found.get("outcome", word)
    sentence = f"The file {file} is {outcome}."
    if word == "rescan":
        sentence = f"The file {file} will be scanned."
    elif outcome == "awaits_second":
        sentence = f"Noted for the file {file}. Another person has to decide the same."
    output.done(found, sentence, json=json)


def _pages(service: Service, context: str | None) -> Iterator[dict[str, Any]]:
    """Yield the files of a service; a page begins behind the last file of the one before."""
    after = None
    while found := service.data("GET", _PATH, query={"after": after, "context": context, "limit": _PAGE}):
        yield from found
        after = found[-1]["file_id"]


def _moment(value: datetime | str) -> str:
    return output.moment(datetime.fromisoformat(value) if isinstance(value, str) else value)
