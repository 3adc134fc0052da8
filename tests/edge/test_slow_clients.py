"""Clients that are slow on purpose: heads and bodies that do not come to an end, answers that nobody takes, connections without number."""

import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.api import forms, raw
from tests.api.places import Places
from tests.api.samples import noise
from tests.edge.plugs import first_status, head_of, plugged, statuses, until_closed
from tests.gate import Gate, Service, running_service

CONNECTIONS = 24
SLOW = 500
ROUNDS = 10
PROMPT = 5.0
"""Longest that an upload beside the slow ones may take, on a machine that is busy with other tests."""
IMPATIENT = {"HEAD_SECONDS": "1", "BODY_IDLE_SECONDS": "1", "BODY_BYTES_PER_SECOND": "2000", "CONNECTIONS": str(CONNECTIONS)}
HEAD = b"POST /api/v1/files/upload HTTP/1.1\r\nHost: x\r\n"
LIVE = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def impatient(places: Places) -> Iterator[Service]:
    with running_service(places.fresh("sqlite-local"), **IMPATIENT) as service:
        yield service


@pytest.fixture(scope="module")
def tenant(impatient: Service) -> Gate:
    return impatient.new_gate()


def drip(plug: socket.socket, piece: bytes, every: float, seconds: float) -> bytes:
    """Send a little now and then until an answer comes, and answer it."""
    plug.settimeout(every)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        try:
            plug.sendall(piece)
            received = plug.recv(65536)
        except TimeoutError:
            continue
        except ConnectionError:
            return b""
        plug.settimeout(20)
        return received + until_closed(plug)
    pytest.fail("the service held the connection all the time")


def test_a_connection_that_says_nothing_is_closed(impatient: Service) -> None:
    with plugged(impatient) as plug:
        assert until_closed(plug) == b""


@pytest.mark.parametrize("piece", [b"X", b"X: y\r\n"], ids=["by letters", "by fields"])
def test_a_head_that_trickles_is_given_up(impatient: Service, piece: bytes) -> None:
    with plugged(impatient) as plug:
        plug.sendall(HEAD)
        assert statuses(drip(plug, piece, 0.2, 10)) == [408]


def test_empty_lines_do_not_keep_a_connection(impatient: Service) -> None:
    with plugged(impatient) as plug:
        plug.sendall(LIVE)
        assert first_status(plug) == 200
        assert drip(plug, b"\r\n", 0.2, 10) == b""


def test_a_second_head_has_no_more_time_than_the_first(impatient: Service) -> None:
    with plugged(impatient) as plug:
        plug.sendall(LIVE)
        assert first_status(plug) == 200
        plug.sendall(HEAD)
        assert statuses(drip(plug, b"X", 0.2, 10)) == [408]


def upload_head(tenant: Gate, length: int) -> bytes:
    return (
        HEAD
        + f"Authorization: {tenant.authorization}\r\nContent-Type: {forms.content_type()}\r\nContent-Length: {length}\r\n\r\n".encode()
        + forms.head(forms.file("a.txt", b""))
    )


@pytest.mark.asvs("15.2.2")
def test_a_silent_body_is_given_up(impatient: Service, tenant: Gate) -> None:
    with plugged(impatient) as plug:
        plug.sendall(upload_head(tenant, 10_000))
        received = until_closed(plug)
    assert statuses(received) == [408]
    assert b"x-content-type-options: nosniff" in head_of(received)


def test_a_body_that_trickles_is_given_up(impatient: Service, tenant: Gate) -> None:
    with plugged(impatient) as plug:
        plug.sendall(upload_head(tenant, 100_000))
        assert statuses(drip(plug, b"x" * 10, 0.2, 20)) == [408]


def test_a_json_body_that_stops_is_given_up(impatient: Service, tenant: Gate) -> None:
    lines = f"Host: x\r\nAuthorization: {tenant.authorization}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    with plugged(impatient) as plug:
        plug.sendall(b"POST /api/v1/contexts HTTP/1.1\r\n" + lines.encode() + b"{")
        assert statuses(until_closed(plug)) == [408]


