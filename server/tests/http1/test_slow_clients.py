"""Slow clients: request heads and bodies that never end, responses that are not read, too many connections."""

import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.api import forms, raw_http
from tests.api.samples import noise
from tests.deployments import Deployments
from tests.http1.sockets import connected, header_lines, read_status, read_until_closed, statuses
from tests.run_length import amount
from tests.service import ApiClient, Service, running_service

CONNECTIONS = 24
SLOW = amount("SLOW_UPLOADS", short=150, full=500)
ROUNDS = 10
MAX_UPLOAD_SECONDS = 5.0
"""Maximum time of an upload beside the slow ones, on a machine that is busy with other tests."""
SHORT_TIMEOUTS = {"HEAD_SECONDS": "1", "BODY_IDLE_SECONDS": "1", "BODY_BYTES_PER_SECOND": "2000"}
HEAD = b"POST /api/v1/files/upload HTTP/1.1\r\nHost: x\r\n"
LIVE = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def short_timeout_service(deployments: Deployments) -> Iterator[Service]:
    with running_service(deployments.fresh("sqlite-local"), **SHORT_TIMEOUTS, CONNECTIONS=str(CONNECTIONS)) as service:
        yield service


@pytest.fixture(scope="module")
def client(short_timeout_service: Service) -> ApiClient:
    return short_timeout_service.new_client()


def send_slowly(sock: socket.socket, piece: bytes, interval: float, seconds: float) -> bytes:
    """Send a piece at each interval until a response comes, and return the response."""
    sock.settimeout(interval)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        try:
            sock.sendall(piece)
            received = sock.recv(65536)
        except TimeoutError:
            continue
        except ConnectionError:
            return b""
        sock.settimeout(20)
        return received + read_until_closed(sock)
    pytest.fail("the service held the connection all the time")


def test_silent_connection_or_one_with_empty_lines_is_closed(short_timeout_service: Service) -> None:
    with connected(short_timeout_service) as sock:
        assert read_until_closed(sock) == b""
    with connected(short_timeout_service) as sock:
        sock.sendall(LIVE)
        assert read_status(sock) == 200
        assert send_slowly(sock, b"\r\n", 0.2, 10) == b""


@pytest.mark.parametrize("piece", [b"X", b"X: y\r\n"], ids=["by letters", "by fields"])
@pytest.mark.parametrize("is_second", [False, True])
def test_slow_request_head_returns_408(short_timeout_service: Service, piece: bytes, *, is_second: bool) -> None:
    with connected(short_timeout_service) as sock:
        if is_second:
            sock.sendall(LIVE)
            assert read_status(sock) == 200
        sock.sendall(HEAD)
        assert statuses(send_slowly(sock, piece, 0.2, 10)) == [408]


def upload_head(client: ApiClient, length: int) -> bytes:
    lines = f"Authorization: {client.authorization}\r\nContent-Type: {forms.content_type()}\r\nContent-Length: {length}"
    return HEAD + f"{lines}\r\n\r\n".encode() + forms.head(forms.file("a.txt", b""))


@pytest.mark.asvs("15.2.2")
def test_stalled_or_slow_body_returns_408(short_timeout_service: Service, client: ApiClient) -> None:
    with connected(short_timeout_service) as sock:
        sock.sendall(upload_head(client, 10_000))
        received = read_until_closed(sock)
    assert statuses(received) == [408]
    assert b"x-content-type-options: nosniff" in header_lines(received)
    with connected(short_timeout_service) as sock:
        sock.sendall(upload_head(client, 100_000))
        assert statuses(send_slowly(sock, b"x" * 10, 0.2, 20)) == [408]
    lines = f"Host: x\r\nAuthorization: {client.authorization}\r\nContent-Type: application/json\r\n"
    with connected(short_timeout_service) as sock:
        sock.sendall(f"POST /api/v1/contexts HTTP/1.1\r\n{lines}Content-Length: 100\r\n\r\n{{".encode())
        assert statuses(read_until_closed(sock)) == [408]


