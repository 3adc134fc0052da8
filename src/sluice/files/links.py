"""Signed links to download one file from this service for a limited time. Serving the bytes behind them lives at the edge."""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sluice.kit.secret_files import SecretFileRefused, load_or_make

_PATH: Final = "/api/v1/downloads"
_DOMAIN: Final = b"sluice download link v1"
_SECRET_BYTES: Final = 32
_MAX_DIGITS: Final = 12  # seconds of the year 33658: longer is nobody's link
_MAX_ID: Final = 128
_ID_LETTERS: Final = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-")


@dataclass(frozen=True, slots=True)
class SigningSecret:
    """The 32 bytes that sign links, shared by every process of one installation. `made` tells that they are new."""

    value: bytes = field(repr=False)
    made: bool


def load_signing_secret(path: Path) -> SigningSecret:
    """Answer the secret at `path` (64 hex digits), made at random when there is none. Raises `SecretFileRefused`."""
    file = load_or_make(path, _new_secret)
    try:
        value = bytes.fromhex(file.content.decode("ascii"))
    except ValueError:
        value = b""
    if len(value) != _SECRET_BYTES:
        raise SecretFileRefused(f"The secret file {path} does not hold {_SECRET_BYTES} bytes in hex.")
    return SigningSecret(value=value, made=file.made)


class LinkSigner:
    """Signs and checks download links; HMAC-SHA256 over the file id and the moment of expiry.

    A link needs no look into the database to be refused. Whether the file still exists is asked after `verify`.
    """

    def __init__(self, secret: bytes, base_url: str) -> None:
        """`secret` has at least 32 bytes; `base_url` is what clients reach the service under, from settings, never from `Host`."""
        if len(secret) < _SECRET_BYTES:
            raise ValueError(f"a signing secret has at least {_SECRET_BYTES} bytes")
        self._secret = secret
        self._base_url = base_url.rstrip("/")

    def __repr__(self) -> str:
        return f"LinkSigner({self._base_url!r})"

    def sign(self, file_id: str, *, expires_at: int) -> str:
        """Answer a URL that downloads `file_id` before `expires_at` (seconds since 1970, UTC)."""
        expires = str(expires_at)
        if not _is_file_id(file_id) or not _is_moment(expires):
            raise ValueError("a link needs a file id of letters, digits, _ and -, and a moment after 1970")
        return f"{self._base_url}{_PATH}/{file_id}?expires={expires}&signature={self._signature(file_id, expires)}"

    def verify(self, file_id: str, expires: str, signature: str, now: float) -> bool:
        """Tell whether these parts of a URL were signed here, unchanged, and `now` is before their expiry.

        One link has one form: `expires` in plain digits, `signature` in base64url without padding. Takes a time that does not
        depend on where a wrong signature differs.
        """
        if not (_is_file_id(file_id) and _is_moment(expires) and signature.isascii()):
            return False
        return hmac.compare_digest(self._signature(file_id, expires), signature) and now < int(expires)

    def _signature(self, file_id: str, expires: str) -> str:
        # neither part can hold the zero byte, so no two pairs make the same message
        message = b"\0".join((_DOMAIN, file_id.encode("ascii"), expires.encode("ascii")))
        digest = hmac.digest(self._secret, message, hashlib.sha256)
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def _new_secret() -> bytes:
    return f"{secrets.token_hex(_SECRET_BYTES)}\n".encode()


def _is_file_id(text: str) -> bool:
    return 0 < len(text) <= _MAX_ID and _ID_LETTERS.issuperset(text)


def _is_moment(text: str) -> bool:
    return 0 < len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit() and not text.startswith("0")
