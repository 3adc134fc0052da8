"""The Python client against running services, and against a fake one that fails as required."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sluice_client import (
    AsyncSluice,
    ConnectionFailed,
    FileRejected,
    InvalidReceipt,
    InvalidWebhook,
    LimitExceeded,
    NotFound,
    Sluice,
    Unauthenticated,
    Unavailable,
    UnexpectedAnswer,
    verify_receipt,
    verify_webhook,
)
from sluice_client.core import LARGE
from tests.api.samples import TEXT, eicar, picture
from tests.docs.pages import blocks
from tests.events.receiver import running_receiver
from tests.rows import each_row
from tests.service import ApiClient, Service

BIG = TEXT * (2 * LARGE // len(TEXT) + 1)
ROOT = Path(__file__).parents[3]


def key_of(client: ApiClient) -> str:
    return str(client.authorization).removeprefix("Bearer ")


def sluice(client: ApiClient, http_client: httpx.Client | None = None, *, max_retries: int = 4) -> Sluice:
    url = client.service.url
    return Sluice(key_of(client), base_url=url, http_client=http_client, max_retries=max_retries)


@pytest.fixture(scope="module")
def tenant(service: Service) -> ApiClient:
    return service.new_client().with_store()


@pytest.fixture
def own(tenant: ApiClient) -> Iterator[Sluice]:
    with sluice(tenant) as client:
        yield client


@pytest.fixture
def context(tenant: ApiClient) -> str:
    return tenant.create_context(max_file_size_mb=50)


def test_uploads_a_small_file_and_reads_it_back(own: Sluice, context: str, tmp_path: Path) -> None:
    path = tmp_path / "Schäden.txt"
    path.write_bytes(TEXT)
    reported: list[int] = []
    stored = own.files.upload(
        path, context=context, metadata={"claim": "C-7"}, progress=lambda *sent: reported.extend(sent)
    )
    assert (stored.original_filename, stored.size_bytes) == ("Schäden.txt", len(TEXT))
    assert reported[-2:] == [len(TEXT), len(TEXT)]
    found = own.files.metadata(stored.file_id)
    assert (found.metadata, found.context_key) == ({"claim": "C-7"}, context)
    assert httpx.get(own.files.download_url(stored.file_id).download_url).content == TEXT
    assert [file.file_id for file in own.files.list(context=context, metadata={"claim": "C-7"})] == [stored.file_id]
    assert own.reports.get(stored.report_id).outcome == "accepted"
    assert own.files.delete(stored.file_id).deleted
    with pytest.raises(NotFound) as raised:
        own.files.metadata(stored.file_id)
    assert (raised.value.code, raised.value.status) == ("not_found", 404)
    assert raised.value.request_id


def test_uploads_a_large_file_in_parts_with_progress(own: Sluice, context: str) -> None:
    reported: list[int] = []
    urls: list[str] = []
    watched: dict[str, Any] = {"on_upload_url": urls.append, "progress": lambda sent, _size: reported.append(sent)}
    stored = own.files.upload(BIG, filename="big.txt", context=context, **watched)
    assert stored.size_bytes == len(BIG)
    assert (reported, reported[-1]) == (sorted(reported), len(BIG))
    assert own.uploads.get(urls[0].rpartition("/")[2]).state == "stored"


class _Cut(httpx.HTTPTransport):
    """Loses the connection when the second part is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "PATCH":
            self.parts += 1
            if self.parts == 2:
                raise httpx.WriteError("cut")
        return super().handle_request(request)


def test_goes_on_by_itself_after_a_cut(tenant: ApiClient, context: str) -> None:
    transport = _Cut()
    with httpx.Client(transport=transport) as http, sluice(tenant, http) as client:
        assert client.files.upload(BIG, filename="big.txt", context=context).size_bytes == len(BIG)
    assert transport.parts == 4


