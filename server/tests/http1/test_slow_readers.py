"""Clients that ask for large responses and read them slowly or not at all: what they cost is bounded."""

import select
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.deployments import Deployments
from tests.http1.sockets import narrow_connection, read_until_closed, statuses
from tests.observe.metrics_page import read_metrics, until
from tests.service import ApiClient, Service, running_service

MB = 1_048_576
READERS = 400
BUNDLE = "/docs/swagger-ui-bundle.js"
STYLES = "/docs/swagger-ui.css"
PER_CONNECTION = 64 * 1024
KERNEL_PER_CONNECTION = 320 * 1024
"""What the kernel may keep of a response: 64 KiB unsent, and what is on its way to the smallest window."""


def get(path: str, *lines: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *lines, "", ""]).encode()


def private_bytes(service: Service) -> int:
    lines = Path(f"/proc/{service.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def kernel_unsent_bytes(port: int) -> list[int]:
    """Return the send queue of each connection that the server has accepted."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [int(row[4].partition(":")[0], 16) for row in rows if int(row[1].partition(":")[2], 16) == port]


@pytest.fixture(scope="module")
def quick_service(deployments: Deployments) -> Iterator[Service]:
    """A server that requires 20 kB/s of its readers, after four seconds."""
    settings = {"BODY_IDLE_SECONDS": "1", "BODY_BYTES_PER_SECOND": "20000"}
    with running_service(deployments.fresh("sqlite-local"), **settings) as service:
        yield service


@pytest.mark.asvs("15.2.2")
def test_many_readers_of_the_docs_that_never_read_hold_little_memory(deployments: Deployments) -> None:
    with running_service(deployments.fresh("sqlite-local")) as service, ExitStack() as stack:
        whole = httpx.get(service.url + BUNDLE).content
        before = private_bytes(service)
        for number in range(READERS):
            sock = stack.enter_context(narrow_connection(service, f"127.0.1.{1 + number % 200}"))
            sock.sendall(get(BUNDLE))
        read_page = partial(read_metrics, service.url)
        page = until(read_page, lambda page: page("sluice_connections", state="busy") >= READERS)
        assert page("sluice_unsent_bytes") <= READERS * PER_CONNECTION
        assert private_bytes(service) - before < READERS * PER_CONNECTION + 10 * MB
        assert max(kernel_unsent_bytes(service.port)) <= KERNEL_PER_CONNECTION
        assert httpx.get(service.url + BUNDLE).content == whole


@pytest.mark.parametrize(
    "requests",
    [get(BUNDLE), get(STYLES) + get("/docs/start.js", "Connection: close")],
    ids=["the docs", "the last bytes before its end, after which nothing more is sent"],
)
def test_connection_is_cut_off_when_its_responses_are_never_read(quick_service: Service, requests: bytes) -> None:
    with narrow_connection(quick_service) as sock:
        sock.sendall(requests)
        hung_up = select.poll()
        hung_up.register(sock, 0)
        assert hung_up.poll(20_000)
    assert read_metrics(quick_service.url)("sluice_connections_cut_off_total", why="slow_reader") >= 1


def test_reader_below_the_minimum_rate_is_cut_off(quick_service: Service) -> None:
    """It is never silent for long, and would take 25 minutes."""
    with narrow_connection(quick_service) as sock:
        sock.sendall(get(BUNDLE))
        ends = time.monotonic() + 30
        with pytest.raises(ConnectionResetError):  # noqa: PT012  (the reset may come with any read)
            while time.monotonic() < ends:
                assert sock.recv(100)
                select.select([], [], [], 0.1)


def test_reader_above_the_minimum_rate_gets_the_whole_response(quick_service: Service) -> None:
    with narrow_connection(quick_service) as sock:
        sock.sendall(get(STYLES, "Connection: close"))
        received = b""
        while chunk := sock.recv(5000):
            received += chunk
            select.select([], [], [], 0.1)  # 50 kB/s, for a little less than what must be read at once
    assert received.partition(b"\r\n\r\n")[2] == httpx.get(quick_service.url + STYLES).content


def test_unread_responses_in_memory_are_bounded_in_total(deployments: Deployments) -> None:
    """A page of files is made as a whole: those who stopped reading first are cut off."""
    with running_service(deployments.fresh("sqlite-local")) as service, ExitStack() as stack:
        client = service.new_client()
        page = large_page(client)
        first_ended = select.poll()
        for number in range(200):
            sock = stack.enter_context(narrow_connection(service, f"127.0.1.{1 + number}"))
            sock.sendall(get(page, f"Authorization: {client.authorization}"))
            assert sock.recv(12) == b"HTTP/1.1 200"  # a tenant may wait for a few responses at a time only
            if number == 0:
                first_ended.register(sock, 0)
            elif first_ended.poll(0):
                break
        read_page = partial(read_metrics, service.url)
        seen = until(read_page, lambda page: page("sluice_connections_cut_off_total", why="unsent_bytes") > 0)
        assert seen("sluice_unsent_bytes") <= 64 * MB


def large_page(client: ApiClient) -> str:
    """Upload a hundred files with as much metadata as they may have, and return the path of their list."""
    context, note = client.create_context(scan_for_viruses=False), {"note": "x" * 4000}
    for number in range(100):
        client.store(f"{number}.txt", context=context, metadata=note)
    return "/api/v1/files?page_size=100"


def test_docs_can_be_switched_off(deployments: Deployments) -> None:
    with running_service(deployments.fresh("sqlite-local"), DOCS="off") as service:
        for path in (BUNDLE, "/docs", "/docs/start.js", "/openapi.json"):
            assert service.http.get(path).status_code == 404, path
        assert "/docs" not in service.log.read_text()


def test_pipelined_large_responses_are_complete_and_in_order(quick_service: Service) -> None:
    paths = [STYLES, "/openapi.json", "/docs/start.js"]
    with narrow_connection(quick_service) as sock:
        sock.sendall(b"".join(get(path) for path in paths) + get(STYLES, "Connection: close"))
        received = read_until_closed(sock)
    assert statuses(received) == [200, 200, 200, 200]
    contents = [httpx.get(quick_service.url + path).content for path in [*paths, STYLES]]
    assert all(content in received for content in contents)
    assert received.endswith(contents[-1])
