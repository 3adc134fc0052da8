"""What opens a container: an account key, a SAS token, or a client of a directory. Each signs requests in its way.

The formats are those of learn.microsoft.com/rest/api/storageservices, pages "Authorize with Shared Key", "Create a
service SAS" and "Create a user delegation SAS".
"""

import asyncio
import base64
import binascii
import hmac
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, quote, urlencode

from sluice.storage.azure.address import Address
from sluice.storage.protocol import StoreError, StoreUnavailable
from sluice.storage.transport import Response

VERSION: Final = "2023-11-03"
"""The version of the API, of all requests and signatures."""

# The headers that a signature names by their place; none but these are sent beside `x-ms-*`.
_SIGNED_HEADERS: Final = (
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
)
_LEAST_KEY_BYTES: Final = 16
PERMISSIONS: Final = {"r": "read", "c": "create", "w": "write", "d": "delete", "l": "list"}
_GUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_ELEMENT: Final = re.compile(r"<([A-Za-z]+)>([^<]+)</\1>")
_MARGIN: Final = timedelta(minutes=5)
_LONGEST_DELEGATION: Final = timedelta(days=7)
# learn.microsoft.com/entra/identity-platform/reference-error-codes
_LOGIN_ERRORS: Final = {
    90002: "There is no directory (tenant) of this ID.",
    700016: "The directory has no application of this client ID.",
    7000112: "The application of this client ID is disabled.",
    7000215: "The client secret is wrong: it is the secret's value, not its ID.",
    7000222: "The client secret has expired.",
}

