"""Signed links to download one file from this service for a limited time.

Serving the bytes is in `api.routes.downloads`.
"""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final

from sluice.kit.secret_files import SecretFileRefused, SecretPlace, load_or_make

_PATH: Final = "/api/v1/downloads"
INLINE: Final = "inline"
_DOMAIN: Final = b"sluice download link v1"
_SECRET_BYTES: Final = 32
_MAX_DIGITS: Final = 12  # in seconds, the year 33658: no link has more
_MAX_ID: Final = 128
_ID_LETTERS: Final = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-")


@dataclass(frozen=True, slots=True)
class SigningSecret:
    """The 32 bytes that sign links, shared by every process of one installation.

    `made`: they were created by this call.
    """

    value: bytes = field(repr=False)
    made: bool


def load_signing_secret(place: SecretPlace) -> SigningSecret:
    """Return the secret (64 hex digits), created at random if there is none. Raise `SecretFileRefused`."""
    file = load_or_make(place, _new_secret)
    try:
        value = bytes.fromhex(file.content.decode("ascii"))
    except ValueError:
        value = b""
    if len(value) != _SECRET_BYTES:
        raise SecretFileRefused(f"The secret {place} does not hold {_SECRET_BYTES} bytes in hex.")
    return SigningSecret(value=value, made=file.made)


class LinkSigner:
    """Signs and verifies download links: HMAC-SHA256 over the file id, the moment of expiry and how it is shown.

    An invalid link is refused without a database query. Whether the file still exists is checked after `verify`.
    """

    def __init__(self, secret: bytes, base_url: str) -> None:
        """`secret` has at least 32 bytes; `base_url` comes from settings, never from the `Host` header."""
        if len(secret) < _SECRET_BYTES:
            raise ValueError(f"a signing secret has at least {_SECRET_BYTES} bytes")
        self._secret = secret
        self._base_url = base_url.rstrip("/")

    def __repr__(self) -> str:
        return f"LinkSigner({self._base_url!r})"

    def sign(self, file_id: str, *, expires_at: int, inline: bool = False) -> str:
        """Return a URL that downloads `file_id`, or shows it, before `expires_at` (seconds since 1970, UTC).

        Raise `ValueError` if one of them cannot be part of a link.
        """
        expires = str(expires_at)
        if not _is_file_id(file_id) or not _is_moment(expires):
            raise ValueError("a link needs a file id of letters, digits, _ and -, and a moment after 1970")
        disposition = f"&disposition={INLINE}" if inline else ""
        signature = self._signature(file_id, expires, INLINE if inline else "")
        return f"{self._base_url}{_PATH}/{file_id}?expires={expires}{disposition}&signature={signature}"

    def verify(self, file_id: str, expires: str, signature: str, now: float, *, inline: bool = False) -> bool:
        """Return whether these parts of a URL were signed here, unchanged, and `now` is before their expiry.

        A link has one form: `expires` in plain digits, `signature` in base64url without padding. The time it takes does
        not depend on where a wrong signature differs.
        """
        return self._is_signed(file_id, expires, signature, now, INLINE if inline else "")

    def sign_preview(self, file_id: str, side: int, *, expires_at: int) -> str:
        """Return a URL that shows the preview of `file_id` before `expires_at`; see `sign`."""
        expires = str(expires_at)
        if not _is_file_id(file_id) or not _is_moment(expires):
            raise ValueError("a link needs a file id of letters, digits, _ and -, and a moment after 1970")
        signature = self._signature(file_id, expires, f"preview-{side}")
        return f"{self._base_url}{_PATH}/{file_id}/preview?expires={expires}&size={side}&signature={signature}"

    def verify_preview(self, file_id: str, side: int, expires: str, signature: str, now: float) -> bool:
        """Return whether these parts of the URL of a preview were signed here; see `verify`."""
        return self._is_signed(file_id, expires, signature, now, f"preview-{side}")

    def _is_signed(self, file_id: str, expires: str, signature: str, now: float, shown: str) -> bool:
        if not (_is_file_id(file_id) and _is_moment(expires) and signature.isascii()):
            return False
        return hmac.compare_digest(self._signature(file_id, expires, shown), signature) and now < int(expires)

    def _signature(self, file_id: str, expires: str, shown: str = "") -> str:
        # No part can hold the zero byte, so no two links have the same message.
        parts = (_DOMAIN, file_id.encode("ascii"), expires.encode("ascii"))
        message = b"\0".join((*parts, shown.encode("ascii")) if shown else parts)
        digest = hmac.digest(self._secret, message, hashlib.sha256)
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def _new_secret() -> bytes:
    return f"{secrets.token_hex(_SECRET_BYTES)}\n".encode()


def _is_file_id(text: str) -> bool:
    return 0 < len(text) <= _MAX_ID and _ID_LETTERS.issuperset(text)


def _is_moment(text: str) -> bool:
    return 0 < len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit() and not text.startswith("0")
