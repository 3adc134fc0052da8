"""The upload endpoint: a plain Starlette route that reads its form as a stream.

The processing of the upload is in `uploads.upload`.

Credentials, scope and Content-Length are judged before the first byte of the body is taken.
"""

import asyncio
import inspect
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sluice import errors
from sluice.access import ROUTE_SCOPES, Principal
from sluice.api.documented import RATE_LIMIT, SCOPED, error_operations, headers_of
from sluice.api.guards import Guards
from sluice.api.http1.multipart import PartEnd, PartStart, boundary_of, read_parts
from sluice.api.route import authorize, read_body, require_uncompressed
from sluice.api.schemas.envelope import Envelope, ErrorEnvelope, Problem
from sluice.api.schemas.files import UPLOAD_BODY, UploadedByToken, UploadOut
from sluice.api.schemas.reports import FullReport, SenderReport, Validated, report_body
from sluice.db.database import DatabaseUnavailable
from sluice.errors import BodyTooLarge, Invalid, Malformed, SluiceError, UnsupportedBody
from sluice.examples import ExampleDraft
from sluice.kit.read_through_cache import Cached
from sluice.observe.metrics import UPLOADS_UNDER_WAY, count_upload
from sluice.observe.stages import staged
from sluice.services import Services
from sluice.uploads.form import METADATA_BYTES
from sluice.uploads.rate_limit import take_validation
from sluice.uploads.report import VerdictReport
from sluice.uploads.slots import UploadSlots
from sluice.uploads.snapshot import ReadPrincipal
from sluice.uploads.upload import LARGEST_FILE_BYTES, Purpose, Upload
from sluice.uploads.values import ReceivedFile, Stored

BEFORE: Final = "/api/v1/files"  # the path before which the OpenAPI document lists the upload
PATH: Final = f"{BEFORE}/upload"
VALIDATE_PATH: Final = f"{BEFORE}/validate"
FORM_OVERHEAD_BYTES: Final = 64 * 1024
LARGEST_BODY_BYTES: Final = LARGEST_FILE_BYTES + FORM_OVERHEAD_BYTES
_IDEMPOTENCY_KEY: Final = re.compile(r"[!-~]{1,255}")
_FIELD_BYTES: Final = {"context": 1024, "metadata": METADATA_BYTES}
_SCOPE: Final = ROUTE_SCOPES["POST", PATH]  # the same for both routes
T = TypeVar("T")
_UploadEnvelope: Final = Envelope[UploadOut]  # made once: pydantic takes longer to make it than to fill it
_ERRORS: Final = (
    *SCOPED,
    errors.TokenSpent,
    errors.FileRejected,
    errors.LimitExceeded,
    errors.NotFound,
    errors.BodyStalled,
    errors.ContextInactive,
    errors.BucketInactive,
    errors.IdempotencyKeyInUse,
    errors.IdempotencyKeyReused,
    errors.BodyTooLarge,
    errors.UnsupportedBody,
    errors.Invalid,
    errors.OutcomeUnknown,
    errors.SpoolBusy,
    errors.StorageFull,
)


async def upload_file(request: Request) -> Response:
    """Upload a file into a context.

    It is checked against the context's rules before it is stored; the first rule it breaks is named. With
    `?report=full` the checks after it are made too, and the report has all of them.
    """
    services: Services = request.app.state.services
    caller, upload = await _begin(request, ROUTE, stores=True)
    work = partial(_receive_and_finish, request, upload, services.uploads.slots, upload.finish)
    return stored_response(await counted(upload, "store", work), caller, HTTPStatus.CREATED)


def stored_response(stored: Stored, caller: Principal, status: HTTPStatus) -> Response:
    """Return the response to an upload that was stored, as far as its caller may see it."""
    if caller.permit is not None:
        return _token_response(stored, status)
    message = "File uploaded" if stored.outcome == "accepted" else "File uploaded and put into quarantine"
    body = _UploadEnvelope(message=message, data=UploadOut.of(stored))
    headers = _headers_of(stored)
    if stored.rate is not None and stored.rate_limit is not None:
        headers["RateLimit-Limit"] = str(stored.rate_limit.max_uploads)
        headers["RateLimit-Remaining"] = str(stored.rate.remaining)
        headers["RateLimit-Reset"] = str(stored.rate_limit.window_seconds)
    return Response(body.model_dump_json(), status, headers, media_type="application/json")


