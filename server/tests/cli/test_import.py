"""`sluice import`: the files of a folder or a bucket through the checks of a running service."""

import json
from pathlib import Path

import pytest

from tests.api.responses import data, page
from tests.api.samples import TEXT
from tests.cli.commands import Sluice, sluice_in
from tests.service import ApiClient, Service

OUTCOMES = [("a.txt", "accepted"), ("below/b.txt", "accepted"), ("broken.png", "rejected")]


@pytest.fixture
def sluice(client: ApiClient, tmp_path: Path) -> Sluice:
    """The command with the URL of the service and an API key that uploads."""
    return sluice_in(tmp_path / "home", URL=client.service.url, API_KEY=client.create_key("upload", "metadata").text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two good files, one of them in a folder below it, and a broken one."""
    root = tmp_path / "files"
    (root / "below").mkdir(parents=True)
    (root / "a.txt").write_bytes(TEXT)
    (root / "below" / "b.txt").write_bytes(TEXT + b"b")
    (root / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (root / "link.txt").symlink_to(root / "a.txt")
    return root


def test_a_folder_is_imported_once(sluice: Sluice, client: ApiClient, folder: Path, tmp_path: Path) -> None:
    context, state = client.create_context(), tmp_path / "state.jsonl"
    words = ("import", str(folder), "--context", context, "--state", str(state), "--json")
    first = sluice(*words)
    assert (first.code, sorted((row["name"], row["outcome"]) for row in first.rows)) == (3, OUTCOMES)
    assert "2 accepted, 1 rejected." in first.err
    stored = {item["original_filename"]: item["file_id"] for item in page(client.get("/files", context=context))[0]}
    assert set(stored) == {"a.txt", "b.txt"}
    shown = data(client.get(f"/files/{stored['b.txt']}/metadata"))
    assert shown["metadata"] == {"imported_from": f"{folder}/below/b.txt"}
    (folder / "c.txt").write_bytes(TEXT + b"c")
    again = sluice(*words)
    assert (again.code, [row["name"] for row in again.rows]) == (0, ["c.txt"])
    assert "1 accepted, 3 done before." in again.err


def test_a_file_that_changed_is_imported_again(sluice: Sluice, client: ApiClient, folder: Path, tmp_path: Path) -> None:
    context, state = client.create_context(), tmp_path / "state.jsonl"
    words = ("import", str(folder), "--context", context, "--state", str(state), "--at-once", "2", "--json")
    assert sluice(*words).code == 3
    (folder / "a.txt").write_bytes(TEXT[::-1])  # of the same size
    (folder / "below" / "b.txt").write_bytes(TEXT + b"bb")
    again = sluice(*words)
    assert sorted((row["name"], row["outcome"]) for row in again.rows) == OUTCOMES[:2]
    assert page(client.get("/files", context=context))[1]["total"] == 4
    assert sluice(*words).rows == []


def test_an_import_whose_last_line_was_not_written_makes_no_second_file(
    sluice: Sluice, client: ApiClient, folder: Path, tmp_path: Path
) -> None:
    context, state = client.create_context(), tmp_path / "state.jsonl"
    words = ("import", str(folder), "--context", context, "--state", str(state), "--json")
    first = sluice(*words)
    lines = state.read_bytes().splitlines(keepends=True)
    state.write_bytes(b"".join(lines[:1]) + lines[1][:10])  # as a kill may leave it
    again = sluice(*words)
    assert {row["file_id"] for row in again.rows} == {row["file_id"] for row in first.rows}
    assert page(client.get("/files", context=context))[1]["total"] == 2
    assert len(state.read_bytes().splitlines()) == len(lines)


def test_a_report_stores_nothing(sluice: Sluice, client: ApiClient, folder: Path, tmp_path: Path) -> None:
    context, state = client.create_context(), tmp_path / "state.jsonl"
    words = ("import", str(folder), "--context", context, "--report-only", "--state", str(state), "--json")
    assert sorted((row["name"], row["outcome"]) for row in sluice(*words).rows) == OUTCOMES
    assert page(client.get("/files", context=context))[1]["total"] == 0
    assert json.loads(state.read_text().splitlines()[0])["report_only"] is True
    storing = tuple(word for word in words if word != "--report-only")
    refused = sluice(*storing)
    assert (refused.code, "another import" in refused.err) == (1, True)


def test_an_unknown_source_or_context_is_refused_before_anything_is_sent(
    sluice: Sluice, client: ApiClient, folder: Path, tmp_path: Path
) -> None:
    assert sluice("import", str(tmp_path / "none"), "--context", "claims").code == 2
    state = str(tmp_path / "state.jsonl")
    assert "no context" in sluice("import", str(folder), "--context", "none_such", "--state", state).err
    assert sluice("import", "s3://bucket/folder", "--context", "claims").code == 2
    assert page(client.get("/files"))[1]["total"] == 0


def test_a_bucket_is_imported(postgres_s3: Service, tmp_path: Path) -> None:
    client = postgres_s3.new_client().with_store()
    gateway, bucket = postgres_s3.deployment.gateway, postgres_s3.deployment.bucket
    assert gateway is not None
    for number in range(3):
        gateway.client.put_object(Bucket=bucket, Key=f"old/files/{number}.txt", Body=TEXT + b"%d" % number)
    secrets = {"IMPORT_ACCESS_KEY_ID": gateway.access_key, "IMPORT_SECRET_ACCESS_KEY": gateway.secret_key}
    key = client.create_key("upload", "metadata").text
    sluice = sluice_in(tmp_path / "home", URL=client.service.url, API_KEY=key, **secrets)
    context, state = client.create_context(), str(tmp_path / "state.jsonl")
    options = ("--context", context, "--endpoint", gateway.endpoint, "--state", state, "--json")
    result = sluice("import", f"s3://{bucket}/old/files/", *options)
    assert (result.code, sorted(row["name"] for row in result.rows)) == (0, ["0.txt", "1.txt", "2.txt"])
    for item in page(client.get("/files", context=context))[0]:
        shown = data(client.get(f"/files/{item['file_id']}/metadata"))
        assert shown["metadata"] == {"imported_from": f"s3://{bucket}/old/files/{item['original_filename']}"}
