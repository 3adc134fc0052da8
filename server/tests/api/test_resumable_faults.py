"""Resumable uploads when something fails: cut connections, dead servers, an unavailable scanner, lost responses."""

import hashlib
import os
import secrets
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from tusclient.client import TusClient
from tusclient.exceptions import TusCommunicationError, TusUploadFailed
from tusclient.uploader.uploader import Uploader

from tests.api import raw_http, tus
from tests.api.responses import data, page
from tests.api.samples import TEXT, eicar
from tests.api.test_upload_tokens import holder, issue, shown
from tests.api.troubles import CONTENT, troubled_service
from tests.api.tus import HALF, LARGE
from tests.deployments import Deployments
from tests.fleet import running_fleet
from tests.recovery.sweep.promises import PATIENCE
from tests.recovery.sweep.sweep import SETTINGS, forked_service
from tests.rows import each_row
from tests.run_length import LONG_RUN
from tests.scanning.waiting import until
from tests.servers.clamd import running_clamd
from tests.servers.radosgw import RadosGateway
from tests.servers.redis import RedisServer
from tests.service import API, ApiClient, running_service


def part_keys(client: ApiClient) -> set[str]:
    """Return the parts in the platform's store, of all tenants."""
    folder = client.service.deployment.data_dir / "objects" / "objects" / "_incoming"
    return {path.name for path in folder.rglob("*") if path.is_file()} if folder.exists() else set()


def finish(upload: tus.Tus, content: bytes) -> httpx.Response:
    """Send what is missing, and the last byte as long as there is no verdict; return the last response."""
    deadline = time.monotonic() + PATIENCE
    while True:
        assert time.monotonic() < deadline
        offset = upload.offset
        response = upload.patch(content[offset:], offset)
        if response.status_code not in {409, 503}:  # 409: what was cut before still ends
            return response
        time.sleep(0.2)  # until the lease of an attempt that a kill has cut ends, so this polls


def assert_stored_once(client: ApiClient, content: bytes) -> None:
    (item,) = page(client.get("/files"))[0]
    kept = data(client.get(f"/files/{item['file_id']}/metadata"))
    assert kept["checksum"] == f"sha256:{hashlib.sha256(content).hexdigest()}"


def append_head(client: ApiClient, upload: tus.Tus, offset: int, length: int, *more: str) -> bytes:
    lines = ("Tus-Resumable: 1.0.0", f"Content-Type: {tus.BYTES}", f"Upload-Offset: {offset}")
    path = API + upload.path
    return raw_http.request_head(client, *lines, f"Content-Length: {length}", *more, method="PATCH", path=path)


def expire(client: ApiClient, upload: tus.Tus) -> None:
    past = "UPDATE resumable_uploads SET expires_at = created_at, due_at = created_at WHERE upload_id = :upload_id"
    client.execute_sql(past, upload_id=upload.path.rpartition("/")[2])


@pytest.mark.usefixtures("without_s3")
def test_cut_at_each_tenth_keeps_what_arrived(client: ApiClient) -> None:
    content = LARGE[:10_000_000]
    upload = tus.begin(client, len(content), context=client.create_context(max_file_size_mb=50), filename="a.zzz")
    for tenth in range(1, 10):
        offset, end = upload.offset, tenth * 1_000_000
        with raw_http.connection(client) as sock:
            sock.sendall(append_head(client, upload, offset, len(content) - offset) + content[offset:end])
        assert until(lambda end=end: upload.offset == end, PATIENCE)  # type: ignore[misc]  # mypy infers no default
    assert data(finish(upload, content))["size_bytes"] == len(content)
    assert_stored_once(client, content)


@pytest.mark.usefixtures("without_s3")
def test_chunk_with_a_checksum_that_is_cut_is_dropped(client: ApiClient) -> None:
    upload = tus.begin(client, len(TEXT), context=client.create_context())
    head = append_head(client, upload, 0, len(TEXT), "Upload-Checksum: sha1 Kq5sNclPz7QV2+lfQIuc6R7oRu0=")
    with raw_http.connection(client) as sock:
        sock.sendall(head + TEXT[:HALF])
    assert data(finish(upload, TEXT))["size_bytes"] == len(TEXT)
    assert_stored_once(client, TEXT)


