"""What the endpoints of resumable uploads share, whichever protocol a request speaks: who asks, what is announced, the
body, the verdict.

The life of an upload is in `resumable.service`.
"""

import base64
import binascii
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import format_datetime
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from sluice.access import ROUTE_SCOPES, Principal
from sluice.api.route import authorize, require_uncompressed
from sluice.api.routes.upload import counted, stored_response
from sluice.api.schemas.envelope import Envelope
from sluice.api.schemas.resumable import ResumableUploadOut
from sluice.errors import BodyTooLarge, ChecksumMismatch, Invalid, Malformed, UnsupportedBody, UploadTakenOver
from sluice.kit.read_through_cache import Cached
from sluice.resumable.resumable_upload import NewUpload, ResumableUpload
from sluice.services import Services
from sluice.uploads.upload import LARGEST_FILE_BYTES, Purpose, Upload
from sluice.uploads.values import Attempt, Stored

PATH: Final = "/api/v1/uploads"
_SCOPE: Final = ROUTE_SCOPES["POST", PATH]  # the same for all routes
_NUMBER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_METADATA_HEADER_CHARACTERS: Final = 8192


@dataclass(slots=True)
class Checksum:
    """The checksum that a request names, and that of the bytes that have come."""

    expected: bytes
    digest: Any

    def require_equal(self) -> None:
        """Raise `ChecksumMismatch` unless both are the same."""
        if self.digest.digest() != self.expected:
            raise ChecksumMismatch


def services_of(request: Request) -> Services:
    """Return the services."""
    services: Services = request.app.state.services
    return services


async def find_upload(request: Request) -> tuple[Cached[Principal], ResumableUpload]:
    """Return the caller, and the upload that the path names; raise `NotFound` for one of another tenant."""
    caller = await authorize(request, _SCOPE, takes_tokens="tus", continues=True)
    return caller, await services_of(request).resumable.get(caller.value, request.path_params["upload_id"])


async def authorize_creation(request: Request) -> Cached[Principal]:
    """Return the caller who may begin an upload."""
    return await authorize(request, _SCOPE, takes_tokens="tus")


# The head of a request


def has_body(request: Request) -> bool:
    """Return whether the head announces a body."""
    return "transfer-encoding" in request.headers or request.headers.get("content-length", "0").strip("0") != ""


def declared_bytes(request: Request) -> int | None:
    """Return the size of the body, if the head states it."""
    declared = request.headers.get("content-length")
    return None if declared is None else int(declared)


