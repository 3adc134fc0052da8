"""`sluice upload`: files sent to a service that is really running."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.api.samples import TEXT, noise, picture
from tests.cli.commands import Sluice, sluice_in
from tests.gate import Gate, Service
from tests.servers import free_port
from tests.servers.canned import answering


@pytest.fixture
def gate(sqlite_local: Service) -> Gate:
    return sqlite_local.new_gate()


@pytest.fixture
def upload(gate: Gate, tmp_path: Path) -> Sluice:
    """The command with the address of the service and a key that may upload."""
    return sluice_in(tmp_path / "home", URL=gate.service.url, API_KEY=gate.key("upload").text)


def test_an_accepted_file_is_stored_as_it_is(upload: Sluice, gate: Gate, tmp_path: Path) -> None:
    (tmp_path / "Größe.png").write_bytes(picture())
    ended = upload("upload", tmp_path / "Größe.png", "--context", gate.context(), "--metadata", '{"claim": 7}', "--json")
    assert (ended.code, ended.err) == (0, "")
    (row,) = ended.rows
    assert (row["accepted"], row["reason"]) == (True, None)
    about = gate.get(f"/files/{row['file_id']}/metadata").json()["data"]
    assert (about["original_filename"], about["size_bytes"], about["metadata"]) == ("Größe.png", len(picture()), {"claim": 7})


def test_each_file_has_its_line_and_a_rejected_one_makes_the_code_1(upload: Sluice, gate: Gate, tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_bytes(TEXT)
    (tmp_path / "empty.txt").touch()
    ended = upload("upload", tmp_path / "empty.txt", tmp_path / "good.txt", "--context", gate.context())
    assert ended.code == 1
    rejected, accepted = ended.out.splitlines()
    assert rejected == f"rejected  {tmp_path}/empty.txt  File rejected: the document is blank (blank_document)"
    assert accepted.startswith(f"accepted  {tmp_path}/good.txt  file_")


def test_a_limit_says_when_to_try_again(upload: Sluice, gate: Gate, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT)
    context = gate.context(upload_rate_limit={"max_uploads": 1, "window_seconds": 3600})
    ended = upload("upload", tmp_path / "a.txt", tmp_path / "a.txt", "--context", context, "--json")
    first, second = ended.rows
    assert (first["accepted"], second["accepted"], second["reason"]) == (True, False, "rate_limit_exceeded")
    assert "try again in 3" in second["message"]
    assert ended.code == 1


def test_a_large_file_takes_no_memory(upload: Sluice, gate: Gate, tmp_path: Path) -> None:
    (tmp_path / "small.bin").write_bytes(noise(1024))
    with (tmp_path / "large.bin").open("wb") as file:
        file.write(noise(1024))
        file.truncate(96 * 1024 * 1024)
    context = gate.context(max_file_size_mb=100, scan_for_viruses=False)
    small, large = (peak_kb(upload, "upload", str(tmp_path / name), "--context", context) for name in ("small.bin", "large.bin"))
    assert large - small < 16 * 1024


_MEASURED = """
import re, sys
from sluice.cli.command import run
assert run(sys.argv[1:]) == 0
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
"""


def peak_kb(sluice: Sluice, *words: str) -> int:
    """Run a command that must be done and answer the most memory that it had, as the kernel counts it for the process alone."""
    command = [sys.executable, "-c", _MEASURED, *words]
    done = subprocess.run(command, env=sluice.environment, capture_output=True, text=True, timeout=60, check=True)
    return int(done.stdout.splitlines()[-1])


def test_a_service_that_is_not_there_is_said_so(upload: Sluice, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT)
    url = f"http://127.0.0.1:{free_port()}"
    ended = upload("upload", tmp_path / "a.txt", "--context", "c", "--url", url)
    assert ended.code == 3
    assert ended.complaint == f"No service answers at {url}: start one with `sluice serve`, or give its address with --url."


@pytest.fixture
def note(tmp_path: Path) -> Path:
    path = tmp_path / "note.txt"
    path.write_bytes(TEXT)
    return path


def test_a_key_that_is_not_accepted_is_told_once(upload: Sluice, gate: Gate, note: Path) -> None:
    ended = upload.with_settings(API_KEY="sl_live_wrong")("upload", note, note, "--context", gate.context())
    assert (ended.code, ended.out, ended.complaint) == (1, "", "The service does not accept this API key.")


def test_a_context_that_is_not_there_is_told_once(upload: Sluice, note: Path) -> None:
    ended = upload("upload", note, note, "--context", "no/such?context")
    assert (ended.code, ended.out, ended.complaint) == (1, "", "The service has no context no/such?context.")


def test_a_key_without_the_scope_is_said_for_the_file(upload: Sluice, gate: Gate, note: Path) -> None:
    ended = upload("upload", note, "--context", gate.context(), "--api-key", gate.key("download").text, "--json")
    assert ended.code == 1
    assert (ended.json["reason"], ended.json["message"]) == ("scope_missing", "Upload scope required (Insufficient permissions)")


def test_metadata_that_is_no_object_is_said(upload: Sluice, gate: Gate, note: Path) -> None:
    ended = upload("upload", note, "--context", gate.context(), "--metadata", "[1]")
    assert ended.code == 1
    assert "metadata: expected a JSON object" in ended.out


def test_a_key_is_needed(upload: Sluice, note: Path) -> None:
    ended = upload.with_settings(API_KEY="")("upload", note, "--context", "c")
    assert ended.code == 2
    assert "SLUICE_API_KEY" in ended.complaint


def test_an_address_that_is_none_is_said(upload: Sluice, note: Path) -> None:
    ended = upload("upload", note, "--context", "c", "--url", "localhost:8000")
    assert ended.code == 2
    assert "localhost:8000" in ended.complaint


async def test_another_service_is_not_taken_for_sluice(upload: Sluice, note: Path) -> None:
    async with answering("404 Not Found", "<h1>nginx</h1>") as other:
        ended = await asyncio.to_thread(upload, "upload", note, "--context", "c", "--url", other.url)
    assert ended.code == 3
    assert ended.complaint == f"What answers at {other.url} is no Sluice service (status 404)."


async def test_a_connection_that_breaks_is_said(upload: Sluice, note: Path) -> None:
    async with answering("200 OK", "{", held_back=10) as broken:
        ended = await asyncio.to_thread(upload, "upload", note, "--context", "c", "--url", broken.url)
    assert ended.code == 3
    assert ended.complaint.startswith(f"The connection to {broken.url} broke: ")