def test_body_at_the_minimum_rate_is_accepted(short_timeout_service: Service, client: ApiClient) -> None:
    body = forms.encode([forms.field("context", client.create_context()), forms.file("a.zzz", noise(9_000))])
    head = upload_head(client, len(body)).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    with connected(short_timeout_service) as sock:
        sock.sendall(head)
        sock.settimeout(0.25)
        for start in range(0, len(body), 1000):
            sock.sendall(body[start : start + 1000])
            if start + 1000 < len(body):
                with pytest.raises(TimeoutError):
                    sock.recv(1)
        sock.settimeout(20)
        assert read_status(sock) == 201


def test_body_of_a_refused_request_is_read_only_for_a_bounded_time(short_timeout_service: Service) -> None:
    with connected(short_timeout_service) as sock:
        sock.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n")
        assert read_status(sock) == 401
        assert send_slowly(sock, b"x" * 1000, 0.1, 10) == b""


@pytest.mark.asvs("2.4.1", "15.2.2")
def test_connections_above_the_limit_return_503(short_timeout_service: Service) -> None:
    with ExitStack() as stack:
        socks = [stack.enter_context(connected(short_timeout_service)) for _ in range(CONNECTIONS + 6)]
        for sock in socks:
            sock.sendall(HEAD)
        received = [read_until_closed(sock) for sock in socks]
    answered = [statuses(response) for response in received]
    assert {status for interval in answered for status in interval} == {408, 503}
    assert answered.count([503]) >= 6
    refused = received[answered.index([503])]
    assert b"retry-after: 5" in header_lines(refused)
    assert b'"status":"ERROR"' in refused


def test_connection_is_closed_when_the_client_stops_reading(short_timeout_service: Service, client: ApiClient) -> None:
    """16 MB do not fit into the kernel's buffers; the connection is cut when nothing was sent for long enough."""
    file_id = client.store("a.zzz", noise(16_000_000), context=client.create_context(max_file_size_mb=50))
    url = client.get(f"/files/{file_id}").json()["data"]["download_url"]
    with connected(short_timeout_service) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % url.partition(str(short_timeout_service.port))[2].encode())
        hung_up = select.poll()
        hung_up.register(sock, 0)  # wait only for the end of the connection
        assert hung_up.poll(30_000)
    assert "reader_stalled" in short_timeout_service.log.read_text()


def test_hundreds_of_slow_uploads_succeed_without_delaying_others(deployments: Deployments) -> None:
    """Half of each body is sent and the rest arrives slowly, on one server; another tenant uploads at the same time.

    So it is for a request whose head arrives slowly.
    """
    waits = {"BODY_BYTES_PER_SECOND": "1", "BODY_IDLE_SECONDS": "120", "SANDBOX_WAIT_SECONDS": "120"}
    deployment = deployments.fresh("sqlite-local")
    with running_service(deployment, UPLOADS_PER_TENANT=str(SLOW), **waits) as service, ExitStack() as stack:
        slow, quick = service.new_client(), service.new_client()
        context, other = slow.create_context(scan_for_viruses=False), quick.create_context()
        with ExitStack() as slow_heads:
            heads = [slow_heads.enter_context(connected(service)) for _ in range(CONNECTIONS // 2)]
            for sock in heads:
                sock.sendall(HEAD)
            assert service.http.get("/health/live").status_code == 200
            assert select.select(heads, [], [], 0)[0] == [], "the service waits for the rest of these heads"
        body = forms.encode([forms.file("a.zzz", noise(4_000)), forms.field("context", context)])
        lines = (f"Content-Type: {forms.content_type()}", f"Content-Length: {len(body)}")
        half = len(body) // 2
        socks = [stack.enter_context(connected(service)) for _ in range(SLOW)]
        for sock in socks:
            sock.settimeout(120)
            sock.sendall(raw_http.request_head(slow, *lines) + body[:half])
        longest = 0.0
        for drop in range(half, half + ROUNDS):
            for sock in socks:
                sock.sendall(body[drop : drop + 1])
            began = time.monotonic()
            quick.store(context=other)
            longest = max(longest, time.monotonic() - began)
        assert longest < MAX_UPLOAD_SECONDS
        for sock in socks:
            sock.sendall(body[half + ROUNDS :])
        assert {read_status(sock) for sock in socks} == {201}
        assert slow.used_bytes(context) == SLOW * 4_000
