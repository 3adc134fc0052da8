"""The endpoints of resumable uploads, by the protocol tus 1.0.0 (https://tus.io/protocols/resumable-upload): plain
Starlette routes, since they read bodies as streams and answer methods and statuses of their own.

What becomes of an upload is in `resumable.service`.
"""

import base64
import binascii
import hashlib
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import format_datetime
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sluice.access import ROUTE_SCOPES, Principal
from sluice.api.error_responses import render
from sluice.api.guards import Guards
from sluice.api.route import authorize, require_uncompressed
from sluice.api.routes.upload import answer_stored, counted
from sluice.api.schemas.envelope import Envelope
from sluice.api.schemas.resumable import ResumableUploadOut
from sluice.api.services import ApiServices
from sluice.db.database import DatabaseUnavailable
from sluice.errors import (
    BodyTooLarge,
    ChecksumMismatch,
    Invalid,
    Malformed,
    MethodNotAllowed,
    ServiceUnavailable,
    SluiceError,
    UnsupportedBody,
    UploadTakenOver,
    VersionUnsupported,
)
from sluice.kit.read_through_cache import Cached
from sluice.resumable.resumable_upload import NewUpload, ResumableUpload, UploadState
from sluice.uploads.upload import LARGEST_FILE_BYTES, Purpose, Upload
from sluice.uploads.values import Attempt, Stored

PATH: Final = "/api/v1/uploads"
UPLOAD_PATH: Final = f"{PATH}/{{upload_id}}"
_SCOPE: Final = ROUTE_SCOPES["POST", PATH]  # the same for all routes
_VERSION: Final = "1.0.0"
_MEDIA_TYPE: Final = "application/offset+octet-stream"
_EXTENSIONS: Final = "creation,creation-with-upload,expiration,checksum,termination"
_CHECKSUMS: Final[Mapping[str, Callable[[], Any]]] = {"sha1": hashlib.sha1, "sha256": hashlib.sha256}
_NUMBER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_METADATA_HEADER_CHARACTERS: Final = 8192


@dataclass(slots=True)
class _Checksum:
    """The checksum that a request names, and that of the bytes that have come."""

    expected: bytes
    digest: Any

    def require_equal(self) -> None:
        """Raise `ChecksumMismatch` unless both are the same."""
        if self.digest.digest() != self.expected:
            raise ChecksumMismatch


async def discover_uploads(request: Request) -> Response:
    """Describe what resumable uploads can do here."""
    services = _services(request)
    headers = {
        "Tus-Resumable": _VERSION,
        "Tus-Version": _VERSION,
        "Tus-Extension": _EXTENSIONS,
        "Tus-Max-Size": str(LARGEST_FILE_BYTES),
        "Tus-Checksum-Algorithm": ",".join(_CHECKSUMS),
        "Upload-Limit": f"max-size={LARGEST_FILE_BYTES}, max-age={_seconds(services)}",
    }
    return Response(status_code=HTTPStatus.NO_CONTENT, headers=headers)


async def create_upload(request: Request) -> Response:
    """Begin a resumable upload.

    What is announced is judged at once, as far as it is known: a file that cannot pass is refused here, without
    `Location`. With a body, its first bytes are appended; with all of them the answer is that of a finished upload.
    """
    began, services = time.monotonic(), _services(request)
    caller = await authorize(request, _SCOPE, takes_tokens="tus")
    _require_version(request)
    announced = _announced(request, caller.value)
    has_body = _has_body(request)
    if has_body:
        _require_bytes(request)
    checksum = _checksum(request)

    async def read_caller(since: float) -> Cached[Principal]:
        return await authorize(request, _SCOPE, since=since, again=True, takes_tokens="tus")

    purpose = Purpose(declared_bytes=announced.length)
    judged = services.uploads.begin(caller, read_caller, began=began, purpose=purpose)
    upload = await services.resumable.create(announced, judged)
    location = {"Location": f"{services.public_url}{PATH}/{upload.upload_id}"}
    if not has_body and announced.length:
        return _shown(upload, "Upload created", HTTPStatus.CREATED, location)
    try:
        upload = await _append(request, upload, 0, checksum)
        if not upload.is_complete:
            return _shown(upload, "Upload created", HTTPStatus.CREATED, location)
        stored = await _finish(request, caller, upload)
    except BaseException:
        await services.resumable.abandon(upload)  # nobody knows where it is
        raise
    return _answer_stored(stored, upload, caller.value, HTTPStatus.CREATED, location)