@pytest.mark.usefixtures("without_s3")
@each_row("begun", [0, 5])
def test_new_request_ends_the_older_one(client: ApiClient, begun: int) -> None:
    client = client.other_tenant_client()
    upload = tus.begin(client, len(TEXT), context=client.create_context())
    if begun:
        assert upload.patch(TEXT[:begun], 0).status_code == 204
    with raw_http.connection(client) as sock:
        sock.sendall(append_head(client, upload, begun, HALF - begun) + b"other")
        time.sleep(0.2)  # nothing tells when the server has read what it got
        assert upload.patch(TEXT[begun:HALF], begun).status_code == 204
        sock.sendall(TEXT[begun + 5 : HALF])
        assert raw_http.read_response(sock).status == 409
    assert data(upload.patch(TEXT[HALF:], HALF))["size_bytes"] == len(TEXT)
    assert_stored_once(client, TEXT)


def tuspy_uploader(
    client: ApiClient, content: bytes, chunk: int = 50_000_000, *, url: str | None = None, **fields: str
) -> Uploader:
    assert client.authorization is not None
    tuspy = TusClient(f"{url or client.service.url}{API}/uploads", headers={"Authorization": client.authorization})
    options: dict[str, Any] = {"upload_checksum": True} if url is None else {"retries": 200, "retry_delay": 0.1}
    return tuspy.uploader(file_stream=BytesIO(content), chunk_size=chunk, metadata=fields, **options)


@pytest.mark.engine
@each_row("chunk", [7_000_000, 50_000_000])
def test_tuspy_uploads_a_whole_file(client: ApiClient, chunk: int) -> None:
    client = client.other_tenant_client().with_store()
    context = client.create_context(max_file_size_mb=50, scan_for_viruses=False)
    uploader = tuspy_uploader(client, LARGE, chunk, context=context, filename="a.zzz")
    uploader.upload()
    assert uploader.offset == len(LARGE)
    assert_stored_once(client, LARGE)


@pytest.mark.timeout(300)
def test_tuspy_stores_one_file_through_cuts_an_unavailable_scanner_and_a_lost_response(
    deployments: Deployments, tmp_path: Path
) -> None:
    with troubled_service(deployments, tmp_path / "clamd") as troubles, ThreadPoolExecutor(1) as thread:
        fields = {"context": troubles.client.create_context(max_file_size_mb=50), "filename": "a.zzz"}
        uploader = tuspy_uploader(troubles.client, CONTENT, 1_000_000, url=troubles.url, **fields)
        uploading = thread.submit(uploader.upload)
        with troubles.scanner():
            uploading.result(PATIENCE)
        assert uploader.offset == len(CONTENT)
        troubles.assert_stored_once()


def test_tuspy_reports_a_rejected_file_as_failed(client: ApiClient) -> None:
    context = client.create_context(allowed_extensions=["txt"])
    with pytest.raises(TusUploadFailed) as failed:
        tuspy_uploader(client, eicar(), context=context, filename="a.txt").upload()
    assert failed.value.status_code == 400
    with pytest.raises(TusCommunicationError):
        tuspy_uploader(client, eicar(), context=context, filename="a.exe").upload()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "point",
    [
        *("part.stored:2", "reserve.done", "judging.settled"),
        *(("part.noted:2", "judging.begun", "receive.sealed", "store.done", "record.done") if LONG_RUN else ()),
    ],
)
def test_upload_goes_on_after_a_kill_and_is_stored_once(deployments: Deployments, point: str) -> None:
    deployment = deployments.fresh("sqlite-local")
    with forked_service(deployment, **SETTINGS, FAILPOINT=point) as (service, process):
        client = service.new_client()
        upload = tus.begin(client, len(TEXT), context=client.create_context())
        with suppress(httpx.TransportError):
            upload.patch(TEXT[:HALF], 0)
            upload.patch(TEXT[HALF:], HALF)
        process.wait(PATIENCE)
        assert process.returncode == -9
    with forked_service(deployment, **SETTINGS) as (service, _):
        restarted = replace(client, service=service)
        assert data(finish(upload.as_client(restarted), TEXT))["size_bytes"] == len(TEXT)
        assert_stored_once(restarted, TEXT)
        assert [one["outcome"] for one in restarted.decisions()] == ["accepted"]
        assert until(lambda: not part_keys(restarted), PATIENCE)


