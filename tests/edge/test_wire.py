"""What the server refuses before the app sees it: an envelope with the security headers, and the connection is closed."""

import socket

import pytest

from tests.gate import Service

UNREADABLE = [
    b"hello\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\nx",
]


@pytest.mark.parametrize("request_bytes", UNREADABLE)
def test_a_request_that_can_be_read_in_two_ways_is_refused_in_the_envelope(sqlite_local: Service, request_bytes: bytes) -> None:
    with socket.create_connection(("127.0.0.1", sqlite_local.port), timeout=10) as connection:
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b'"message":"Malformed request"' in body
    assert {b"x-content-type-options: nosniff", b"content-type: application/json"} <= set(head.lower().split(b"\r\n"))
    assert b"request-id: req_" in head.lower()
