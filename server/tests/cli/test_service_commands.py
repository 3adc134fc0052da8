"""Commands that reach a service: each operation of the API has one, and each failure of the service its exit code."""

import io
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import typer.main

from sluice_client.cli.app import app, run
from sluice_client.cli.output import EXIT_CODES, Exit, exit_of
from sluice_client.cli.shell import leaves
from tests.rows import each_row
from tests.run_length import LONG_RUN
from tests.servers import free_port

DOCUMENT: dict[str, Any] = json.loads((Path(__file__).parents[3] / "docs/reference/openapi.json").read_text("utf-8"))
OPERATIONS = {
    operation["operationId"]: (method.upper(), path)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
# The command of each operation, as it is written.
COMMANDS = {
    "create_context": "contexts create invoices",
    "list_contexts": "contexts list",
    "get_context": "contexts show invoices",
    "update_context": "contexts update invoices --max-file-size-mb 5",
    "replay_change": "contexts replay invoices --no-scan",
    "hold_context": "files hold --context invoices --reason trial",
    "end_context_hold": "files unhold --context invoices",
    "list_files": "files list",
    "get_file_metadata": "files show file_1",
    "get_download_url": "files download file_1",
    "get_preview_url": "files preview file_1",
    "delete_file": "files delete file_1 --yes",
    "restore_file": "files restore file_1",
    "hold_file": "files hold file_1 --reason trial",
    "end_file_hold": "files unhold file_1",
    "bulk_delete_files": "files bulk-delete --id file_1 --yes",
    "bulk_restore_files": "files bulk-restore --id file_1",
    "export_files": "files export",
    "list_jobs": "jobs list",
    "get_job": "jobs show job_1",
    "get_export_url": "jobs download job_1",
    "cancel_job": "jobs cancel job_1",
    "create_erasure": "erasures create --end-user anna --yes",
    "get_erasure": "erasures show job_1",
    "get_receipt": "receipts get file_1",
    "list_quarantined_files": "quarantine list",
    "download_quarantined_file": "quarantine download file_1",
    "preview_quarantined_file": "quarantine preview file_1",
    "release_quarantined_file": "quarantine release file_1 --comment ours",
    "refuse_quarantined_file": "quarantine refuse file_1 --comment theirs --yes",
    "rescan_quarantined_file": "quarantine rescan file_1 --comment again",
    "list_reports": "reports list",
    "get_report": "reports show rep_1",
    "add_bucket": (
        "buckets create --tenant ten_1 --name b --bucket files --access-key-id AKIAIOSFODNN7EXAMPLE --secret-stdin"
    ),
    "list_buckets": "buckets list --tenant ten_1",
    "get_bucket": "buckets show bkt_1 --tenant ten_1",
    "update_bucket": "buckets update bkt_1 --tenant ten_1 --inactive",
    "delete_bucket": "buckets delete bkt_1 --tenant ten_1 --yes",
    "set_default_bucket": "buckets set-default bkt_1 --tenant ten_1",
    "create_api_key": "keys create --name form --scope upload",
    "list_api_keys": "keys list",
    "get_api_key": "keys show key_1",
    "update_api_key": "keys update key_1 --status disabled",
    "revoke_api_key": "keys revoke key_1 --yes",
    "rotate_api_key": "keys rotate key_1",
    "create_upload_token": "upload-tokens create --context invoices",
    "list_upload_tokens": "upload-tokens list",
    "get_upload_token": "upload-tokens show tok_1",
    "revoke_upload_token": "upload-tokens revoke tok_1 --yes",
    "get_cors": "cors show",
    "replace_cors": "cors set https://www.example.com",
    "list_events": "events list",
    "list_examples": "contexts examples list claims",
    "add_example": f"contexts examples add claims {__file__}",
    "remove_example": "contexts examples remove claims exm_1",
    "rotate_check_secret": "contexts rotate-check-secret claims invoices",
    "list_hashes": "hashes list",
    "add_hashes": f"hashes add {'0' * 64}",
    "remove_hash": f"hashes remove {'0' * 64}",
    "import_hashes": f"hashes import {__file__}",
    "quarantine_denied_files": f"hashes quarantine {'0' * 64}",
    "list_webhook_endpoints": "webhooks list",
    "create_webhook_endpoint": "webhooks create https://www.example.com/hook",
    "get_webhook_endpoint": "webhooks show whk_1",
    "update_webhook_endpoint": "webhooks update whk_1 --status disabled",
    "delete_webhook_endpoint": "webhooks delete whk_1 --yes",
    "rotate_webhook_secret": "webhooks rotate-secret whk_1",
    "test_webhook_endpoint": "webhooks test whk_1",
    "recover_webhook_events": "webhooks recover whk_1 --since 1h",
    "list_webhook_deliveries": "webhooks deliveries whk_1",
    "redeliver_webhook": "webhooks redeliver dlv_1",
    "get_usage": "usage",
    "get_plan": "plan",
    "list_audit_events": "audit-log list",
}
TRIED = [name for name in COMMANDS if LONG_RUN or name.startswith(("list_", "delete_", "get_export", "create_context"))]
"""What the failures of a service are tried on: one mechanism has them all, and the long form tries every command."""
# Operations that a command sends besides its first one, or none does.
OTHERS = {
    "upload_file": "sluice upload (test_upload.py)",
    "validate_file": "sluice upload --dry-run and sluice check --context (test_dry_run.py)",
    "create_upload": "sluice upload --resume (test_upload.py)",
    "head_upload": "sluice upload --resume (test_upload.py)",
    "append_to_upload": "sluice upload --resume (test_upload.py)",
    "get_upload": "sluice upload --resume (test_upload.py)",
    "cancel_upload": "none: an upload that is not continued expires",
    "discover_uploads": "none: sluice upload needs nothing of what it tells",
    "get_erasure_receipt": "sluice erasures show --receipt (test_erasures.py)",
    "receipt_keys": "sluice receipts verify (test_receipts.py)",
    "list_locales": "none: the sentences are for programs that show them, and docs/messages.md has them",
    "get_messages": "none: as list_locales",
    "live": "none: for what restarts the server",
    "ready": "none by a key: sluice health asks the server of this machine",
}
STREAMS = {"jobs download", "quarantine download", "quarantine preview"}  # what they print is the file


@dataclass
class Recorder:
    """A service that responds to every request alike, and the requests that it got."""

    url: str
    status: int = 404
    code: str = "not_found"
    seen: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def recording() -> Iterator[Recorder]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found.seen.append((self.command, self.path.partition("?")[0]))
            body = json.dumps({"status": "ERROR", "message": "No", "errors": ["why"], "timestamp": ""}).encode()
            self.send_response(found.status)
            self.send_header("Sluice-Error-Code", found.code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = respond  # noqa: N815  (the names of the library)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name of the library)
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found = Recorder(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    with recording() as one:
        yield one


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("SLUICE_PROFILE", raising=False)
    monkeypatch.setenv("SLUICE_API_KEY", "sl_live_x")
    monkeypatch.setattr("sys.stdin", io.StringIO("secret\n" * 20))


def test_each_operation_has_a_command_or_a_reason() -> None:
    assert {*COMMANDS, *OTHERS} == set(OPERATIONS)
    assert not COMMANDS.keys() & OTHERS.keys()


@each_row("operation", COMMANDS)
def test_command_sends_its_operation(operation: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_URL", recorder.url)
    recorder.status, recorder.code = 404, "not_found"
    recorder.seen.clear()
    run(COMMANDS[operation].split())
    method, path = OPERATIONS[operation]
    pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))
    ((sent, found),) = recorder.seen
    assert sent == method
    assert re.fullmatch(pattern, found), found


FAILURES = [
    (400, "malformed_request", Exit.ERROR),
    (400, "file_rejected", Exit.REJECTED),
    (401, "unauthenticated", Exit.CREDENTIALS),
    (403, "scope_missing", Exit.CREDENTIALS),
    (404, "not_found", Exit.NOT_FOUND),
    (409, "conflict", Exit.ERROR),
    (413, "body_too_large", Exit.REJECTED),
    (422, "invalid", Exit.USAGE),
    (429, "limit_exceeded", Exit.UNAVAILABLE),
    (500, "internal_error", Exit.ERROR),
    (502, "", Exit.UNAVAILABLE),
    (503, "service_unavailable", Exit.UNAVAILABLE),
    (507, "disk_full", Exit.UNAVAILABLE),
]


@each_row("operation", [*TRIED, "get_plan"])
def test_each_failure_of_the_service_has_its_exit_code_and_one_line_of_json(
    operation: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLUICE_URL", recorder.url)
    words = COMMANDS[operation].split()
    as_json = [] if " ".join(words[:2]) in STREAMS else ["--json"]
    for recorder.status, recorder.code, code in FAILURES if operation == "get_plan" else (FAILURES[2], FAILURES[-2]):
        assert run([*words, *as_json]) == code, recorder.status
        printed = capsys.readouterr()
        assert printed.out == ""
        if as_json:
            failure = json.loads(printed.err)
            assert (failure["exit_code"], failure["code"]) == (code, recorder.code)
        else:
            assert printed.err.startswith("sluice: ")


@each_row("operation", TRIED)
def test_a_service_that_does_not_respond_is_unavailable(
    operation: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLUICE_URL", f"http://127.0.0.1:{free_port()}")
    assert run(COMMANDS[operation].split()) == Exit.UNAVAILABLE
    assert capsys.readouterr().err.startswith("sluice: No service responds at ")


def test_a_host_name_that_cannot_be_resolved_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def resolve(*_arguments: object, **_named: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setenv("SLUICE_URL", "https://files.example")
    assert run(["contexts", "list"]) == Exit.UNAVAILABLE
    sentence = "The host name files.example cannot be resolved: is the address https://files.example right?"
    assert capsys.readouterr().err == f"sluice: {sentence}\n"


def test_each_exit_code_has_a_meaning() -> None:
    assert set(EXIT_CODES) == set(Exit)
    assert [int(code) for code in Exit][:7] == list(range(7))
    assert {exit_of(status, code) for status, code, _ in FAILURES} == set(Exit) - {Exit.DONE, Exit.INTERRUPTED}


def test_each_command_but_those_that_print_a_file_or_run_prints_json() -> None:
    root: Any = typer.main.get_command(app)
    without = {
        name.removeprefix("sluice ")
        for name, command, _ in leaves(root, typer.Context(root), "sluice")
        if "--json" not in [word for parameter in command.params for word in parameter.opts]
    }
    assert without == {
        *STREAMS,
        *("serve", "work", "migrate", "health", "backup", "restore", "migrate-bucket", "demo"),  # run, or one word
        *(
            "token",
            "console login",
            "receipts rotate",
            *(f"secrets {word}" for word in ("rotate", "retire", "keyring")),
        ),
        *("login", "logout", "completion", "man", "mcp", "events forward"),
    }


@each_row("operation", [name for name, words in COMMANDS.items() if "--yes" in words])
def test_nothing_is_destroyed_without_yes_if_nobody_can_be_asked(
    operation: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLUICE_URL", recorder.url)
    recorder.seen.clear()
    assert run([word for word in COMMANDS[operation].split() if word != "--yes"]) == Exit.ERROR
    assert "--yes" in capsys.readouterr().err
    assert recorder.seen == []


_SCRIPT = """
import json, sys
from sluice_client.cli.app import run
for words in json.loads(sys.stdin.read()):
    assert run([*words, "--url", sys.argv[1]]) == 6, words
run(["profiles", "list"])
print(json.dumps(sorted(sys.modules)))
"""


def test_commands_on_a_service_load_no_module_of_the_server() -> None:
    lines = json.dumps([words.split() for words in COMMANDS.values() if "--secret-stdin" not in words])
    command = [sys.executable, "-c", _SCRIPT, f"http://127.0.0.1:{free_port()}"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120, check=True)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    ours = {name for name in loaded if name.startswith("sluice.")}
    assert ours == set()
    assert not loaded & {"fastapi", "starlette", "sqlalchemy", "uvicorn"}
