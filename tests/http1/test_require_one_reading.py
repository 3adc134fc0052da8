"""The head of a request: accepted in exactly one reading, refused if it could be read in two."""

import pytest

from sluice.api.http1.framing import HEAD_BYTES, require_one_reading
from sluice.errors import HeadTooLarge, Malformed
from tests.rows import each_row

HOST = (b"host", b"files.example:8000")


@each_row(
    "method, target", [("GET", b"/api/v1/files?page=1"), ("POST", b"http://files.example/upload"), ("OPTIONS", b"*")]
)
def test_accepts_a_path_an_address_and_the_asterisk_of_options(method: str, target: bytes) -> None:
    require_one_reading(method, target, "1.1", [HOST])


@each_row("field", [(b"content-length", b"12"), (b"transfer-encoding", b"Chunked")])
def test_accepts_one_framing_of_a_body(field: tuple[bytes, bytes]) -> None:
    require_one_reading("POST", b"/", "1.1", [HOST, field])


@each_row("target", [b"", b"*", b"a", b"/a#b", b"/a b", b"/\xff", b"http://user@host/", b"ftp://host/"])
def test_refuses_an_invalid_target(target: bytes) -> None:
    with pytest.raises(Malformed):
        require_one_reading("GET", target, "1.1", [HOST])


@each_row(
    "fields",
    [
        [],
        [HOST, HOST],
        [(b"host", b"a, b")],
        [(b"host", b"user@host")],
        [HOST, (b"content-length", b"1"), (b"content-length", b"1")],
        [HOST, (b"content-length", b"+1")],
        [HOST, (b"content-length", b"1, 1")],
        [HOST, (b"content-length", b"1"), (b"transfer-encoding", b"chunked")],
        [HOST, (b"transfer-encoding", b"gzip, chunked")],
        [HOST, (b"transfer-encoding", b"identity")],
        [HOST, (b"content_length", b"1")],
        [HOST, (b"x-note", b"a\x00b")],
        [HOST, (b"x-note", b"a\rb")],
    ],
)
def test_refuses_fields_that_could_be_read_in_two_ways(fields: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(Malformed):
        require_one_reading("POST", b"/", "1.1", fields)


def test_refuses_chunks_in_http_1_0() -> None:
    require_one_reading("POST", b"/", "1.0", [])
    with pytest.raises(Malformed):
        require_one_reading("POST", b"/", "1.0", [(b"transfer-encoding", b"chunked")])


@each_row("version", ["2", "0.9", "1.2", ""])
def test_refuses_other_versions(version: str) -> None:
    with pytest.raises(Malformed):
        require_one_reading("GET", b"/", version, [HOST])


@each_row(
    "target, fields",
    [
        (b"/" * 8001, [HOST]),
        (b"/", [HOST, (b"x-note", b"x" * 8001)]),
        (b"/", [HOST, *((b"x-%d" % number, b"") for number in range(100))]),
        (b"/", [HOST, *((b"x-%d" % number, b"x" * 7000) for number in range(HEAD_BYTES // 7000 + 1))]),
    ],
)
def test_refuses_a_head_that_is_too_large(target: bytes, fields: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(HeadTooLarge):
        require_one_reading("GET", target, "1.1", fields)
