"""`sluice contexts`: the contexts of a tenant on a running service over HTTP."""

from typing import Annotated, Any, Final, Literal

import typer

from sluice_client.cli import output
from sluice_client.cli.options import MOMENT, Json, group_of, past_moment
from sluice_client.cli.output import CommandRefused, Exit
from sluice_client.cli.service import BodyFile, Fields, Service, body_of, given, on_service, segment

group = group_of("List, show, create and change contexts, and replay what a change of their rules would have done.")

_PATH: Final = "/api/v1/contexts"
_NUMBERS: Final = 2

Key = Annotated[str, typer.Argument(metavar="KEY", help="Key of the context, such as invoices.")]
Description = Annotated[str | None, typer.Option("--description", help="A note for people.")]
Extensions = Annotated[
    list[str] | None,
    typer.Option("--extension", metavar="EXT", help="Allow this extension, such as pdf; again for more. Default: all."),
]
MaxMb = Annotated[int | None, typer.Option("--max-file-size-mb", help="Largest file, in MiB.")]
Blank = Annotated[bool | None, typer.Option("--reject-blank/--accept-blank", help="Whether blank files are rejected.")]
Corrupt = Annotated[
    bool | None, typer.Option("--reject-corrupt/--accept-corrupt", help="Whether damaged files are rejected.")
]
Scan = Annotated[bool | None, typer.Option("--scan/--no-scan", help="Whether files are scanned for malware.")]
Quota = Annotated[
    str | None, typer.Option("--storage-quota-mb", metavar="MB", help="Most MiB that are stored; `none`: unlimited.")
]
Rate = Annotated[
    str | None,
    typer.Option(
        "--rate", metavar="UPLOADS/SECONDS", help="Most uploads in any such time, as 10/60; `none`: unlimited."
    ),
]
Bucket = Annotated[
    str | None, typer.Option("--bucket", metavar="ID", help="Id of the bucket: bkt_… Default: the tenant's default.")
]
Display = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name for people.")]


@group.command("list")
@on_service
def list_contexts(
    *,
    status: Annotated[Literal["active", "inactive"] | None, typer.Option(help="Only contexts in this state.")] = None,
    service: Service,
    json: Json = False,
) -> None:
    """List the contexts. With --json: one line per context."""
    output.listing(
        service.pages(_PATH, given(status=status)),
        ("CONTEXT", "NAME", "STATUS", "MAX MB", "EXTENSIONS", "BYTES STORED"),
        lambda one: (
            one["context_key"],
            one["display_name"],
            one["status"],
            str(one["max_file_size_mb"]),
            " ".join(one["allowed_extensions"]) or "all",
            str(one["storage_used_bytes"]),
        ),
        json=json,
    )


@group.command()
@on_service
def show(key: Key, *, service: Service, json: Json = False) -> None:
    """Show one context with all of its rules."""
    output.fields(service.data("GET", f"{_PATH}/{segment(key)}"), json=json)


@group.command()
@on_service
def create(
    key: Key,
    *,
    name: Display = None,
    description: Description = None,
    extension: Extensions = None,
    max_file_size_mb: MaxMb = None,
    blank: Blank = None,
    corrupt: Corrupt = None,
    scan: Scan = None,
    quota: Quota = None,
    rate: Rate = None,
    bucket: Bucket = None,
    field: Fields = [],  # noqa: B006  (typer copies it)
    body: BodyFile = None,
    service: Service,
    json: Json = False,
) -> None:
    """Create a context. The API key needs the scope `admin`. `sluice apply` keeps several in a file."""
    named = _named(
        name=name,
        description=description,
        extensions=extension,
        max_file_size_mb=max_file_size_mb,
        blank=blank,
        corrupt=corrupt,
        scan=scan,
        quota=quota,
        rate=rate,
        bucket=bucket,
    )
    sent = body_of({"context_key": key, **named}, field, body)
    made = service.data("POST", _PATH, body={"display_name": key, **sent})
    output.done(made, f"Created the context {made['context_key']}.", json=json)


