"""The rules for the head of a request, which must have exactly one reading.

When its bytes may come, and how it is refused, is in `connection`.

Proxies and servers that read one head differently are how requests are smuggled (RFC 9112 section 11.2), so whatever is
known to be read in two ways is refused, also where the standard would let a server guess.
"""

import re
from collections.abc import Sequence
from typing import Final

from sluice.errors import HeadTooLarge, Malformed

HEAD_BYTES: Final = 32 * 1024
_TARGET_BYTES: Final = 8000  # the least that RFC 9112 section 3 recommends
_FIELD_BYTES: Final = 8000
_MOST_FIELDS: Final = 100

_VERSIONS: Final = frozenset({"1.0", "1.1"})
_AUTHORIZATION: Final = b"authorization"  # has a limit of its own, and is counted where it is read
_ONCE: Final = frozenset({b"content-length", b"content-type", b"host", b"if-range", b"range", b"transfer-encoding"})
# Gateways that hand headers on as variables read the underscore as a hyphen.
_LOOK_ALIKES: Final = frozenset(name.replace(b"-", b"_") for name in _ONCE if b"-" in name)
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_NUMBER: Final = re.compile(rb"[0-9]{1,19}")
# host and port of RFC 3986 section 3.2, and the underscore that is part of it; empty for a target without a host
_HOST: Final = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]*)(?::[0-9]{0,5})?")
# a path, or an address with a host and no user; a fragment is never sent (RFC 9112 section 3.2, RFC 9110 section 4.2.4)
_TARGET: Final = re.compile(
    rb"/[^\x00-\x20#\x7f-\xff]*|https?://[^\x00-\x20/?#@\x7f-\xff]+(?:[/?][^\x00-\x20#\x7f-\xff]*)?", re.IGNORECASE
)


def require_one_reading(method: str, target: bytes, version: str, fields: Sequence[tuple[bytes, bytes]]) -> None:
    """Raise `HeadTooLarge` or `Malformed` for a head that is too large or could be read in two ways.

    `fields` are the header fields as the parser read them, names in lower case.
    """
    if len(target) > _TARGET_BYTES:
        raise HeadTooLarge(f"The target has more than {_TARGET_BYTES} bytes")
    if version not in _VERSIONS:
        raise Malformed(errors=["The version is neither HTTP/1.1 nor HTTP/1.0"])
    is_asterisk = target == b"*" and method == "OPTIONS"
    if not is_asterisk and not _TARGET.fullmatch(target):
        raise Malformed(errors=["The target is neither a path nor an address (RFC 9112 section 3.2)"])
    _require_framing(_fields_by_name(fields), version)


def _fields_by_name(fields: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the fields by name, after their sizes, names and characters have been checked."""
    if len(fields) > _MOST_FIELDS:
        raise HeadTooLarge(f"There are more than {_MOST_FIELDS} header fields")
    by_name: dict[bytes, bytes] = {}
    total = 0
    for name, value in fields:
        size = len(name) + len(value)
        total += size
        if size > _FIELD_BYTES and name != _AUTHORIZATION:
            raise HeadTooLarge(f"A header field has more than {_FIELD_BYTES} bytes")
        if name in by_name and name in _ONCE:
            raise Malformed(errors=[f"{name.decode().title()}: expected once"])
        if name in _LOOK_ALIKES:
            raise Malformed(errors=["A header field with an underscore looks like one that frames the request"])
        if _CONTROL.search(value):
            raise Malformed(errors=["A header field holds a control character"])
        by_name[name] = value
    if total > HEAD_BYTES:
        raise HeadTooLarge(f"The head has more than {HEAD_BYTES} bytes")
    return by_name


def _require_framing(fields: dict[bytes, bytes], version: str) -> None:
    host = fields.get(b"host")
    if host is None and version == "1.1":
        raise Malformed(errors=["Host: expected once"])
    if not _HOST.fullmatch(host or b""):
        raise Malformed(errors=["Host: expected a host and a port (RFC 9112 section 3.2)"])
    length, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
    if length is not None and not _NUMBER.fullmatch(length):
        raise Malformed(errors=["Content-Length: expected one number"])
    if coding is None:
        return
    if length is not None:
        raise Malformed(errors=["Content-Length and Transfer-Encoding exclude each other"])
    if coding.lower() != b"chunked" or version == "1.0":
        raise Malformed(errors=["Transfer-Encoding: expected chunked, and HTTP/1.1"])
