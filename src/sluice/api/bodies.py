"""What the header fields of a request may say of its body: bytes as they are, and JSON in UTF-8. The body itself is read in `route` and `multipart`."""

import re
from typing import Final

from starlette.requests import Request

from sluice.errors import UnsupportedBody

_BLANKS: Final = " \t"
_CHARSET: Final = re.compile(r";[ \t]*charset[ \t]*=([^;]*)", re.IGNORECASE)


def require_uncoded(request: Request) -> None:
    """Raise `UnsupportedBody` for a body that is said to be compressed: nothing here undoes that, and who stands before us may (RFC 9110 section 8.4)."""
    said = ",".join(request.headers.getlist("content-encoding")).strip(_BLANKS).lower()
    if said not in {"", "identity"}:
        raise UnsupportedBody("none", field="Content-Encoding")


def require_json(request: Request) -> None:
    """Raise `UnsupportedBody` unless the body is called JSON, in UTF-8 where a charset is named (RFC 8259 sections 8.1 and 11)."""
    media_type, semicolon, rest = request.headers.get("content-type", "").partition(";")
    kind = media_type.strip(_BLANKS).lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise UnsupportedBody("application/json")
    charsets = {charset.strip(_BLANKS).strip('"').lower() for charset in _CHARSET.findall(semicolon + rest)}
    if charsets - {"utf-8", "utf8"}:
        raise UnsupportedBody("application/json in UTF-8")
