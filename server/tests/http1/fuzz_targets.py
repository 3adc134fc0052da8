"""Fuzz targets: each is a function of bytes that may raise only the one error it promises."""

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from starlette.requests import Request

from sluice.api.http1.framing import require_one_reading
from sluice.api.http1.multipart import boundary_of, read_parts
from sluice.api.routes.downloads import span_of
from sluice.api_keys.secret import has_key_form, parse_key
from sluice.contexts import templates
from sluice.errors import Invalid, Malformed, RangeUnsatisfiable, SluiceError
from sluice.identity.protocol import InvalidToken
from sluice.identity.tokens import parse_token
from sluice.kit.disposition import attachment
from sluice.kit.strict_json import NotStrictJson, read_json
from sluice.uploads.names import read_name

Target = Callable[[bytes], None]

_SIZE: Final = 1000
_PRINTABLE: Final = range(0x20, 0x7F)


def multipart(data: bytes) -> None:
    """A form body, cut into pieces as its first byte says: the parts must not depend on the pieces."""
    size, body = (data[0] or 1, data[1:]) if data else (1, b"")
    in_one_piece, in_pieces = _parts(body, len(body) or 1), _parts(body, size)
    if in_one_piece != in_pieces:
        raise AssertionError(f"read as {in_one_piece!r} in one piece and as {in_pieces!r} in pieces of {size}")


def _parts(body: bytes, size: int) -> list[object] | None:
    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    async def read() -> list[object] | None:
        found: list[object] = []
        try:
            async for event in read_parts(chunks(), "B"):
                if isinstance(event, bytes) and found and isinstance(found[-1], bytes):
                    found[-1] += event
                elif event != b"":
                    found.append(event)
        except Malformed:
            return None
        return found

    # Nothing in it waits, so no event loop is created for each input: that took most of the time.
    reading = read()
    try:
        reading.send(None)
    except StopIteration as done:
        result: list[object] | None = done.value
        return result
    raise AssertionError("the reader waits for something else than its body")


def boundary(data: bytes) -> None:
    """A Content-Type header."""
    try:
        found = boundary_of(data.decode("latin-1"))
    except Malformed:
        return
    if found is not None and not (0 < len(found) <= 70 and found.isascii()):
        raise AssertionError(f"not a boundary: {found!r}")


def disposition(data: bytes) -> None:
    """A stored file name in a header: it must become one line of printable ASCII."""
    header = attachment(data.decode("utf-8", "replace"))
    if not all(ord(letter) in _PRINTABLE for letter in header):
        raise AssertionError(f"not one line of ASCII: {header!r}")


def name(data: bytes) -> None:
    """A file name as it was sent."""
    try:
        read = read_name(data.decode("utf-8", "surrogateescape"))
    except Invalid:
        return
    if not read.original or "/" in read.original or "\0" in read.original or len(read.original.encode()) > 255:
        raise AssertionError(f"not a name to be kept: {read!r}")


def template(data: bytes) -> None:
    """A path template: a valid one must render keys that stay below the tenant's prefix."""
    text = data.decode("utf-8", "replace")
    try:
        templates.validate(text)
    except templates.BadTemplate:
        return
    ids = {"tenant_id": "ten_1", "context_key": "c", "file_id": "file_1"}
    at = datetime(2030, 1, 1, tzinfo=UTC)
    key = templates.render(text, **ids, extension="pdf", sha256="0" * 64, at=at)
    if key.startswith("/") or "//" in key or {".", ".."} & set(key.split("/")) or "file_1" not in key:
        raise AssertionError(f"{text!r} makes {key!r}")


def metadata(data: bytes) -> None:
    """A JSON text."""
    try:
        read_json(data)
    except NotStrictJson:
        return


def token(data: bytes) -> None:
    """A JWT before verification."""
    try:
        parse_token(data.decode("latin-1"))
    except InvalidToken:
        return


def api_key(data: bytes) -> None:
    """An API key: a valid one has a checksum, so random input never gets past it."""
    text = data.decode("latin-1")
    has_key_form(text)
    parse_key(text)


def byte_range(data: bytes) -> None:
    """A Range header: the resulting span must lie within the file."""
    request = Request({"type": "http", "headers": [(b"range", data)]})
    try:
        span = span_of(request, _SIZE, '"x"')
    except RangeUnsatisfiable:
        return
    if not (span.start >= 0 and span.length > 0 and span.start + span.length <= _SIZE):
        raise AssertionError(f"{data!r} asks for {span!r} of {_SIZE} bytes")


def head(data: bytes) -> None:
    """A request head: lines with the target, names and values."""
    target, *lines = data.split(b"\n")
    fields = [(field.partition(b":")[0].lower(), field.partition(b":")[2]) for field in lines]
    try:
        require_one_reading("GET", target, "1.1", fields)
    except SluiceError:
        return
    framing = [field for field, _ in fields if field in {b"content-length", b"transfer-encoding"}]
    if len(framing) > 1:
        raise AssertionError(f"two ways to frame one request: {fields!r}")


TARGETS: Final[Mapping[str, Target]] = MappingProxyType(
    {each.__name__: each for each in (multipart, boundary, disposition, name, template, metadata, token)}
    | {each.__name__: each for each in (api_key, byte_range, head)}
)

SEEDS: Final[Mapping[str, tuple[bytes, ...]]] = MappingProxyType(
    {
        "multipart": (
            b'\x07--B\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nx\r\n--B--\r\n',
            b"\x01--B--\r\n",
        ),
        "boundary": (b"multipart/form-data; boundary=abc", b'multipart/form-data; charset=utf-8; boundary="a b"'),
        "disposition": ("Übersicht \u202efdp.exe".encode(), b'a"b\\c\r\nX: y'),
        "name": (b"C:\\dir\\a.txt", b"../../etc/passwd", "é.PDF. ".encode()),
        "template": (b"{tenant_id}/{context_key}/{yyyy}/{mm}/{file_id}{extension}", b"a/{sha256}", b"../{file_id}"),
        "metadata": (b'{"a": [1, 2.5, null, "\\ud83c\\udf0a"]}', b'{"a": 1, "a": 2}', b"[" * 40),
        "token": (b"eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJzbHVpY2UifQ.AAAA", b"..", b"e30.e30."),
        "api_key": (b"sl_live_4fZk81QmTzYc_" + b"0" * 49, b"sl_test_"),
        "byte_range": (b"bytes=0-9", b"bytes=-5", b"bytes=990-", b"bytes=5-2,7-", b"bytes=1-" + b"9" * 5000),
        "head": (b"/x\nhost: a\ncontent-length: 5", b"*\nhost: a", b"/\nhost: a\ntransfer-encoding: chunked"),
    }
)
"""Seeds for fuzzing."""
