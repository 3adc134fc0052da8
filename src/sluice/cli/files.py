"""`sluice files`: search, delete, restore and hold the files of a running service over HTTP."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import typer

from sluice.cli import output
from sluice.cli.options import MOMENT, Json, comment_text, group_of, past_moment
from sluice.cli.output import CommandRefused, Exit
from sluice.cli.service import DEFAULT_URL, ApiKey, Url, read_answer, service_client

if TYPE_CHECKING:
    import httpx

group = group_of("Search files, delete many of them, restore them, and put legal holds on files and contexts.")

_PATH: Final = "/api/v1/files"
_CONTEXTS: Final = "/api/v1/contexts"
_PAGE: Final = 100
File = Annotated[str, typer.Argument(metavar="FILE", help="Id of the file: file_…")]
FileOrNone = Annotated[str | None, typer.Argument(metavar="[FILE]", help="Id of the file: file_…")]
HeldContext = Annotated[str | None, typer.Option("--context", metavar="KEY", help="All files of this context instead.")]


class _Status(StrEnum):
    STORED = "stored"
    QUARANTINED = "quarantined"


class _Order(StrEnum):
    NEWEST = "-created_at"
    OLDEST = "created_at"
    LARGEST = "-size_bytes"
    SMALLEST = "size_bytes"


Context = Annotated[str | None, typer.Option("--context", metavar="KEY", help="Only files of this context.")]
UploadedBy = Annotated[
    str | None, typer.Option("--uploaded-by", metavar="ID", help="Only files of this API key or user.")
]
Filename = Annotated[
    str | None, typer.Option("--filename", metavar="TEXT", help="Only files whose name contains this.")
]
Sha256 = Annotated[str | None, typer.Option("--sha256", metavar="HEX", help="Only files with these bytes.")]
ContentType = Annotated[
    str | None, typer.Option("--content-type", metavar="TYPE", help="Only files of this type, such as image/png.")
]
After = Annotated[
    str | None, typer.Option("--after", callback=past_moment, metavar="WHEN", help=f"Only later files: {MOMENT}.")
]
Before = Annotated[
    str | None, typer.Option("--before", callback=past_moment, metavar="WHEN", help="Only earlier files.")
]
MinSize = Annotated[int | None, typer.Option("--min-size", min=0, metavar="BYTES", help="Only files so large.")]
Status = Annotated[_Status | None, typer.Option("--status", help="Only files that can be downloaded, or that cannot.")]
Metadata = Annotated[
    list[str] | None,
    typer.Option("--metadata", metavar="NAME=VALUE", help="Only files with this metadata; give it again for more."),
]


def _pairs(metadata: Sequence[str] | None) -> list[tuple[str, str]]:
    pairs = [(name, value) for name, equals, value in (text.partition("=") for text in metadata or ()) if equals]
    if len(pairs) != len(metadata or ()):
        raise typer.BadParameter("expected NAME=VALUE", param_hint="--metadata")
    return pairs


@group.command("list")
def list_files(
    *,
    context: Context = None,
    uploaded_by: UploadedBy = None,
    filename: Filename = None,
    sha256: Sha256 = None,
    content_type: ContentType = None,
    after: After = None,
    before: Before = None,
    min_size: MinSize = None,
    status: Status = None,
    metadata: Metadata = None,
    sort: Annotated[_Order, typer.Option("--sort", help="Newest, oldest, largest or smallest first.")] = _Order.NEWEST,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Most files to print.")] = 100,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    json: Json = False,
) -> None:
    """List files, newest first. The API key needs the scope `metadata`. With --json: one line per file."""
    asked: dict[str, Any] = {
        "context": context,
        "uploaded_by": uploaded_by,
        "filename": filename,
        "sha256": sha256,
        "content_type": content_type,
        "created_after": after,
        "created_before": before,
        "min_size": min_size,
        "status": status,
        "sort": sort.value,
    }
    query = {name: value for name, value in asked.items() if value is not None}
    query |= {f"metadata.{name}": value for name, value in _pairs(metadata)}
    found: list[dict[str, Any]] = []
    warnings: list[str] = []
    with service_client(url, api_key) as client:
        for page in count(1):
            response = client.get(_PATH, params={**query, "page": page, "page_size": _PAGE})
            envelope = read_answer(response, url)
            warnings = response.headers.get_list("Warning")
            found += envelope["data"]
            if len(found) >= limit or page >= envelope["pagination"]["total_pages"]:
                break
    for file in found[:limit] if json else ():
        output.as_json(file)
    if not json:
        output.table(("WHEN", "SIZE", "TYPE", "CONTEXT", "FILE", "BY", "ID"), [_row(file) for file in found[:limit]])
    for warning in warnings:
        output.complain(warning.partition('"')[2].rstrip('"') + ".")


@group.command("bulk-delete")
def bulk_delete(
    *,
    context: Context = None,
    uploaded_by: UploadedBy = None,
    filename: Filename = None,
    sha256: Sha256 = None,
    content_type: ContentType = None,
    after: After = None,
    before: Before = None,
    min_size: MinSize = None,
    status: Status = None,
    metadata: Metadata = None,
    file_id: Annotated[
        list[str] | None, typer.Option("--id", metavar="FILE", help="This file; give it again for more, up to 1,000.")
    ] = None,
    max_files: Annotated[
        int | None, typer.Option("--max-files", min=1, help="With a filter: delete at most so many.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without this, only say how many files there are.")] = False,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    json: Json = False,
) -> None:
    """Delete the files that meet a filter, or those named, as a job. The API key needs the scope `delete`.

    Without **--yes** the files are counted, which needs the scope `metadata`.
    """
    wanted = {
        "context": context,
        "uploaded_by": uploaded_by,
        "filename": filename,
        "sha256": sha256,
        "content_type": content_type,
        "created_after": after,
        "created_before": before,
        "min_size": min_size,
        "status": status,
    }
    wanted = {name: value for name, value in wanted.items() if value is not None}
    pairs = _pairs(metadata)
    if bool(file_id) == bool(wanted or pairs):
        raise typer.BadParameter("expected --id, or options that choose files")
    if not file_id and max_files is None:
        raise typer.BadParameter("expected with options that choose files", param_hint="--max-files")
    with service_client(url, api_key) as client:
        if not yes:
            chosen = f"{len(set(file_id or ()))}" if file_id else _count(client, url, wanted, pairs)
            raise CommandRefused(f"{chosen} files are chosen, and none was deleted: add --yes to delete them.")
        body: dict[str, Any] = {"file_ids": file_id}
        if not file_id:
            body = {"filter": wanted | ({"metadata": dict(pairs)} if pairs else {}), "max_files": max_files}
        job = read_answer(client.post(f"{_PATH}/bulk-delete", json=body), url)["data"]
    if json:
        output.as_json(job)
        return
    output.line(f"Began {job['job_id']}. How far it is: sluice jobs show {job['job_id']}")


def _count(client: "httpx.Client", url: str, wanted: dict[str, Any], pairs: list[tuple[str, str]]) -> str:
    query = wanted | {f"metadata.{name}": value for name, value in pairs} | {"page_size": 1}
    response = client.get(_PATH, params=query)
    total = read_answer(response, url)["pagination"]["total"]
    return f"At least {total}" if "Warning" in response.headers else str(total)


def _row(file: dict[str, Any]) -> tuple[str, ...]:
    return (
        output.moment(datetime.fromisoformat(file["created_at"])),
        str(file["size_bytes"]),
        file["content_type"],
        file["context_key"],
        file["original_filename"],
        file["uploaded_by_name"] or file["uploaded_by"],
        file["file_id"],
    )


@group.command()
def restore(file: File, *, url: Url = DEFAULT_URL, api_key: ApiKey = "") -> None:
    """Restore a deleted file, until its object is purged. The API key needs the scope `delete`."""
    _ask("POST", f"{_PATH}/{quote(file, safe='')}/restore", url, api_key)
    output.line(f"The file {file} is restored.")


@group.command()
def hold(
    file: FileOrNone = None,
    *,
    reason: Annotated[
        str, typer.Option(callback=comment_text, metavar="TEXT", help="Why; the audit log and the metadata show it.")
    ],
    context: HeldContext = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
) -> None:
    """Put a legal hold on a file, or on all files of a context, those to come too: nothing deletes or purges them.

    The API key needs the scope `admin`.
    """
    path, named = _target(file, context)
    _ask("PUT", path, url, api_key, {"reason": reason})
    output.line(f"{named} is held.")


@group.command()
def unhold(
    file: FileOrNone = None, *, context: HeldContext = None, url: Url = DEFAULT_URL, api_key: ApiKey = ""
) -> None:
    """End the legal hold on a file or on a context. Each has its own: ending one leaves the other.

    The API key needs the scope `admin`.
    """
    path, named = _target(file, context)
    _ask("DELETE", path, url, api_key)
    output.line(f"{named} is not held any more.")


def _target(file: str | None, context: str | None) -> tuple[str, str]:
    """Return the path of the hold of a file or a context, and what to call it."""
    if (file is None) == (context is None):
        raise CommandRefused("Name either a file or, with --context, a context.", Exit.USAGE)
    if file is not None:
        return f"{_PATH}/{quote(file, safe='')}/hold", f"The file {file}"
    return f"{_CONTEXTS}/{quote(context or '', safe='')}/hold", f"The context {context}"


def _ask(method: str, path: str, url: str, api_key: str, body: dict[str, Any] | None = None) -> None:
    with service_client(url, api_key) as client:
        read_answer(client.request(method, path, json=body), url)
