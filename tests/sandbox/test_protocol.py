"""The frames between server and child: valid frames can be read, invalid ones are refused."""

import os
import socket

import pytest

from sluice_inspect.child import protocol
from tests.rows import each_row


def test_request_arrives_with_its_descriptor() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        request = protocol.JobRequest(5, "check", "brief é.pdf", 12)
        fd = os.memfd_create("x")
        socket.send_fds(ours, [protocol.pack_requests([request])], [fd])
        received = protocol.receive(theirs)
        assert received is not None
        ((read, (given,)),) = received
        assert read == request
        assert os.fstat(given).st_ino == os.fstat(fd).st_ino
        os.close(given)
        os.close(fd)


def test_request_can_carry_a_shared_buffer() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        fds = [os.memfd_create("file"), os.memfd_create("buffer")]
        socket.send_fds(ours, [protocol.pack_requests([protocol.JobRequest(1, "extract_hidden", "a", 1)])], fds)
        received = protocol.receive(theirs)
        assert received is not None
        ((_request, given),) = received
        assert [os.fstat(fd).st_ino for fd in given] == [os.fstat(fd).st_ino for fd in fds]
        for fd in fds + given:
            os.close(fd)


def test_each_request_of_a_batch_arrives_with_its_descriptor() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        requests = [
            protocol.JobRequest(number, "check", f"{number}.png", 2) for number in range(3, 3 + protocol.REQUESTS_MAX)
        ]
        fds = [os.memfd_create("file") for _ in requests]
        socket.send_fds(ours, [protocol.pack_requests(requests)], fds)
        received = protocol.receive(theirs) or []
        assert [request for request, _given in received] == requests
        assert [os.fstat(given).st_ino for _request, (given,) in received] == [os.fstat(fd).st_ino for fd in fds]
        for fd in fds + [fd for _request, given in received for fd in given]:
            os.close(fd)


def test_batch_with_longest_filenames_fits_into_frame() -> None:
    requests = [protocol.JobRequest(number, "check", "\U0001f600" * 5000, 1) for number in range(protocol.REQUESTS_MAX)]
    assert len(protocol.pack_requests(requests)) < protocol.REQUEST_MAX


def test_receive_returns_none_when_server_closes_socket() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        assert protocol.receive(theirs) is None


def test_request_without_descriptor_is_a_frame_error() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(protocol.pack_requests([protocol.JobRequest(1, "check", "a", 1)]))
        with pytest.raises(protocol.FrameError):
            protocol.receive(theirs)


def test_long_filename_keeps_its_end() -> None:
    frame = protocol.pack_requests([protocol.JobRequest(1, "check", "é" * 5000 + ".docx", 1)])
    assert len(frame) < protocol.REQUEST_MAX
    assert frame.decode("utf-8", "replace").partition('é.docx"')[1]


@each_row(
    "raw",
    [
        b"", b"null", b"[]", b'"text"', b"{", b'{"a":NaN}', b'{"a":-Infinity}', b'{"a":1e999}', b'{"a":"\\udc00"}',
        b"\xff\xfe{\x00}\x00",
        b'{"a":' + b"[" * 60_000 + b"]" * 60_000 + b"}", b'{"a":' + b"1" * 5000 + b"}",
    ],
)  # fmt: skip
def test_parse_rejects_invalid_json_object(raw: bytes) -> None:
    with pytest.raises(protocol.FrameError):
        protocol.parse(raw)


def test_parse_accepts_escaped_surrogate_pair() -> None:
    assert protocol.parse(b'{"a":"\\ud83d\\ude00"}') == {"a": "\U0001f600"}
