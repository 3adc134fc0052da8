"""`sluice files` and `sluice jobs`: search files of a running service, delete many, and follow the job."""

from pathlib import Path

import pytest

from tests.api.responses import page
from tests.cli.commands import Sluice, sluice_in
from tests.rows import each_row
from tests.scanning.waiting import until
from tests.service import ApiClient


@pytest.fixture
def sluice(client: ApiClient, tmp_path: Path) -> Sluice:
    """The command with the URL of the service and an API key that reads and deletes."""
    key = client.create_key("metadata", "delete")
    return sluice_in(tmp_path / "home", URL=client.service.url, API_KEY=key.text)


@pytest.fixture
def context(client: ApiClient) -> str:
    """A context with two files."""
    context = client.create_context()
    for name in ("one", "two"):
        client.store(f"{name}.txt", context=context, metadata={"claim": name})
    return context


def test_list_prints_the_files_asked_for(sluice: Sluice, client: ApiClient, context: str) -> None:
    result = sluice("files", "list", "--context", context, "--sort", "created_at")
    assert (result.code, result.err) == (0, "")
    heads, first, second = result.out.splitlines()
    assert heads.split() == ["WHEN", "SIZE", "TYPE", "CONTEXT", "FILE", "BY", "ID"]
    assert first.split()[3:6] == ["text/plain", context, "one.txt"]
    for options in (
        ("--metadata", "claim=two"),
        ("--filename", "TWO", "--after", "1h", "--before", "2999-01-01", "--min-size", "1"),
        ("--content-type", "text/plain", "--status", "stored", "--limit", "1"),
    ):
        found = sluice("files", "list", "--json", *options)
        assert [row["original_filename"] for row in found.rows] == ["two.txt"], options
    assert second.split()[5] == "two.txt"
    assert sluice("files", "list", "--metadata", "claim").code == 2


def test_bulk_delete_deletes_only_with_yes(sluice: Sluice, client: ApiClient, context: str) -> None:
    chosen = ("files", "bulk-delete", "--context", context, "--metadata", "claim=one", "--max-files", "5")
    refused = sluice(*chosen)
    assert refused.code == 1
    assert "1 files are chosen, and none was deleted" in refused.err
    begun = sluice(*chosen, "--yes", "--json")
    job_id = begun.rows[0]["job_id"]
    assert until(lambda: sluice("jobs", "show", job_id, "--json").rows[0]["status"] == "done", 60)
    assert [item["original_filename"] for item in page(client.get("/files"))[0]] == ["two.txt"]
    shown = sluice("jobs", "show", job_id)
    assert "1 done, 0 skipped, of 1" in shown.out
    assert job_id in sluice("jobs", "list", "--status", "done").out
    cancelled = sluice("jobs", "cancel", job_id)
    assert cancelled.code == 1
    assert "Job has ended" in cancelled.err


def test_export_arrives_and_files_are_back(sluice: Sluice, client: ApiClient, context: str, tmp_path: Path) -> None:
    def ended(*words: str) -> str:
        job_id: str = sluice("files", *words, "--json").rows[0]["job_id"]
        assert until(lambda: sluice("jobs", "show", job_id, "--json").rows[0]["status"] == "done", 60)
        return job_id

    export = ended("export", "--context", context, "--metadata", "claim=one", "--format", "csv")
    target = tmp_path / "files.csv"
    assert sluice("jobs", "download", export, "--to", str(target)).err.strip() == f"Wrote {target}."
    assert [line.split(",")[3] for line in target.read_text().splitlines()] == ["original_filename", "one.txt"]
    assert "file_id,status" in sluice("jobs", "download", export).out
    deletion = ended("bulk-delete", "--context", context, "--max-files", "5", "--yes")
    missing = sluice("jobs", "download", deletion)
    assert (missing.code, "not found" in missing.err) == (5, True)
    assert page(client.get("/files"))[0] == []
    ended("bulk-restore", "--context", context, "--filename", "TWO", "--max-files", "5")
    assert [item["original_filename"] for item in page(client.get("/files"))[0]] == ["two.txt"]
    unknown = ended("bulk-restore", "--id", "file_unknown")
    assert "refused  file_unknown: not_found" in sluice("jobs", "show", unknown).out


@each_row(
    "options", [(), ("--id", "file_1", "--context", "a"), ("--context", "a"), ("--metadata", "a", "--max-files", "1")]
)
def test_bulk_delete_refuses_an_unclear_choice(sluice: Sluice, options: tuple[str, ...]) -> None:
    assert sluice("files", "bulk-delete", *options, "--yes").code == 2
