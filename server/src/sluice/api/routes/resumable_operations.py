"""The operations of resumable uploads for the OpenAPI document. FastAPI describes its own routes only."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sluice import errors
from sluice.api.documented import SCOPED, error_operations
from sluice.api.routes import resumable
from sluice.api.routes.resumable_requests import PATH
from sluice.api.routes.upload import UPLOADED_SCHEMA
from sluice.api.schemas.envelope import Envelope
from sluice.api.schemas.resumable import ResumableUploadOut
from sluice.errors import SluiceError
from sluice.uploads.upload import LARGEST_FILE_BYTES

UPLOAD_SCHEMA: Final = "Envelope_ResumableUploadOut_"
_BODY: Final = (errors.BodyStalled, errors.BodyTooLarge, errors.UnsupportedBody, errors.Invalid, errors.StorageFull)
_VERDICT: Final = (
    errors.FileRejected,
    errors.LimitExceeded,
    errors.NotFound,
    errors.ContextInactive,
    errors.BucketInactive,
    errors.OutcomeUnknown,
    errors.SpoolBusy,
    errors.ChecksumMismatch,
    errors.VersionUnsupported,
)
_HEADERS: Final[Mapping[str, tuple[str, str]]] = {
    "Tus-Resumable": ("Version of the protocol: `1.0.0`.", "string"),
    "Upload-Length": ("Size of the whole file, in bytes.", "integer"),
    "Upload-Metadata": (
        (
            "`context`, `filename` and `metadata` (a JSON object), each a space before its value in base64, commas "
            "between them. An upload token names its own context."
        ),
        "string",
    ),
    "Upload-Offset": ("Where the bytes of this request begin.", "integer"),
    "Upload-Checksum": ("`sha1` or `sha256`, a space, and the checksum of this body in base64.", "string"),
}
_UPLOAD_ID: Final = {
    "name": "upload_id",
    "in": "path",
    "required": True,
    "schema": {"type": "string"},
    "description": "Identifier of the upload, as `Location` ends.",
}
_BYTES: Final = {
    "content": {
        "application/offset+octet-stream": {
            "schema": {"type": "string", "format": "binary", "contentMediaType": "application/octet-stream"}
        }
    }
}


def operations() -> dict[str, dict[str, Any]]:
    """Return the operations by path and method."""
    version = _header("Tus-Resumable")
    create = _operation(
        resumable.create_upload,
        "201",
        UPLOAD_SCHEMA,
        (*SCOPED, *_BODY, *_VERDICT, errors.TokenSpent, errors.UploadLengthInconsistent),
        [version, _header("Upload-Length"), _header("Upload-Metadata"), _header("Upload-Checksum", required=False)],
    )
    append = _operation(
        resumable.append_to_upload,
        "200",
        UPLOADED_SCHEMA,
        (
            *(*SCOPED, *_BODY, *_VERDICT, errors.TokenSpent),
            *(errors.UploadTakenOver, errors.UploadLengthInconsistent, errors.UploadComplete),
        ),
        [_UPLOAD_ID, version, _header("Upload-Offset"), _header("Upload-Checksum", required=False)],
    )
    append["responses"] = append["responses"] | {"204": {"description": "The bytes are kept; more are missing."}}
    found = (*SCOPED, errors.NotFound)
    return {
        PATH: {
            "options": _operation(resumable.discover_uploads, "204", None, (), []),
            "post": create | {"requestBody": _BYTES | {"required": False}},
        },
        resumable.UPLOAD_PATH: {
            "get": _operation(resumable.get_upload, "200", UPLOAD_SCHEMA, found, [_UPLOAD_ID]),
            "head": _operation(
                resumable.head_upload, "200", None, (*found, errors.VersionUnsupported), [_UPLOAD_ID, version]
            ),
            "patch": append | {"requestBody": _BYTES | {"required": True}},
            "delete": _operation(
                resumable.cancel_upload,
                "204",
                None,
                (*found, errors.VersionUnsupported, errors.UploadFinished),
                [_UPLOAD_ID, version],
            ),
        },
    }


def schemas() -> dict[str, Any]:
    """Return the schemas that no other endpoint refers to."""
    model = Envelope[ResumableUploadOut]
    schema = model.model_json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs", {}), UPLOAD_SCHEMA: schema}


def _header(name: str, *, required: bool = True) -> dict[str, Any]:
    description, kind = _HEADERS[name]
    return {"name": name, "in": "header", "required": required, "schema": {"type": kind}, "description": description}


def _operation(
    endpoint: Callable[..., object],
    status: str,
    schema: str | None,
    possible: Sequence[type[SluiceError]],
    parameters: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "Successful Response"}
    if schema is not None:
        success["content"] = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {
        "tags": ["Resumable uploads"],
        "summary": endpoint.__name__.replace("_", " ").title(),
        "description": inspect.cleandoc(endpoint.__doc__ or ""),
        "operationId": endpoint.__name__,
        "parameters": list(parameters),
        "responses": {status: success} | error_operations(possible, most_bytes=LARGEST_FILE_BYTES),
    }