def test_a_body_that_comes_at_the_least_speed_is_an_upload(impatient: Service, tenant: Gate) -> None:
    body = forms.encode([forms.field("context", tenant.context()), forms.file("a.zzz", noise(9_000))])
    head = upload_head(tenant, len(body)).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    with plugged(impatient) as plug:
        plug.sendall(head)
        plug.settimeout(0.25)
        for start in range(0, len(body), 1000):
            plug.sendall(body[start : start + 1000])
            if start + 1000 < len(body):
                with pytest.raises(TimeoutError):
                    plug.recv(1)
        plug.settimeout(20)
        assert first_status(plug) == 201


def test_the_body_of_a_refused_request_is_not_taken_for_ever(impatient: Service) -> None:
    with plugged(impatient) as plug:
        plug.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n")
        assert first_status(plug) == 401
        assert drip(plug, b"x" * 1000, 0.1, 10) == b""


@pytest.mark.asvs("2.4.1", "15.2.2")
def test_connections_beyond_the_servers_room_are_told_so(impatient: Service) -> None:
    with ExitStack() as stack:
        plugs = [stack.enter_context(plugged(impatient)) for _ in range(CONNECTIONS + 6)]
        for plug in plugs:
            plug.sendall(HEAD)
        received = [until_closed(plug) for plug in plugs]
    answered = [statuses(answer) for answer in received]
    assert {status for every in answered for status in every} == {408, 503}
    assert answered.count([503]) >= 6
    refused = received[answered.index([503])]
    assert b"retry-after: 5" in head_of(refused)
    assert b'"status":"ERROR"' in refused


def test_others_are_served_while_heads_trickle(impatient: Service) -> None:
    with ExitStack() as stack:
        for plug in [stack.enter_context(plugged(impatient)) for _ in range(CONNECTIONS // 2)]:
            plug.sendall(HEAD)
        began = time.monotonic()
        assert impatient.http.get("/health/live").status_code == 200
        assert time.monotonic() - began < 1


def test_an_answer_that_nobody_takes_is_given_up(impatient: Service, tenant: Gate) -> None:
    """16 MB do not fit into the kernel's buffers; the connection is cut once nothing of the rest went out for long enough."""
    file_id = tenant.store("a.zzz", noise(16_000_000), context=tenant.context(max_file_size_mb=50))
    url = tenant.get(f"/files/{file_id}").json()["data"]["download_url"]
    with plugged(impatient) as plug:
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plug.sendall(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % url.partition(str(impatient.port))[2].encode())
        hung_up = select.poll()
        hung_up.register(plug, 0)  # nothing but the end of the connection
        assert hung_up.poll(30_000)
    assert "reader_stalled" in impatient.log.read_text()


def test_five_hundred_slow_uploads_are_stored_and_hold_nobody_up(places: Places) -> None:
    """Half of each body is there and the rest comes in drops, on one server; another tenant meanwhile uploads as if nothing was."""
    settings = {
        "UPLOADS_PER_TENANT": str(SLOW),
        "BODY_BYTES_PER_SECOND": "1",
        "BODY_IDLE_SECONDS": "120",
        "SANDBOX_WAIT_SECONDS": "120",
    }
    with running_service(places.fresh("sqlite-local"), **settings) as service, ExitStack() as stack:
        slow, quick = service.new_gate(), service.new_gate()
        context, other = slow.context(scan_for_viruses=False), quick.context()
        body = forms.encode([forms.file("a.zzz", noise(4_000)), forms.field("context", context)])
        lines = (f"Content-Type: {forms.content_type()}", f"Content-Length: {len(body)}")
        half = len(body) // 2
        plugs = [stack.enter_context(plugged(service)) for _ in range(SLOW)]
        for plug in plugs:
            plug.settimeout(120)
            plug.sendall(raw.request_head(slow, *lines) + body[:half])
        longest = 0.0
        for drop in range(half, half + ROUNDS):
            for plug in plugs:
                plug.sendall(body[drop : drop + 1])
            began = time.monotonic()
            quick.store(context=other)
            longest = max(longest, time.monotonic() - began)
        assert longest < PROMPT
        for plug in plugs:
            plug.sendall(body[half + ROUNDS :])
        assert {first_status(plug) for plug in plugs} == {201}
        assert slow.used(context) == SLOW * 4_000
