"""Reading multipart/form-data (RFC 7578) as a stream, in exactly one way.

What the fields mean is decided by the caller.

Three popular parsers disagree on 23 of 55 odd bodies; whatever could be read in two ways is refused here as
`Malformed`.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from multipart import MultipartError, MultipartSegment, ParserError, PushMultipartParser

from sluice.errors import Malformed

_MAX_PARTS: Final = 32
_MAX_HEADER_BYTES: Final = 4096
_HEADER_LINE: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n]*")
_BOUNDARY: Final = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
_PARAMETER: Final = re.compile(r""";[ \t]*([A-Za-z0-9*_-]+)=("(?:[^"\\\r\n]|\\.)*"|[^\s;"\\]+)[ \t]*""")
_EXTENDED: Final = re.compile(r"(?i:utf-8)'[A-Za-z0-9-]*'((?:[A-Za-z0-9!#$&+.^_`|~-]|%[0-9A-Fa-f]{2})+)")


@dataclass(frozen=True, slots=True)
class PartStart:
    """A part begins. `filename` is None for a plain field."""

    name: str
    filename: str | None


@dataclass(frozen=True, slots=True)
class PartEnd:
    """The part is complete."""


Event = PartStart | bytes | PartEnd


def boundary_of(content_type: str) -> str | None:
    """Return the boundary of a multipart/form-data Content-Type, or None for any other type.

    Raise `Malformed` for a bad one.
    """
    media_type, _, rest = content_type.partition(";")
    if media_type.strip(" \t").lower() != "multipart/form-data":
        return None
    found = [
        value for name, value in _parameters(f";{rest}" if rest.strip() else "", "Content-Type") if name == "boundary"
    ]
    if len(found) != 1 or not _BOUNDARY.fullmatch(found[0]):
        raise Malformed(errors=["Content-Type: expected one boundary of 1 to 70 characters"])
    return found[0]


def filename_in(disposition: str) -> str | None:
    """Return the file name in the `Content-Disposition` of a request (RFC 6266), or None; raise `Malformed`.

    Where it stands twice, the extended form counts: the other one may be a replacement for old programs.
    """
    kind, _, rest = disposition.partition(";")
    pairs = dict(_parameters(f";{rest}" if rest.strip() else "", "Content-Disposition"))
    if not kind.strip() or not pairs:
        return None
    if "filename*" in pairs:
        return _filename({"filename*": pairs["filename*"]})
    name = pairs.get("filename")
    try:
        return None if name is None else name.encode("latin-1").decode()  # the head was read as Latin-1
    except UnicodeError:
        return name


class _Parser(PushMultipartParser):  # type: ignore[misc]  # its library has no types
    """Refuses what the library accepts: space around the name of a header, and most lone line feeds within a line."""

    def _on_segment_headerline(self, line: bytes) -> None:
        if not _HEADER_LINE.fullmatch(line):
            raise ParserError("Malformed segment header")
        super()._on_segment_headerline(line)


async def read_parts(body: AsyncIterator[bytes], boundary: str) -> AsyncIterator[Event]:
    """Yield the parts of `body` as they come: a `PartStart`, its bytes in chunks, a `PartEnd`.

    What follows the closing boundary is read, so that the connection can be used again, and ignored (RFC 2046 section
    5.1.1). Raise `Malformed` at the first byte that does not fit.
    """
    opening = b"--" + boundary.encode()
    closing = b"\r\n" + opening + b"--"
    parser = _Parser(
        boundary, max_header_size=_MAX_HEADER_BYTES, max_header_count=8, max_segment_count=_MAX_PARTS, strict=True
    )
    # The parser is strict about what stands around the first and the last boundary only if that comes in a chunk of its
    # own; a verdict must not depend on how the network cuts the body. So it gets what is between them.
    head: bytes | None = b""  # until it has the opening boundary
    seen = b"\r\n"  # the last bytes before the chunk
    holds_none = False  # whether the parser is within the content of a part and keeps no byte of it back
    try:
        async for chunk in body:
            if head is not None:
                head += chunk
                if len(head) < len(opening):
                    continue
                if not head.startswith(opening):
                    raise Malformed(errors=["body: expected the boundary at the start"])
                chunk, head = head, None  # noqa: PLW2901  (the first chunk is what was gathered)
            if holds_none and b"\r\n" + opening not in chunk and _ends_within_content(chunk, closing):
                yield chunk  # all of it is content: the parser would only look for the boundary a second time
                seen = chunk[-len(closing) + 1 :]
                continue
            end = _end_of(closing, seen, chunk)
            event = None
            for event in parser.parse(chunk if end < 0 else chunk[:end]):
                if event is None:
                    yield PartEnd()
                elif isinstance(event, MultipartSegment):
                    yield _part_start(event)
                else:
                    yield bytes(event)
            if end >= 0:
                break
            holds_none = isinstance(event, bytes | bytearray) and _ends_within_content(chunk, closing)
            seen = (seen + chunk if len(chunk) < len(closing) else chunk)[-len(closing) + 1 :]
        parser.close()
    except MultipartError as fault:
        raise Malformed(errors=[f"body: {fault.args[0] if fault.args else 'not multipart/form-data'}"]) from fault
    async for _ in body:
        pass


def _ends_within_content(chunk: bytes, closing: bytes) -> bool:
    """Return whether no boundary can begin in `chunk`, which has none, and end in the next one."""
    return len(chunk) >= len(closing) and b"\r" not in chunk[-len(closing) :]


def _end_of(closing: bytes, seen: bytes, chunk: bytes) -> int:
    """Return where in `chunk`, which follows `seen`, the first `closing` ends, or -1. Copies no more than the seam."""
    seam = (seen + chunk[: len(closing) - 1]).find(closing)
    if seam >= 0:
        return seam + len(closing) - len(seen)
    found = chunk.find(closing)
    return found if found < 0 else found + len(closing)


def _part_start(segment: MultipartSegment) -> PartStart:
    dispositions = []
    for name, value in segment.headerlist:
        if name == "Content-Disposition":
            dispositions.append(value)
        elif name == "Content-Transfer-Encoding" and value.lower() not in _IDENTITY:
            raise Malformed(errors=["body: Content-Transfer-Encoding is not used in forms (RFC 7578 section 4.7)"])
    if len(dispositions) != 1:
        raise Malformed(errors=["body: expected one Content-Disposition in each part"])
    kind, _, rest = dispositions[0].partition(";")
    if kind.strip(" \t").lower() != "form-data":
        raise Malformed(errors=["body: expected Content-Disposition form-data"])
    pairs = _parameters(f";{rest}" if rest.strip() else "", "Content-Disposition")
    parameters = dict(pairs)
    if len(parameters) != len(pairs) or "name" not in parameters:
        raise Malformed(errors=["body: expected each Content-Disposition parameter once, and a name"])
    return PartStart(parameters["name"], _filename(parameters))


def _filename(parameters: dict[str, str]) -> str | None:
    """Return the file name; some clients send a non-ASCII one in the extended form too (RFC 8187), which must agree."""
    plain, extended = parameters.get("filename"), parameters.get("filename*")
    if extended is None:
        return plain
    match = _EXTENDED.fullmatch(extended)
    try:
        decoded = unquote_to_bytes(match[1]).decode() if match else None
    except UnicodeDecodeError:
        decoded = None
    if decoded is None or plain not in {None, decoded}:
        raise Malformed(errors=["body: filename and filename* do not agree"])
    return decoded


def _parameters(text: str, header: str) -> list[tuple[str, str]]:
    """Return the parameters after the first semicolon; every byte must belong to one."""
    pairs: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _PARAMETER.match(text, at)
        if match is None:
            raise Malformed(errors=[f"{header}: a parameter that cannot be read"])
        value = match[2]
        pairs.append((match[1].lower(), _unquote(value) if value.startswith('"') else value))
        at = match.end()
    return pairs


def _unquote(value: str) -> str:
    if "\\" not in value:
        return value[1:-1]
    # Only a quote or a backslash is ever escaped by clients; a lone backslash is part of a Windows path that old
    # browsers send.
    return re.sub(r'\\(["\\])', r"\1", value[1:-1])


_IDENTITY: Final = frozenset({"binary", "8bit", "7bit"})
