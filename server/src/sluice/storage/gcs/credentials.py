"""The key of a service account, and the access tokens that it gets from Google."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import ClassVar, Final
from urllib.parse import urlencode

import httpcore
import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from sluice.storage.gcs.errors import FOREIGN, RequestFailed, failed_request
from sluice.storage.protocol import StoreError

# The key file of a tenant names an address of its own, `token_uri`, which is never called.
TOKEN_URL: Final = f"https://{'oauth2.googleapis.com'}/token"
_SCOPE: Final = f"https://{'www.googleapis.com'}/auth/devstorage.read_write"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_RSA_BITS: Final = (2048, 4096)  # a longer key would take a second for each signature
_LIFE_SECONDS: Final = 3600  # the most that Google takes
_RENEWED_SECONDS: Final = 120.0
_SKEW_SECONDS: Final = 300
_MOST_BYTES: Final = 64 * 1024
_NO_KEY: Final = "The service account key has no private key that can be used."
_CLOCK: Final = "The clock of this machine differs too much from Google's clock."


@dataclass(frozen=True, slots=True)
class ServiceAccountKey:
    """The key of a service account."""

    algorithm: ClassVar[str] = "GOOG4-RSA-SHA256"

    email: str
    key_id: str
    private_key: RSAPrivateKey = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> "ServiceAccountKey":
        """Return the key from its JSON. Raise `StoreError` for one that cannot sign."""
        try:
            values = json.loads(text)
            email, key_id, pem = (values.get(name, "") for name in ("client_email", "private_key_id", "private_key"))
            private_key = load_pem_private_key(pem.encode(), None)
        except (ValueError, TypeError, AttributeError, RecursionError, UnsupportedAlgorithm):
            raise StoreError(_NO_KEY) from None  # the cause may quote the key
        least, most = _RSA_BITS
        if not isinstance(private_key, RSAPrivateKey) or not least <= private_key.key_size <= most:
            raise StoreError(_NO_KEY)
        return cls(str(email), str(key_id), private_key)

    def assertion(self, now: int) -> str:
        """Return the signed statement for which Google gives an access token (RFC 7523)."""
        claims = {"iss": self.email, "scope": _SCOPE, "aud": TOKEN_URL, "iat": now, "exp": now + _LIFE_SECONDS}
        return jwt.encode(claims, self.private_key, algorithm="RS256", headers={"kid": self.key_id})

    @property
    def identity(self) -> str:
        """Return whose key it is."""
        return self.email

    def sign(self, text: str, _day: str) -> str:
        """Return the signature of a text, in hexadecimal."""
        return self.private_key.sign(text.encode(), PKCS1v15(), hashes.SHA256()).hex()


class AccessTokens:
    """The access tokens of one key. Each is used until shortly before it expires; one is asked for at a time."""

    def __init__(self, key: ServiceAccountKey, http: httpcore.AsyncConnectionPool, seconds: float) -> None:
        self._key = key
        self._http = http
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._token = ""
        self._ends_at = 0.0

    async def get(self) -> str:
        """Return a token. Raise `RequestFailed`."""
        async with self._lock:
            now = time.monotonic()
            if now + _RENEWED_SECONDS >= self._ends_at:
                try:
                    self._token, life = await self._ask()
                except RequestFailed as failure:
                    if not failure.is_passing or now >= self._ends_at:
                        raise
                else:
                    self._ends_at = now + life
            return self._token

    def discard(self, token: str) -> None:
        """Forget a token that was refused."""
        if token == self._token:
            self._ends_at = 0.0

    async def _ask(self) -> tuple[str, float]:
        body = urlencode({"grant_type": _GRANT, "assertion": self._key.assertion(int(time.time()))}).encode()
        headers = [("Content-Type", "application/x-www-form-urlencoded"), ("Content-Length", str(len(body)))]
        try:
            async with (
                asyncio.timeout(self._seconds),
                self._http.stream("POST", TOKEN_URL, headers=headers, content=body) as response,
            ):
                answer = bytearray()
                async for piece in response.aiter_stream():
                    answer += piece
                    if len(answer) > _MOST_BYTES:
                        raise RequestFailed(response.status, sentence="Google's answer is longer than it may be.")
        except FOREIGN as error:
            raise failed_request(error) from None
        try:
            values = json.loads(answer)
            if response.status == HTTPStatus.OK:
                return str(values["access_token"]), min(float(values["expires_in"]), _LIFE_SECONDS)
            word, text = str(values.get("error", "")), str(values.get("error_description", ""))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            word = text = ""
        date = next((value for name, value in response.headers if name.lower() == b"date"), b"")
        raise RequestFailed(response.status, word, sentence=_refusal(response.status, word, text, date))


def _refusal(status: int, error: str, text: str, date: bytes) -> str:
    """Return why there is no token, in a sentence; `text` is Google's."""
    if status == HTTPStatus.OK:
        return "Google's answer holds no access token."
    if error != "invalid_grant":
        is_theirs = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS
        return "" if is_theirs else "Google does not accept the key of the service account."
    if "timeframe" in text or _is_skewed(date):
        return _CLOCK
    if "account not found" in text:
        return "The service account of the key does not exist any more."
    if "disabled" in text:
        return "The service account of the key is disabled."
    return "The key of the service account is deleted or disabled, or is not one of this account."


def _is_skewed(date: bytes) -> bool:
    try:
        theirs = parsedate_to_datetime(date.decode("latin-1"))
        return abs((datetime.now(UTC) - theirs).total_seconds()) > _SKEW_SECONDS
    except (ValueError, TypeError):
        return False