@group.command()
@on_service
def update(
    key: Key,
    *,
    name: Display = None,
    description: Description = None,
    extension: Extensions = None,
    all_extensions: Annotated[bool, typer.Option("--all-extensions", help="Allow all extensions.")] = False,
    max_file_size_mb: MaxMb = None,
    blank: Blank = None,
    corrupt: Corrupt = None,
    scan: Scan = None,
    quota: Quota = None,
    rate: Rate = None,
    bucket: Annotated[
        str | None, typer.Option("--bucket", metavar="ID", help="Id of the bucket; '': the tenant's default one.")
    ] = None,
    status: Annotated[Literal["active", "inactive"] | None, typer.Option(help="Whether it takes uploads.")] = None,
    field: Fields = [],  # noqa: B006  (typer copies it)
    body: BodyFile = None,
    service: Service,
    json: Json = False,
) -> None:
    """Change a context. What is not named stays as it is. The API key needs the scope `admin`."""
    extensions = [] if all_extensions else extension
    named = _named(
        name=name,
        description=description,
        extensions=extensions,
        max_file_size_mb=max_file_size_mb,
        blank=blank,
        corrupt=corrupt,
        scan=scan,
        quota=quota,
        rate=rate,
        bucket=bucket,
    )
    sent = body_of(named | given(status=status), field, body)
    if not sent:
        raise CommandRefused("Nothing to change: name what should be different.", Exit.USAGE)
    output.done(service.data("PATCH", f"{_PATH}/{segment(key)}", body=sent), f"Changed the context {key}.", json=json)


@group.command()
@on_service
def replay(
    key: Key,
    *,
    since: Annotated[
        str | None, typer.Option("--since", callback=past_moment, metavar="WHEN", help=f"Only later uploads: {MOMENT}.")
    ] = None,
    extension: Extensions = None,
    max_file_size_mb: MaxMb = None,
    blank: Blank = None,
    corrupt: Corrupt = None,
    scan: Scan = None,
    quota: Quota = None,
    rate: Rate = None,
    field: Fields = [],  # noqa: B006  (typer copies it)
    body: BodyFile = None,
    service: Service,
    json: Json = False,
) -> None:
    """Show what a change of rules would have done to earlier uploads, and change nothing."""
    changes = body_of(
        _named(
            extensions=extension,
            max_file_size_mb=max_file_size_mb,
            blank=blank,
            corrupt=corrupt,
            scan=scan,
            quota=quota,
            rate=rate,
        ),
        field,
        body,
    )
    found = service.data("POST", f"{_PATH}/{segment(key)}/replay", body={"changes": changes, **given(since=since)})
    output.fields(found, json=json)


_LIMITLESS: Final = "none"


def _named(
    *,
    name: str | None = None,
    description: str | None = None,
    extensions: list[str] | None,
    max_file_size_mb: int | None,
    blank: bool | None,
    corrupt: bool | None,
    scan: bool | None,
    quota: str | None,
    rate: str | None,
    bucket: str | None = None,
) -> dict[str, Any]:
    """Return the fields of the API that the options name; raise a usage error."""
    named = given(
        display_name=name,
        description=description,
        allowed_extensions=extensions,
        max_file_size_mb=max_file_size_mb,
        reject_blank_files=blank,
        reject_corrupt_files=corrupt,
        scan_for_viruses=scan,
        storage_config_id=bucket,
    )
    if quota is not None:
        if quota != _LIMITLESS and not quota.isdecimal():
            raise typer.BadParameter("expected a number, or none", param_hint="--storage-quota-mb")
        named["storage_quota_mb"] = None if quota == _LIMITLESS else int(quota)
    if rate is not None:
        numbers = rate.split("/")
        if rate != _LIMITLESS and not (len(numbers) == _NUMBERS and all(one.isdecimal() for one in numbers)):
            raise typer.BadParameter("expected uploads/seconds such as 10/60, or none", param_hint="--rate")
        named["upload_rate_limit"] = (
            None if rate == _LIMITLESS else {"max_uploads": int(numbers[0]), "window_seconds": int(numbers[1])}
        )
    return named
