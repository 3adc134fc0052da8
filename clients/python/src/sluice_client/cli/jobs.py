"""`sluice jobs`: the jobs of a tenant on a running service, over HTTP."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from sluice_client.cli import output
from sluice_client.cli.options import Json, group_of
from sluice_client.cli.service import SaveTo, Service, download_link, given, on_service, segment

group = group_of("List, show and cancel jobs: work on many files that a request began. Download what exports wrote.")

_PATH: Final = "/api/v1/jobs"
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Id of the job: job_…")]


class _JobState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@group.command("list")
@on_service
def list_jobs(
    *,
    status: Annotated[_JobState | None, typer.Option("--status", help="Only jobs in this state.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Most jobs to print.")] = 100,
    service: Service,
    json: Json = False,
) -> None:
    """List jobs, newest first. The API key needs the scope `metadata`. With --json: one line per job."""
    output.listing(
        service.pages(_PATH, given(status=status), limit),
        ("WHEN", "KIND", "STATUS", "DONE", "SKIPPED", "OF", "JOB"),
        lambda job: (_when(job), job["kind"], job["status"], *_counts(job), job["job_id"]),
        json=json,
    )


@group.command()
@on_service
def show(job: JobArgument, *, service: Service, json: Json = False) -> None:
    """Show one job: how far it is, or how it ended. The API key needs the scope `metadata`."""
    found = service.data("GET", f"{_PATH}/{segment(job)}")
    if json:
        output.as_json(found)
        return
    done, skipped, total = _counts(found)
    output.line(
        f"job      {found['job_id']}",
        f"kind     {found['kind']}",
        f"status   {found['status']}" + (f": {found['error']}" if found["error"] else ""),
        f"files    {done} done, {skipped} skipped, of {total}",
        *(f"refused  {one['file_id']}: {one['reason']}" for one in found["refused"]),
        f"began    {_when(found)} by {found['created_by']}",
    )


@group.command()
@on_service
def download(job: JobArgument, to: SaveTo = None, *, service: Service) -> None:
    """Download what an export wrote, for 24 hours after its end. The API key needs the scope `metadata`."""
    download_link(service.data("GET", f"{_PATH}/{segment(job)}/download")["download_url"], to)


@group.command()
@on_service
def cancel(job: JobArgument, *, service: Service, json: Json = False) -> None:
    """Cancel a job that has not ended; what it has done stays done. The API key needs the scope `delete`."""
    found = service.data("POST", f"{_PATH}/{segment(job)}/cancel")
    output.done(found, f"Cancelled {found['job_id']} after {found['done']} files.", json=json)


def _when(job: dict[str, Any]) -> str:
    return output.moment(datetime.fromisoformat(job["created_at"]))


def _counts(job: dict[str, Any]) -> tuple[str, str, str]:
    return str(job["done"]), str(job["skipped"]), "?" if job["total"] is None else str(job["total"])
