"""Frames alone: what is written can be read, what an honest child would not write cannot."""

import os
import socket

import pytest

from sluice.engines.sandbox import wire


def test_a_request_arrives_with_its_descriptor() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        request = wire.Request(5, "check", "brief é.pdf", 12)
        fd = os.memfd_create("x")
        socket.send_fds(ours, [wire.pack_requests([request])], [fd])
        received = wire.receive(theirs)
        assert received is not None
        ((read, (given,)),) = received
        assert read == request
        assert os.fstat(given).st_ino == os.fstat(fd).st_ino
        os.close(given)
        os.close(fd)


def test_a_request_may_bring_a_tray_along() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        fds = [os.memfd_create("file"), os.memfd_create("tray")]
        socket.send_fds(ours, [wire.pack_requests([wire.Request(1, "uncover", "a", 1)])], fds)
        received = wire.receive(theirs)
        assert received is not None
        ((_request, given),) = received
        assert [os.fstat(fd).st_ino for fd in given] == [os.fstat(fd).st_ino for fd in fds]
        for fd in fds + given:
            os.close(fd)


def test_several_requests_arrive_each_with_its_own_descriptor() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        requests = [wire.Request(number, "check", f"{number}.png", 2) for number in range(3, 3 + wire.MOST_FILES)]
        fds = [os.memfd_create("file") for _ in requests]
        socket.send_fds(ours, [wire.pack_requests(requests)], fds)
        received = wire.receive(theirs) or []
        assert [request for request, _given in received] == requests
        assert [os.fstat(given).st_ino for _request, (given,) in received] == [os.fstat(fd).st_ino for fd in fds]
        for fd in fds + [fd for _request, given in received for fd in given]:
            os.close(fd)


def test_the_longest_names_fit_into_a_frame() -> None:
    requests = [wire.Request(number, "check", "\U0001f600" * 5000, 1) for number in range(wire.MOST_FILES)]
    assert len(wire.pack_requests(requests)) < wire.REQUEST_MAX


def test_the_end_of_the_server_is_no_request() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        assert wire.receive(theirs) is None


def test_a_request_without_a_descriptor_is_none() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(wire.pack_requests([wire.Request(1, "check", "a", 1)]))
        with pytest.raises(wire.Nonsense):
            wire.receive(theirs)


def test_the_end_of_a_long_name_is_kept() -> None:
    frame = wire.pack_requests([wire.Request(1, "check", "é" * 5000 + ".docx", 1)])
    assert len(frame) < wire.REQUEST_MAX
    assert frame.decode("utf-8", "replace").partition('é.docx"')[1]


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"null", b"[]", b'"text"', b"{", b'{"a":NaN}', b'{"a":-Infinity}', b'{"a":1e999}', b'{"a":"\\udc00"}', b"\xff\xfe{\x00}\x00",
        b'{"a":' + b"[" * 60_000 + b"]" * 60_000 + b"}", b'{"a":' + b"1" * 5000 + b"}",
    ],
)  # fmt: skip
def test_what_is_no_json_object_is_nonsense(raw: bytes) -> None:
    with pytest.raises(wire.Nonsense):
        wire.parse(raw)


def test_escaped_letters_outside_the_basic_plane_are_fine() -> None:
    assert wire.parse(b'{"a":"\\ud83d\\ude00"}') == {"a": "\U0001f600"}
