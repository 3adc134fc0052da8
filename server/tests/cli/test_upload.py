"""`sluice upload`: send files to a running service."""

import asyncio
import base64
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from sluice.messages import render
from sluice_client.cli.http import Response
from sluice_client.cli.service import Service
from sluice_client.cli.upload import _Sender
from tests.api.responses import page
from tests.api.samples import TEXT, noise, picture
from tests.cli.commands import Sluice, sluice_in
from tests.rows import each_row
from tests.servers.canned import answering
from tests.service import ApiClient, cli_command


@pytest.fixture
def upload(client: ApiClient, tmp_path: Path) -> Sluice:
    """The command with the URL of the service and an API key with the upload scope."""
    return sluice_in(tmp_path / "home", URL=client.service.url, API_KEY=client.create_key("upload").text)


@pytest.fixture
def note(tmp_path: Path) -> Path:
    path = tmp_path / "note.txt"
    path.write_bytes(TEXT)
    return path


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    path = tmp_path / "empty.txt"
    path.touch()
    return path


def test_upload_stores_an_accepted_file_with_its_metadata(upload: Sluice, client: ApiClient, tmp_path: Path) -> None:
    (tmp_path / "Größe.png").write_bytes(picture())
    options = ("--context", client.create_context(), "--metadata", '{"claim": 7}', "--json")
    result = upload("upload", tmp_path / "Größe.png", *options)
    assert (result.code, result.err) == (0, "")
    (row,) = result.rows
    assert (row["accepted"], row["reason"]) == (True, None)
    stored = client.get(f"/files/{row['file_id']}/metadata").json()["data"]
    expected = {"original_filename": "Größe.png", "size_bytes": len(picture()), "metadata": {"claim": 7}}
    assert stored.items() >= expected.items()


def test_upload_prints_a_line_per_file_and_exits_3(upload: Sluice, client: ApiClient, empty: Path, note: Path) -> None:
    result = upload("upload", empty, note, "--context", client.create_context())
    assert result.code == 3
    rejected, accepted = result.out.splitlines()
    sentence = render("blank_document.empty", {}, "en")
    assert rejected == f"rejected  {empty}  {sentence} (blank_document)"
    assert accepted.startswith(f"accepted  {note}  file_")
    rows = upload("upload", empty, note, "--jobs", "1", "--context", client.create_context(), "--json").rows
    reports = page(client.get("/reports"))[0]
    assert [row["report_id"] for row in reversed(rows)] == [report["report_id"] for report in reports[:2]]
    assert [row["sentence"] for row in rows] == [sentence, None]


def test_upload_reports_when_to_retry_after_a_rate_limit(upload: Sluice, client: ApiClient, note: Path) -> None:
    context = client.create_context(upload_rate_limit={"max_uploads": 1, "window_seconds": 3600})
    result = upload("upload", note, note, "--jobs", "1", "--context", context, "--json")
    first, second = result.rows
    assert (first["accepted"], second["accepted"], second["reason"]) == (True, False, "rate_limit_exceeded")
    assert "try again in 3" in second["message"]
    assert result.code == 6


def test_upload_of_a_large_file_uses_constant_memory(upload: Sluice, client: ApiClient, tmp_path: Path) -> None:
    (tmp_path / "small.bin").write_bytes(noise(1024))
    with (tmp_path / "large.bin").open("wb") as file:
        file.write(noise(1024))
        file.truncate(96 * 1024 * 1024)
    context = client.create_context(max_file_size_mb=100, scan_for_viruses=False)
    paths = [str(tmp_path / name) for name in ("small.bin", "large.bin")]
    small, large = (peak_kb(upload, "upload", path, "--context", context) for path in paths)
    assert large - small < 16 * 1024


_PEAK_SCRIPT = """
import re, sys
from sluice_client.cli.app import run
assert run(sys.argv[1:]) == 0
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
"""


