"""`sluice usage` and `sluice plan`: what a tenant used, and its limits, of a running service over HTTP."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from sluice_client.cli import output
from sluice_client.cli.options import Json
from sluice_client.cli.service import Service, on_service


class _Grouping(StrEnum):
    DAY = "day"
    CONTEXT = "context"


@on_service
def usage(
    *,
    first: Annotated[
        str | None, typer.Option("--from", metavar="DAY", help="First day, such as 2026-01-31. Default: of the month.")
    ] = None,
    last: Annotated[str | None, typer.Option("--to", metavar="DAY", help="Last day, in UTC. Default: today.")] = None,
    by: Annotated[_Grouping | None, typer.Option("--by", help="A line for each, besides the total.")] = None,
    service: Service,
    json: Json = False,
) -> None:
    """Show uploads, rejections, bytes stored and downloads. The API key needs the scope `metadata`."""
    asked = {"from": first, "to": last, "by": None if by is None else by.value}
    found = service.data("GET", "/api/v1/usage", query=asked)
    if json:
        output.as_json(found)
        return
    rows = [_row(group["key"], group) for group in found["groups"]]
    total = _row(f"{found['first_day']} to {found['last_day']}", found["total"])
    output.table(("OF", "UPLOADS", "BYTES", "DOWNLOADS", "REJECTED"), [*rows, total])


@on_service
def plan(*, service: Service, json: Json = False) -> None:
    """Show the plan, its limits, and what is used of them. The API key needs the scope `metadata`."""
    found = service.data("GET", "/api/v1/plan")
    if json:
        output.as_json(found)
        return
    output.line(f"plan {found['plan']}")
    rows = [
        (limit["name"], str(limit["used"]), "unlimited" if limit["limit"] is None else str(limit["limit"]))
        for limit in found["limits"]
    ]
    output.table(("LIMIT", "USED", "OF"), rows)


def _row(key: str, sums: dict[str, Any]) -> tuple[str, ...]:
    rejected = " ".join(f"{reason}={number}" for reason, number in sums["rejections"].items())
    return key, str(sums["uploads"]), str(sums["bytes_stored"]), str(sums["downloads"]), rejected or "-"
