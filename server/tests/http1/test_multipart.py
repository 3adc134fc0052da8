"""The multipart parser: one strict reading for any chunks."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.api.http1.multipart import PartEnd, PartStart, boundary_of, read_parts
from sluice.errors import Malformed
from tests.rows import each_row

BOUNDARY = "x-boundary"


def part(disposition: str, content: bytes, extra: str = "") -> bytes:
    return f"--{BOUNDARY}\r\nContent-Disposition: {disposition}\r\n{extra}\r\n".encode() + content + b"\r\n"


END = f"--{BOUNDARY}--\r\n".encode()
AMBIGUOUS = ['; name="b"', '; filename="x"; filename="y"', "; filename=\"x\"; filename*=UTF-8''y", " junk"]
AMBIGUOUS += ["; filename*=latin1''y", "; filename*=UTF-8''%ff"]
FURTHER_LINES = ['Content-Disposition: form-data; name="b"', "Content-Transfer-Encoding: base64", f"X: {'y' * 5000}"]
FURTHER_LINES += ["\nX: y", "X: y\nZ: y", "X: y\rZ: y", "X : y", "\x0bX: y"]


async def chunks(body: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def parts_of(body: bytes, size: int = 7, boundary: str = BOUNDARY) -> list[tuple[str, str | None, bytes]]:
    found: list[tuple[str, str | None, bytes]] = []
    start, content = PartStart("", None), b""
    async for event in read_parts(chunks(body, size), boundary):
        if isinstance(event, PartStart):
            start, content = event, b""
        elif isinstance(event, PartEnd):
            found.append((start.name, start.filename, content))
        else:
            content += event
    return found


@given(content=st.binary(max_size=300), size=st.integers(1, 400))
async def test_file_bytes_are_unchanged_for_any_chunk_size(content: bytes, size: int) -> None:
    body = part('form-data; name="file"; filename="a.bin"', content) + part('form-data; name="context"', b"claims")
    assert await parts_of(body + END, size) == [("file", "a.bin", content), ("context", None, b"claims")]


@each_row(
    "sent, read",
    [
        ('filename="a b.txt"', "a b.txt"),
        ("filename=plain.txt", "plain.txt"),
        ('filename="C:\\dir\\a.txt"', "C:\\dir\\a.txt"),
        ('filename="a\\"b.txt"', 'a"b.txt'),
        ('filename="é.txt"', "é.txt"),
        ("filename*=UTF-8''%C3%A9.txt", "é.txt"),
        ("filename=\"é.txt\"; filename*=utf-8''%C3%A9.txt", "é.txt"),
        ('filename=""', ""),
    ],
)
async def test_file_names_are_decoded_as_clients_encode_them(sent: str, read: str) -> None:
    assert await parts_of(part(f'form-data; name="file"; {sent}', b"x") + END) == [("file", read, b"x")]


@each_row(
    "body",
    [
        b"",
        b"hello",
        END[:-4],
        part('form-data; name="a"', b"x"),
        part('form-data; name="a"', b"x") + END[:-4],
        *(part(f'form-data; name="a"{rest}', b"x") + END for rest in AMBIGUOUS),
        part("form-data", b"x") + END,
        part('attachment; name="a"', b"x") + END,
        part('form-data; name="a', b"x") + END,
        part('form-data;\r\n name="a"', b"x") + END,
        *(part('form-data; name="a"', b"x", f"{line}\r\n") + END for line in FURTHER_LINES),
        b"".join(part(f'form-data; name="{n}"', b"x") for n in range(40)) + END,
        part('form-data\u2028; name="a"', b"x") + END,
        part('form-data; name="a"', END) + END,  # the line break before it ends the head of the part, too
        b"preamble\r\n" + part('form-data; name="a"', b"x") + END,
        (part('form-data; name="a"', b"x") + END).replace(b"\r\n", b"\n"),
    ],
)
async def test_ambiguous_body_is_malformed(body: bytes) -> None:
    for size in (1, 8192):
        with pytest.raises(Malformed):
            await parts_of(body, size)


@each_row("size", [1, 5, 4096])
async def test_epilogue_is_ignored_for_any_chunk_size(size: int) -> None:
    assert await parts_of(part('form-data; name="a"', b"x") + END + b"epilogue", size) == [("a", None, b"x")]


@each_row(
    "header, boundary",
    [
        ("multipart/form-data; boundary=abc", "abc"),
        ('Multipart/Form-Data; charset=utf-8; boundary="a b:c"', "a b:c"),
        ("application/json", None),
        ("multipart/form-data\xa0; boundary=abc", None),
        ("", None),
    ],
)
def test_boundary_is_read_from_the_content_type(header: str, boundary: str | None) -> None:
    assert boundary_of(header) == boundary


@each_row("header", ["", "boundary=", "boundary=a; boundary=b", 'boundary="a', f"boundary={'a' * 71}", "boundary=a\tb"])
def test_ambiguous_boundary_is_malformed(header: str) -> None:
    with pytest.raises(Malformed):
        boundary_of(f"multipart/form-data; {header}")
