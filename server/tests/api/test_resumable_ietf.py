"""Resumable uploads by the IETF's draft, interop versions 6 and 8, over raw HTTP; the rules of tus hold for them too."""

import hashlib
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest

from tests.api import raw_http, tus
from tests.api.responses import assert_not_found, assert_rejected, assert_validation_error, data, page
from tests.api.samples import TEXT
from tests.api.test_upload_tokens import holder, issue
from tests.api.tus import HALF, INFECTED, LARGE
from tests.rows import each_row
from tests.service import API, ApiClient, Service

PROBLEMS = "https://iana.org/assignments/http-problem-types#"
COMPLETES = {True: "?1", False: "?0"}


@dataclass(frozen=True)
class Draft:
    """One resumable upload of a client by the draft; `path` is below `/api/v1`."""

    client: ApiClient
    version: str
    path: str = "/uploads"

    def request(self, method: str, *, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
        spoken = {"Upload-Draft-Interop-Version": self.version}
        return self.client.request(method, self.path, headers=spoken | (headers or {}), **more)

    def create(self, content: bytes = b"", *, completes: bool, **headers: str) -> httpx.Response:
        sent = {"Upload-Complete": COMPLETES[completes]}
        return self.request("POST", headers=sent | named(headers), content=content)

    def begin(self, length: int, context: str) -> "Draft":
        fields = tus.metadata(context=context, filename="note.txt")
        created = self.create(completes=False, Upload_Length=str(length), Upload_Metadata=fields)
        assert created.status_code == 201, created.text
        return self.at(created.headers["location"])

    def at(self, location: str) -> "Draft":
        return Draft(self.client, self.version, urlsplit(location).path.removeprefix(API))

    def append(
        self, content: bytes | Iterator[bytes], offset: int, *, completes: bool, **headers: str
    ) -> httpx.Response:
        sent = {"Content-Type": "application/partial-upload", "Upload-Offset": str(offset)}
        sent |= {"Upload-Complete": COMPLETES[completes]} | named(headers)
        return self.request("PATCH", headers=sent, content=content)

    @property
    def state(self) -> tuple[int, str]:
        found = self.request("HEAD")
        assert found.status_code == 204, found
        return int(found.headers["upload-offset"]), found.headers["upload-complete"]


def named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.fixture
def context(client: ApiClient) -> str:
    return client.create_context(max_file_size_mb=50)


@pytest.fixture(params=["6", "8"])
def draft(client: ApiClient, request: pytest.FixtureRequest) -> Draft:
    return Draft(client, request.param)


def assert_problem(response: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["type"] == PROBLEMS + kind
    return problem


def test_file_in_several_requests_is_stored_as_one(draft: Draft, client: ApiClient, context: str) -> None:
    upload = draft.begin(len(TEXT), context)
    first = upload.append(TEXT[:HALF], 0, completes=False)
    assert first.status_code == (201 if draft.version == "6" else 204)
    assert (first.headers["upload-offset"], first.headers["upload-complete"]) == (str(HALF), "?0")
    assert upload.state == (HALF, "?0")
    last = upload.append(TEXT[HALF:], HALF, completes=True)
    stored = data(last, 200)
    assert (last.headers["upload-complete"], last.headers["sluice-file-id"]) == ("?1", stored["file_id"])
    found = upload.request("HEAD")
    assert upload.state == (len(TEXT), "?1")
    assert (found.headers["sluice-file-id"], found.headers["upload-length"]) == (stored["file_id"], str(len(TEXT)))
    assert found.headers["cache-control"] == "no-store"
    kept = data(client.get(f"/files/{stored['file_id']}/metadata"))
    assert kept["checksum"] == f"sha256:{hashlib.sha256(TEXT).hexdigest()}"
    assert [decision["outcome"] for decision in client.decisions()] == ["accepted"]


@each_row("name", ["note.txt", "Übersicht 1.txt"])
def test_whole_file_in_one_request_is_named_by_its_disposition(draft: Draft, client: ApiClient, name: str) -> None:
    sender = Draft(holder(client, issue(client)), draft.version)
    sent = f'inline; filename="{name}"'
    if not name.isascii():
        sent = f"inline; filename=\"replaced\"; filename*=UTF-8''{quote(name)}"
    stored = sender.create(TEXT, completes=True, Content_Disposition=sent, Content_Type="text/plain")
    assert data(stored, 201)["original_filename"] == name
    assert stored.headers["upload-complete"] == "?1"


def responses(sock: socket.socket) -> list[tuple[int, dict[str, str]]]:
    """Return status and headers of every response until the server closes the connection."""
    received = b""
    while chunk := sock.recv(65536):
        received += chunk
    found = []
    while received:
        head, _, received = received.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        received = received[int(headers.get("content-length", "0")) :]
        found.append((int(first.split()[1]), headers))
    return found


def creation_head(draft: Draft, context: str, length: int, *more: str) -> bytes:
    fields = tus.metadata(context=context, filename="a.zzz")
    lines = (f"Upload-Metadata: {fields}", "Upload-Complete: ?1", f"Content-Length: {length}", *more)
    return raw_http.request_head(draft.client, *lines, path=f"{API}/uploads")


def interim(sock: socket.socket) -> dict[str, str]:
    """Return the headers of an interim response, which is all that has come."""
    response = raw_http.read_response(sock)
    assert response.status == 104
    return response.headers


@pytest.mark.one_process
def test_address_is_sent_before_the_bytes_and_progress_with_them(draft: Draft, client: ApiClient, context: str) -> None:
    version = f"Upload-Draft-Interop-Version: {draft.version}"
    with raw_http.connection(client) as sock:
        sock.sendall(creation_head(draft, context, len(LARGE), version, "Connection: close"))
        announced = interim(sock)
        sock.sendall(LARGE)
        *progress, (final, headers) = responses(sock)
    assert announced["upload-draft-interop-version"] == draft.version
    assert draft.at(announced["location"]).state == (len(LARGE), "?1")
    named = "expires" if draft.version == "6" else "max-age"
    assert announced["upload-limit"].startswith(f"max-size={500 * 1_048_576}, {named}=86")
    assert {each for each, _headers in progress} == {104}
    offsets = [int(each["upload-offset"]) for _status, each in progress]
    assert offsets == [8 * 1_048_576, 16 * 1_048_576, len(LARGE) - 1]
    assert not any("location" in each for _status, each in progress)
    assert (final, headers["upload-complete"], headers["upload-offset"]) == (201, "?1", str(len(LARGE)))


@pytest.mark.one_process
def test_interrupted_creation_continues_at_the_address_sent_before(
    draft: Draft, client: ApiClient, context: str
) -> None:
    version = f"Upload-Draft-Interop-Version: {draft.version}"
    with raw_http.connection(client) as sock:
        sock.sendall(creation_head(draft, context, len(LARGE), version))
        upload = draft.at(interim(sock)["location"])
        sock.sendall(LARGE[:10_000_000])
        assert interim(sock)["upload-offset"] == str(8 * 1_048_576)
    deadline = time.monotonic() + 60
    while True:
        offset, is_complete = upload.state
        assert 8 * 1_048_576 <= offset <= 10_000_000
        assert is_complete == "?0"
        response = upload.append(LARGE[offset:], offset, completes=True)
        if response.status_code != 409:  # what was cut before still ends
            break
        assert time.monotonic() < deadline
    assert data(response)["size_bytes"] == len(LARGE)
    assert len(page(client.get("/files"))[0]) == 1


@pytest.mark.one_process
@each_row("line", ["Tus-Resumable: 1.0.0\r\nUpload-Length: 8", "Upload-Draft-Interop-Version: 7"])
def test_no_interim_respond_without_a_version_that_is_spoken(client: ApiClient, context: str, line: str) -> None:
    head = creation_head(Draft(client, ""), context, 8, line, f"Content-Type: {tus.BYTES}", "Connection: close")
    with raw_http.connection(client) as sock:
        sock.sendall(head + TEXT[:8])
        assert 104 not in [status for status, _headers in responses(sock)]


@each_row("offset", [0, HALF + 1])
def test_wrong_offset_is_a_problem_that_names_the_right_one(draft: Draft, context: str, offset: int) -> None:
    upload = draft.begin(len(TEXT), context)
    upload.append(TEXT[:HALF], 0, completes=False)
    found = upload.append(TEXT[offset:], offset, completes=True)
    problem = assert_problem(found, 409, "mismatching-upload-offset")
    assert (problem["expected-offset"], problem["provided-offset"]) == (HALF, offset)
    assert found.headers["upload-offset"] == str(HALF)
    assert upload.state == (HALF, "?0")


def test_lengths_that_do_not_agree_are_a_problem(draft: Draft, context: str) -> None:
    fields = tus.metadata(context=context, filename="note.txt")
    created = draft.create(TEXT, completes=True, Upload_Length="9", Upload_Metadata=fields)
    assert_problem(created, 400, "inconsistent-upload-length")
    upload, over = draft.begin(len(TEXT), context), draft.begin(len(TEXT), context)
    for refused in (
        upload.append(TEXT[:HALF], 0, completes=True),
        upload.append(iter([TEXT[:HALF]]), 0, completes=True, Upload_Length="9"),
        upload.append(TEXT + b"x", 0, completes=False),
    ):
        assert_problem(refused, 400, "inconsistent-upload-length")
        assert upload.state == (0, "?0")
    assert_problem(upload.append(iter([TEXT[:HALF]]), 0, completes=True), 400, "inconsistent-upload-length")
    assert data(upload.append(TEXT[HALF:], HALF, completes=True))["size_bytes"] == len(TEXT)
    # an upload with more bytes than its length is over
    assert_problem(over.append(iter([TEXT, b"x"]), 0, completes=True), 400, "inconsistent-upload-length")
    assert over.request("HEAD").status_code == 404


def test_creation_that_can_store_nothing_is_refused(draft: Draft, client: ApiClient) -> None:
    context = client.create_context(allowed_extensions=["pdf"])
    fields: dict[str, Any] = {"Upload_Metadata": tus.metadata(context=context, filename="note.txt")}
    assert_validation_error(draft.create(completes=False, **fields), "Upload-Length")
    too_large = draft.create(completes=False, Upload_Length=str(500 * 1_048_576 + 1), **fields)
    assert (too_large.status_code, too_large.headers["upload-limit"][:19]) == (413, "max-size=524288000,")
    refused = draft.create(TEXT, completes=True, **fields)
    assert_rejected(refused, "extension_not_allowed")
    assert not {"location", "upload-complete"} & set(refused.headers)
    blank = tus.metadata(context=client.create_context(reject_blank_files=True), filename="note.txt")
    assert_rejected(draft.create(completes=True, Upload_Metadata=blank), "blank_document")


def test_request_says_whether_it_is_the_last(draft: Draft, context: str) -> None:
    upload = draft.begin(len(TEXT), context)
    for sent in ({}, {"Upload-Complete": "true"}):
        headers = {"Content-Type": "application/partial-upload", "Upload-Offset": "0"} | sent
        assert upload.request("PATCH", headers=headers, content=TEXT).status_code == 400
    assert upload.append(TEXT, 0, completes=True, Content_Type=tus.BYTES).status_code == 415
    for method in ("HEAD", "DELETE"):
        assert upload.request(method, headers={"Upload-Complete": "?0"}).status_code == 400
    assert upload.state == (0, "?0")
    upload.append(TEXT[:HALF], 0, completes=False)
    assert upload.request("DELETE").status_code == 204
    assert_not_found(upload.append(TEXT[HALF:], HALF, completes=True))


def test_draft_is_spoken_in_two_versions_if_allowed(shared_client: ApiClient, limited_service: Service) -> None:
    refused = Draft(shared_client, "7").create(completes=False, Upload_Length="5")
    assert refused.status_code == 412
    assert refused.json()["errors"] == ["Upload-Draft-Interop-Version: expected 6 or 8"]
    assert refused.headers["upload-draft-interop-version"] == "8"
    limited_client = limited_service.new_client()
    assert "accept-patch" not in limited_client.request("OPTIONS", "/uploads").headers
    assert shared_client.request("OPTIONS", "/uploads").headers["accept-patch"] == "application/partial-upload"
    refused = Draft(limited_client, "8").create(completes=False, Upload_Length="5")
    assert (refused.status_code, refused.json()["errors"]) == (412, ["Tus-Resumable: expected 1.0.0"])


def test_last_byte_of_a_rejected_file_is_never_acknowledged(draft: Draft, client: ApiClient, context: str) -> None:
    upload = draft.begin(len(INFECTED), context)
    first = upload.append(INFECTED, 0, completes=True)
    assert_rejected(first, "virus_detected")
    assert first.headers["upload-complete"] == "?1", "nothing that is sent could change the verdict"
    assert upload.state == (len(INFECTED) - 1, "?0")
    again = upload.append(INFECTED[-1:], len(INFECTED) - 1, completes=True)
    assert_rejected(again, "virus_detected")
    assert again.json()["report"] == first.json()["report"]
    assert len(client.decisions()) == 1


def test_verdict_is_taken_when_a_request_of_any_protocol_is_said_to_be_the_last(
    draft: Draft, client: ApiClient, context: str
) -> None:
    upload = draft.begin(len(TEXT), context)
    assert upload.append(TEXT, 0, completes=False).headers["upload-complete"] == "?0"
    assert upload.state == (len(TEXT) - 1, "?0")
    assert client.decisions() == []
    assert data(upload.append(b"", len(TEXT), completes=True))["size_bytes"] == len(TEXT)
    other = tus.begin(client, len(TEXT), context=context, more={"metadata": json.dumps({"claim": "C-7"})})
    other.patch(TEXT[:HALF], 0)
    last = Draft(client, draft.version, other.path).append(TEXT[HALF:], HALF, completes=True)
    assert data(last)["metadata"] == {"claim": "C-7"}
    assert other.offset == len(TEXT)


def test_verdict_on_a_stored_file_is_repeated_and_final(draft: Draft, client: ApiClient, context: str) -> None:
    upload, whole = draft.begin(len(TEXT), context), len(TEXT)
    first = upload.append(TEXT, 0, completes=True)
    for content, offset in ((b"", whole), (TEXT[-1:], whole - 1)):
        assert data(upload.append(content, offset, completes=True)) == data(first)
    for refused in (upload.append(TEXT, 0, completes=True), upload.append(b"", whole, completes=False)):
        assert_problem(refused, 400, "completed-upload")
        assert refused.headers["upload-complete"] == "?1"
    assert len(client.decisions()) == 1