def _token_response(stored: Stored, status: HTTPStatus) -> Response:
    """Return what the holder of an upload token may know: not of limits, metadata or quarantine."""
    body = Envelope[UploadedByToken](message="File uploaded", data=UploadedByToken.model_validate(stored))
    return Response(body.model_dump_json(), status, _headers_of(stored), media_type="application/json")


def _headers_of(stored: Stored) -> dict[str, str]:
    replayed = {"Idempotent-Replayed": "true"} if stored.is_replayed else {}
    return {"Sluice-Report-Id": stored.report_id} | replayed


async def validate_file(request: Request) -> Response:
    """Judge a file by the rules of a context without storing it.

    All checks are made, and the response is 200 whatever they find: the report states the outcome for the file.
    Nothing is charged: no place in the rate limit, no upload of the plan, no bytes of the quota. A tenant may validate
    as many files a minute as the operator has set.
    """
    caller, upload = await _begin(request, VALIDATE_ROUTE, stores=False)
    report = await _validated(request, caller, upload)
    shown = report_body(report, caller, request.headers.get("accept-language"))
    body = Envelope[Validated](message="File checked; nothing was stored", data=Validated(report=shown))
    return Response(body.model_dump_json(), media_type="application/json", headers={"Vary": "Accept-Language"})


async def validate_for(request: Request, caller: Cached[Principal], read_caller: ReadPrincipal) -> VerdictReport:
    """Return the report of the file in a form, for a caller who is authorized already."""
    services: Services = request.app.state.services
    declared = request.headers.get("content-length")
    purpose = Purpose(stores=False, all_checks=True, declared_bytes=None if declared is None else int(declared))
    upload = services.uploads.begin(caller, read_caller, began=time.monotonic(), purpose=purpose)
    return await _validated(request, caller.value, upload)


async def read_example(
    request: Request, caller: Cached[Principal], read_caller: ReadPrincipal, context_key: str
) -> ExampleDraft:
    """Return what is kept of the file in a form as an example of a context, for a caller who is authorized already."""
    services: Services = request.app.state.services
    tenant_id = caller.value.tenant_id
    await take_validation(services.uploads.limiter, tenant_id, services.uploads.limits.validations_per_minute)
    declared = request.headers.get("content-length")
    purpose = Purpose(stores=False, declared_bytes=None if declared is None else int(declared))
    upload = services.uploads.begin(caller, read_caller, began=time.monotonic(), purpose=purpose)
    slots = services.uploads.slots
    work = partial(_receive_and_finish, request, upload, slots, upload.read_example, context_key=context_key)
    return await counted(upload, "validate", work)


async def store_for(
    services: Services,
    caller: Cached[Principal],
    read_caller: ReadPrincipal,
    *,
    context_key: str,
    filename: str,
    content: bytes,
    metadata: Mapping[str, object],
) -> Stored:
    """Upload a small file of the service for a caller who is authorized already. Raise what every upload raises."""
    purpose = Purpose(all_checks=True, declared_bytes=len(content))
    upload = services.uploads.begin(caller, read_caller, began=time.monotonic(), purpose=purpose)

    async def work() -> Stored:
        async with services.uploads.slots.hold(caller.value.tenant_id, token_id=None):
            await upload.name_context(context_key)
            upload.take_metadata(json.dumps(metadata).encode())
            await upload.start_file(filename)
            await upload.write(content)
            upload.end_file()
            file = await upload.seal()
            with services.uploads.slots.learning(upload.snapshot.named.context.context_id, file.sealed.size):
                return await upload.finish(file)

    return await counted(upload, "store", work)


async def _validated(request: Request, caller: Principal, upload: Upload) -> VerdictReport:
    services: Services = request.app.state.services
    await take_validation(services.uploads.limiter, caller.tenant_id, services.uploads.limits.validations_per_minute)
    try:
        work = partial(_receive_and_finish, request, upload, services.uploads.slots, upload.validate)
        return await counted(upload, "validate", work)
    except (errors.FileRejected, errors.LimitExceeded) as rejected:  # while its bytes came in
        if not isinstance(rejected.report, VerdictReport):
            raise
        return rejected.report