async def append_to_upload(request: Request) -> Response:
    """Append bytes to a resumable upload at `Upload-Offset`.

    The request with the last byte answers as an upload by form does, with 200. While the verdict is being taken, or if
    it could not be taken, or if it is a rejection, the last byte is not acknowledged: whoever sends it again gets the
    verdict, without a second file.
    """
    caller = await _authorize(request)
    _require_version(request)
    upload = await _services(request).resumable.get(caller.value, request.path_params["upload_id"])
    _require_bytes(request)
    offset, checksum = _number(request, "upload-offset"), _checksum(request)
    if upload.is_complete:
        await _require_last_byte(request, upload, offset, checksum)
    else:
        if offset != upload.received:
            raise UploadTakenOver(upload.offset)
        upload = await _append(request, upload, offset, checksum)
        if not upload.is_complete:
            return _answer(Response(status_code=HTTPStatus.NO_CONTENT), upload)
    stored = await _finish(request, caller, upload)
    return _answer_stored(stored, upload, caller.value, HTTPStatus.OK, {})


async def head_upload(request: Request) -> Response:
    """Return how many bytes of a resumable upload are acknowledged."""
    caller = await _authorize(request)
    _require_version(request)
    upload = await _services(request).resumable.get(caller.value, request.path_params["upload_id"])
    headers = {"Upload-Length": str(upload.length)}
    if upload.sent_metadata is not None:
        headers["Upload-Metadata"] = upload.sent_metadata
    if upload.state is UploadState.STORED and upload.file_id is not None:
        headers["Sluice-File-Id"] = upload.file_id
    return _answer(Response(status_code=HTTPStatus.OK, headers=headers), upload)


async def get_upload(request: Request) -> Response:
    """Return the state of a resumable upload."""
    caller = await _authorize(request)
    upload = await _services(request).resumable.get(caller.value, request.path_params["upload_id"])
    return _shown(upload, "Upload found", HTTPStatus.OK, {})


async def cancel_upload(request: Request) -> Response:
    """Cancel a resumable upload that is not finished; its bytes are deleted."""
    caller = await _authorize(request)
    _require_version(request)
    resumable = _services(request).resumable
    await resumable.cancel(await resumable.get(caller.value, request.path_params["upload_id"]))
    return Response(status_code=HTTPStatus.NO_CONTENT)


# Requests


def _services(request: Request) -> ApiServices:
    services: ApiServices = request.app.state.services
    return services


async def _authorize(request: Request) -> Cached[Principal]:
    return await authorize(request, _SCOPE, takes_tokens="tus", continues=True)


def _require_version(request: Request) -> None:
    if request.headers.get("tus-resumable") != _VERSION:
        raise VersionUnsupported


def _require_bytes(request: Request) -> None:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _MEDIA_TYPE:
        raise UnsupportedBody(_MEDIA_TYPE)
    require_uncompressed(request)


def _has_body(request: Request) -> bool:
    return "transfer-encoding" in request.headers or request.headers.get("content-length", "0").strip("0") != ""


def _number(request: Request, name: str) -> int:
    sent = request.headers.get(name, "")
    if _NUMBER.fullmatch(sent) is None:
        raise Invalid(f"{name.title()}: expected a number of bytes, found {sent[:60]!r}")
    return int(sent)


def _announced(request: Request, caller: Principal) -> NewUpload:
    """Return what the head of a creation announces; raise `Invalid` or `BodyTooLarge`."""
    if "upload-defer-length" in request.headers:
        raise Invalid("Upload-Defer-Length: the length must be known")
    length = _number(request, "upload-length")
    if length > LARGEST_FILE_BYTES:
        raise BodyTooLarge(LARGEST_FILE_BYTES)
    sent = request.headers.get("upload-metadata", "")
    fields = _metadata(sent)
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
        sent_metadata=sent or None,
        length=length,
    )


def _metadata(sent: str) -> dict[str, str]:
    """Return the pairs of `Upload-Metadata`: a key, a space, the value in base64, and a comma between two pairs."""
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


def _checksum(request: Request) -> _Checksum | None:
    sent = request.headers.get("upload-checksum")
    if sent is None:
        return None
    name, _, value = sent.partition(" ")
    if name not in _CHECKSUMS:
        raise Malformed(errors=[f"Upload-Checksum: expected one of {', '.join(_CHECKSUMS)}"])
    try:
        expected = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as fault:
        raise Malformed(errors=["Upload-Checksum: expected a checksum in base64"]) from fault
    return _Checksum(expected, _CHECKSUMS[name]())


async def _append(
    request: Request, upload: ResumableUpload, offset: int, checksum: _Checksum | None
) -> ResumableUpload:
    declared = request.headers.get("content-length")
    announced = None if declared is None else int(declared)
    chunks = _chunks(request, upload.length - offset, checksum)
    return await _services(request).resumable.append(
        upload, offset, chunks, announced=announced, whole=checksum is not None
    )


