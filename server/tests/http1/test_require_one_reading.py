"""The head of a request: accepted in exactly one reading, refused if it could be read in two."""

import pytest

from sluice.api.http1.framing import HEAD_BYTES, require_one_reading
from sluice.errors import HeadTooLarge, Malformed
from tests.rows import each_row

HOST = (b"host", b"files.example:8000")


LENGTH, CHUNKED = (b"content-length", b"12"), (b"transfer-encoding", b"Chunked")


@each_row(
    "method, target, version, fields",
    [
        ("GET", b"/api/v1/files?page=1", "1.1", [HOST]),
        ("POST", b"http://files.example/upload", "1.1", [HOST]),
        ("OPTIONS", b"*", "1.1", [HOST]),
        *(("POST", b"/", "1.1", [HOST, framing]) for framing in (LENGTH, CHUNKED)),
        ("POST", b"/", "1.0", []),
    ],
)
def test_accepts_a_valid_target_and_one_framing_of_a_body(
    method: str, target: bytes, version: str, fields: list[tuple[bytes, bytes]]
) -> None:
    require_one_reading(method, target, version, fields)


@each_row(
    "method, target, version, fields",
    [
        *(("GET", target, "1.1", [HOST]) for target in (b"", b"*", b"a", b"/a#b", b"/a b", b"/\xff")),
        *(("GET", target, "1.1", [HOST]) for target in (b"http://user@host/", b"ftp://host/")),
        *(("GET", b"/", version, [HOST]) for version in ("2", "0.9", "1.2", "")),
        ("POST", b"/", "1.0", [(b"transfer-encoding", b"chunked")]),
    ],
)
def test_refuses_an_invalid_target_another_version_and_chunks_in_http_1_0(
    method: str, target: bytes, version: str, fields: list[tuple[bytes, bytes]]
) -> None:
    with pytest.raises(Malformed):
        require_one_reading(method, target, version, fields)


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
