"""What the server refuses before the app sees it: an error in the envelope, and the connection is closed."""

import contextlib
import json

import pytest

from sluice.api.guards import SECURITY_HEADERS
from tests.http1.sockets import connected, exchange, header_lines, read_status, read_until_closed, statuses
from tests.rows import each_row
from tests.service import Service

LONG = b"x" * 9000
HOST = b"Host: x\r\n"
CHUNKED = HOST + b"Transfer-Encoding: chunked\r\n\r\n"


AMBIGUOUS_REQUESTS = {
    "no HTTP": b"hello\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "host with a space": b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    "host with a user": b"GET / HTTP/1.1\r\nHost: user@x\r\n\r\n",
    "host with a path": b"GET / HTTP/1.1\r\nHost: x/y\r\n\r\n",
    "hosts in a list": b"GET / HTTP/1.1\r\nHost: x, y\r\n\r\n",
    "host with an invalid port": b"GET / HTTP/1.1\r\nHost: x:y\r\n\r\n",
    "host in latin-1": b"GET / HTTP/1.1\r\nHost: \xe9\r\n\r\n",
    "user in the target": b"GET http://user@x/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "target without a host": b"GET http:///health/live HTTP/1.1\r\nHost: x\r\n\r\n",
    "fragment in the target": b"GET /health/live#x HTTP/1.1\r\nHost: x\r\n\r\n",
    "two ranges": b"GET / HTTP/1.1\r\nHost: x\r\nRange: bytes=0-1\r\nRange: bytes=2-3\r\n\r\n",
    "two conditions of a range": b'GET / HTTP/1.1\r\nHost: x\r\nIf-Range: "a"\r\nIf-Range: "b"\r\n\r\n',
    "space before the colon": b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    "folded field": b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n",
    "control character in a field": b"GET / HTTP/1.1\r\nHost: x\r\nX: a\x07b\r\n\r\n",
    "bare line feed in a field": b"GET / HTTP/1.1\r\nHost: x\r\nX: a\nY: b\r\n\r\n",
    "NUL in the target": b"GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n",
    "asterisk": b"GET * HTTP/1.1\r\nHost: x\r\n\r\n",
    "relative target": b"GET health/live HTTP/1.1\r\nHost: x\r\n\r\n",
    "target of another scheme": b"GET ftp://x/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "HTTP/2.0 in the request line": b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "two lengths": b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
    "list of lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\nx",
    "signed length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\nx",
    "hexadecimal length": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x1\r\n\r\nx",
    "length that overflows": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\nx",
    "length and coding": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two codings": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "another coding": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "coding of HTTP/1.0": b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "look-alike of a length": b"POST / HTTP/1.1\r\nHost: x\r\nContent_Length: 5\r\nContent-Length: 1\r\n\r\nx",
    "look-alike of a coding": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer_Encoding: chunked\r\nContent-Length: 1\r\n\r\nx",
    "two types": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: a/b\r\nContent-Type: c/d\r\nContent-Length: 1\r\n\r\nx",
    "chunk size with a sign": b"POST / HTTP/1.1\r\n" + CHUNKED + b"+5\r\nhello\r\n0\r\n\r\n",
    "chunk size with a prefix": b"POST / HTTP/1.1\r\n" + CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n",
    "chunk size with an underscore": b"POST / HTTP/1.1\r\n" + CHUNKED + b"0_5\r\nhello\r\n0\r\n\r\n",
    "chunk size that overflows": b"POST / HTTP/1.1\r\n" + CHUNKED + b"f0000000000000005\r\nhello\r\n0\r\n\r\n",
    "chunk longer than its size": b"POST / HTTP/1.1\r\n" + CHUNKED + b"3\r\nhello\r\n0\r\n\r\n",
    "chunk ended by a bare line feed": b"POST / HTTP/1.1\r\n" + CHUNKED + b"5\nhello\n0\n\n",
    "trailer": b"POST / HTTP/1.1\r\n" + CHUNKED + b"5\r\nhello\r\n0\r\nAuthorization: Bearer x\r\n\r\n",
}


@each_row("name", AMBIGUOUS_REQUESTS)
@pytest.mark.asvs("4.2.1")
def test_ambiguous_request_returns_400_in_the_envelope(sqlite_local: Service, name: str) -> None:
    received = exchange(sqlite_local, AMBIGUOUS_REQUESTS[name])
    assert statuses(received) == [400], received
    head, _, body = received.partition(b"\r\n\r\n")
    assert json.loads(body)["message"] == "Malformed request"
    security_headers = {f"{header}: {value}".lower().encode() for header, value in SECURITY_HEADERS.items()}
    assert security_headers | {b"content-type: application/json", b"connection: close"} <= header_lines(received)
    assert b"request-id: req_" in head.lower()
    assert b"server:" not in head.lower()


@each_row("host", ["", "a", "my_service:8000", "[::1]:8000", "127.0.0.1", "xn--bcher-kva.example.:80", "a:"])
def test_every_valid_host_is_accepted(sqlite_local: Service, host: str) -> None:
    request = f"GET /health/live HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    assert statuses(exchange(sqlite_local, request.encode())) == [200]