def test_goes_on_in_another_process_with_the_url(tenant: ApiClient, own: Sluice, context: str) -> None:
    with (
        httpx.Client(transport=_Cut()) as http,
        sluice(tenant, http, max_retries=0) as client,
        pytest.raises(ConnectionFailed) as raised,
    ):
        client.files.upload(BIG, filename="big.txt", context=context)
    url = raised.value.upload_url
    assert url is not None
    reported: list[int] = []
    stored = own.files.upload(BIG, filename="big.txt", resume=url, progress=lambda sent, _size: reported.append(sent))
    assert stored.size_bytes == len(BIG)
    assert reported[0] > LARGE
    assert own.files.upload(BIG, filename="big.txt", resume=url).file_id == stored.file_id


@each_row("in_parts", [False, True])
def test_rejection_has_its_reason_and_report(own: Sluice, context: str, *, in_parts: bool) -> None:
    urls: list[str] = []
    with pytest.raises(FileRejected) as raised:
        own.files.upload(eicar(), filename="note.txt", context=context, on_upload_url=urls.append if in_parts else None)
    assert (raised.value.reason, raised.value.code) == ("virus_detected", "file_rejected")
    assert raised.value.report is not None
    assert raised.value.report.message
    assert own.reports.get(raised.value.report.report_id).reason == "virus_detected"
    assert (len(urls), raised.value.upload_url) == (int(in_parts), None)


def test_key_of_a_repeated_upload_stores_one_file(own: Sluice, context: str) -> None:
    assert own.files.validate(TEXT, filename="note.txt", context=context).report.outcome == "accepted"
    key = f"once-{context}"
    first, second = (
        own.files.upload(TEXT, filename="note.txt", context=context, idempotency_key=key) for _ in range(2)
    )
    assert first == second
    assert len(list(own.files.list(context=context))) == 1


def test_changes_what_is_named_and_resets_by_none(own: Sluice, context: str, service: Service) -> None:
    own.contexts.update(context, description="Claims", storage_quota_mb=5)
    changed = own.contexts.update(context, storage_quota_mb=None)
    assert (changed.description, changed.storage_quota_mb) == ("Claims", None)
    with Sluice("sl_live_wrong", base_url=service.url) as client, pytest.raises(Unauthenticated):
        client.contexts.get("claims")


def test_lists_go_over_all_pages(own: Sluice, context: str) -> None:
    stored = {own.files.upload(TEXT, filename=f"{n}.txt", context=context).file_id for n in range(3)}
    found = [file.file_id for file in own.files.list(context=context, page_size=2)]
    assert (set(found), len(found)) == (stored, 3)
    events = list(own.events.list(type="file.stored", limit=2))
    assert stored <= {event.data["file_id"] for event in events}
    assert [event.sequence for event in events] == sorted({event.sequence for event in events})


def test_verifies_a_delivered_webhook(own: Sluice) -> None:
    with running_receiver() as receiver:
        endpoint = own.webhooks.create(receiver.url, ["endpoint.test"])
        own.webhooks.test(endpoint.endpoint_id)
        (received,) = receiver.wait_for(1)
        event = verify_webhook(received.body, received.headers, endpoint.secret)
        assert (event.type, event.data["endpoint_id"]) == ("endpoint.test", endpoint.endpoint_id)
        own.webhooks.delete(endpoint.endpoint_id)
    old = {**received.headers, "webhook-timestamp": "1700000000"}
    other = "whsec_" + "A" * 32
    assert verify_webhook(received.body, received.headers, [other, endpoint.secret]) == event
    with pytest.raises(InvalidWebhook):
        verify_webhook(received.body + b" ", received.headers, endpoint.secret)
    with pytest.raises(InvalidWebhook):
        verify_webhook(received.body, received.headers, other)
    for headers in (old, {}):
        with pytest.raises(InvalidWebhook):
            verify_webhook(received.body, headers, endpoint.secret)


