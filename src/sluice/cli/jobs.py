"""`sluice jobs`: the jobs of a tenant on a running service, over HTTP."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the HTTP client)

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from sluice.cli import output
from sluice.cli.options import Json, group_of
from sluice.cli.service import DEFAULT_URL, ApiKey, SaveTo, Url, read_answer, save, service_client

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
def list_jobs(
    *,
    status: Annotated[_JobState | None, typer.Option("--status", help="Only jobs in this state.")] = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    json: Json = False,
) -> None:
    """List the newest 100 jobs. The API key needs the scope `metadata`. With --json: one line per job."""
    query = {"page_size": "100"} | ({} if status is None else {"status": status.value})
    with service_client(url, api_key) as client:
        found = read_answer(client.get(_PATH, params=query), url)["data"]
    if json:
        for job in found:
            output.as_json(job)
        return
    output.table(
        ("WHEN", "KIND", "STATUS", "DONE", "SKIPPED", "OF", "JOB"),
        [(_when(job), job["kind"], job["status"], *_counts(job), job["job_id"]) for job in found],
    )


@group.command()
def show(job: JobArgument, *, url: Url = DEFAULT_URL, api_key: ApiKey = "", json: Json = False) -> None:
    """Show one job: how far it is, or how it ended. The API key needs the scope `metadata`."""
    with service_client(url, api_key) as client:
        found = read_answer(client.get(f"{_PATH}/{quote(job, safe='')}"), url)["data"]
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
def download(job: JobArgument, to: SaveTo = None, *, url: Url = DEFAULT_URL, api_key: ApiKey = "") -> None:
    """Download what an export wrote, for 24 hours after its end. The API key needs the scope `metadata`."""
    import httpx

    with service_client(url, api_key) as client:
        link = read_answer(client.get(f"{_PATH}/{quote(job, safe='')}/download"), url)["data"]["download_url"]
        # Without the API key: the link is a credential of its own.
        with httpx.stream("GET", link, timeout=600.0) as response:
            save(response, url, to)


@group.command()
def cancel(job: JobArgument, *, url: Url = DEFAULT_URL, api_key: ApiKey = "") -> None:
    """Cancel a job that has not ended; what it has done stays done. The API key needs the scope `delete`."""
    with service_client(url, api_key) as client:
        found = read_answer(client.post(f"{_PATH}/{quote(job, safe='')}/cancel"), url)["data"]
    output.line(f"Cancelled {found['job_id']} after {found['done']} files.")


def _when(job: dict[str, Any]) -> str:
    return output.moment(datetime.fromisoformat(job["created_at"]))


def _counts(job: dict[str, Any]) -> tuple[str, str, str]:
    return str(job["done"]), str(job["skipped"]), "?" if job["total"] is None else str(job["total"])
