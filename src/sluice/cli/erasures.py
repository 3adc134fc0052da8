"""`sluice erasures`: erase a person on a running service, over HTTP, and keep the signed list of what was erased."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from sluice.cli import output
from sluice.cli.options import Json, group_of
from sluice.cli.output import CommandRefused, Exit
from sluice.cli.service import DEFAULT_URL, ApiKey, Url, read_answer, service_client

group = group_of("Erase a person: all files at once, and its names in reports, events and the audit log.")

_PATH: Final = "/api/v1/erasures"


@group.command()
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
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    json: Json = False,
) -> None:
    """Begin to erase a person, named by one of the options. Nothing of it can be undone.

    The API key needs the scope `admin`. Legal holds keep what they protect.
    """
    pairs = [text.partition("=") for text in metadata or ()]
    if not all(equals for _, equals, _ in pairs):
        raise typer.BadParameter("expected NAME=VALUE", param_hint="--metadata")
    body = {"uploaded_by": uploaded_by, "end_user": end_user, "metadata": {name: value for name, _, value in pairs}}
    given = {name: value for name, value in body.items() if value}
    if len(given) != 1:
        raise CommandRefused("Expected one of --uploaded-by, --end-user and --metadata.", Exit.USAGE)
    if not yes:
        raise CommandRefused("Nothing was erased: say --yes if all files and names of this person should go for ever.")
    with service_client(url, api_key) as client:
        job = read_answer(client.post(_PATH, json=given), url)["data"]
    if json:
        output.as_json(job)
    else:
        output.line(f"Begun as {job['job_id']}: sluice erasures show {job['job_id']}")


@group.command()
def show(
    erasure: Annotated[str, typer.Argument(metavar="ERASURE", help="Id of the erasure: job_…")],
    *,
    receipt: Annotated[
        Path | None, typer.Option("--receipt", metavar="FILE", help="Write the signed list to this file, when done.")
    ] = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    json: Json = False,
) -> None:
    """Show how far an erasure is, or how it ended, and write its receipt. The API key needs the scope `admin`.

    A list of more than 1,000 files has several pages: the second is written to FILE.2, and so on.
    """
    path = f"{_PATH}/{quote(erasure, safe='')}"
    with service_client(url, api_key) as client:
        found: Mapping[str, Any] = read_answer(client.get(path), url)["data"]
        page = pages = 1
        while receipt is not None and page <= pages:
            answer = read_answer(client.get(f"{path}/receipt", params={"page": str(page)}), url)["data"]
            target = receipt if page == 1 else receipt.with_name(f"{receipt.name}.{page}")
            try:
                target.write_text(f"{answer['receipt']}\n")
            except OSError as fault:
                raise CommandRefused(f"The file {target} cannot be written: {fault.strerror}.", Exit.FAILED) from fault
            page, pages = page + 1, answer["pages"]
    if json:
        output.as_json(found)
        return
    output.line(
        f"erasure  {found['job_id']}",
        f"status   {found['status']}" + (f": {found['error']}" if found["error"] else ""),
        f"files    {found['files_erased']} erased, {found['files_held']} kept by a legal hold",
    )