async def _chunks(request: Request, most: int, checksum: _Checksum | None) -> AsyncIterator[bytes]:
    """Yield the body; raise `BodyTooLarge` beyond `most` bytes, `ChecksumMismatch` at its end."""
    declared = request.headers.get("content-length")
    if declared is not None and int(declared) > most:
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


async def _require_last_byte(
    request: Request, upload: ResumableUpload, offset: int, checksum: _Checksum | None
) -> None:
    """Read what is sent to an upload that has all its bytes: the last one once more, or nothing to a stored one."""
    is_stored = upload.state is UploadState.STORED
    if offset != upload.offset and not (is_stored and offset == upload.length - 1):
        raise UploadTakenOver(upload.offset)
    received = 0
    async for chunk in _chunks(request, upload.length - offset, checksum):
        received += len(chunk)
    if received != upload.length - offset:
        raise Invalid(f"body: expected {upload.length - offset} bytes, found {received}")


async def _finish(request: Request, caller: Cached[Principal], upload: ResumableUpload) -> Stored:
    services, began = _services(request), time.monotonic()

    async def read_caller(since: float) -> Cached[Principal]:
        return await authorize(request, _SCOPE, since=since, again=True, takes_tokens="tus", continues=True)

    def begin(attempt: Attempt) -> Upload:
        purpose = Purpose(declared_bytes=upload.length, attempt=attempt)
        return services.uploads.begin(caller, read_caller, began=began, purpose=purpose)

    async def run(judged: Upload, work: Callable[[], Awaitable[Stored]]) -> Stored:
        return await counted(judged, "store", work)

    return await services.resumable.finish(upload, begin, run)


# Answers


def _seconds(services: ApiServices) -> int:
    return int(services.resumable.limits.life.total_seconds())


def _answer(response: Response, upload: ResumableUpload) -> Response:
    response.headers["Upload-Offset"] = str(upload.offset)
    response.headers["Upload-Expires"] = format_datetime(upload.expires_at, usegmt=True)
    return response


def _shown(upload: ResumableUpload, message: str, status: HTTPStatus, headers: Mapping[str, str]) -> Response:
    body = Envelope[ResumableUploadOut](message=message, data=ResumableUploadOut.of(upload))
    return _answer(Response(body.model_dump_json(), status, headers, media_type="application/json"), upload)


def _answer_stored(
    stored: Stored, upload: ResumableUpload, caller: Principal, status: HTTPStatus, headers: Mapping[str, str]
) -> Response:
    response = answer_stored(stored, caller, status)
    response.headers.update(headers)
    response.headers["Sluice-File-Id"] = stored.file_id
    response.headers["Upload-Offset"] = str(upload.length)
    response.headers["Upload-Expires"] = format_datetime(upload.expires_at, usegmt=True)
    return response


Endpoint = Callable[[Request], Any]


def _serving(endpoints: Mapping[str, Endpoint]) -> Guards:
    """Return the application of one path: the endpoint by the method, and every answer with the protocol's headers."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        scope["route"] = UPLOAD_ROUTE if "upload_id" in request.path_params else ROUTE  # where the request is counted
        try:
            method = scope["method"]
            if method == "POST" and "POST" not in endpoints:
                # From where only GET and POST can be sent (tus 1.0.0, X-HTTP-Method-Override)
                method = request.headers.get("x-http-method-override", "").upper() or method
            endpoint = endpoints.get(method)
            if endpoint is None:
                raise MethodNotAllowed
            response = await endpoint(request)
        except SluiceError as error:
            response = render(error, request)
            if isinstance(error, UploadTakenOver) and error.offset is not None:
                response.headers["Upload-Offset"] = str(error.offset)
        except DatabaseUnavailable:
            response = render(ServiceUnavailable("database"), request)
        if response.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            response.headers["Allow"] = ", ".join(sorted(endpoints))
        if response.status_code == HTTPStatus.PRECONDITION_FAILED:
            response.headers["Tus-Version"] = _VERSION
        response.headers["Tus-Resumable"] = _VERSION
        await response(scope, receive, send)

    return Guards(serve)


ROUTE: Final = Route(PATH, _serving({"OPTIONS": discover_uploads, "POST": create_upload}))
UPLOAD_ROUTE: Final = Route(
    UPLOAD_PATH,
    _serving(
        {
            "OPTIONS": discover_uploads,
            "GET": get_upload,
            "HEAD": head_upload,
            "PATCH": append_to_upload,
            "DELETE": cancel_upload,
        }
    ),
)
