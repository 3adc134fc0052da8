"""Finding and aborting multipart uploads that a crash left unfinished in a bucket: the store bills their parts, and no listing of objects shows them.

The client library of `s3` can do neither, so requests are signed and sent here. No parser of XML is at work: the few fields that are needed
are read by patterns, and what is not as expected is left alone.
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

import httpx
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sluice.engines.storage.protocol import StoreFault
from sluice.engines.storage.s3_address import Address

_MOST_BYTES: Final = 4 * 1024 * 1024
_UPLOAD: Final = re.compile(r"<Upload>(.*?)</Upload>", re.DOTALL)
_FIELD: Final = {name: re.compile(f"<{name}>([^<]*)</{name}>") for name in ("Key", "UploadId", "Initiated")}
_NEXT: Final = {name: re.compile(f"<Next{name}>([^<]*)</Next{name}>") for name in ("KeyMarker", "UploadIdMarker")}


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An upload that was neither completed nor aborted, and for how long by the store's own clock."""

    key: str
    upload_id: str
    age: timedelta


class StaleParts:
    """The unfinished uploads of one bucket, listed `page` at a time, of which a store answers no more than 1,000.

    Each request takes `seconds` at most, follows no redirect and knows no proxy but the relay.
    """

    def __init__(
        self,
        address: Address,
        region: str,
        access_key_id: str,
        secret_access_key: str,
        *,
        seconds: float,
        relay_url: str | None = None,
        page: int = 1000,
    ) -> None:
        self._address = address
        self._region = region
        self._credentials = Credentials(access_key_id, secret_access_key)
        self._seconds = seconds
        self._relay_url = relay_url
        self._page = page

    async def abort(
        self, prefix: str, older_than: timedelta, is_ours: Callable[[str], bool], *, before: Callable[[], Awaitable[object]]
    ) -> int:
        """Abort what began longer ago than that under keys below `prefix` that `is_ours` knows; answer how many. Raises `StoreFault`.

        `before` is awaited before each request, and may refuse it.

        Needs the rights ListBucketMultipartUploads and AbortMultipartUpload.
        """
        aborted, more = 0, {"uploads": "", "max-uploads": str(self._page), **({"prefix": prefix} if prefix else {})}
        once = httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(
            timeout=self._seconds, follow_redirects=False, trust_env=False, proxy=self._relay_url, limits=once
        ) as http:
            while more:
                await before()
                shown, more = _read(await self._ask(http, "GET", "", more), more)
                for upload in shown:
                    if upload.age >= older_than and is_ours(upload.key):
                        await before()
                        await self._ask(http, "DELETE", upload.key, {"uploadId": upload.upload_id})
                        aborted += 1
        return aborted

    async def _ask(self, http: httpx.AsyncClient, method: str, key: str, query: dict[str, str]) -> httpx.Response:
        url = f"{self._address.url(key)}?{urlencode(sorted(query.items()), quote_via=quote, safe='')}"
        request = AWSRequest(method, url)
        S3SigV4Auth(self._credentials, "s3", self._region).add_auth(request)
        try:
            async with asyncio.timeout(self._seconds), http.stream(method, url, headers=dict(request.headers)) as response:
                body = bytearray()
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > _MOST_BYTES:
                        raise StoreFault("The store's list of unfinished uploads is longer than it may be.")
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as fault:
            raise StoreFault(f"The store did not answer as it should ({type(fault).__name__}).") from fault
        gone = method == "DELETE" and response.status_code == HTTPStatus.NOT_FOUND
        if not (response.is_success or gone):
            raise StoreFault(f"The store answered {response.status_code} when asked for unfinished uploads.")
        return httpx.Response(response.status_code, headers={"Date": response.headers.get("Date", "")}, content=bytes(body))


def _read(answer: httpx.Response, asked: dict[str, str]) -> tuple[list[Unfinished], dict[str, str]]:
    """Answer the uploads of one page, and the query of the next one, empty after the last."""
    text = answer.content.decode("utf-8", "replace")
    now = _date(answer.headers["Date"])
    shown = [upload for entry in _UPLOAD.findall(text) if (upload := _upload(entry, now)) is not None]
    markers = {name: found.group(1) for name, pattern in _NEXT.items() if (found := pattern.search(text)) and found.group(1)}
    if "<IsTruncated>true</IsTruncated>" not in text or not markers:
        return shown, {}
    following = {"key-marker": html.unescape(markers.get("KeyMarker", "")), "upload-id-marker": markers.get("UploadIdMarker", "")}
    page = {**asked, **following}
    return shown, {} if page == asked else page


def _upload(entry: str, now: datetime) -> Unfinished | None:
    fields = [pattern.search(entry) for pattern in _FIELD.values()]
    try:
        key, upload_id, initiated = (html.unescape(found.group(1)) for found in fields if found is not None)
        return Unfinished(key, upload_id, now - datetime.fromisoformat(initiated))
    except (ValueError, TypeError):
        return None  # a field is missing, or it is no moment with a zone


def _date(text: str) -> datetime:
    """Answer the moment of an answer; a store that does not tell it is believed to share our clock."""
    try:
        return parsedate_to_datetime(text).astimezone(UTC)
    except ValueError:
        return datetime.now(UTC)
