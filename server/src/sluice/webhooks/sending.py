"""Sending one webhook: part of the response is kept."""

import json
import ssl
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import httpcore
import httpx

from sluice.buckets.endpoints import Resolve, addresses_of
from sluice.observe.log import log
from sluice.outgoing.posting import NoResponse, SignedPoster

_SECONDS: Final = 15.0
_BODY_BYTES: Final = 2048
_MOST_HEADERS: Final = 50


@dataclass(frozen=True, slots=True)
class SendResult:
    """The result of one attempt. `status` None: there was no response, and `error` says why."""

    status: int | None
    headers: tuple[str, ...]
    body: str
    error: str | None
    retry_after: timedelta | None
    duration_ms: int

    @property
    def is_success(self) -> bool:
        """Whether the receiver took the event."""
        return self.status is not None and 200 <= self.status < 300  # noqa: PLR2004  (RFC 9110 section 15.3)

    @property
    def is_gone(self) -> bool:
        """Whether the receiver asks for no further events."""
        return self.status == httpx.codes.GONE


class WebhookSender:
    """Sends webhooks to one endpoint. Close it in the end."""

    def __init__(
        self,
        url: str,
        secrets: Sequence[str],
        allowed: Collection[str],
        tls: ssl.SSLContext,
        *,
        resolve: Resolve = addresses_of,
        seconds: float = _SECONDS,
    ) -> None:
        self._url = url
        self._poster = SignedPoster(url, secrets, allowed, tls, resolve=resolve, seconds=seconds)

    async def aclose(self) -> None:
        """Close its connections."""
        await self._poster.aclose()

    async def send(self, event: dict[str, Any]) -> SendResult:
        """Send one event and return the result. Never raise for a fault of the receiver."""
        body = json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()
        began = time.monotonic()
        try:
            return await self._poster.post(event["id"], body, partial(_result_of, began=began))
        except NoResponse as fault:
            return _no_response(str(fault), began)
        except Exception:  # noqa: BLE001  (an attempt that raises would be neither noted nor counted)
            log.exception("webhook_attempt_failed", host=urlsplit(self._url).hostname)
            return _no_response("the attempt failed", began)


async def _result_of(response: httpcore.Response, began: float) -> SendResult:
    headers = httpx.Headers(response.headers)
    result = SendResult(
        status=response.status,
        headers=tuple(sorted({name.lower()[:100] for name in headers}))[:_MOST_HEADERS],
        body=await _beginning(response),
        error=None,
        retry_after=_retry_after(headers.get("retry-after")),
        duration_ms=_since(began),
    )
    return result if result.is_success else replace(result, error=f"status {result.status}")


async def _beginning(response: httpcore.Response) -> str:
    found = b""
    async for chunk in response.aiter_stream():
        found += chunk
        if len(found) >= _BODY_BYTES:
            break
    # PostgreSQL stores no NUL. A character has a byte at least, so the text is no longer than the bytes.
    return found[:_BODY_BYTES].decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


def _retry_after(text: str | None) -> timedelta | None:
    """Return the wait that a receiver asks for, in seconds or until a date (RFC 9110 section 10.2.3)."""
    if text is None:
        return None
    if text.isascii() and text.isdecimal():
        return timedelta(seconds=min(int(text[:9]), 86_400))
    try:
        moment = parsedate_to_datetime(text)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(timedelta(0), aware - datetime.now(UTC))
    except (ValueError, OverflowError):  # of a moment near the first or the last year, in another time zone
        return None


def _no_response(error: str, began: float) -> SendResult:
    storable = error.encode(errors="replace").decode().replace("\0", "")  # no database stores half a character
    return SendResult(None, (), "", storable[:255], None, _since(began))


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
