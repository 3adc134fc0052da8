"""Signed requests to one container.

Decision 43 says why not by obstore, which S3 uses.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, Protocol

from sluice.storage.azure.address import Address, container_address
from sluice.storage.azure.credentials import VERSION, Credential, DirectoryClient, Request, SasToken, SharedKey
from sluice.storage.azure.errors import code_of, to_store_error
from sluice.storage.protocol import Connection, StoreError
from sluice.storage.transport import NoResponse, Response, Transport

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_REPEATED: Final = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)


class Place(Protocol):
    """Where a container is, and which kind of secret opens it: `AzureSettings`, which imports the store."""

    @property
    def account(self) -> str:
        """Return the name of the storage account."""
        ...

    @property
    def credential(self) -> str:
        """Return the kind of the secret."""
        ...

    @property
    def directory_id(self) -> str | None:
        """Return the directory of a client."""
        ...

    @property
    def client_id(self) -> str | None:
        """Return the ID of a client."""
        ...

    @property
    def endpoint_url(self) -> str | None:
        """Return the origin that the tenant named."""
        ...


class AzureClient:
    """Sends requests to one container, each up to `retries` times more if it gets no response or a server's failure.

    So every request must be one that may arrive twice: a put creates an object only if there is none.
    """

    def __init__(self, settings: Place, container: str, secret: str, connection: Connection) -> None:
        self.address: Final = container_address(settings.account, container, settings.endpoint_url)
        self._before: Callable[[], Awaitable[None]] | None = connection.before
        self._timeouts = connection.timeouts
        unknown = (
            "There is no storage account of this name: its host is not known."
            if settings.endpoint_url is None
            else "The host name of the store is not known."
        )
        self._transport = Transport(
            self.address.endpoint, connection.timeouts, unknown_host=unknown, relay_url=connection.relay_url
        )
        # Tokens come from Microsoft, whatever the container's endpoint is, and never through the relay.
        self._login = Transport(
            self.address.login, connection.timeouts, unknown_host="The host of Microsoft Entra is not known."
        )
        self.credential: Final = _credential(self.address, settings, secret, self._login)
        self._is_closed = False

    async def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        is_anonymous: bool = False,
    ) -> Response:
        """Return the response to a request, whatever its status. Raise `StoreError`.

        `path` is one of the address, encoded.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._timeouts.request_seconds
        for left in range(self._timeouts.retries, -1, -1):
            await self.ready()
            sent = {**(headers or {}), "x-ms-version": VERSION, "x-ms-date": formatdate(usegmt=True)}
            if body is not None:
                sent["content-length"] = str(len(body))
            asked = query or {}
            words = "" if is_anonymous else await self.credential.authorize(Request(method, path, asked, sent))
            target = f"{path or '/'}{'?' if words else ''}{words}"
            longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self._timeouts.retries - left))
            pause = longest * random.uniform(0.5, 1)  # noqa: S311  (spreads load)
            is_last = left == 0 or loop.time() + pause >= ends
            try:
                response = await self._transport.send(method, target, sent, body or b"")
            except NoResponse:
                if is_last or loop.time() + pause >= ends:
                    raise
            else:
                if is_last or response.status not in _REPEATED:
                    return response
            await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    async def object(
        self,
        method: str,
        key: str,
        query: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Response:
        """Return the response to a request about one object; see `send`."""
        return await self.send(method, self.address.path(key), query, headers=headers, body=body)

    async def head(self, key: str) -> Response:
        """Return the headers of an object, or why there are none, with the body that a response to HEAD lacks."""
        response = await self.object("HEAD", key)
        if response.status != HTTPStatus.FORBIDDEN:
            return response
        return await self.object("GET", key, headers={"range": "bytes=0-0"})

    async def ready(self) -> None:
        """Raise `StoreError` if no request may be sent now."""
        if self._is_closed:
            raise StoreError("The object store is closed.")
        if self._before is not None:
            await self._before()

    def error(self, response: Response, doing: str) -> StoreError:
        """Return the `StoreError` for a response; `doing` completes “The credentials may not …”."""
        return to_store_error(response, doing, self.credential)

    def close(self) -> None:
        """Close all connections. A second call is a no-op."""
        self._is_closed = True
        self._transport.close()
        self._login.close()


def is_missing(response: Response) -> bool:
    """Return whether there is no such object; a missing container is something else."""
    return response.status == HTTPStatus.NOT_FOUND and code_of(response) in {"BlobNotFound", ""}


def _credential(address: Address, settings: Place, secret: str, login: Transport) -> Credential:
    if settings.credential == "sas_token":
        return SasToken(secret, address.container)
    if settings.credential == "client_secret":
        if address.endpoint.startswith("http:"):
            raise StoreError("A client of a directory needs an https endpoint: its token would be sent in the clear.")
        return DirectoryClient(address, settings.directory_id or "", settings.client_id or "", secret, login.send)
    return SharedKey(address.account, secret)