def peak_kb(sluice: Sluice, *arguments: str) -> int:
    """Run a command that must succeed and return its own peak resident memory (VmHWM) in kB."""
    command = [sys.executable, "-c", _PEAK_SCRIPT, *arguments]
    completed = subprocess.run(command, env=sluice.environment, capture_output=True, text=True, timeout=60, check=True)
    return int(completed.stdout.splitlines()[-1])


NO_SERVICE = "No service responds at http://127.0.0.1:1: start one with `sluice serve`, or give its address with --url."


@each_row(
    "options, code, sentence",
    [
        (("--url", "http://127.0.0.1:1"), 6, NO_SERVICE),
        (("--api-key", "sl_live_wrong"), 4, "The service does not accept this API key."),
        (("--context", "no/such?context"), 5, "The service has no context no/such?context."),
    ],
)
def test_upload_says_once_why_nothing_can_be_sent(
    upload: Sluice, client: ApiClient, note: Path, *, options: tuple[str, ...], code: int, sentence: str
) -> None:
    result = upload("upload", note, note, "--context", client.create_context(), *options)
    assert (result.code, result.out, result.error_line) == (code, "", sentence)


def test_upload_names_the_setting_and_the_url_that_are_wrong(upload: Sluice, note: Path) -> None:
    result = upload.with_settings(API_KEY="")("upload", note, "--context", "c")
    assert (result.code, "SLUICE_API_KEY" in result.error_line) == (4, True)
    result = upload("upload", note, "--context", "c", "--url", "localhost:8000")
    assert (result.code, "localhost:8000" in result.error_line) == (2, True)


def test_upload_says_for_the_file_what_is_wrong(upload: Sluice, client: ApiClient, note: Path) -> None:
    to_context = ("--context", client.create_context())
    result = upload("upload", note, *to_context, "--api-key", client.create_key("download").text, "--json")
    assert (result.code, result.json["reason"]) == (4, "scope_missing")
    assert result.json["message"] == "Upload scope required (Insufficient permissions)"
    result = upload("upload", note, *to_context, "--metadata", "[1]")
    assert (result.code, "metadata: expected a JSON object" in result.out) == (2, True)
    result = upload("upload", "/proc/self/mem", *to_context)
    assert result.code == 1
    assert result.out == "failed  /proc/self/mem  cannot be read: Input/output error\n"


async def test_upload_explains_a_service_that_is_not_sluice_and_a_broken_connection(upload: Sluice, note: Path) -> None:
    async with answering("404 Not Found", "<h1>nginx</h1>") as other:
        result = await asyncio.to_thread(upload, "upload", note, "--context", "c", "--url", other.url)
    sentence = f"What responds at {other.url} is no Sluice service (status 404)."
    assert (result.code, result.error_line) == (5, sentence)
    async with answering("200 OK", "{", held_back=10) as broken:
        result = await asyncio.to_thread(upload, "upload", note, "--context", "c", "--url", broken.url)
    assert result.code == 6
    assert result.error_line.startswith(f"The connection to {broken.url} broke: ")


def test_upload_sends_folders_in_order_and_prints_the_sums(upload: Sluice, client: ApiClient, tmp_path: Path) -> None:
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    names = [f"{number:02}.txt" for number in range(9)]
    for name in names:
        (tmp_path / "folder" / name).write_bytes(TEXT)
    (tmp_path / "folder" / "inner" / "empty.txt").touch()
    result = upload("upload", tmp_path / "folder", "--jobs", "4", "--context", client.create_context())
    assert result.code == 3
    shown = [Path(line.split("  ")[1]).name for line in result.out.splitlines()]
    assert shown == [*names, "empty.txt"]
    assert result.err.startswith("9 accepted, 1 rejected: ")
    assert page(client.get("/files"))[1]["total"] == 9


def test_upload_takes_standard_input_under_a_name(upload: Sluice, client: ApiClient) -> None:
    command = cli_command("upload", "-", "--name", "note.txt", "--context", client.create_context())
    place: dict[str, Any] = {"env": upload.environment, "cwd": upload.folder}
    done = subprocess.run(command, **place, input=TEXT, capture_output=True, timeout=60, check=True)
    assert done.stdout.startswith(b"accepted  -  file_")
    assert done.stderr.startswith(f"1 accepted: {len(TEXT)} bytes in ".encode())
    assert page(client.get("/files"))[0][0]["original_filename"] == "note.txt"


