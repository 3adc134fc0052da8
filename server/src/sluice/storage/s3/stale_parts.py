"""Multipart uploads that a crash left unfinished: the store bills their parts, and no listing of objects shows them.

The client library can neither list nor abort them, so requests are signed and sent here.
"""

import asyncio
import html
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlencode

import httpcore
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sluice.kit.bounded_answers import BoundedBackend
from sluice.storage.protocol import StoreError
from sluice.storage.s3.client import Address, S3Credentials

_MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024
_MAX_RECEIVED_BYTES: Final = _MAX_RESPONSE_BYTES + 64 * 1024  # with its head
# Patterns instead of an XML parser, which would expand entities and nest without bounds: four flat fields are needed,
# and an entry that does not look as expected is skipped.
_UPLOAD: Final = re.compile(r"<Upload>(.*?)</Upload>", re.DOTALL)
_FIELD: Final = {name: re.compile(f"<{name}>([^<]*)</{name}>") for name in ("Key", "UploadId", "Initiated")}
_NEXT: Final = {name: re.compile(f"<Next{name}>([^<]*)</Next{name}>") for name in ("KeyMarker", "UploadIdMarker")}


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    """An upload that was neither completed nor aborted; `age` is by the store's own clock."""

    key: str
    upload_id: str
    age: timedelta


class StaleParts:
    """The unfinished uploads of one bucket, listed `page_size` at a time; S3 lists at most 1,000.

    Each request takes at most `seconds`, follows no redirect, and uses no proxy except the relay.
    """

    def __init__(
        self,
        address: Address,
        credentials: S3Credentials,
        *,
        seconds: float,
        relay_url: str | None = None,
        page_size: int = 1000,
    ) -> None:
        self._address = address
        self._signer = S3SigV4Auth(
            Credentials(credentials.access_key_id, credentials.secret_access_key), "s3", credentials.region
        )
        self._seconds = seconds
        self._relay_url = relay_url
        self._page_size = page_size

    async def abort(
        self,
        prefix: str,
        older_than: timedelta,
        is_ours: Callable[[str], bool],
        *,
        before: Callable[[], Awaitable[object]],
    ) -> int:
        """Abort what began longer ago than that under keys below `prefix` that `is_ours` accepts; return how many.

        `before` is awaited before each request, and may refuse it. Raise `StoreError`. Needs the rights
        ListBucketMultipartUploads and AbortMultipartUpload.
        """
        aborted = 0
        query = {"uploads": "", "max-uploads": str(self._page_size), **({"prefix": prefix} if prefix else {})}
        async with httpcore.AsyncConnectionPool(
            max_keepalive_connections=0,
            proxy=httpcore.Proxy(self._relay_url) if self._relay_url else None,
            network_backend=BoundedBackend(_MAX_RECEIVED_BYTES),
        ) as http:
            while query:
                await before()
                uploads, query = _parse_page(*await self._request(http, "GET", "", query), query)
                for upload in uploads:
                    if upload.age >= older_than and is_ours(upload.key):
                        await before()
                        await self._request(http, "DELETE", upload.key, {"uploadId": upload.upload_id})
                        aborted += 1
        return aborted

    async def _request(
        self, http: httpcore.AsyncConnectionPool, method: str, key: str, query: dict[str, str]
    ) -> tuple[str, str]:
        """Return the store's own time as it states it, and its response."""
        url = f"{self._address.url(key)}?{urlencode(sorted(query.items()), quote_via=quote, safe='')}"
        request = AWSRequest(method, url)
        self._signer.add_auth(request)
        try:
            async with (
                asyncio.timeout(self._seconds),
                http.stream(method, url, headers=dict(request.headers)) as response,
            ):
                body = bytearray()
                async for piece in response.aiter_stream():
                    body += piece
                    if len(body) > _MAX_RESPONSE_BYTES:
                        raise StoreError("The store's list of unfinished uploads is longer than it may be.")
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError, TimeoutError) as error:
            raise StoreError(f"The store did not respond as it should ({type(error).__name__}).") from error
        already_gone = method == "DELETE" and response.status == HTTPStatus.NOT_FOUND
        is_success = 200 <= response.status < 300  # noqa: PLR2004  (RFC 9110 section 15.3)
        if not is_success and not already_gone:
            raise StoreError(f"The store responded with {response.status} when asked for unfinished uploads.")
        dates = (value for name, value in response.headers if name.lower() == b"date")
        return next(dates, b"").decode("latin-1"), body.decode("utf-8", "replace")


def _parse_page(date: str, text: str, query: dict[str, str]) -> tuple[list[UnfinishedUpload], dict[str, str]]:
    """Return the uploads of one page, and the query for the next one, empty after the last."""
    try:
        now = parsedate_to_datetime(date).astimezone(UTC)
    except ValueError:
        now = datetime.now(UTC)
    uploads = [upload for entry in _UPLOAD.findall(text) if (upload := _parse_upload(entry, now)) is not None]
    markers = {
        name: found.group(1) for name, pattern in _NEXT.items() if (found := pattern.search(text)) and found.group(1)
    }
    if "<IsTruncated>true</IsTruncated>" not in text or not markers:
        return uploads, {}
    next_query = {
        **query,
        "key-marker": html.unescape(markers.get("KeyMarker", "")),
        "upload-id-marker": markers.get("UploadIdMarker", ""),
    }
    return uploads, {} if next_query == query else next_query  # a store that repeats a page must not loop us


def _parse_upload(entry: str, now: datetime) -> UnfinishedUpload | None:
    fields = [pattern.search(entry) for pattern in _FIELD.values()]
    try:
        key, upload_id, initiated = (html.unescape(found.group(1)) for found in fields if found is not None)
        return UnfinishedUpload(key, upload_id, now - datetime.fromisoformat(initiated))
    except (ValueError, TypeError):
        return None  # a field is missing, or the time has no zone