@pytest.mark.timeout(300)
def test_any_server_takes_any_request_and_those_that_are_killed_lose_and_leave_nothing(
    deployments: Deployments, gateway: RadosGateway, redis_server: RedisServer
) -> None:
    """Three servers without stickiness, two of which are killed between the requests of two uploads."""
    bucket = gateway.create_bucket(f"platform-{secrets.token_hex(8)}")
    settings = {
        "STORAGE_BUCKET": bucket,
        "STORAGE_ENDPOINT": gateway.endpoint,
        "STORAGE_ACCESS_KEY_ID": gateway.access_key,
        "STORAGE_SECRET_ACCESS_KEY": gateway.secret_key,
    }

    def parts() -> list[str]:
        return [key for key in gateway.keys(bucket) if key.startswith("_incoming/")]

    with running_fleet(deployments.fresh("postgres-s3"), redis_server, settings=settings, workers=1) as fleet:
        client = fleet.service.new_client()  # whose responses may be those of the proxy
        context = client.create_context(max_file_size_mb=32, scan_for_viruses=False)
        first = tus.begin(client, len(TEXT), context=client.create_context())
        assert [first.patch(TEXT[at : at + 1], at).status_code for at in range(6)] == [204] * 6
        response = first.patch(TEXT[6:], 6)
        for _ in range(6):  # on each of three servers
            assert first.offset == len(TEXT)
            assert data(first.patch(TEXT[-1:], len(TEXT) - 1)) == data(response)
        assert_stored_once(client, TEXT)
        data(client.delete(f"/files/{data(response)['file_id']}"))
        upload, left = (tus.begin(client, len(LARGE), context=context, filename="a.zzz") for _ in range(2))
        for number, start in enumerate(range(0, len(LARGE), 3_000_000)):
            if number in {2, 4}:
                server = fleet.servers[number // 2 - 1].process
                server.send_signal(signal.SIGKILL)
                server.wait(PATIENCE)
            for each in (upload, left)[: 2 if number < 5 else 1]:
                response = send_again(each, LARGE[start : start + 3_000_000], start)
        assert data(response)["size_bytes"] == len(LARGE)
        assert upload.offset == len(LARGE)
        assert_stored_once(client, LARGE)
        assert [one["outcome"] for one in client.decisions()] == ["accepted"] * 2
        assert left.offset == 15_000_000
        expire(client, left)
        assert until(lambda: not parts(), PATIENCE)
        assert left.head().status_code == 404
        assert len(gateway.keys(bucket)) == 2
        assert list((fleet.service.deployment.data_dir / "spool").iterdir()) == []


def send_again(upload: tus.Tus, content: bytes, start: int) -> httpx.Response:
    """Append bytes, as often as the proxy sends the request to a server that is dead."""
    deadline = time.monotonic() + PATIENCE
    while True:
        assert time.monotonic() < deadline
        with suppress(httpx.TransportError):
            response = upload.patch(content, start)
            if response.status_code in {200, 204}:
                return response
            assert response.status_code in {502, 503}, response.text


@pytest.mark.engine
def test_requests_for_the_same_verdict_at_once_get_the_same_one(client: ApiClient) -> None:
    context = client.create_context(max_file_size_mb=50, scan_for_viruses=False)
    upload = tus.begin(client, len(LARGE), context=context, filename="a.zzz")
    upload.patch(LARGE[:-1], 0)
    together = threading.Barrier(4)

    def send_last_byte(_number: int) -> httpx.Response:
        together.wait()
        response = upload.patch(LARGE[-1:], len(LARGE) - 1)
        while response.status_code == 409:  # another one appended it
            response = upload.patch(LARGE[-1:], len(LARGE) - 1)
        return response

    with ThreadPoolExecutor(4) as threads:
        responses = list(threads.map(send_last_byte, range(4)))
    assert len({data(response)["file_id"] for response in responses}) == 1
    assert_stored_once(client, LARGE)
    assert len(client.decisions()) == 1


def test_verdict_is_taken_once_the_scanner_is_back(deployments: Deployments, tmp_path: Path) -> None:
    with ExitStack() as stack:
        clamd = stack.enter_context(running_clamd(tmp_path / "clamd"))
        deployment = replace(deployments.fresh("sqlite-local"), settings={"SCANNER": "clamd", "CLAMD": clamd.address})
        with running_service(deployment) as service:
            client = service.new_client()
            upload = tus.begin(client, len(TEXT), context=client.create_context())
            stack.close()
            for response in [upload.patch(TEXT, 0), upload.patch(TEXT[-1:], len(TEXT) - 1)]:
                assert response.status_code == 503, response.text
                assert int(response.headers["retry-after"]) >= 1
                assert upload.offset == len(TEXT) - 1
                assert data(upload.request("GET"))["state"] == "open"
            assert page(client.get("/files"))[0] == []
            with running_clamd(tmp_path / "clamd"):
                assert data(finish(upload, TEXT))["size_bytes"] == len(TEXT)
            assert_stored_once(client, TEXT)
            assert [one["outcome"] for one in client.decisions()][:2] == ["undecided", "undecided"]


@pytest.mark.usefixtures("without_s3")
@each_row("is_alone", [True, False], ids=["one process", "another between"])
def test_bytes_of_one_process_become_the_file_without_a_copy(client: ApiClient, *, is_alone: bool) -> None:
    client = client.other_tenant_client()
    upload = tus.begin(client, len(TEXT), context=client.create_context())
    upload.patch(TEXT[:HALF], 0)
    upload_id = upload.path.rpartition("/")[2]
    if not is_alone:  # what a request to another server leaves that was cut at once
        next_one = "UPDATE resumable_uploads SET generation = generation + 1 WHERE upload_id = :id"
        client.execute_sql(next_one, id=upload_id)
    (kept,) = [key for key in part_keys(client) if key.startswith(upload_id)]
    folder = client.service.deployment.data_dir / "objects" / "objects"
    inode = (folder / "_incoming" / kept).stat().st_ino
    data(upload.patch(TEXT[HALF:], HALF), 200)
    (key,) = client.object_keys()
    assert ((folder / key).stat().st_ino == inode) is is_alone
    assert (folder / key).read_bytes() == TEXT


@pytest.mark.usefixtures("without_s3")
@each_row("kept", [None, 7], ids=["lost", "shortened"])
def test_upload_whose_bytes_the_machine_has_lost_is_not_found(client: ApiClient, kept: int | None) -> None:
    upload = tus.begin(client, len(TEXT), context=client.create_context())
    upload.patch(TEXT[:HALF], 0)
    (name,) = [key for key in part_keys(client) if key.startswith(upload.path.rpartition("/")[2])]
    part = client.service.deployment.data_dir / "objects" / "objects" / "_incoming" / name
    if kept is None:
        part.unlink()
    else:
        os.truncate(part, kept)
    assert upload.patch(TEXT[HALF:], HALF).status_code == 404
    assert upload.head().status_code == 404, "a client starts again"
    assert page(client.get("/files"))[0] == []


@pytest.mark.usefixtures("without_s3")
def test_nothing_is_left_of_an_expired_upload(client: ApiClient) -> None:
    upload = tus.begin(client, len(TEXT), context=client.create_context())
    upload.patch(TEXT[:HALF], 0)
    upload_id = upload.path.rpartition("/")[2]
    assert [key for key in part_keys(client) if key.startswith(upload_id)]
    expire(client, upload)
    assert upload.head().status_code == 404
    assert upload.patch(TEXT[HALF:], HALF).status_code == 404
    assert until(lambda: not [key for key in part_keys(client) if key.startswith(upload_id)], PATIENCE)
    assert until(lambda: client.request("GET", upload.path).status_code == 404, PATIENCE)
    (event,) = data(client.get("/events", type="upload.expired"))
    fields = {"upload_id": upload_id, "size_bytes": len(TEXT), "received_bytes": HALF}
    assert {name: event["data"][name] for name in fields} == fields


def test_bytes_that_wait_are_limited_for_each_tenant(client: ApiClient) -> None:
    context, largest = client.create_context(max_file_size_mb=500), 500 * 1_048_576
    uploads = [tus.begin(client, largest, context=context, filename="a.zzz") for _ in range(40)]
    refused = tus.create(client, largest, context=context, filename="a.zzz")
    assert refused.status_code == 429
    assert "location" not in refused.headers
    assert uploads[0].request("DELETE").status_code == 204
    tus.begin(client, largest, context=context, filename="a.zzz")


def test_small_appends_are_refused_beyond_a_thousand_of_them(client: ApiClient) -> None:
    size, small = 2 * 1_048_576, 256 * 1024 - 1
    upload = tus.begin(client, size, context=client.create_context(), filename="a.zzz")
    sent = 0
    while LONG_RUN and sent < 999:
        assert upload.patch(b"x", sent).status_code == 204
        sent += 1
    if not LONG_RUN:
        so_many = "UPDATE resumable_uploads SET small_appends = 999 WHERE upload_id = :upload_id"
        client.execute_sql(so_many, upload_id=upload.path.rpartition("/")[2])
    assert upload.patch(b"x" * small, sent).status_code == 204
    sent += small
    for content in (b"x" * small, iter([b"x"])):  # also one whose size is not known before it has come
        refused = upload.patch(content, sent)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert upload.offset == sent
    assert upload.patch(b"x" * (small + 1), sent).status_code == 204
    sent += small + 1
    assert upload.patch(b"x" * (size - sent - 1), sent).status_code == 204
    assert data(upload.patch(b"x", size - 1))["size_bytes"] == size, "the last one may be small"


@pytest.mark.engine
@pytest.mark.timeout(120)
def test_64_uploads_at_once_store_as_many_files_as_their_token_allows(client: ApiClient) -> None:
    token = issue(client, max_files=3)
    sender = holder(client, token)
    together = threading.Barrier(16)

    def upload(number: int) -> int:
        if number < 16:
            together.wait()
        created = tus.create(sender, len(TEXT), filename="note.txt")
        if created.status_code != 201:
            return created.status_code
        return tus.Tus(sender, created.headers["location"].partition(API)[2]).patch(TEXT, 0).status_code

    with ThreadPoolExecutor(16) as threads:
        statuses = list(threads.map(upload, range(64)))
    assert statuses.count(200) == 3
    assert set(statuses) <= {200, 401, 404, 429}  # 404: another took the place of one that had no byte yet
    assert shown(client, token)["files_stored"] == 3
    assert len(page(client.get("/files"))[0]) == 3


@pytest.mark.engine
def test_a_stored_file_outlives_an_upload_that_its_template_names(client: ApiClient) -> None:
    context = client.create_context()
    upload = tus.begin(client, len(TEXT), context=client.create_context())
    upload_id = upload.path.rpartition("/")[2]
    template = f"_incoming/{upload_id}-{{file_id}}"  # refused now, but a context may have it
    change = "UPDATE contexts SET storage_path_template = :template WHERE context_key = :context_key"
    client.execute_sql(change, template=template, context_key=context)
    file_id = client.store(context=context)
    assert upload.patch(TEXT[:HALF], 0).status_code == 204
    assert upload.request("DELETE").status_code == 204
    assert until(lambda: not [key for key in part_keys(client) if key.startswith(upload_id)], PATIENCE)
    assert httpx.get(data(client.get(f"/files/{file_id}"))["download_url"]).status_code == 200