def test_verifies_a_receipt(own: Sluice, context: str) -> None:
    stored = own.files.upload(TEXT, filename="note.txt", context=context)
    keys, receipt = own.service.receipt_keys(), own.files.receipt(stored.file_id).receipt
    assert verify_receipt(receipt, keys)["file_id"] == stored.file_id
    head, body, signature = receipt.split(".")
    other = "A" if body[20] != "A" else "B"
    for changed in (f"{head}.{body[:20]}{other}{body[21:]}.{signature}", f"{head}.{body}.", "no receipt", ""):
        with pytest.raises(InvalidReceipt):
            verify_receipt(changed, keys)
    with pytest.raises(InvalidReceipt):
        verify_receipt(receipt, {"keys": []})


async def test_async_client_does_the_same(own: Sluice, tenant: ApiClient, context: str) -> None:
    async with AsyncSluice(key_of(tenant), base_url=tenant.service.url) as client:
        stored = await asyncio.gather(
            client.files.upload(TEXT, filename="note.txt", context=context),
            client.files.upload(BIG, filename="big.txt", context=context),
        )
        listed = {file.file_id async for file in client.files.list(context=context, page_size=1)}
        assert listed == {file.file_id for file in stored}
        with pytest.raises(FileRejected):
            await client.files.upload(eicar(), filename="note.txt", context=context)


