"""`sluice erasures`: erase a person on a running service, over HTTP, and keep the signed list of what was erased."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from sluice_client.cli import output
from sluice_client.cli.options import Json, group_of, pairs_in
from sluice_client.cli.output import CommandRefused, Exit
from sluice_client.cli.service import Service, on_service, segment

group = group_of("Erase a person: all files at once, and its names in reports, events and the audit log.")

_PATH: Final = "/api/v1/erasures"


@group.command()
@on_service
def create(
    *,
    uploaded_by: Annotated[
        str | None, typer.Option("--uploaded-by", metavar="ID", help="Id of the user who uploaded the files.")
    ] = None,
    end_user: Annotated[
        str | None, typer.Option("--end-user", metavar="NAME", help="The end user that upload tokens name.")
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option("--metadata", metavar="NAME=VALUE", help="Files with this metadata; give it again for more."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Erase; nothing is done without it.")] = False,
    service: Service,
    json: Json = False,
) -> None:
    """Begin to erase a person, named by one of the options. Nothing of it can be undone.

    The API key needs the scope `admin`. Legal holds keep what they protect.
    """
    body = {"uploaded_by": uploaded_by, "end_user": end_user, "metadata": pairs_in(metadata, "--metadata")}
    given = {name: value for name, value in body.items() if value}
    if len(given) != 1:
        raise CommandRefused("Expected one of --uploaded-by, --end-user and --metadata.", Exit.USAGE)
    if not yes:
        raise CommandRefused("Nothing was erased: say --yes if all files and names of this person should go for ever.")
    job = service.data("POST", _PATH, body=given)
    output.done(job, f"Begun as {job['job_id']}: sluice erasures show {job['job_id']}", json=json)


@group.command()
@on_service
def show(
    erasure: Annotated[str, typer.Argument(metavar="ERASURE", help="Id of the erasure: job_…")],
    *,
    receipt: Annotated[
        Path | None, typer.Option("--receipt", metavar="FILE", help="Write the signed list to this file, when done.")
    ] = None,
    service: Service,
    json: Json = False,
) -> None:
    """Show how far an erasure is, or how it ended, and write its receipt. The API key needs the scope `admin`.

    A list of more than 1,000 files has several pages: the second is written to FILE.2, and so on.
    """
    path = f"{_PATH}/{segment(erasure)}"
    found: Mapping[str, Any] = service.data("GET", path)
    page = pages = 1
    while receipt is not None and page <= pages:
        response = service.data("GET", f"{path}/receipt", query={"page": page})
        target = receipt if page == 1 else receipt.with_name(f"{receipt.name}.{page}")
        try:
            target.write_text(f"{response['receipt']}\n")
        except OSError as fault:
            raise CommandRefused(f"The file {target} cannot be written: {fault.strerror}.") from fault
        page, pages = page + 1, response["pages"]
    if json:
        output.as_json(found)
        return
    output.line(
        f"erasure  {found['job_id']}",
        f"status   {found['status']}" + (f": {found['error']}" if found["error"] else ""),
        f"files    {found['files_erased']} erased, {found['files_held']} kept by a legal hold",
    )
