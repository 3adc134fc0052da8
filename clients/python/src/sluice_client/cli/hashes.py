"""`sluice hashes`: the hash lists of a tenant on a running service, or those of the installation on this machine."""

# ruff: noqa: PLC0415  (commands load their work when they run)

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from sluice_client.cli import output
from sluice_client.cli.options import Json, group_of
from sluice_client.cli.output import CommandRefused, Exit
from sluice_client.cli.server_commands import on_this_machine
from sluice_client.cli.service import Service, given, on_service, on_service_unless, segment

group = group_of(
    "Add, remove, list and import the digests of files that are denied, or not scanned for malware. The API key needs "
    "the scope `admin`; with --installation the operator works on the database of this machine, for all tenants."
)

_PATH: Final = "/api/v1/hash-lists"
_PIECE_BYTES: Final = 1024**2
Digest = Annotated[str, typer.Argument(metavar="DIGEST", help="SHA-256, SHA-1 or MD5 in hexadecimal digits.")]
ListName = Literal["deny", "allow"]
Installation = Annotated[
    bool, typer.Option("--installation", help="Entries for all tenants, in the database of this machine.")
]


@group.command()
@on_service_unless("installation")
def add(
    digest: Digest,
    *,
    on: Annotated[ListName, typer.Option("--list", help="`deny` rejects, `allow` skips the malware scan.")] = "deny",
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; senders do not see it.")] = None,
    expires_at: Annotated[
        str | None, typer.Option("--expires-at", metavar="MOMENT", help="Until when, such as 2026-01-31T12:00:00Z.")
    ] = None,
    installation: Installation = False,  # noqa: ARG001  (`on_service_unless` takes it)
    service: Service | None,
    json: Json = False,
) -> None:
    """Add an entry, or write the one with this digest again. It holds for uploads that begin from now on."""
    entry = {"digest": digest, "list": on} | given(reason=reason, expires_at=expires_at)
    if service is None:
        made = on_this_machine("hashes").add(entry)
    else:
        made = service.data("POST", _PATH, body={"entries": [entry]})["entries"][0]
    if json:
        output.as_json(made)
        return
    output.line(f"The {made['algorithm']} {made['digest']} is on the list {made['list']}.")
    if made.get("stored_files"):
        output.say(f"{made['stored_files']} stored files have it: `sluice hashes quarantine {made['digest']}`.")


@group.command()
@on_service_unless("installation")
def remove(
    digest: Digest,
    *,
    installation: Installation = False,  # noqa: ARG001  (`on_service_unless` takes it)
    service: Service | None,
    json: Json = False,
) -> None:
    """Remove an entry. What it denied stays rejected, or in quarantine."""
    if service is None:
        gone = on_this_machine("hashes").remove(digest)
    else:
        gone = service.data("DELETE", f"{_PATH}/{segment(digest)}")
    if json:
        output.as_json(gone)
        return
    output.line(f"Removed {gone['digest']}.")


@group.command("list")
@on_service_unless("installation")
def list_entries(
    *,
    on: Annotated[ListName | None, typer.Option("--list", help="Only entries of this list.")] = None,
    algorithm: Annotated[
        Literal["md5", "sha1", "sha256"] | None, typer.Option("--algorithm", help="Only digests of this algorithm.")
    ] = None,
    added_by: Annotated[
        str | None, typer.Option("--added-by", metavar="ID", help="Only entries of this actor.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most this many.")] = 100,
    installation: Installation = False,  # noqa: ARG001  (`on_service_unless` takes it)
    service: Service | None,
    json: Json = False,
) -> None:
    """List the entries, newest first. With --json: one line per entry."""
    query = {"list": on, "algorithm": algorithm, "added_by": added_by}
    found: Any = (
        on_this_machine("hashes").list_all(query, limit) if service is None else service.pages(_PATH, query, limit)
    )
    _show(found, json=json)


@group.command("import")
@on_service_unless("installation")
def import_file(
    file: Annotated[
        Path, typer.Argument(metavar="CSV", exists=True, dir_okay=False, help="digest[,list[,reason[,expires_at]]]")
    ],
    *,
    on: Annotated[ListName, typer.Option("--list", help="The list of lines that name none.")] = "deny",
    installation: Installation = False,  # noqa: ARG001  (`on_service_unless` takes it)
    service: Service | None,
    json: Json = False,
) -> None:
    """Add the entries of a CSV file, a thousand at a time. A line that is wrong ends it: the error names the line, and
    the lines that were applied. The same file may be imported again.
    """
    if service is None:
        done = on_this_machine("hashes").import_file(file, on)
    else:
        size = file.stat().st_size
        response = service.http.request(
            "POST",
            f"{_PATH}/import",
            query={"list": on},
            headers={"Content-Type": "text/csv"},
            content=_pieces(file),
            length=size,
        )
        done = service.success(response)["data"]
    if json:
        output.as_json(done)
        return
    skipped = f", {done['skipped']} skipped that have expired" if done.get("skipped") else ""
    output.line(f"Imported {done['lines']} lines: {done['added']} entries added, {done['changed']} changed{skipped}.")


@group.command()
@on_service_unless("installation")
def check(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", exists=True, dir_okay=False, help="Files whose SHA-256 is compared."),
    ],
    *,
    installation: Installation = False,  # noqa: ARG001  (`on_service_unless` takes it)
    service: Service | None,
    json: Json = False,
) -> int:
    """Show the entries with the SHA-256 of local files. Exits with 3 if one of them is denied."""
    import hashlib

    found: list[dict[str, Any]] = []
    for path in paths:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        query = {"digest": digest}
        entries = on_this_machine("hashes").list_all(query, 1) if service is None else service.pages(_PATH, query, 1)
        found += [{"path": str(path), **entry} for entry in entries]
    _show(found, json=json)
    return Exit.REJECTED if any(entry["list"] == "deny" for entry in found) else Exit.DONE


@group.command()
@on_service
def quarantine(digest: Digest, *, service: Service, json: Json = False) -> None:
    """Begin a job that puts the stored files with a denied SHA-256 into quarantine."""
    job = service.data("POST", f"{_PATH}/{segment(digest)}/quarantine")
    if json:
        output.as_json(job)
        return
    output.line(f"Began the job {job['job_id']}: `sluice jobs show {job['job_id']}` shows how far it is.")


def _show(entries: Any, *, json: bool) -> None:
    output.listing(
        entries,
        ("LIST", "DIGEST", "REASON", "ADDED BY", "EXPIRES"),
        lambda one: (
            one["list"],
            one["digest"],
            one["reason"] or "-",
            one["added_by_name"],
            str(one["expires_at"])[:16].replace("T", " ") if one["expires_at"] else "-",
        ),
        json=json,
    )


def _pieces(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece
    except OSError as fault:
        raise CommandRefused(f"{path} cannot be read: {fault.strerror}.", Exit.ERROR) from fault
