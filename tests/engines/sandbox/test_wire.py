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
        socket.send_fds(ours, [wire.pack_request(request)], [fd])
        received = wire.receive(theirs)
        assert received is not None
        assert received[0] == request
        (given,) = received[1]
        assert os.fstat(given).st_ino == os.fstat(fd).st_ino
        os.close(given)
        os.close(fd)


def test_a_request_may_bring_a_tray_along() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        fds = [os.memfd_create("file"), os.memfd_create("tray")]
        socket.send_fds(ours, [wire.pack_request(wire.Request(1, "uncover", "a", 1))], fds)
        received = wire.receive(theirs)
        assert received is not None
        assert [os.fstat(fd).st_ino for fd in received[1]] == [os.fstat(fd).st_ino for fd in fds]
        for fd in fds + received[1]:
            os.close(fd)


def test_the_end_of_the_server_is_no_request() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        assert wire.receive(theirs) is None


def test_a_request_without_a_descriptor_is_none() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(wire.pack_request(wire.Request(1, "check", "a", 1)))
        with pytest.raises(wire.Nonsense):
            wire.receive(theirs)


def test_the_end_of_a_long_name_is_kept() -> None:
    frame = wire.pack_request(wire.Request(1, "check", "é" * 5000 + ".docx", 1))
    assert len(frame) < wire.REQUEST_MAX
    assert str(wire.parse(frame[wire.HEADER.size :])["filename"]).endswith("é.docx")


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"null", b"[]", b'"text"', b"{", b'{"a":NaN}', b'{"a":-Infinity}', b'{"a":"\\udc00"}', b"\xff\xfe{\x00}\x00",
        b'{"a":' + b"[" * 60_000 + b"]" * 60_000 + b"}", b'{"a":' + b"1" * 5000 + b"}",
    ],
)  # fmt: skip
def test_what_is_no_json_object_is_nonsense(raw: bytes) -> None:
    with pytest.raises(wire.Nonsense):
        wire.parse(raw)


def test_escaped_letters_outside_the_basic_plane_are_fine() -> None:
    assert wire.parse(b'{"a":"\\ud83d\\ude00"}') == {"a": "\U0001f600"}