async def _begin(request: Request, route: Route, *, stores: bool) -> tuple[Principal, Upload]:
    """Authorize the caller, before a byte of the body is read; return them and their upload."""
    request.scope["route"] = route  # under whose path the request is counted
    services: Services = request.app.state.services
    began = time.monotonic()

    takes_tokens: Final = "form" if stores else None

    async def read_caller(since: float) -> Cached[Principal]:
        return await authorize(request, _SCOPE, since=since, again=True, takes_tokens=takes_tokens)

    since = began - services.uploads.snapshots.seconds
    caller = await authorize(request, _SCOPE, since=since, takes_tokens=takes_tokens)
    declared = request.headers.get("content-length")
    purpose = Purpose(
        stores=stores,
        all_checks=not stores or _wants_full_report(request),
        declared_bytes=None if declared is None else int(declared),
        idempotency_key=_idempotency_key(request) if stores else None,
    )
    return caller.value, services.uploads.begin(caller, read_caller, began=began, purpose=purpose)


def _wants_full_report(request: Request) -> bool:
    if not request.scope["query_string"]:
        return False
    wanted = request.query_params.getlist("report")
    if wanted not in ([], ["full"]):
        raise Invalid(f"report: expected 'full', found {wanted[-1][:60]!r}")
    return bool(wanted)


def _idempotency_key(request: Request) -> str | None:
    sent = request.headers.getlist("idempotency-key")
    if not sent:
        return None
    if len(sent) > 1 or not _IDEMPOTENCY_KEY.fullmatch(sent[0]):
        raise Invalid("Idempotency-Key: expected one of 1 to 255 visible ASCII characters")
    return sent[0]


