"""`sluice files`: search, delete, restore, export and hold the files of a running service over HTTP."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from sluice_client.cli import output
from sluice_client.cli.options import MOMENT, Json, Yes, comment_text, group_of, pairs_in, past_moment
from sluice_client.cli.output import CommandRefused, Exit
from sluice_client.cli.service import Service, complete_context, download_link, on_service, segment

group = group_of("List, show, download, delete, restore and export files, and put legal holds on files and contexts.")

_PATH: Final = "/api/v1/files"
_CONTEXTS: Final = "/api/v1/contexts"
File = Annotated[str, typer.Argument(metavar="FILE", help="Id of the file: file_…")]
FileOrNone = Annotated[str | None, typer.Argument(metavar="[FILE]", help="Id of the file: file_…")]
HeldContext = Annotated[
    str | None,
    typer.Option(
        "--context", metavar="KEY", autocompletion=complete_context, help="All files of this context instead."
    ),
]


class _Status(StrEnum):
    STORED = "stored"
    QUARANTINED = "quarantined"


class _Format(StrEnum):
    NDJSON = "ndjson"
    CSV = "csv"


class _Order(StrEnum):
    NEWEST = "-created_at"
    OLDEST = "created_at"
    LARGEST = "-size_bytes"
    SMALLEST = "size_bytes"


Context = Annotated[
    str | None,
    typer.Option("--context", metavar="KEY", autocompletion=complete_context, help="Only files of this context."),
]
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """The files of a command: fields by their names in the API, and metadata."""

    fields: Mapping[str, Any]
    metadata: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.fields or self.metadata)

    @property
    def query(self) -> dict[str, Any]:
        """The parameters of a search."""
        return {**self.fields, **{f"metadata.{name}": value for name, value in self.metadata.items()}}

    @property
    def body(self) -> dict[str, Any]:
        """The filter of a job."""
        return {**self.fields, **({"metadata": dict(self.metadata)} if self.metadata else {})}


def _wanted(
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
) -> Wanted:
    """Return what the options say; raise a usage error."""
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
    }
    pairs = pairs_in(metadata, "--metadata")
    return Wanted({name: value for name, value in asked.items() if value is not None}, pairs)


def _choosing_files(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `_wanted`, in front of its own, and what they say as its parameter `wanted`."""
    options = signature(_wanted, eval_str=True).parameters
    own = signature(command, eval_str=True).parameters
    names = [*options.values(), *(one for one in own.values() if one.name != "wanted")]

    def run(**given: Any) -> None:
        wanted = _wanted(**{name: given.pop(name) for name in options})
        command(wanted=wanted, **given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {one.name: one.annotation for one in names}
    vars(run)["__signature__"] = Signature(names)
    return run


@group.command("list")
@on_service
@_choosing_files
def list_files(
    *,
    wanted: Wanted,
    sort: Annotated[_Order, typer.Option("--sort", help="Newest, oldest, largest or smallest first.")] = _Order.NEWEST,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Most files to print.")] = 100,
    service: Service,
    json: Json = False,
) -> None:
    """List files, newest first. The API key needs the scope `metadata`. With --json: one line per file."""
    output.listing(
        service.pages(_PATH, wanted.query | {"sort": sort.value}, limit),
        ("WHEN", "SIZE", "TYPE", "CONTEXT", "FILE", "BY", "ID"),
        _row,
        json=json,
    )


@group.command()
@on_service
def show(file: File, *, service: Service, json: Json = False) -> None:
    """Show the metadata of a stored file. The API key needs the scope `metadata`."""
    output.fields(service.data("GET", f"{_PATH}/{segment(file)}/metadata"), json=json)


@group.command()
@on_service
def download(
    file: File,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="Where to write it; - is standard output. Default: its own name."),
    ] = None,
    *,
    link: Annotated[
        bool, typer.Option("--link", help="Print a link that needs no credential instead, and download nothing.")
    ] = False,
    expires_in: Annotated[
        int | None, typer.Option("--expires-in", min=60, max=3600, help="Seconds until the link expires.")
    ] = None,
    service: Service,
    json: Json = False,
) -> None:
    """Download a stored file, or print a link to it. The API key needs the scope `download`.

    Nothing is overwritten unless **--to** names it.
    """
    found = service.data("GET", f"{_PATH}/{segment(file)}", query={"expires_in": expires_in})
    if link:
        if json:
            output.as_json(found)
        else:
            output.line(found["download_url"])
        return
    # The name is the uploader's: no path, and no option or hidden file.
    own = Path(found["original_filename"]).name.lstrip(".-")
    if to is None and not own:
        raise CommandRefused("The file has no name to write it under: give one with --to.", Exit.USAGE)
    target = Path(own) if to is None else to
    if to is None and target.exists():
        raise CommandRefused(f"{target} is there already: --to names another file, or this one to overwrite it.")
    download_link(found["download_url"], None if str(target) == "-" else target)
    if json:
        output.as_json(found | {"path": None if str(target) == "-" else str(target)})


@group.command()
@on_service
def preview(
    file: File,
    to: Annotated[Path | None, typer.Option("--to", metavar="PNG", help="Where to write it; without, a link.")] = None,
    *,
    size: Annotated[Literal["200", "1200"], typer.Option("--size", help="Pixels of the longer side at most.")] = "1200",
    service: Service,
    json: Json = False,
) -> None:
    """Show what a stored file looks like: write a picture of its first page, or print a link to it.

    The API key needs the scope `download`.
    """
    found = service.data("GET", f"{_PATH}/{segment(file)}/preview", query={"size": size})
    if to is not None:
        download_link(found["preview_url"], to)
    if json:
        output.as_json(found if to is None else found | {"path": str(to)})
    elif to is None:
        output.line(found["preview_url"])


