"""What the head of a request must be to have exactly one reading. When its bytes may come, and how it is answered, is in `wire`.

Proxies and servers that read one head differently are how requests are smuggled (RFC 9112 section 11.2); so whatever is known to be
read in two ways is refused, also where the standard would let a server guess.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sluice.errors import HeadTooLarge, Malformed

HEAD_BYTES: Final = 32 * 1024
_TARGET_BYTES: Final = 8000  # the least that RFC 9112 section 3 recommends
_FIELD_BYTES: Final = 8000
_MOST_FIELDS: Final = 100

_VERSIONS: Final = frozenset({"1.0", "1.1"})
_ONCE: Final = frozenset(
    {b"authorization", b"content-length", b"content-type", b"host", b"if-range", b"range", b"transfer-encoding"}
)
_LOOK_ALIKES: Final = frozenset(name.replace(b"-", b"_") for name in _ONCE if b"-" in name)
_NOT_TEXT: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_NUMBER: Final = re.compile(rb"[0-9]{1,19}")
# host and port of RFC 3986 section 3.2, and the underscore that is part of it; empty for a target without a host
_HOST: Final = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]*)(?::[0-9]{0,5})?")
# a path, or an address with a host and no user; a fragment is never sent (RFC 9112 section 3.2, RFC 9110 section 4.2.4)
_TARGET: Final = re.compile(
    rb"/[^\x00-\x20#\x7f-\xff]*|https?://[^\x00-\x20/?#@\x7f-\xff]+(?:[/?][^\x00-\x20#\x7f-\xff]*)?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Head:
    """A request's head as the parser read it; names of fields in lower case."""

    method: str
    target: bytes
    version: str
    fields: Sequence[tuple[bytes, bytes]]


def require_one_reading(head: Head) -> None:
    """Raise `HeadTooLarge` or `Malformed` for what is too much or could be read in two ways."""
    _refuse_size(head)
    if head.version not in _VERSIONS:
        raise Malformed(errors=["The version is neither HTTP/1.1 nor HTTP/1.0"])
    asterisk = head.target == b"*" and head.method == "OPTIONS"
    if not asterisk and not _TARGET.fullmatch(head.target):
        raise Malformed(errors=["The target is neither a path nor an address (RFC 9112 section 3.2)"])
    _refuse_fields(head.fields)
    _refuse_framing(head)


def _refuse_size(head: Head) -> None:
    if len(head.target) > _TARGET_BYTES:
        raise HeadTooLarge(f"The target has more than {_TARGET_BYTES} bytes")
    if len(head.fields) > _MOST_FIELDS:
        raise HeadTooLarge(f"There are more than {_MOST_FIELDS} header fields")
    # A credential has a bound of its own, where it is read.
    if any(len(name) + len(value) > _FIELD_BYTES for name, value in head.fields if name != b"authorization"):
        raise HeadTooLarge(f"A header field has more than {_FIELD_BYTES} bytes")
    if sum(len(name) + len(value) for name, value in head.fields) > HEAD_BYTES:
        raise HeadTooLarge(f"The head has more than {HEAD_BYTES} bytes")


def _refuse_fields(fields: Sequence[tuple[bytes, bytes]]) -> None:
    names = [name for name, _ in fields]
    for name in _ONCE - {b"authorization"}:
        if names.count(name) > 1:
            raise Malformed(errors=[f"{name.decode().title()}: expected once"])
    if _LOOK_ALIKES.intersection(names):
        # Gateways that hand headers on as variables read the underscore as a hyphen.
        raise Malformed(errors=["A header field with an underscore looks like one that frames the request"])
    if any(_NOT_TEXT.search(value) for _, value in fields):
        raise Malformed(errors=["A header field holds a control character"])


def _refuse_framing(head: Head) -> None:
    said = dict(head.fields)
    length, coding = said.get(b"content-length"), said.get(b"transfer-encoding")
    if b"host" not in said and head.version == "1.1":
        raise Malformed(errors=["Host: expected once"])
    if not _HOST.fullmatch(said.get(b"host", b"")):
        raise Malformed(errors=["Host: expected a host and a port (RFC 9112 section 3.2)"])
    if length is not None and not _NUMBER.fullmatch(length):
        raise Malformed(errors=["Content-Length: expected one number"])
    if coding is None:
        return
    if length is not None:
        raise Malformed(errors=["Content-Length and Transfer-Encoding exclude each other"])
    if coding.lower() != b"chunked" or head.version == "1.0":
        raise Malformed(errors=["Transfer-Encoding: expected chunked, and HTTP/1.1"])