@staged("upload")
async def counted(upload: Upload, purpose: str, work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of an upload, count its outcome, and close it."""
    outcome, reason = "stored" if purpose == "store" else "validated", ""
    UPLOADS_UNDER_WAY.inc()
    try:
        result = await work()
    except BaseException as fault:
        outcome, reason = _outcome_of(fault)
        raise
    else:
        if isinstance(result, Stored) and result.is_replayed:
            outcome = "replayed"
        return result
    finally:
        upload.close()
        UPLOADS_UNDER_WAY.dec()
        count_upload(purpose, outcome, reason)


async def _receive_and_finish(
    request: Request,
    upload: Upload,
    slots: UploadSlots,
    finish: Callable[[ReceivedFile], Awaitable[T]],
    *,
    context_key: str | None = None,
) -> T:
    try:
        boundary = _require_form(request)
        caller = upload.snapshot.principal
        async with slots.hold(caller.tenant_id, token_id=caller.actor_id if caller.permit else None):
            if caller.permit is not None:
                await upload.name_context(caller.permit.context_key)  # the form may name the same
            if context_key is not None:
                await upload.name_context(context_key)
            file = await _receive(request, boundary, upload)
            context = upload.snapshot.named.context
            with slots.learning(context.context_id, file.sealed.size):
                return await finish(file)
    except SluiceError as error:
        # An invalid credential takes precedence over what is wrong with the upload.
        if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            await upload.snapshot.confirm_caller()
        raise


def _require_form(request: Request) -> str:
    """Return the boundary of the form; raise what is wrong with the body according to its headers."""
    declared = request.headers.get("content-length")
    if declared is not None and int(declared) > LARGEST_BODY_BYTES:
        raise BodyTooLarge(LARGEST_BODY_BYTES)
    boundary = boundary_of(request.headers.get("content-type", ""))
    if boundary is None:
        raise UnsupportedBody("multipart/form-data")
    require_uncompressed(request)
    return boundary


@staged("receive")
async def _receive(request: Request, boundary: str, upload: Upload) -> ReceivedFile:
    """Feed the form's parts to the upload as they come. Parts may come in any order; unknown fields are ignored."""
    seen: set[str] = set()
    name, value = "", b""
    async for event in read_parts(read_body(request, LARGEST_BODY_BYTES), boundary):
        match event:
            case PartStart():
                name, value = event.name, b""
                if name == "file" or name in _FIELD_BYTES:
                    if name in seen:
                        raise Malformed(errors=[f"body: the field '{name}' comes twice"])
                    seen.add(name)
                if name == "file":
                    if event.filename is None:
                        raise Invalid("file: expected a file with a name, found a plain field")
                    if not event.filename:
                        raise Invalid("file: field required")
                    await upload.start_file(event.filename)
            case bytes() if name == "file":
                await upload.write(event)
            case bytes() if name in _FIELD_BYTES:
                # One byte over the limit is enough to know; the rest is not kept.
                value += event[: max(0, _FIELD_BYTES[name] + 1 - len(value))]
            case PartEnd():
                await _end_part(upload, name, value)
    return await upload.seal()


async def _end_part(upload: Upload, name: str, value: bytes) -> None:
    match name:
        case "file":
            upload.end_file()
        case "context":
            await upload.name_context(_text(value))
        case "metadata":
            upload.take_metadata(value)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as fault:
        raise Invalid("context: not UTF-8") from fault


def _outcome_of(fault: BaseException) -> tuple[str, str]:
    """Return outcome and reason of an upload that ended in `fault`, as the metrics name them."""
    match fault:
        case errors.FileRejected() | errors.LimitExceeded():
            return "replayed" if fault.is_replayed else "rejected", fault.errors[0]
        case errors.ServiceUnavailable():
            return "failed", fault.part.replace(" ", "_")
        case DatabaseUnavailable():
            return "failed", "database"
        case SluiceError():
            return "refused" if fault.status < HTTPStatus.INTERNAL_SERVER_ERROR else "failed", fault.code
        case asyncio.CancelledError():
            return "cut_off", ""
    return "failed", SluiceError.code


def _serving(endpoint: Callable[[Request], Awaitable[Response]]) -> Guards:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        await (await endpoint(request))(scope, receive, send)

    return Guards(serve)


ROUTE: Final = Route(PATH, _serving(upload_file), methods=["POST"])
VALIDATE_ROUTE: Final = Route(VALIDATE_PATH, _serving(validate_file), methods=["POST"])


def operation() -> dict[str, Any]:
    """Return the upload's operation for the OpenAPI document. FastAPI describes its own routes only."""
    report = {
        "name": "report",
        "in": "query",
        "required": False,
        "schema": {"type": "string", "enum": ["full"]},
        "description": "`full`: make the checks after the first failure too.",
    }
    key = {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
        "description": "Chosen by the client; kept for 24 hours. A repeated upload gets the response of the first.",
    }
    described = _operation(upload_file, "Upload File", "201", UPLOADED_SCHEMA, _ERRORS)
    responses_by_status = described["responses"]
    for status in ("201", "400", "429", "503", "507"):
        responses_by_status[status].setdefault("headers", {}).update(headers_of("Sluice-Report-Id"))
    responses_by_status["201"]["headers"] |= headers_of(*RATE_LIMIT)
    for status in ("201", "400"):
        responses_by_status[status]["headers"] |= headers_of("Idempotent-Replayed")
    return described | {"parameters": [report, key]}


def validate_operation() -> dict[str, Any]:
    """Return the operation of the dry run."""
    never = {
        errors.FileRejected,
        errors.LimitExceeded,
        errors.BucketInactive,
        errors.IdempotencyKeyInUse,
        errors.IdempotencyKeyReused,
        errors.OutcomeUnknown,
        errors.StorageFull,
    }
    possible = tuple(error for error in _ERRORS if error not in never)
    return _operation(validate_file, "Validate File", "200", VALIDATED_SCHEMA, possible)


def _operation(
    endpoint: Callable[..., object], summary: str, status: str, schema: str, possible: tuple[type[SluiceError], ...]
) -> dict[str, Any]:
    described: dict[str, Any] = {
        status: {
            "description": "Successful Response",
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
        }
    }
    described |= error_operations(possible, most_bytes=LARGEST_BODY_BYTES)
    return {
        "tags": ["Files"],
        "summary": summary,
        "description": inspect.cleandoc(endpoint.__doc__ or ""),
        "operationId": endpoint.__name__,
        **UPLOAD_BODY,
        "responses": described,
    }


UPLOADED_SCHEMA: Final = "Envelope_UploadOut_"
VALIDATED_SCHEMA: Final = "Envelope_Validated_"


def schemas() -> dict[str, Any]:
    """Return the schemas that the operations refer to and no other endpoint does."""
    collected: dict[str, Any] = {}
    for name, model in (
        (UPLOADED_SCHEMA, Envelope[UploadOut]),
        (VALIDATED_SCHEMA, Envelope[Validated]),
        ("FullReport", FullReport),
        ("SenderReport", SenderReport),
    ):
        schema = model.model_json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
        collected |= schema.pop("$defs", {}) | {name: schema}
    for failure in (ErrorEnvelope, Problem):
        collected[failure.__name__] = failure.model_json_schema(mode="serialization")
    for name in ("ErrorEnvelope", "Problem", "Validated"):  # where a report stands as plain JSON
        described = collected[name]["properties"]["report"]["description"]
        collected[name]["properties"]["report"] = {
            "anyOf": [{"$ref": f"#/components/schemas/{shape}"} for shape in ("FullReport", "SenderReport")],
            "description": described,
        }
    return collected
