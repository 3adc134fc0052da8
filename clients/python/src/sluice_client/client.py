"""The two clients: `Sluice` blocks, `AsyncSluice` awaits. Both take the steps of the same `core`."""

import os
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

import httpx

from sluice_client.core import Core
from sluice_client.operations import (
    ApiKeys,
    Audit,
    Buckets,
    Contexts,
    Cors,
    Erasures,
    Events,
    Files,
    HashLists,
    Jobs,
    Messages,
    Quarantine,
    Reports,
    ServiceState,
    Uploads,
    UploadTokens,
    Usage,
    Webhooks,
)
from sluice_client.senders import AsyncSender, BlockingSender

S = TypeVar("S", BlockingSender, AsyncSender)
DEFAULT_URL: Final = "http://127.0.0.1:8000"
_TIMEOUT: Final = httpx.Timeout(120, connect=10)


class _Client(Generic[S]):
    """The operations of the API, grouped by noun."""

    def __init__(self, core: Core, sender: S) -> None:
        self.contexts: Contexts[S] = Contexts(core, sender)
        self.files: Files[S] = Files(core, sender)
        self.uploads: Uploads[S] = Uploads(core, sender)
        self.reports: Reports[S] = Reports(core, sender)
        self.quarantine: Quarantine[S] = Quarantine(core, sender)
        self.jobs: Jobs[S] = Jobs(core, sender)
        self.erasures: Erasures[S] = Erasures(core, sender)
        self.buckets: Buckets[S] = Buckets(core, sender)
        self.api_keys: ApiKeys[S] = ApiKeys(core, sender)
        self.upload_tokens: UploadTokens[S] = UploadTokens(core, sender)
        self.cors: Cors[S] = Cors(core, sender)
        self.events: Events[S] = Events(core, sender)
        self.hash_lists: HashLists[S] = HashLists(core, sender)
        self.webhooks: Webhooks[S] = Webhooks(core, sender)
        self.usage: Usage[S] = Usage(core, sender)
        self.audit: Audit[S] = Audit(core, sender)
        self.messages: Messages[S] = Messages(core, sender)
        self.service: ServiceState[S] = ServiceState(core, sender)


def _core(
    api_key: str | None, base_url: str | None, timeout: httpx.Timeout | float, max_retries: int, max_retry_wait: float
) -> Core:
    return Core(
        base_url or os.environ.get("SLUICE_URL", DEFAULT_URL),
        api_key or os.environ.get("SLUICE_API_KEY"),
        timeout=httpx.Timeout(timeout),
        max_retries=max_retries,
        max_retry_wait=max_retry_wait,
    )


class Sluice(_Client[BlockingSender]):
    """A client of one service with one credential: an API key, an upload token or a user's token.

    Without arguments the credential and the address are those of SLUICE_API_KEY and SLUICE_URL. Requests that
    failed for a while (429, 5xx, connections) are sent again up to `max_retries` times, unless the service asks to
    wait for longer than `max_retry_wait` seconds. `http_client` brings proxies, certificates and transports of your
    own; it stays open.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        timeout: httpx.Timeout | float = _TIMEOUT,
        max_retries: int = 4,
        max_retry_wait: float = 60,
        http_client: httpx.Client | None = None,
    ) -> None:
        http = http_client or httpx.Client()
        self._own = None if http_client else http
        super().__init__(_core(api_key, base_url, timeout, max_retries, max_retry_wait), BlockingSender(http))

    def close(self) -> None:
        """Close the connections."""
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncSluice(_Client[AsyncSender]):
    """The same as `Sluice` for asyncio: methods are awaited, lists are iterated with `async for`."""

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        timeout: httpx.Timeout | float = _TIMEOUT,
        max_retries: int = 4,
        max_retry_wait: float = 60,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        http = http_client or httpx.AsyncClient()
        self._own = None if http_client else http
        super().__init__(_core(api_key, base_url, timeout, max_retries, max_retry_wait), AsyncSender(http))

    async def aclose(self) -> None:
        """Close the connections."""
        if self._own is not None:
            await self._own.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
