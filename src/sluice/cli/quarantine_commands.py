"""The commands for files in quarantine. Their words and options, and how their answers look; what may be done is in `quarantine`."""

# ruff: noqa: PLC0415  (commands load their work when asked: `--help` must not wait for the database's library)

from typing import Annotated

import typer

from sluice.cli import show
from sluice.cli.options import Json, group_of

group = group_of("See the stored files in which a later scan found a threat, and release one that it was wrong about.")


def add_to(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    app.add_typer(group, name="quarantine", rich_help_panel="Files")


@group.command("list")
def list_quarantined(
    *,
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="TENANT", help="Only files of this tenant.")] = None,
    json: Json = False,
) -> None:
    """List the files in quarantine of all tenants, in the order of their uploads. With --json: one line per file.

    Such a file is not handed out; its record, its bytes and its place in the quota are as they were, and its tenant may delete it.
    """
    from sluice.cli import quarantine

    found = quarantine.list_all(tenant)
    if json:
        for one in found:
            show.as_json(quarantine.fields(one))
        return
    rows = [
        (one.file_id, one.tenant_id, one.context_key, one.original_filename, one.threat or "-", show.moment(one.quarantined_at))
        for one in found
    ]
    show.table(("file", "tenant", "context", "name", "threat", "since"), rows)


@group.command()
def release(file: Annotated[str, typer.Argument(metavar="FILE", help="Id of the file: file_…")]) -> None:
    """Hand a file in quarantine out again, and note that in its tenant's audit trail.

    The threat it was found for is borne from now on, under whatever signatures; another one puts it back.
    """
    from sluice.cli import quarantine

    quarantine.release(file)
    show.line(f"The file {file} is released.")
