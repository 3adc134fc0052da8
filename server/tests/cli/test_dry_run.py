"""`sluice check` by the rules of a context: those of a service, or those in a file."""

import json
import os
from pathlib import Path
from typing import cast

import httpx
import pytest

from sluice_client.cli.dry_run import ask_service
from sluice_client.cli.http import HttpClient, Response
from sluice_client.cli.profiles import Target
from sluice_client.cli.service import Service
from tests.api.responses import data
from tests.api.samples import TEXT, eicar, pdf, picture, white_picture
from tests.api.test_sanitising import photo
from tests.cli.commands import Sluice, sluice_in
from tests.rows import each_row
from tests.servers import free_port
from tests.service import ApiClient

RULES = """
allowed_extensions: [pdf, png, txt]
max_file_size_mb: 1
policies:
  image: {mode: enforce, max_width: 50}
  min_size_bytes: {mode: report, bytes: 100}
  encrypted: {mode: off}
"""


NO_YAML = [b"a: [", b"!!python/object/apply:os.system ['true']", b"\x00", b"a: b: c", b"x" * 2_000_000]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    files = {"a.pdf": pdf(), "b.pdf": picture(), "c.png": picture(), "d.txt": TEXT, "e.exe": TEXT}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def check(tmp_path: Path) -> Sluice:
    """The command in a folder without an initialized service."""
    return sluice_in(tmp_path / "nowhere")


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    return path


@pytest.fixture
def asking(client: ApiClient, tmp_path: Path) -> Sluice:
    """The command with the URL of the service and an API key that may see whole reports."""
    return sluice_in(tmp_path / "home", URL=client.service.url, API_KEY=client.create_key("upload", "metadata").text)


def test_files_are_judged_by_the_rules_in_a_file(check: Sluice, folder: Path, rules: Path) -> None:
    result = check("check", folder, "--rules", rules, "--json")
    assert (result.code, result.err) == (3, "")
    verdicts = {Path(row["path"]).name: (row["report"]["outcome"], row["report"]["reason"]) for row in result.rows}
    assert verdicts == {
        "a.pdf": ("accepted", None),
        "b.pdf": ("rejected", "type_mismatch"),
        "c.png": ("rejected", "image_dimensions"),
        "d.txt": ("accepted", None),
        "e.exe": ("rejected", "extension_not_allowed"),
    }
    checks = {each["name"]: each["outcome"] for each in result.rows[3]["report"]["checks"]}
    assert (checks["policy.min_size_bytes"], checks["policy.encrypted"]) == ("would_fail", "off")
    assert (checks["malware"], checks["integrity.structure"]) == ("not_run", "pass")
    assert not check.data_dir.exists()


def test_a_failed_check_is_printed_with_what_was_found_and_expected(check: Sluice, folder: Path, rules: Path) -> None:
    result = check("check", folder / "b.pdf", folder / "c.png", folder / "d.txt", "--rules", rules)
    lines = result.out.splitlines()
    assert lines[0] == f"rejected  {folder}/b.pdf  type_mismatch"
    assert lines[1].startswith("    integrity.type (fail): ")
    assert lines[1].endswith("; found image/png, expected .pdf")
    assert "    policy.image (fail): found width 64, expected at most 50" in lines
    assert "    policy.min_size_bytes (would fail): found 30 bytes, expected at least 100" in lines
    (message,) = [row["report"]["message"] for row in check("check", folder / "b.pdf", "--rules", rules, "--json").rows]
    assert f"    {message}" in lines
    assert lines[-2].endswith(": 1 accepted, 2 rejected")
    assert lines[-1] == "Not scanned for malware: that needs a service (--context)."


def test_text_is_judged_by_the_rules_in_a_file(check: Sluice, folder: Path, rules: Path) -> None:
    rules.write_text("policies: {text: {must_contain: [{name: Water, any: [clean water]}]}}")
    result = check("check", folder / "a.pdf", folder / "c.png", folder / "d.txt", "--rules", rules, "--json")
    assert [row["report"]["reason"] for row in result.rows] == [None, "missing_text", None]
    rules.write_text("policies: {document_kind: {mode: enforce}}")
    compared = check("check", folder / "d.txt", "--rules", rules)
    note = "Not compared with examples: the policy document_kind needs a service (--context)."
    assert (compared.code, compared.out.rstrip().endswith(note)) == (0, True)
    rules.write_text("policies: {text: {languages: [de], min_words: 9}}")
    assert check("check", folder / "d.txt", "--rules", rules, "--json").rows[0]["report"]["reason"] == "missing_text"


def test_rules_have_one_source_and_may_have_no_scan_or_be_the_defaults(
    check: Sluice, folder: Path, rules: Path
) -> None:
    for options in (("--context", "claims", "--rules", rules), ("--rules", rules, "--no-blank")):
        result = check("check", folder / "a.pdf", *options)
        assert (result.code, "--context" in result.error_line) == (2, True)
    rules.write_text("scan_for_viruses: false")
    result = check("check", folder / "d.txt", "--rules", rules)
    assert (result.code, "malware" in result.out) == (0, False)
    rules.write_text("")
    (folder / "white.png").write_bytes(white_picture())
    result = check("check", folder / "white.png", "--rules", rules, "--json")
    assert result.rows[0]["report"]["reason"] == "blank_document"


