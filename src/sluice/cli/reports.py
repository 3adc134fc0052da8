"""`sluice reports`: what was checked and found of uploads, read from a running service over HTTP."""

from datetime import datetime
from enum import StrEnum
from http import HTTPStatus
from itertools import count
from typing import Annotated, Any, Final

import typer

from sluice.cli import output
from sluice.cli.options import MOMENT, Json, group_of, past_moment
from sluice.cli.output import CommandRefused
from sluice.cli.service import DEFAULT_URL, ApiKey, Url, envelope_of, read_answer, service_client

group = group_of("Read the reports of uploads from a running service: what was checked, and what was found.")

_PAGE: Final = 100


class _Outcome(StrEnum):
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    QUARANTINED = "quarantined"
    UNDECIDED = "undecided"


@group.command("list")
def list_reports(
    *,
    context: Annotated[str | None, typer.Option("--context", metavar="KEY", help="Only uploads into this.")] = None,
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
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    json: Json = False,
) -> None:
    """List reports, newest first. The API key needs the scope `metadata`."""
    asked = {
        "context": context,
        "outcome": outcome,
        "reason": reason,
        "uploaded_by": uploaded_by,
        "filename": filename,
        "since": since,
        "until": until,
    }
    query: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    found: list[dict[str, Any]] = []
    with service_client(url, api_key) as client:
        for page in count(1):
            envelope = read_answer(
                client.get("/api/v1/reports", params={**query, "page": page, "page_size": _PAGE}), url
            )
            found += envelope["data"]
            if len(found) >= limit or page >= envelope["pagination"]["total_pages"]:
                break
    shown = found[:limit]
    if json:
        for report in shown:
            output.as_json(report)
        return
    heads = ("WHEN", "OUTCOME", "REASON", "CONTEXT", "FILE", "BY", "REPORT")
    output.table(heads, [_row(report) for report in shown])


@group.command()
def show(
    report: Annotated[str, typer.Argument(metavar="ID", help="Id of the report: rep_…")],
    *,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    json: Json = False,
) -> None:
    """Show one report with its checks. The API key needs the scope `metadata`."""
    from urllib.parse import quote  # noqa: PLC0415

    with service_client(url, api_key) as client:
        response = client.get(f"/api/v1/reports/{quote(report, safe='')}")
        envelope = envelope_of(response)
        if response.status_code == HTTPStatus.NOT_FOUND and envelope is not None:
            raise CommandRefused(f"The service has no report {report}.")
        found = read_answer(response, url)["data"]
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
