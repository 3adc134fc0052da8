"""The endpoints of resumable uploads, by the protocol tus 1.0.0 (https://tus.io/protocols/resumable-upload): plain
Starlette routes, since they read bodies as streams and have methods and statuses of their own.

Requests of the IETF draft are handled in `resumable_ietf`.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sluice.api.error_responses import render
from sluice.api.guards import Guards
from sluice.api.routes import resumable_ietf
from sluice.api.routes.resumable_requests import (
    PATH,
    Checksum,
    announced_upload,
    append_body,
    authorize_creation,
    begin_upload,
    find_upload,
    finished_response,
    has_body,
    location_of,
    number,
    read_metadata,
    require_bytes,
    require_last_byte,
    services_of,
    take_verdict,
    upload_response,
    with_offset,
)
from sluice.db.database import DatabaseUnavailable
from sluice.errors import (
    Invalid,
    Malformed,
    MethodNotAllowed,
    ServiceUnavailable,
    SluiceError,
    UploadTakenOver,
    VersionUnsupported,
)
from sluice.resumable.resumable_upload import UploadState
from sluice.uploads.upload import LARGEST_FILE_BYTES

UPLOAD_PATH: Final = f"{PATH}/{{upload_id}}"
_VERSION: Final = "1.0.0"
_MEDIA_TYPE: Final = "application/offset+octet-stream"
_EXTENSIONS: Final = "creation,creation-with-upload,expiration,checksum,termination"
_CHECKSUMS: Final[Mapping[str, Callable[[], Any]]] = {"sha1": hashlib.sha1, "sha256": hashlib.sha256}


async def discover_uploads(request: Request) -> Response:
    """Describe what resumable uploads can do here."""
    headers = {
        "Tus-Resumable": _VERSION,
        "Tus-Version": _VERSION,
        "Tus-Extension": _EXTENSIONS,
        "Tus-Max-Size": str(LARGEST_FILE_BYTES),
        "Tus-Checksum-Algorithm": ",".join(_CHECKSUMS),
        **resumable_ietf.discovered(request),
    }
    return Response(status_code=HTTPStatus.NO_CONTENT, headers=headers)


async def create_upload(request: Request) -> Response:
    """Begin a resumable upload.

    What is announced is judged at once, as far as it is known: a file that cannot pass is refused here, without
    `Location`. With a body, its first bytes are appended; with all of them the response is that of a finished upload.
    """
    caller = await authorize_creation(request)
    _require_version(request)
    if "upload-defer-length" in request.headers:
        raise Invalid("Upload-Defer-Length: the length must be known")
    if "upload-concat" in request.headers:
        raise Invalid(
            "Upload-Concat: the parts of a file are not joined here, so send it as one upload "
            "(parallelUploads: 1 in tus-js-client and Uppy)"
        )
    sent = request.headers.get("upload-metadata", "")
    announced = announced_upload(caller.value, number(request, "upload-length"), read_metadata(sent), sent)
    if has_body(request):
        require_bytes(request, _MEDIA_TYPE)
    checksum = _checksum(request)
    upload = await begin_upload(request, caller, announced)
    location = {"Location": location_of(request, upload)}
    if not has_body(request) and announced.length:
        return upload_response(upload, "Upload created", HTTPStatus.CREATED, location)
    try:
        upload = await append_body(request, upload, 0, checksum=checksum)
        if not upload.is_complete:
            return upload_response(upload, "Upload created", HTTPStatus.CREATED, location)
        stored = await take_verdict(request, caller, upload)
    except BaseException:
        await services_of(request).resumable.abandon(upload)  # no client knows its URL
        raise
    return finished_response(stored, upload, caller.value, HTTPStatus.CREATED, location)


async def append_to_upload(request: Request) -> Response:
    """Append bytes to a resumable upload at `Upload-Offset`.

    The request with the last byte has the same response as an upload by form, with 200. While the verdict is being
    taken, or if it could not be taken, or if it is a rejection, the last byte is not acknowledged: a client that sends
    it again gets the verdict, without a second file.
    """
    caller, upload = await find_upload(request)
    _require_version(request)
    require_bytes(request, _MEDIA_TYPE)
    offset, checksum = number(request, "upload-offset"), _checksum(request)
    if upload.is_complete:
        if offset not in {upload.offset, upload.length - 1}:
            raise UploadTakenOver(upload.offset)
        await require_last_byte(request, upload, offset, checksum)
    else:
        if offset != upload.received:
            raise UploadTakenOver(upload.offset)
        upload = await append_body(request, upload, offset, checksum=checksum)
        if not upload.is_complete:
            return with_offset(Response(status_code=HTTPStatus.NO_CONTENT), upload)
    stored = await take_verdict(request, caller, upload)
    return finished_response(stored, upload, caller.value, HTTPStatus.OK, {})


async def head_upload(request: Request) -> Response:
    """Return how many bytes of a resumable upload are acknowledged."""
    _caller, upload = await find_upload(request)
    _require_version(request)
    headers = {"Upload-Length": str(upload.length)}
    if upload.sent_metadata is not None:
        headers["Upload-Metadata"] = upload.sent_metadata
    if upload.state is UploadState.STORED and upload.file_id is not None:
        headers["Sluice-File-Id"] = upload.file_id
    return with_offset(Response(status_code=HTTPStatus.OK, headers=headers), upload)


async def get_upload(request: Request) -> Response:
    """Return the state of a resumable upload."""
    _caller, upload = await find_upload(request)
    return upload_response(upload, "Upload found", HTTPStatus.OK, {})


async def cancel_upload(request: Request) -> Response:
    """Cancel a resumable upload that is not finished; its bytes are deleted."""
    _caller, upload = await find_upload(request)
    _require_version(request)
    await services_of(request).resumable.cancel(upload)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _require_version(request: Request) -> None:
    if request.headers.get("tus-resumable") != _VERSION:
        raise VersionUnsupported


def _checksum(request: Request) -> Checksum | None:
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
    return Checksum(expected, _CHECKSUMS[name]())


Endpoint = Callable[[Request], Any]


def _serving(endpoints: Mapping[str, Endpoint]) -> Guards:
    """Return the application of one path: an endpoint by method, every response with the protocol's headers."""

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
            drafted = resumable_ietf.ENDPOINTS.get(method) if resumable_ietf.is_spoken(request) else None
            response = await (endpoint(request) if drafted is None else resumable_ietf.respond(request, drafted))
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