@each_row(
    "content, words",
    [
        (b"policies: {nosuch: {}}", " policies.nosuch: "),
        (b"policies: {filename_pattern: {pattern: '('}}", " policies.filename_pattern.pattern: "),
        (b"max_file_size_mb: 501", " max_file_size_mb: "),
        (b"max_file_size_mb: '5'", " max_file_size_mb: "),
        (b"display_name: Claims", " display_name: "),
        (b"allowed_extensions: [a..b]", " allowed_extensions.0: "),
        (b"[1, 2]", " rules: "),
        (b"just words", " rules: "),
        *((content, "rules.yaml") for content in NO_YAML),
    ],
)
def test_a_rule_that_is_wrong_and_a_file_that_is_no_yaml_are_named(
    check: Sluice, folder: Path, rules: Path, content: bytes, words: str
) -> None:
    rules.write_bytes(content)
    result = check("check", folder / "d.txt", "--rules", rules)
    assert (result.code, result.out) == (2, "")
    assert words in result.error_line


def test_a_service_judges_files_and_stores_nothing(asking: Sluice, client: ApiClient, folder: Path) -> None:
    (folder / "virus.txt").write_bytes(eicar())
    context = client.create_context(allowed_extensions=["pdf", "txt"])
    result = asking("check", folder, "--context", context, "--json")
    assert (result.code, result.err) == (3, "")
    reasons = {Path(row["path"]).name: row["report"]["reason"] for row in result.rows}
    assert reasons == {
        "a.pdf": None,
        "b.pdf": "type_mismatch",
        "c.png": "extension_not_allowed",
        "d.txt": None,
        "e.exe": "extension_not_allowed",
        "virus.txt": "virus_detected",
    }
    assert client.object_keys() == set()
    assert client.decisions() == []


def test_a_context_is_told_what_to_take_out_and_a_dry_run_says_what_would_be(
    asking: Sluice, client: ApiClient, tmp_path: Path
) -> None:
    context, path = client.create_context(), tmp_path / "a.jpg"
    path.write_bytes(photo())
    admin = asking.with_settings(API_KEY=client.create_key("admin").text)
    for words, removals in (("pixels", ["pixels"]), ("metadata,active_content", ["active_content", "metadata"])):
        assert admin("contexts", "update", context, "--sanitise", words).code == 0
        assert data(client.get(f"/contexts/{context}"))["sanitise"]["remove"] == removals
    assert "    taken out: gps, camera" in admin("check", path, "--context", context).out
    assert admin("contexts", "update", context, "--sanitise", "none").code == 0
    assert "sanitise" not in data(client.get(f"/contexts/{context}"))


def test_a_key_for_uploads_gets_the_sentence_for_the_sender(asking: Sluice, client: ApiClient, folder: Path) -> None:
    context = client.create_context(allowed_extensions=["pdf"])
    sender = asking.with_settings(API_KEY=client.create_key("upload").text)
    result = sender("check", folder / "e.exe", "--context", context)
    assert result.code == 3
    first, second, last = result.out.splitlines()
    assert first == f"rejected  {folder}/e.exe  extension_not_allowed"
    assert "PDF" in second
    assert last.endswith(": 1 rejected")


@each_row(
    "refusals, retry_after, requests, error",
    [
        (0, "0.01", 1, None),
        (2, "0.01", 3, None),
        (9, "0.01", 3, "too many (again)"),
        (1, "600", 1, "too many (again); try again in 600 s"),
        (1, "Fri, 01 Jan 2027 00:00:00 GMT", 1, "too many (again)"),
    ],
)
def test_a_dry_run_beyond_the_limit_of_the_service_waits(
    tmp_path: Path, refusals: int, retry_after: str, requests: int, error: str | None
) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT)
    seen = []

    class Busy:
        def request(self, method: str, path: str, **_others: object) -> Response:
            seen.append((method, path))
            headers = httpx.Headers()
            headers["Retry-After"] = retry_after
            if len(seen) <= refusals:
                body = {"status": "ERROR", "message": "too many", "errors": ["again"]}
                return Response(429, headers, json.dumps(body).encode())
            response = {"status": "SUCCESS", "data": {"report": {"outcome": "accepted"}}}
            return Response(200, httpx.Headers(), json.dumps(response).encode())

    service = Service(Target("http://service", "key"), cast("HttpClient", Busy()))
    reported = ask_service(service, tmp_path / "a.txt", "claims")
    assert len(seen) == requests
    assert reported.word == ("failed" if error else "accepted")
    assert reported.error is None if error is None else str(reported.error).startswith(error)


def test_a_service_that_does_not_respond_and_an_unknown_context_are_named(asking: Sluice, folder: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    for sluice, code, name in ((asking.with_settings(URL=url), 6, url), (asking, 5, "nosuch")):
        result = sluice("check", folder / "a.pdf", "--context", "nosuch")
        assert result.code == code
        assert name in result.error_line


def test_an_unreadable_file_is_exit_code_1(asking: Sluice, client: ApiClient, tmp_path: Path, rules: Path) -> None:
    closed = tmp_path / "pipe"
    os.mkfifo(closed)
    for options in (("--context", client.create_context()), ("--rules", str(rules))):
        (row,) = asking("check", closed, *options, "--json").rows
        assert row["report"] is None
        assert row["error"] == "cannot be read: it is no file"
