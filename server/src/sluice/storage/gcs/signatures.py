"""V4 signatures of Google: of links, by any key, and of requests, by an HMAC key.

cloud.google.com/storage/docs/authentication/signatures and …/canonical-requests
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar, Final, Protocol
from urllib.parse import quote, urlencode

from sluice.kit.disposition import attachment

_REQUEST: Final = "auto/storage/goog4_request"  # Google looks at no place in it
_LINK_SECONDS: Final = 7 * 24 * 3600  # the longest that Google takes


class Signer(Protocol):
    """A key by which texts are signed."""

    algorithm: ClassVar[str]

    @property
    def identity(self) -> str:
        """Return whose key it is."""
        ...

    def sign(self, text: str, day: str) -> str:
        """Return the signature of a text on a day, in hexadecimal."""
        ...


@dataclass(frozen=True, slots=True)
class HmacKey:
    """An access ID and its secret."""

    algorithm: ClassVar[str] = "GOOG4-HMAC-SHA256"

    identity: str
    secret: str = field(repr=False)

    def sign(self, text: str, day: str) -> str:
        """Return the signature of a text on a day, in hexadecimal."""
        key = f"GOOG4{self.secret}".encode()
        for part in (day, *_REQUEST.split("/")):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.digest(key, text.encode(), "sha256").hex()

    def signed_headers(
        self, method: str, path: str, query: str, headers: Mapping[str, str], digest: str
    ) -> dict[str, str]:
        """Return all headers of a request: those given, in lower case and with `host`, and those that sign them.

        `query` is canonical; `digest` is the SHA-256 of the body.
        """
        now = datetime.now(UTC)
        moment, day = f"{now:%Y%m%dT%H%M%SZ}", f"{now:%Y%m%d}"
        sent = {name: " ".join(value.split()) for name, value in headers.items()}
        sent = dict(sorted((sent | {"x-goog-content-sha256": digest, "x-goog-date": moment}).items()))
        names = ";".join(sent)
        lines = [f"{name}:{value}" for name, value in sent.items()]
        signature = self.sign(_to_sign(self.algorithm, moment, (method, path, query, *lines, "", names, digest)), day)
        credential = f"{self.identity}/{day}/{_REQUEST}"
        authorization = f"{self.algorithm} Credential={credential},SignedHeaders={names},Signature={signature}"
        return sent | {"authorization": authorization}


def canonical_query(query: Mapping[str, str]) -> str:
    """Return the parameters as they are signed, and sent."""
    return urlencode(sorted(query.items()), quote_via=quote, safe="")


def signed_link(signer: Signer, origin: str, path: str, *, expires_in: int, filename: str, content_type: str) -> str:
    """Return a URL that downloads what is at `path`, percent-encoded as for V4 signatures, as a file of this name."""
    now = datetime.now(UTC)
    moment, day = f"{now:%Y%m%dT%H%M%SZ}", f"{now:%Y%m%d}"
    parameters = {
        "response-content-disposition": attachment(filename),
        "response-content-type": content_type,
        "X-Goog-Algorithm": signer.algorithm,
        "X-Goog-Credential": f"{signer.identity}/{day}/{_REQUEST}",
        "X-Goog-Date": moment,
        "X-Goog-Expires": str(min(expires_in, _LINK_SECONDS)),
        "X-Goog-SignedHeaders": "host",
    }
    words = canonical_query(parameters)
    request = ("GET", path, words, f"host:{origin.partition('://')[2]}", "", "host", "UNSIGNED-PAYLOAD")
    signature = signer.sign(_to_sign(signer.algorithm, moment, request), day)
    return f"{origin}{path}?{words}&X-Goog-Signature={signature}"


def _to_sign(algorithm: str, moment: str, request: tuple[str, ...]) -> str:
    digest = hashlib.sha256("\n".join(request).encode()).hexdigest()
    return f"{algorithm}\n{moment}\n{moment[:8]}/{_REQUEST}\n{digest}"