Send = Callable[[str, str, Mapping[str, str], bytes], Awaitable[Response]]
"""Sends a request with a method, a target, headers and a body to the directory. Raises `StoreError`."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request before it is signed: its encoded path, its query, and its headers in lower case, to which is added."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: dict[str, str]


class Credential(Protocol):
    """Signs the requests of one container."""

    async def authorize(self, request: Request) -> str:
        """Return the query as it is sent, and add to the headers what they need. Raise `StoreError`."""
        ...

    def explain(self, code: str) -> str | None:
        """Return why a request was refused with an error code, if the kind of credential says more than the code."""
        ...


class SharedKey:
    """The key of the storage account, which may do everything."""

    def __init__(self, account: str, account_key: str) -> None:
        self._account = account
        try:
            self._key = base64.b64decode(account_key, validate=True)
        except (binascii.Error, ValueError):
            self._key = b""
        if len(self._key) < _LEAST_KEY_BYTES:
            raise StoreError("The account key is not one: copy it from Access keys of the storage account.")

    async def authorize(self, request: Request) -> str:
        """Sign the request; see the protocol."""
        headers, query = request.headers, request.query
        own = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers) if name.startswith("x-ms-"))
        values = {**headers, "content-length": headers.get("content-length", "0").removeprefix("0")}
        lines = [request.method, *(values.get(name, "") for name in _SIGNED_HEADERS)]
        resource = f"/{self._account}{request.path}" + "".join(f"\n{name}:{query[name]}" for name in sorted(query))
        signature = self.sign("\n".join((*lines, own)) + resource)
        headers["authorization"] = f"SharedKey {self._account}:{signature}"
        return urlencode(query, quote_via=quote)

    def sign(self, text: str) -> str:
        """Return the signature of a text."""
        return sign(self._key, text)

    def explain(self, code: str) -> str | None:
        """Return why a request was refused; see the protocol."""
        if code == "AuthenticationFailed":
            return "The account key does not fit the storage account."
        if code == "KeyBasedAuthenticationNotPermitted":
            return "The storage account does not allow access by account keys (Allow storage account key access)."
        return None


class SasToken:
    """A shared access signature for the container, or for the account."""

    def __init__(self, token: str, container: str) -> None:
        if "://" in token:
            raise StoreError("The SAS token is only what follows the question mark of the SAS URL.")
        # A token that was decoded before has spaces for the signature's plus signs.
        self._fields = {name: value.replace(" ", "+") for name, value in parse_qsl(token.strip().removeprefix("?"))}
        if "sig" not in self._fields or "sv" not in self._fields:
            raise StoreError("The SAS token is not one: copy it whole, from sv= to the end of sig=.")
        self._container = container
        self._sent = urlencode(self._fields, quote_via=quote)

    @property
    def expires_at(self) -> datetime | None:
        """When it expires, None if a stored access policy says so."""
        try:
            found = datetime.fromisoformat(self._fields["se"])
        except (KeyError, ValueError):
            return None
        return found if found.tzinfo else found.replace(tzinfo=UTC)

    def problem(self) -> str | None:
        """Return what the token itself says against its use, as a sentence."""
        fields = self._fields
        if "b" not in fields.get("ss", "b"):
            return "The SAS token is not for the service Blob."
        if not set("co") <= set(fields.get("srt", "co")):
            return "The SAS token of the account needs the resource types Container and Object."
        if fields.get("sr", "c") != "c":
            return "The SAS token is for a single blob or folder; one for the container is needed."
        missing = [
            letter for letter in PERMISSIONS if letter not in fields.get("sp", "rcwdl" if "si" in fields else "")
        ]
        if missing:
            named = ", ".join(f"{PERMISSIONS[letter].capitalize()} ({letter})" for letter in missing)
            return f"The SAS token lacks the permission{'s' if len(missing) > 1 else ''} {named}."
        return None

    async def authorize(self, request: Request) -> str:
        """Add the token to the query; see the protocol."""
        return "&".join(filter(None, (urlencode(request.query, quote_via=quote), self._sent)))

    def explain(self, code: str) -> str | None:
        """Return why a request was refused; see the protocol."""
        if code == "AuthorizationPermissionMismatch":
            return self.problem()
        if code == "AuthorizationSourceIPMismatch":
            return "The SAS token is only for other IP addresses than that of this service."
        if code == "AuthorizationProtocolMismatch":
            return "The SAS token is for HTTPS only."
        if code in {"AuthorizationServiceMismatch", "AuthorizationResourceTypeMismatch"}:
            return self.problem() or "The SAS token is not for blobs of a container."
        if code == "KeyBasedAuthenticationNotPermitted":
            return "The storage account does not allow SAS tokens that an account key signed."
        if code != "AuthenticationFailed":
            return None
        ends = self.expires_at
        if ends is not None and ends <= datetime.now(UTC):
            return f"The SAS token expired on {moment(ends)}."
        return f"The SAS token is not for the container {self._container}, or the key or policy behind it was changed."


@dataclass(frozen=True, slots=True)
class DelegationKey:
    """A key with which a client of a directory signs links; `fields` name it in them."""

    fields: Mapping[str, str]
    value: bytes
    expires_at: datetime


class DirectoryClient:
    """An application of a Microsoft Entra directory, with its secret."""

    def __init__(self, address: Address, directory_id: str, client_id: str, secret: str, send: Send) -> None:
        for name, value in (("directory (tenant)", directory_id), ("application (client)", client_id)):
            if not _GUID.fullmatch(value):
                raise StoreError(f"The {name} ID is not one: it has the form 00000000-0000-0000-0000-000000000000.")
        self._path = f"/{directory_id}/oauth2/v2.0/token"
        self._form = {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_secret": secret,
            "scope": f"{address.audience}/.default",
        }
        self._send = send
        self._lock = asyncio.Lock()
        self._token = ""
        self._until = datetime.min.replace(tzinfo=UTC)

    async def authorize(self, request: Request) -> str:
        """Add the token of the client; see the protocol."""
        request.headers["authorization"] = f"Bearer {await self._token_now()}"
        return urlencode(request.query, quote_via=quote)

    def explain(self, code: str) -> str | None:
        """Return why a request was refused; see the protocol."""
        if code == "AuthorizationPermissionMismatch":
            return (
                "The client may not {doing}: assign it the role Storage Blob Data Contributor at the storage account"
                " (a new assignment takes some minutes)."
            )
        if code in {"InvalidAuthenticationInfo", "AuthenticationFailed"}:
            return "The storage account does not accept clients of this directory (tenant)."
        return None

    async def _token_now(self) -> str:
        async with self._lock:
            now = datetime.now(UTC)
            if now + _MARGIN >= self._until:
                self._token, seconds = await self._new_token()
                self._until = now + timedelta(seconds=seconds)
            return self._token

    async def _new_token(self) -> tuple[str, int]:
        body = urlencode(self._form).encode()
        headers = {"content-type": "application/x-www-form-urlencoded", "content-length": str(len(body))}
        response = await self._send("POST", self._path, headers, body)
        try:
            answer: Mapping[str, Any] = json.loads(response.body)
            if response.status == HTTPStatus.OK:
                return str(answer["access_token"]), int(answer["expires_in"])
            codes = [int(code) for code in answer.get("error_codes", [])]
        except (ValueError, KeyError, TypeError, AttributeError):
            codes = []
        known = next((_LOGIN_ERRORS[code] for code in codes if code in _LOGIN_ERRORS), None)
        named = "".join(f" AADSTS{code}" for code in codes[:1])
        failure = StoreUnavailable(known or f"Microsoft Entra gave the client no token: {response.status}{named}.")
        failure.answer = f"{response.status}{named}"
        raise failure


def delegation_request(now: datetime, expires_in: int) -> bytes:
    """Return the body of a request for a key that signs links of `expires_in` seconds. Raise `StoreError`."""
    lasts = max(timedelta(days=1), timedelta(seconds=expires_in) + 2 * _MARGIN)
    if lasts > _LONGEST_DELEGATION:
        raise StoreError("A link that a client of a directory signs lasts less than seven days.")
    start, expiry = timestamp(now - _MARGIN), timestamp(now - _MARGIN + lasts)
    return f"<KeyInfo><Start>{start}</Start><Expiry>{expiry}</Expiry></KeyInfo>".encode()


def parse_delegation(body: bytes) -> DelegationKey:
    """Return the key of a response. Raise `StoreError`."""
    names = {
        "skoid": "SignedOid",
        "sktid": "SignedTid",
        "skt": "SignedStart",
        "ske": "SignedExpiry",
        "sks": "SignedService",
        "skv": "SignedVersion",
    }
    found = dict(_ELEMENT.findall(body.decode("utf-8", "replace")))
    try:
        fields = {name: found[tag] for name, tag in names.items()}
        value = base64.b64decode(found["Value"], validate=True)
        return DelegationKey(fields, value, datetime.fromisoformat(fields["ske"]))
    except (KeyError, ValueError):
        raise StoreError("The store's response is not one that Azure gives.") from None


def sign_link(
    address: Address, key: str, expires_at: datetime, headers: Mapping[str, str], signer: "SharedKey | DelegationKey"
) -> str:
    """Return the query of a link to read one object. `headers` are `rscd` and `rsct` of its response."""
    fields = {
        "sv": VERSION,
        "sr": "b",
        "sp": "r",
        "se": timestamp(expires_at),
        "spr": "https" if address.endpoint.startswith("https:") else "https,http",
        **headers,
    }
    named = ["", ""]  # a stored policy and an IP address, none of which a link has
    if isinstance(signer, DelegationKey):
        fields |= signer.fields
        named = [*(fields[name] for name in ("skoid", "sktid", "skt", "ske", "sks", "skv")), "", "", "", ""]
    lines = [fields["sp"], "", fields["se"], f"/blob/{address.account}/{address.container}/{key}", *named]
    lines += [fields["spr"], fields["sv"], fields["sr"], "", "", "", fields["rscd"], "", "", fields["rsct"]]
    text = "\n".join(lines)
    signature = signer.sign(text) if isinstance(signer, SharedKey) else sign(signer.value, text)
    return urlencode({**fields, "sig": signature}, quote_via=quote)


def sign(key: bytes, text: str) -> str:
    """Return the signature of a text."""
    return base64.b64encode(hmac.digest(key, text.encode(), "sha256")).decode()


def timestamp(when: datetime) -> str:
    """Return a moment as the API writes it."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(when: datetime) -> str:
    """Return a moment as a sentence names it."""
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