def test_code_of_the_page_runs(tenant: ApiClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("dent.png").write_bytes(picture())
    Path("film.txt").write_bytes(BIG)
    fresh = tenant.service.new_client().with_store()
    with running_receiver() as receiver, sluice(fresh) as client:
        endpoint = client.webhooks.create(receiver.url, ["endpoint.test"])
        client.webhooks.test(endpoint.endpoint_id)
        (received,) = receiver.wait_for(1)
    names: dict[str, Any] = {"api_key": key_of(fresh), "url": tenant.service.url, "secret": endpoint.secret}
    names |= {"body": received.body, "headers": received.headers}
    page = (ROOT / "docs/clients/python.md").read_text(encoding="utf-8")
    exec("\n".join(blocks(page, "python")) + "\nlisted = __import__('asyncio').run(names())", names)
    assert names["listed"] == ["film.txt", "dent.png"]


def fake(*responses: httpx.Response | Exception, max_retries: int = 4) -> tuple[Sluice, list[httpx.Request]]:
    """Return a client whose requests get these responses in turn, and the requests."""
    waiting, requests = list(responses), []

    def answered(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        response = waiting.pop(0)
        if isinstance(response, Exception):
            raise response
        return response

    http = httpx.Client(transport=httpx.MockTransport(answered))
    return Sluice("sl_test_x", base_url="http://sluice.example", http_client=http, max_retries=max_retries), requests


STORED = {"file_id": "file_1", "original_filename": "n.txt", "content_type": "text/plain", "size_bytes": 1}
STORED |= {"context_key": "claims", "metadata": {}, "report_id": "rep_1"}


def failure(status: int, code: str = "", **headers: str) -> httpx.Response:
    named = {"Sluice-Error-Code": code, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return httpx.Response(status, json={"status": "ERROR", "message": "No", "errors": ["no"]}, headers=named)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr("sluice_client.senders.time.sleep", slept.append)
    return slept


def test_upload_is_repeated_with_one_key_until_it_has_a_response(pauses: list[float]) -> None:
    client, requests = fake(
        failure(503, Retry_After="7"),
        httpx.ReadError("lost"),
        failure(409, "idempotency_key_in_use", Retry_After="2"),
        failure(429, Retry_After="3"),
        httpx.Response(201, json={"data": STORED}),
    )
    assert client.files.upload(b"x", filename="n.txt", context="claims").file_id == "file_1"
    assert len({request.headers["Idempotency-Key"] for request in requests}) == 1
    assert (pauses[0], pauses[3]) == (7, max(3, pauses[3]))
    assert len(pauses) == 4


@each_row("text", ["Thu, 01 Jan 99999999999 00:00:00 GMT", "Thu, 01 Jan 2026 00:00:00 +99999999999999", "soon", "-1"])
def test_a_wait_that_no_clock_reaches_is_none(pauses: list[float], text: str) -> None:
    client, requests = fake(failure(503, Retry_After=text), httpx.Response(201, json={"data": STORED}))
    assert client.files.upload(b"x", filename="n.txt", context="claims").file_id == "file_1"
    assert (len(requests), max(pauses) <= 1) == (2, True)


@each_row("file_id", ["", ".", ".."])
def test_an_id_that_would_be_another_path_is_not_sent(file_id: str) -> None:
    client, requests = fake()
    with pytest.raises(ValueError, match="expected an id or a key"):
        client.files.delete(file_id)
    assert requests == []


def test_an_offset_that_stays_ends_the_upload(pauses: list[float]) -> None:
    of_upload = {"Upload-Offset": "0", "Upload-Length": "9"}
    stays = [httpx.Response(200, headers=of_upload), httpx.Response(204, headers=of_upload)] * 3
    client, requests = fake(*stays, max_retries=2)
    with pytest.raises(ConnectionFailed, match="keeps nothing"):
        client.files.upload(b"x" * 9, filename="n.txt", resume="https://files.example.com/api/v1/uploads/upl_1")
    assert ([request.method for request in requests], len(pauses)) == (["HEAD", "PATCH"] * 3, 2)


def test_gives_up_after_so_many_retries_and_at_once_if_the_wait_is_long(pauses: list[float]) -> None:
    client, requests = fake(failure(429, "limit_exceeded", Retry_After="86400"))
    with pytest.raises(LimitExceeded) as raised:
        client.files.upload(b"x", filename="n.txt", context="claims")
    assert (raised.value.retry_after, raised.value.reason) == (86400, "no")
    assert (len(requests), pauses) == (1, [])
    client, requests = fake(*[failure(502)] * 3, max_retries=2)
    with pytest.raises(Unavailable):
        client.contexts.get("claims")
    assert (len(requests), len(pauses)) == (3, 2)


def test_what_may_have_been_done_is_not_done_twice_and_what_was_never_sent_is(pauses: list[float]) -> None:
    for response in (httpx.ReadError("lost"), failure(502)):
        client, requests = fake(response)
        with pytest.raises((ConnectionFailed, Unavailable)):
            client.api_keys.create("ci", ["upload"])
        assert (len(requests), pauses) == (1, []), response
    created = {"api_key_id": "key_1", "api_key": "sl_x", "name": "ci", "scopes": ["upload"], "expires_at": None}
    client, requests = fake(httpx.ConnectError("refused"), httpx.Response(201, json={"data": created}))
    assert client.api_keys.create("ci", ["upload"]).api_key == "sl_x"
    assert (len(requests), len(pauses)) == (2, 1)


def test_credential_goes_to_the_configured_host_only(pauses: list[float]) -> None:
    client, requests = fake(httpx.Response(200, headers={"Upload-Offset": "9", "Upload-Length": "9"}), failure(404))
    with pytest.raises(NotFound):
        client.files.upload(b"x" * 9, filename="n.txt", resume="https://evil.example/api/v1/uploads/upl_1")
    assert {request.url.host for request in requests} == {"sluice.example"}


def test_what_is_not_sluice_is_named() -> None:
    client, _ = fake(httpx.Response(200, text="<html>"), httpx.Response(418, text="<html>"))
    with pytest.raises(UnexpectedAnswer):
        client.contexts.get("claims")
    with pytest.raises(Exception, match="418"):
        client.contexts.get("claims")


def test_programs_of_users_are_typed() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"]
    command += [
        f"--cache-dir={ROOT / '.mypy_cache' / 'programs'}",
        "--python-version=3.11",
        "server/tests/clients/programs.py",
    ]
    environment = {**os.environ, "MYPYPATH": "clients/python/src"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