def require_bytes(request: Request, media_type: str) -> None:
    """Raise `UnsupportedBody` unless the body is of this type, and not compressed."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != media_type:
        raise UnsupportedBody(media_type)
    require_uncompressed(request)


def number(request: Request, name: str) -> int:
    """Return a header field that is a number of bytes; raise `Invalid`."""
    sent = request.headers.get(name, "")
    if _NUMBER.fullmatch(sent) is None:
        raise Invalid(f"{name.title()}: expected a number of bytes, found {sent[:60]!r}")
    return int(sent)


def announced_upload(caller: Principal, length: int, fields: Mapping[str, str], sent_metadata: str) -> NewUpload:
    """Return what a creation announces; raise `Invalid` or `BodyTooLarge`.

    `fields` are `context`, `filename` and `metadata`; `sent_metadata` is the header that they came in.
    """
    if length > LARGEST_FILE_BYTES:
        raise BodyTooLarge(LARGEST_FILE_BYTES)
    problems = []
    context = fields.get("context", "") or (caller.permit.context_key if caller.permit is not None else "")
    filename = fields.get("filename") or fields.get("name", "")
    if not context:
        problems.append("Upload-Metadata: context: field required")
    if not filename:
        problems.append("Upload-Metadata: filename: field required")
    if problems:
        raise Invalid(*problems)
    return NewUpload(
        tenant_id=caller.tenant_id,
        actor_id=caller.actor_id,
        via=caller.via,
        context_key=context,
        filename=filename,
        metadata=fields.get("metadata") or None,
        sent_metadata=sent_metadata or None,
        length=length,
    )


def read_metadata(sent: str) -> dict[str, str]:
    """Return the pairs of `Upload-Metadata`: a key, a space, the value in base64, and a comma between two pairs.

    Raise `Invalid` if the header is malformed.
    """
    if len(sent) > _METADATA_HEADER_CHARACTERS:
        raise Invalid(f"Upload-Metadata: expected at most {_METADATA_HEADER_CHARACTERS} characters")
    fields: dict[str, str] = {}
    for pair in filter(None, (each.strip(" \t") for each in sent.split(","))):
        key, _, value = pair.partition(" ")
        if key in fields:
            raise Invalid(f"Upload-Metadata: {key[:60]} comes twice")
        try:
            fields[key] = base64.b64decode(value.strip(" "), validate=True).decode()
        except (binascii.Error, ValueError) as fault:
            raise Invalid(f"Upload-Metadata: {key[:60]}: expected UTF-8 in base64") from fault
    return fields


# Creation, bytes, verdict


async def begin_upload(request: Request, caller: Cached[Principal], announced: NewUpload) -> ResumableUpload:
    """Judge what is announced, and return a new upload for its bytes."""
    services, began = services_of(request), time.monotonic()

    async def read_caller(since: float) -> Cached[Principal]:
        return await authorize(request, _SCOPE, since=since, again=True, takes_tokens="tus")

    purpose = Purpose(declared_bytes=announced.length)
    judged = services.uploads.begin(caller, read_caller, began=began, purpose=purpose)
    return await services.resumable.create(announced, judged)


async def append_body(
    request: Request,
    upload: ResumableUpload,
    offset: int,
    *,
    checksum: Checksum | None = None,
    kept: Callable[[ResumableUpload], None] | None = None,
) -> ResumableUpload:
    """Append the body at `offset`, and return the upload as it is then.

    Tell `kept` each time that more of it is kept. Raise `UploadTakenOver`, with the offset where it is.
    """
    services, chunks = services_of(request), _chunks(request, upload.length - offset, checksum)
    try:
        return await services.resumable.append(
            upload, offset, chunks, announced=declared_bytes(request), whole=checksum is not None, kept=kept
        )
    except UploadTakenOver as fault:
        if fault.offset is None:
            raise UploadTakenOver((await services.resumable.read(upload)).offset) from fault
        raise


async def require_last_byte(
    request: Request, upload: ResumableUpload, offset: int, checksum: Checksum | None = None
) -> None:
    """Read what is sent to an upload that has all its bytes: the last one once more, or nothing.

    Raise `Invalid` or `UploadTakenOver` if it is anything else.
    """
    if offset not in {upload.length, max(0, upload.length - 1)}:
        raise UploadTakenOver(upload.offset)
    received = 0
    async for chunk in _chunks(request, upload.length - offset, checksum):
        received += len(chunk)
    if received != upload.length - offset:
        raise Invalid(f"body: expected {upload.length - offset} bytes, found {received}")


async def _chunks(request: Request, most: int, checksum: Checksum | None) -> AsyncIterator[bytes]:
    """Yield the body; raise `BodyTooLarge` beyond `most` bytes, `ChecksumMismatch` at its end."""
    declared = declared_bytes(request)
    if declared is not None and declared > most:
        raise BodyTooLarge(most)
    received = 0
    try:
        async for chunk in request.stream():
            received += len(chunk)
            if received > most:
                raise BodyTooLarge(most)
            if checksum is not None:
                checksum.digest.update(chunk)
            yield chunk
    except ClientDisconnect as fault:
        raise Malformed(errors=["body: ended before its announced length"]) from fault
    if checksum is not None:
        checksum.require_equal()


async def take_verdict(request: Request, caller: Cached[Principal], upload: ResumableUpload) -> Stored:
    """Return the stored file of an upload that has all its bytes; raise what `Upload.finish` raises."""
    services, began = services_of(request), time.monotonic()

    async def read_caller(since: float) -> Cached[Principal]:
        return await authorize(request, _SCOPE, since=since, again=True, takes_tokens="tus", continues=True)

    def begin(attempt: Attempt) -> Upload:
        purpose = Purpose(declared_bytes=upload.length, attempt=attempt)
        return services.uploads.begin(caller, read_caller, began=began, purpose=purpose)

    async def run(judged: Upload, work: Callable[[], Awaitable[Stored]]) -> Stored:
        return await counted(judged, "store", work)

    return await services.resumable.finish(upload, begin, run)


# Responses


def location_of(request: Request, upload: ResumableUpload) -> str:
    """Return the address of an upload."""
    return f"{services_of(request).public_url}{PATH}/{upload.upload_id}"


def with_offset(response: Response, upload: ResumableUpload) -> Response:
    """Return the response with the upload's offset, and when its time is over."""
    response.headers["Upload-Offset"] = str(upload.offset)
    response.headers["Upload-Expires"] = format_datetime(upload.expires_at, usegmt=True)
    return response


def upload_response(upload: ResumableUpload, message: str, status: HTTPStatus, headers: Mapping[str, str]) -> Response:
    """Return a response that shows the upload."""
    body = Envelope[ResumableUploadOut](message=message, data=ResumableUploadOut.of(upload))
    return with_offset(Response(body.model_dump_json(), status, headers, media_type="application/json"), upload)


def finished_response(
    stored: Stored, upload: ResumableUpload, caller: Principal, status: HTTPStatus, headers: Mapping[str, str]
) -> Response:
    """Return the response to the request that got the verdict: that of an upload by form."""
    response = with_offset(stored_response(stored, caller, status), upload)
    response.headers.update(headers)
    response.headers["Sluice-File-Id"] = stored.file_id
    response.headers["Upload-Offset"] = str(upload.length)
    return response
