"""The frames between server and child: valid frames can be read, invalid ones are refused."""

import os
import socket
import tempfile
from contextlib import ExitStack

import pytest

from sluice_inspect.child import protocol
from tests.rows import each_row


@each_row(
    "count, descriptors", [(1, 1), (protocol.REQUESTS_MAX, 1), (1, 2)], ids=["one", "a batch", "with a shared buffer"]
)
def test_each_request_arrives_with_its_descriptors(count: int, descriptors: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, ExitStack() as opened:
        requests = [protocol.JobRequest(number, "check", f"é {number}.png", 2) for number in range(3, 3 + count)]
        if descriptors == 2:
            requests = [protocol.JobRequest(1, "extract_hidden", "a", 1)]
        files = [opened.enter_context(tempfile.TemporaryFile()) for _ in range(count * descriptors)]
        socket.send_fds(ours, [protocol.pack_requests(requests)], [file.fileno() for file in files])
        received = protocol.receive(theirs) or []
        given = [opened.enter_context(os.fdopen(fd, "rb")) for _request, fds in received for fd in fds]
        assert [request for request, _fds in received] == requests
        assert [len(fds) for _request, fds in received] == [descriptors] * count
        assert [os.fstat(file.fileno()).st_ino for file in given] == [os.fstat(file.fileno()).st_ino for file in files]


def test_long_filenames_fit_into_the_frame_and_keep_their_ends() -> None:
    requests = [protocol.JobRequest(number, "check", "\U0001f600" * 5000, 1) for number in range(protocol.REQUESTS_MAX)]
    assert len(protocol.pack_requests(requests)) < protocol.REQUEST_MAX
    frame = protocol.pack_requests([protocol.JobRequest(1, "check", "é" * 5000 + ".docx", 1)])
    assert len(frame) < protocol.REQUEST_MAX
    assert frame.decode("utf-8", "replace").partition('é.docx"')[1]


def test_request_without_descriptor_is_a_frame_error_and_a_closed_socket_none() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(protocol.pack_requests([protocol.JobRequest(1, "check", "a", 1)]))
        with pytest.raises(protocol.FrameError):
            protocol.receive(theirs)
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        assert protocol.receive(theirs) is None


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
