"""Multipart forms written byte by byte, so that a test controls the order and form of every part."""

from collections.abc import Iterable
from dataclasses import dataclass

BOUNDARY = "----sluice-test-7f3a9c"


@dataclass(frozen=True)
class Part:
    """One form field, or a file when `filename` is given (as text, or as the raw bytes between its quotes)."""

    name: str
    content: bytes
    filename: str | bytes | None = None
    content_type: str | None = None


def field(name: str, value: str) -> Part:
    return Part(name, value.encode())


def file(filename: str | bytes, content: bytes, content_type: str | None = "application/octet-stream") -> Part:
    return Part("file", content, filename, content_type)


def head(part: Part, boundary: str = BOUNDARY) -> bytes:
    """Return the head of a part, up to its content."""
    lines = [f"--{boundary}".encode(), b'Content-Disposition: form-data; name="%b"' % part.name.encode()]
    if part.filename is not None:
        lines[1] += b'; filename="%b"' % quoted(part.filename)
    if part.content_type is not None:
        lines.append(f"Content-Type: {part.content_type}".encode())
    return b"\r\n".join([*lines, b"", b""])


def quoted(filename: str | bytes) -> bytes:
    """Return a file name as browsers encode it (HTML standard, multipart form data); bytes are left unchanged."""
    if isinstance(filename, bytes):
        return filename
    return filename.encode().replace(b"\r", b"%0D").replace(b"\n", b"%0A").replace(b'"', b"%22")


def tail(boundary: str = BOUNDARY) -> bytes:
    return f"--{boundary}--\r\n".encode()


def encode(parts: Iterable[Part], boundary: str = BOUNDARY) -> bytes:
    return b"".join(head(part, boundary) + part.content + b"\r\n" for part in parts) + tail(boundary)


def content_type(boundary: str = BOUNDARY) -> str:
    return f"multipart/form-data; boundary={boundary}"
