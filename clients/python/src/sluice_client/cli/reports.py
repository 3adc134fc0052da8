"""`sluice reports`: what was checked and found of uploads, read from a running service over HTTP."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from sluice_client.cli import output
from sluice_client.cli.options import MOMENT, Json, group_of, past_moment
from sluice_client.cli.output import CommandRefused, Exit
from sluice_client.cli.service import Service, complete_context, given, on_service, segment

group = group_of("Read the reports of uploads from a running service: what was checked, and what was found.")


class _Outcome(StrEnum):
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    QUARANTINED = "quarantined"
    UNDECIDED = "undecided"


@group.command("list")
@on_service
def list_reports(
    *,
    context: Annotated[
        str | None,
        typer.Option("--context", metavar="KEY", autocompletion=complete_context, help="Only uploads into this."),
    ] = None,
    outcome: Annotated[_Outcome | None, typer.Option("--outcome", help="Only uploads with this outcome.")] = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="CODE", help="Only this reason code.")] = None,
    uploaded_by: Annotated[
        str | None, typer.Option("--uploaded-by", metavar="ID", help="Only uploads of this API key or user.")
    ] = None,
    filename: Annotated[
        str | None, typer.Option("--filename", metavar="TEXT", help="Only files whose name contains this.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", callback=past_moment, metavar="WHEN", help=f"Only later uploads: {MOMENT}.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", callback=past_moment, metavar="WHEN", help="Only earlier uploads.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Most reports to print.")] = 100,
    service: Service,
    json: Json = False,
) -> None:
    """List reports, newest first. The API key needs the scope `metadata`."""
    query = given(
        context=context,
        outcome=outcome,
        reason=reason,
        uploaded_by=uploaded_by,
        filename=filename,
        since=since,
        until=until,
    )
    output.listing(
        service.pages("/api/v1/reports", query, limit),
        ("WHEN", "OUTCOME", "REASON", "CONTEXT", "FILE", "BY", "REPORT"),
        _row,
        json=json,
    )


@group.command()
@on_service
def show(
    report: Annotated[str, typer.Argument(metavar="ID", help="Id of the report: rep_…")],
    *,
    service: Service,
    json: Json = False,
) -> None:
    """Show one report with its checks. The API key needs the scope `metadata`."""
    try:
        found = service.data("GET", f"/api/v1/reports/{segment(report)}")
    except CommandRefused as fault:
        if fault.code is Exit.NOT_FOUND:
            raise CommandRefused(
                f"The service has no report {report}.", fault.code, error_code=fault.error_code
            ) from fault
        raise
    if json:
        output.as_json(found)
        return
    file = found["file"]
    output.line(
        f"report     {found['report_id']}",
        f"when       {_when(found)}",
        f"outcome    {found['outcome']}" + (f": {found['reason']}" if found["reason"] else ""),
        f"sentence   {found['message']}",
        f"file       {file['original_filename']}, {file['size_bytes']} bytes, {file['content_type']}",
        f"stored as  {file['file_id'] or '-'}",
        f"context    {found['context_key']}, rules {found['rules_version']}",
        f"sent by    {_by(found)}",
    )
    output.table(
        ("CHECK", "OUTCOME", "MODE", "DETAIL"),
        [(check["name"], check["outcome"], check["mode"], check.get("detail", "")) for check in found["checks"]],
    )


def _row(report: dict[str, Any]) -> tuple[str, ...]:
    return (
        _when(report),
        report["outcome"],
        report["reason"] or "-",
        report["context_key"],
        report["file"]["original_filename"],
        _by(report),
        report["report_id"],
    )


def _when(report: dict[str, Any]) -> str:
    return output.moment(datetime.fromisoformat(report["created_at"]))


def _by(report: dict[str, Any]) -> str:
    return report["uploaded_by_name"] or report["uploaded_by"] or "-"