def test_upload_stores_nothing_with_dry_run_or_a_missing_path(
    upload: Sluice, client: ApiClient, note: Path, empty: Path
) -> None:
    context = client.create_context()
    result = upload("upload", note, empty, "--dry-run", "--context", context, "--json")
    assert result.code == 3
    assert [row["report"]["outcome"] for row in result.rows] == ["accepted", "rejected"]
    result = upload("upload", note, note.with_name("nosuch"), "--context", context)
    assert (result.code, result.out) == (2, "")
    assert "nosuch does not exist" in result.error_line
    assert page(client.get("/files"))[0] == []


def test_upload_with_resume_goes_on_where_it_was_cut(upload: Sluice, client: ApiClient, tmp_path: Path) -> None:
    path, done = tmp_path / "large.bin", tmp_path / "done.txt"
    path.write_bytes(noise(3_000_000))
    done.write_bytes(TEXT)
    context = client.create_context()
    # As a command leaves it that is killed: both were begun, the small one is stored, half of the large one is sent.
    tus = {"Authorization": f"Bearer {upload.settings['API_KEY']}", "Tus-Resumable": "1.0.0"}
    entries = []
    with httpx.Client(base_url=client.service.url, headers=tus) as http:
        for one, sent in ((path, 1_500_000), (done, len(TEXT))):
            pairs = {"context": context, "filename": one.name}
            metadata = ",".join(f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in pairs.items())
            size = one.stat().st_size
            begun = http.post("/api/v1/uploads", headers={"Upload-Length": str(size), "Upload-Metadata": metadata})
            location = begun.headers["Location"]
            offset = {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
            http.patch(location, content=one.read_bytes()[:sent], headers=offset).raise_for_status()
            known = json.dumps([str(one.absolute()), size, one.stat().st_mtime_ns])
            entries.append(json.dumps({"file": known, "upload": location.rpartition("/")[2]}))
    name = hashlib.sha256(json.dumps([client.service.url, context, None]).encode()).hexdigest()[:32]
    journal = upload.folder / "state" / "sluice" / f"uploads-{name}.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_text("\n".join([*entries, '{"file": "cut']))
    result = upload("upload", path, done, "--resume", "--context", context, "--json")
    assert (result.code, [row["outcome"] for row in result.rows]) == (0, ["accepted", "accepted"]), result.err
    stored = {file["original_filename"]: file["size_bytes"] for file in page(client.get("/files"))[0]}
    assert stored == {"large.bin": 3_000_000, "done.txt": len(TEXT)}
    assert page(client.get("/files"))[1]["total"] == 2
    assert journal.read_text() == ""
    again = upload("upload", done, "--resume", "--context", context, "--json")
    assert again.rows[0]["file_id"] != result.rows[1]["file_id"]  # what ended well is forgotten


def test_upload_with_resume_reports_a_rejection_as_without(upload: Sluice, client: ApiClient, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    words = ("upload", tmp_path / "broken.png", "--context", client.create_context(), "--json")
    results = [upload(*words, *more) for more in ((), ("--resume",))]
    assert [result.code for result in results] == [3, 3]
    plain, resumed = ({**result.rows[0], "report_id": None} for result in results)
    assert resumed == plain
    assert plain["sentence"]


def test_upload_tries_again_with_retry_only(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr("sluice_client.cli.upload.time.sleep", lambda _seconds: None)

    def attempt() -> Response:
        sent.append(1)
        headers = httpx.Headers()
        headers["Retry-After"] = "1"
        return Response(503 if len(sent) < 3 else 201, headers, b"{}")

    for retry, statuses in ((True, 201), (False, 503)):
        sent.clear()
        sender = _Sender(cast("Service", None), {}, None, lambda _amount: None, stdin_name="", retry=retry)
        assert sender._tried(attempt).status == statuses
    assert len(sent) == 1