@group.command()
@on_service
def delete(file: File, *, yes: Yes = False, service: Service, json: Json = False) -> None:
    """Delete a stored file; `sluice files restore` undoes it until it is purged. The key needs the scope `delete`."""
    output.confirm(f"Delete the file {file}", yes=yes)
    output.done(service.data("DELETE", f"{_PATH}/{segment(file)}"), f"The file {file} is deleted.", json=json)


FileIds = Annotated[
    list[str] | None, typer.Option("--id", metavar="FILE", help="This file; give it again for more, up to 1,000.")
]
MaxFiles = Annotated[int | None, typer.Option("--max-files", min=1, help="With a filter: at most this many.")]


@group.command("bulk-delete")
@on_service
@_choosing_files
def bulk_delete(
    *,
    wanted: Wanted,
    file_id: FileIds = None,
    max_files: MaxFiles = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without this, only say how many files there are.")] = False,
    service: Service,
    json: Json = False,
) -> None:
    """Delete the files that meet a filter, or those named, as a job. The API key needs the scope `delete`.

    Without **--yes** the files are counted, which needs the scope `metadata`.
    """
    body = _chosen(wanted, file_id, max_files)
    if not yes:
        if file_id:
            chosen = str(len(set(file_id)))
        else:
            response = service.http.request("GET", _PATH, query=wanted.query | {"page_size": 1})
            total = service.success(response)["pagination"]["total"]
            chosen = f"At least {total}" if "Warning" in response.headers else str(total)
        raise CommandRefused(f"{chosen} files are chosen, and none was deleted: add --yes to delete them.")
    _begin(service, "bulk-delete", body, json=json)


@group.command("bulk-restore")
@on_service
@_choosing_files
def bulk_restore(
    *,
    wanted: Wanted,
    file_id: FileIds = None,
    max_files: MaxFiles = None,
    service: Service,
    json: Json = False,
) -> None:
    """Restore the deleted files that meet a filter, or those named, as a job. The API key needs the scope `delete`."""
    _begin(service, "bulk-restore", _chosen(wanted, file_id, max_files), json=json)


@group.command()
@on_service
@_choosing_files
def export(
    *,
    wanted: Wanted,
    format_: Annotated[
        _Format, typer.Option("--format", help="A JSON object on each line, or a table.")
    ] = _Format.NDJSON,
    service: Service,
    json: Json = False,
) -> None:
    """Write the metadata of the files that meet a filter, or of all, as a job. The API key needs the scope `metadata`.

    `sluice jobs download` gets what it wrote, for 24 hours after the end of the job.
    """
    body = {"format": format_.value} | ({"filter": wanted.body} if wanted else {})
    _begin(service, "export", body, json=json)


def _chosen(wanted: Wanted, file_id: Sequence[str] | None, max_files: int | None) -> dict[str, Any]:
    """Return the body of a request for a job on these files; raise a usage error if it is unclear which."""
    if bool(file_id) == bool(wanted):
        raise typer.BadParameter("expected --id, or options that choose files")
    if file_id:
        return {"file_ids": file_id}
    if max_files is None:
        raise typer.BadParameter("expected with options that choose files", param_hint="--max-files")
    return {"filter": wanted.body, "max_files": max_files}


def _begin(service: Service, action: str, body: dict[str, Any], *, json: bool) -> None:
    job = service.data("POST", f"{_PATH}/{action}", body=body)
    output.done(job, f"Began {job['job_id']}. How far it is: sluice jobs show {job['job_id']}", json=json)


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
@on_service
def restore(file: File, *, service: Service, json: Json = False) -> None:
    """Restore a deleted file, until its object is purged. The API key needs the scope `delete`."""
    output.done(service.data("POST", f"{_PATH}/{segment(file)}/restore"), f"The file {file} is restored.", json=json)


@group.command()
@on_service
def hold(
    file: FileOrNone = None,
    *,
    reason: Annotated[
        str, typer.Option(callback=comment_text, metavar="TEXT", help="Why; the audit log and the metadata show it.")
    ],
    context: HeldContext = None,
    service: Service,
    json: Json = False,
) -> None:
    """Put a legal hold on a file, or on all files of a context, those to come too: nothing deletes or purges them.

    The API key needs the scope `admin`.
    """
    path, named = _target(file, context)
    output.done(service.data("PUT", path, body={"reason": reason}), f"{named} is held.", json=json)


@group.command()
@on_service
def unhold(file: FileOrNone = None, *, context: HeldContext = None, service: Service, json: Json = False) -> None:
    """End the legal hold on a file or on a context. Each has its own: ending one leaves the other.

    The API key needs the scope `admin`.
    """
    path, named = _target(file, context)
    output.done(service.data("DELETE", path), f"{named} is not held any more.", json=json)


def _target(file: str | None, context: str | None) -> tuple[str, str]:
    """Return the path of the hold of a file or a context, and what to call it."""
    if (file is None) == (context is None):
        raise CommandRefused("Name either a file or, with --context, a context.", Exit.USAGE)
    if file is not None:
        return f"{_PATH}/{segment(file)}/hold", f"The file {file}"
    return f"{_CONTEXTS}/{segment(context or '')}/hold", f"The context {context}"