TOO_LARGE = {
    "target": b"GET /" + b"x" * 8000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "field": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + LONG + b"\r\n\r\n",
    "fields": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    "head": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X%d: %b\r\n" % (n, b"y" * 7000) for n in range(6)) + b"\r\n",
    "64 KB in one field": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 65_536 + b"\r\n\r\n",
    "credential": b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"x" * 65_536 + b"\r\n\r\n",
    "field without an end": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 300_000,
}


@each_row("name", TOO_LARGE)
def test_oversized_head_returns_431(sqlite_local: Service, name: str) -> None:
    received = exchange(sqlite_local, TOO_LARGE[name], half_close=False)
    assert statuses(received) == [431], received[:300]
    assert b"x-content-type-options: nosniff" in header_lines(received)


def test_head_just_below_the_limits_is_accepted(sqlite_local: Service) -> None:
    fields = b"".join(b"X%d: y\r\n" % n for n in range(97)) + b"X: " + b"z" * 7990 + b"\r\n"
    request = b"GET /health/live HTTP/1.1\r\nHost: x\r\n" + fields + b"Connection: close\r\n\r\n"
    assert statuses(exchange(sqlite_local, request, half_close=False)) == [200]


@pytest.mark.asvs("4.2.1")
def test_refused_request_replaces_no_previous_response_and_bytes_after_it_are_never_parsed(
    sqlite_local: Service,
) -> None:
    smuggled = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    assert statuses(exchange(sqlite_local, AMBIGUOUS_REQUESTS["length and coding"] + smuggled)) == [400]
    good = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
    received = exchange(sqlite_local, good + b"hello\r\n\r\n", half_close=False)
    assert statuses(received) == [200]
    assert received.endswith(b"}")


def test_pipelined_requests_are_answered_in_order_and_their_number_is_bounded(sqlite_local: Service) -> None:
    paths = [b"/health/live", b"/nowhere", b"/health/live"]
    requests = b"".join(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path for path in paths)
    with connected(sqlite_local) as sock:
        sock.sendall(requests + b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert statuses(read_until_closed(sock)) == [200, 404, 200, 404]
    received = exchange(sqlite_local, b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n" * 1000, half_close=False)
    assert set(statuses(received)) == {200}
    assert len(statuses(received)) < 100


def test_protocol_upgrade_is_ignored(sqlite_local: Service) -> None:
    request = b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    request += b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"
    assert statuses(exchange(sqlite_local, request, half_close=False)) == [200]


@each_row(
    "line, status",
    [
        (b"GET /nowhere", 404),
        (b"DELETE /health/live", 405),
        (b"TRACE /api/v1/files", 405),
        (b"GET /api/v1/files", 401),
        (b"OPTIONS *", 404),
    ],
)
@pytest.mark.asvs("4.1.1", "14.3.2", "13.4.4", "4.1.4")
def test_every_error_is_an_envelope_with_the_security_headers(sqlite_local: Service, line: bytes, status: int) -> None:
    received = exchange(sqlite_local, line + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", half_close=False)
    assert statuses(received) == [status], received
    assert set(json.loads(received.partition(b"\r\n\r\n")[2])) == {"status", "message", "errors", "timestamp"}
    security_headers = {f"{header}: {value}".lower().encode() for header, value in SECURITY_HEADERS.items()}
    assert security_headers <= header_lines(received)


def post_context(service: Service) -> bytes:
    """Return the head of a request with a chunked JSON body."""
    credential = f"Authorization: {service.new_client().authorization}\r\n"
    return b"POST /api/v1/contexts HTTP/1.1\r\nContent-Type: application/json\r\n" + credential.encode() + CHUNKED


@pytest.mark.asvs("15.2.2")
@each_row("start, filler", [(b"5;", b"a"), (b"1;a=b\r\n{\r\n1;", b"a"), (b"0", b"0")])
def test_endless_line_of_a_chunk_is_refused(sqlite_local: Service, start: bytes, filler: bytes) -> None:
    with connected(sqlite_local) as sock:
        sock.sendall(post_context(sqlite_local) + start)
        with contextlib.suppress(ConnectionError):
            for _ in range(256):
                sock.sendall(filler * 65_536)
        assert statuses(read_until_closed(sock)) in ([400], [])  # none where the reset overtakes the response


@pytest.mark.asvs("15.2.2")
def test_body_in_chunks_of_a_byte_is_refused_after_some_thousands(sqlite_local: Service) -> None:
    with connected(sqlite_local) as sock:
        with contextlib.suppress(ConnectionError):
            sock.sendall(post_context(sqlite_local) + b"1\r\n \r\n" * 5000)
        received = read_until_closed(sock)
    assert statuses(received) == [400], received
    assert b"expected chunks of 16 bytes and more on average" in received


def test_short_extensions_of_many_small_chunks_are_accepted(sqlite_local: Service) -> None:
    body = json.dumps({"context_key": "small_chunks", "display_name": "x", "description": "x" * 900})
    with connected(sqlite_local) as sock:
        sock.sendall(post_context(sqlite_local))
        for byte in body.encode():
            sock.sendall(b"00000001;a=b\r\n%c\r\n" % byte)
        sock.sendall(b"0\r\n\r\n")
        assert read_status(sock) == 201
