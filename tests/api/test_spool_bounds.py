"""How much uploads may spool together: of one tenant and in all. A file may come before its context at any size."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from tests.api import forms, raw_http
from tests.api.forms import field, file
from tests.api.responses import data
from tests.api.samples import noise
from tests.deployments import Deployments
from tests.observe.metrics_page import read_metrics, until
from tests.rows import each_row
from tests.service import ApiClient, Service, running_service

MB = 1_048_576
ROOMLESS = 4 * MB
TENANT_SHARE = 512 * MB
ANNOUNCED = 400 * MB
SENT = 8 * MB
FORM = f"Content-Type: {forms.content_type()}"


@pytest.fixture(scope="module")
def small_spool_service(deployments: Deployments) -> Iterator[Service]:
    """A server whose tenants have room for one file of 400 MB at a time, and which has room for five."""
    with running_service(deployments.fresh("sqlite-local"), SPOOL_MB="2048", UPLOAD_WAIT_SECONDS="3") as service:
        yield service


def begin_large_file(client: ApiClient, stack: ExitStack, length: int = ANNOUNCED) -> socket.socket:
    sock = stack.enter_context(raw_http.connection(client))
    sock.sendall(raw_http.request_head(client, FORM, f"Content-Length: {length}"))
    return sock


def send_first_bytes(sock: socket.socket) -> None:
    """Send what the server takes of the first eight megabytes, or all of them."""
    sock.settimeout(0.5)
    with suppress(TimeoutError):
        sock.sendall(forms.head(file("large.zzz", b"")) + noise(SENT))
    sock.settimeout(20)


def spooled_bytes(service: Service) -> float:
    page = read_metrics(service.url)
    return page("sluice_spool_bytes", where="memory") + page("sluice_spool_bytes", where="disk")


@pytest.mark.asvs("5.2.1", "15.2.2")
def test_files_before_their_context_are_bounded_for_each_tenant(small_spool_service: Service) -> None:
    client = small_spool_service.new_client()
    with ExitStack() as stack:
        socks = [begin_large_file(client, stack) for _ in range(6)]
        for sock in socks:
            send_first_bytes(sock)
        assert spooled_bytes(small_spool_service) <= SENT + 5 * ROOMLESS
        refused = [raw_http.read_response(sock) for sock in socks[1:]]
    problem = "Too many bytes of uploads are under way; nothing was stored, try again later"
    assert {(response.status, response.json_body["errors"][0]) for response in refused} == {(503, problem)}
    assert {response.headers["retry-after"] for response in refused} == {"5"}
    until(lambda: spooled_bytes(small_spool_service), lambda spooled: spooled == 0)


@pytest.mark.asvs("15.2.2")
def test_files_of_all_tenants_are_bounded_together(small_spool_service: Service) -> None:
    tenants = [small_spool_service.new_client() for _ in range(6)]
    with ExitStack() as stack:
        socks = [begin_large_file(client, stack) for client in tenants]
        for sock in socks:
            send_first_bytes(sock)
        assert raw_http.read_response(socks[5]).status == 503
        assert spooled_bytes(small_spool_service) <= 5 * SENT + ROOMLESS


def test_others_upload_large_and_a_tenant_small_files_when_it_has_taken_its_share(small_spool_service: Service) -> None:
    greedy, other = small_spool_service.new_client(), small_spool_service.new_client()
    large = other.create_context(max_file_size_mb=20, scan_for_viruses=False)
    small = greedy.create_context(scan_for_viruses=False)
    with ExitStack() as stack:
        for sock in [begin_large_file(greedy, stack) for _ in range(2)]:
            send_first_bytes(sock)
        greedy.store("small.zzz", noise(3 * MB), context=small)
        send_first_bytes(begin_large_file(greedy, stack))
        other.store("large.zzz", noise(10 * MB), context=large)


def test_upload_that_waits_for_room_is_stored_once_there_is_some(small_spool_service: Service) -> None:
    client = small_spool_service.new_client()
    context = client.create_context(max_file_size_mb=20, scan_for_viruses=False)
    with ThreadPoolExecutor(1) as thread, ExitStack() as stack:
        first = begin_large_file(client, stack, TENANT_SHARE - 12 * MB)
        send_first_bytes(first)
        second = thread.submit(client.upload, "second.zzz", noise(15 * MB), context=context)
        until(lambda: read_metrics(client.service.url)("sluice_uploads_waiting_for_spool"), lambda count: count == 1)
        assert not second.done()
        first.close()
        assert data(second.result(), 201)["size_bytes"] == 15 * MB


@each_row("size", [5 * MB, 40 * MB])
def test_large_file_may_come_before_its_context(small_spool_service: Service, size: int) -> None:
    client = small_spool_service.new_client()
    context = client.create_context(max_file_size_mb=50, scan_for_viruses=False)
    parts = [file("large.zzz", noise(size)), field("context", context)]
    assert data(client.upload_parts(parts), 201)["size_bytes"] == size
