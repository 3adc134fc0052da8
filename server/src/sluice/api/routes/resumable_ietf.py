"""Resumable uploads by the IETF's draft-ietf-httpbis-resumable-upload, interop versions 6 and 8, on the uploads of tus.

Spoken if the operator allows it, to requests that name their version. What it has that tus has not: a request says by
itself that it is the last one (`Upload-Complete`), and the server tells the address of an upload while its first bytes
come in (104). The last byte is acknowledged with the verdict here too: `Upload-Complete: ?1` is in no other response.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sluice.access import Principal
from sluice.api.error_responses import PROBLEM_TYPE, as_problem, render
from sluice.api.http1.multipart import filename_in
from sluice.api.route import require_uncompressed
from sluice.api.routes.resumable_requests import (
    announced_upload,
    append_body,
    authorize_creation,
    begin_upload,
    declared_bytes,
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
from sluice.errors import (
    BodyTooLarge,
    FileRejected,
    Invalid,
    Malformed,
    SluiceError,
    UploadComplete,
    UploadLengthInconsistent,
    UploadTakenOver,
    VersionUnsupported,
)
from sluice.kit.read_through_cache import Cached
from sluice.resumable.resumable_upload import ResumableUpload, UploadState
from sluice.uploads.upload import LARGEST_FILE_BYTES

_VERSION_HEADER: Final = "Upload-Draft-Interop-Version"
_FIRST: Final = "6"
_VERSIONS: Final = (_FIRST, "8")
_MEDIA_TYPE: Final = "application/partial-upload"
_BOOLEANS: Final[Mapping[str, bool]] = {"?1": True, "?0": False}
_STATE_HEADERS: Final = ("upload-offset", "upload-complete", "upload-length")
_INTERIM: Final = b"104 Upload Resumption Supported"
_PROBLEMS: Final = "https://iana.org/assignments/http-problem-types#"


def is_spoken(request: Request) -> bool:
    """Return whether a request speaks the draft, and the operator allows it."""
    named = _VERSION_HEADER in request.headers and "tus-resumable" not in request.headers
    return named and services_of(request).ietf_uploads


async def respond(request: Request, endpoint: Callable[[Request], Awaitable[Response]]) -> Response:
    """Return the response of an endpoint, or of what it raises, as the draft has it."""
    version = request.headers[_VERSION_HEADER]
    try:
        if version not in _VERSIONS:
            raise VersionUnsupported(errors=[f"{_VERSION_HEADER}: expected {' or '.join(_VERSIONS)}"])
        response = await endpoint(request)
    except SluiceError as error:
        response = _refused(error, request)
    response.headers[_VERSION_HEADER] = version if version in _VERSIONS else _VERSIONS[-1]
    return response


def discovered(request: Request) -> dict[str, str]:
    """Return the headers that tell what uploads may be, for both protocols."""
    services = services_of(request)
    limits = {"Upload-Limit": _limits(request, int(services.resumable.limits.life.total_seconds()))}
    return limits | ({"Accept-Patch": _MEDIA_TYPE} if services.ietf_uploads else {})


# Endpoints


async def _create(request: Request) -> Response:
    caller = await authorize_creation(request)
    completes = _completes(request)
    length = _stated_length(request, 0, completes=completes)
    if length is None:
        raise Invalid("Upload-Length: the length must be known")
    require_uncompressed(request)
    sent = request.headers.get("upload-metadata", "")
    fields = read_metadata(sent)
    named = filename_in(request.headers.get("content-disposition", ""))
    if named is not None:
        fields.setdefault("filename", named)
    upload = await begin_upload(request, caller, announced_upload(caller.value, length, fields, sent))
    known = {"Location": location_of(request, upload), "Upload-Limit": _limits(request, _seconds_left(upload))}
    is_announced = _send_interim(request, known)
    try:
        if has_body(request):
            upload = await _append(request, upload, 0)
        if not completes:
            return upload_response(upload, "Upload created", HTTPStatus.CREATED, known | {"Upload-Complete": "?0"})
        return await _finish(request, caller, upload, HTTPStatus.CREATED, known)
    except BaseException:
        if not is_announced:
            await services_of(request).resumable.abandon(upload)  # no client knows its URL
        raise


async def _append_to(request: Request) -> Response:
    caller, upload = await find_upload(request)
    require_bytes(request, _MEDIA_TYPE)
    offset, completes = number(request, "upload-offset"), _completes(request)
    if not upload.is_complete:
        if offset != upload.received:
            raise UploadTakenOver(upload.offset)
        _stated_length(request, offset, completes=completes, length=upload.length)
        upload = await _append(request, upload, offset)
    elif upload.state is UploadState.STORED and not (completes and offset >= upload.length - 1):
        raise UploadComplete
    else:
        try:
            await require_last_byte(request, upload, offset)
        except (BodyTooLarge, Invalid) as fault:
            raise UploadLengthInconsistent from fault
    if completes:
        return await _finish(request, caller, upload, HTTPStatus.OK, {})
    is_open = {"Upload-Complete": "?0"}
    if request.headers[_VERSION_HEADER] == _FIRST:
        return upload_response(upload, "Bytes appended", HTTPStatus.CREATED, is_open)
    return with_offset(Response(status_code=HTTPStatus.NO_CONTENT, headers=is_open), upload)


async def _head(request: Request) -> Response:
    _require_no_state(request)
    _caller, upload = await find_upload(request)
    is_stored = upload.state is UploadState.STORED and upload.file_id is not None
    headers = {
        "Upload-Complete": "?1" if is_stored else "?0",
        "Upload-Length": str(upload.length),
        "Upload-Limit": _limits(request, _seconds_left(upload)),
    }
    if is_stored:
        headers["Sluice-File-Id"] = str(upload.file_id)
    return with_offset(Response(status_code=HTTPStatus.NO_CONTENT, headers=headers), upload)


async def _cancel(request: Request) -> Response:
    _require_no_state(request)
    _caller, upload = await find_upload(request)
    await services_of(request).resumable.cancel(upload)
    return Response(status_code=HTTPStatus.NO_CONTENT)


ENDPOINTS: Final[Mapping[str, Callable[[Request], Awaitable[Response]]]] = MappingProxyType(
    {"POST": _create, "PATCH": _append_to, "HEAD": _head, "DELETE": _cancel}
)


# Requests


def _completes(request: Request) -> bool:
    """Return whether the request says that its body is the end of the file."""
    completes = _BOOLEANS.get(request.headers.get("upload-complete", ""))
    if completes is None:
        raise Malformed(errors=["Upload-Complete: expected ?1 or ?0"])
    return completes


def _stated_length(request: Request, offset: int, *, completes: bool, length: int | None = None) -> int | None:
    """Return the length of the file as the head states it, or None.

    Raise `UploadLengthInconsistent` if it states two, another than `length`, or a body beyond it.
    """
    declared = declared_bytes(request) if has_body(request) else 0
    stated = set() if length is None else {length}
    if "upload-length" in request.headers:
        stated.add(number(request, "upload-length"))
    if completes and declared is not None:
        stated.add(offset + declared)
    if len(stated) > 1 or (stated and declared is not None and offset + declared > max(stated)):
        raise UploadLengthInconsistent
    return next(iter(stated), None)


def _require_no_state(request: Request) -> None:
    for name in _STATE_HEADERS:
        if name in request.headers:
            raise Malformed(errors=[f"{name.title()}: not in this request"])


async def _append(request: Request, upload: ResumableUpload, offset: int) -> ResumableUpload:
    def tell(kept: ResumableUpload) -> None:
        _send_interim(request, {"Upload-Offset": str(kept.offset)})

    try:
        return await append_body(request, upload, offset, kept=tell)
    except BodyTooLarge as fault:  # which the head did not say
        await services_of(request).resumable.abandon(upload)
        raise UploadLengthInconsistent from fault


async def _finish(
    request: Request, caller: Cached[Principal], upload: ResumableUpload, status: HTTPStatus, headers: Mapping[str, str]
) -> Response:
    """Return the response with the verdict. A rejected file is complete too: sending more of it changes nothing."""
    if not upload.is_complete:
        raise UploadLengthInconsistent
    try:
        stored = await take_verdict(request, caller, upload)
    except FileRejected as rejected:
        response: Response = render(rejected, request)
    else:
        response = finished_response(stored, upload, caller.value, status, headers)
    response.headers["Upload-Complete"] = "?1"
    return response


# Responses


def _send_interim(request: Request, headers: Mapping[str, str]) -> bool:
    """Send a response 104 ahead of the final one; return whether the client can get it."""
    send: Callable[[bytes, Mapping[str, str]], bool] | None = getattr(request.state, "send_interim", None)
    version = request.headers[_VERSION_HEADER]
    return send is not None and send(_INTERIM, {_VERSION_HEADER: version, **headers})


def _seconds_left(upload: ResumableUpload) -> int:
    return max(0, int((upload.expires_at - datetime.now(UTC)).total_seconds()))


def _limits(request: Request, seconds_left: int) -> str:
    named = "expires" if request.headers.get(_VERSION_HEADER) == _FIRST else "max-age"
    return f"max-size={LARGEST_FILE_BYTES}, {named}={seconds_left}"


def _refused(error: SluiceError, request: Request) -> Response:
    """Return an error: as a problem if the draft has a type for it, otherwise as an envelope."""
    response: Response = render(error, request)
    match error:
        case UploadTakenOver():
            sent = request.headers.get("upload-offset", "")
            provided = int(sent) if sent.isascii() and sent.isdecimal() else 0
            more: dict[str, Any] = {"expected-offset": error.offset, "provided-offset": provided}
            response = _problem("mismatching-upload-offset", error, response, more)
            response.headers["Upload-Offset"] = str(error.offset)
        case UploadComplete():
            response = _problem("completed-upload", error, response, {})
            response.headers["Upload-Complete"] = "?1"
        case UploadLengthInconsistent():
            response = _problem("inconsistent-upload-length", error, response, {})
        case BodyTooLarge():
            response.headers.update(discovered(request))
    return response


def _problem(kind: str, error: SluiceError, envelope: Response, more: Mapping[str, Any]) -> Response:
    body = as_problem(error, json.loads(bytes(envelope.body))) | {"type": f"{_PROBLEMS}{kind}", **more}
    return JSONResponse(body, error.status, {"Sluice-Error-Code": error.code}, PROBLEM_TYPE)
