"""`docs/errors.md`: every error class. The classes are declared in `sluice.errors`, the advice for callers here."""

import json
import re
from collections.abc import Mapping
from typing import Final

from docs_pages.markdown import fenced, made_from, page, table
from sluice import errors
from sluice.errors import SluiceError, catalogue
from sluice.uploads.reasons import Reason
from sluice.uploads.values import Rejection

ADVICE: Final[Mapping[type[SluiceError], str]] = {
    errors.Malformed: (
        "Send the request again from a client library; a proxy in between may have changed it. The entry names the "
        "part."
    ),
    errors.FileRejected: (
        "Find the code in [the list of reasons](reasons.md). Retry the same bytes only if that list says so."
    ),
    errors.LimitExceeded: "Wait for `Retry-After` seconds. The code is one of [the list of reasons](reasons.md).",
    errors.Unauthenticated: (
        "Send a valid API key or JWT in the `Authorization` header. The reply never has the cause; the log has it "
        "for a JWT."
    ),
    errors.TokenSpent: "Create another upload token.",
    errors.ScopeMissing: "Use a credential that has the scope, or have an administrator add it to the key.",
    errors.CrossOrigin: (
        "Nothing, if you use the console: a browser sends what this asks for. A program should use the API instead."
    ),
    errors.HttpsNeeded: (
        "Open the console at an https address and set `SLUICE_PUBLIC_URL` to it, or open it on the machine that runs Sluice."
    ),
    errors.KeyLimited: "`errors` names what is limited and what was found. Use another key, or let an admin change the "
    "limits of this one ([API keys](integrators.md#api-keys)).",
    errors.LinkRefused: "Ask for a new download URL. A link is valid only unchanged, and only until its expiry.",
    errors.NotFound: "Check the path and the id. Objects of another tenant and deleted objects get the same reply.",
    errors.NoPreview: "Download the file instead. `errors` says why there is none; formats that have one are listed in"
    " [previews](previews.md).",
    errors.MethodNotAllowed: "See the `Allow` header and [the API reference](reference/api.md).",
    errors.BodyStalled: "Send the upload again. Nothing was stored.",
    errors.HeadStalled: "Send the request again; the network or the client was too slow.",
    errors.NoRoomToRestore: (
        "Delete other files of the context, or raise its `storage_quota_mb`, and restore the file then; until it is "
        "purged it waits."
    ),
    errors.FileHeld: (
        "Ask who set the hold, which the file's metadata and the audit log name. An admin ends it with `DELETE …/hold`."
    ),
    errors.RotationOverlaps: "Wait until the moment that the error names, or rotate with `overlap_seconds: 0`, after which"
    " only the new text is good.",
    errors.SecondReviewerNeeded: "Let another person decide: another API key, user or operator. To remove the file, refuse"
    " it.",
    errors.OriginalNotReleased: "Use the file that `sanitised_file_id` names, or download the original as a reviewer.",
    errors.ContextExists: "Choose another key, or change the existing context with PATCH.",
    errors.ContextInactive: "Set the context's `status` to `active`, or upload into another context.",
    errors.BucketExists: "Choose another name.",
    errors.BucketBound: (
        "Bind those contexts to another bucket. For the default bucket, make another one the default first."
    ),
    errors.BucketInactive: "Set the bucket's `is_active` to true, or choose another bucket.",
    errors.DefaultBucketNeeded: "Make another bucket the default first.",
    errors.TooManyEndpoints: "Delete an endpoint that is not needed, or let one receiver take more types of events.",
    errors.EndpointDisabled: "Set its `status` to `active`; `disabled_reason` says why it was disabled.",
    errors.JobEnded: "Nothing to cancel: read the job to see how it ended.",
    errors.ErasureUnderWay: "Ask for the erasure until its `status` is `done`; a failed one can be requested again.",
    errors.TooManyJobs: "List the jobs, and wait for one to end or cancel one.",
    errors.KeyRevoked: "Create a new key. A revoked one never works again.",
    errors.IdempotencyKeyInUse: "Send the same upload again after `Retry-After`.",
    errors.IdempotencyKeyReused: "Choose a new key for each upload that is not a repetition of an earlier one.",
    errors.BodyTooLarge: "Send less. The entry names the limit in bytes.",
    errors.UnsupportedBody: (
        "Set the `Content-Type` that the entry names, and send the body without a `Content-Encoding`."
    ),
    errors.PreconditionFailed: "Download the whole file again: the part that you have belongs to another version.",
    errors.RangeUnsatisfiable: "Request a range within the file; the metadata of the file has its size.",
    errors.Invalid: (
        "Correct each named field. Every entry has the form `<field>: <problem>`; nested fields are dotted."
    ),
    errors.ImportStopped: "Correct the line that the first entry names, and send the file again, whole or from there on.",
    errors.ImportInterrupted: "Send the file again, whole or from the line after the last that was applied.",
    errors.TooManyRequests: "Wait for `Retry-After` seconds, and send fewer concurrent requests.",
    errors.HeadTooLarge: "Send fewer or shorter header fields, or a shorter address. The entry names the limit.",
    errors.TooManyConnections: "Try again after `Retry-After` seconds, and keep fewer connections open.",
    errors.ServiceUnavailable: (
        "Try again after `Retry-After` seconds. The entry names the unavailable part; `/health/ready` shows the operator more."
    ),
    errors.SpoolBusy: (
        "Try again after `Retry-After` seconds, and send fewer large files at once. With `Content-Length`, and "
        "`context` before `file`, an upload needs no more room than its own size and that of its context."
    ),
    errors.OutcomeUnknown: (
        "Check whether the file is in the list before you send it again; the reply of the database was lost."
    ),
    errors.UploadTakenOver: "Ask for the offset with `HEAD`, and send the bytes from there on.",
    errors.UploadLengthInconsistent: (
        "State the same length in each request, and send that many bytes in all; the request that brings the last ones "
        "says `Upload-Complete: ?1`."
    ),
    errors.UploadComplete: "Ask with `HEAD`: `Sluice-File-Id` names the stored file.",
    errors.UploadFinished: "Delete the stored file, if that is what you want.",
    errors.VersionUnsupported: "Send `Tus-Resumable: 1.0.0`, as every client of tus 1 does.",
    errors.ChecksumMismatch: "Send the same bytes again: they were changed on their way, and none of them was kept.",
    errors.StorageFull: "Try again later; the operator has to make room.",
    SluiceError: "Report it with the `Request-Id` of the reply: the log has the traceback under that id.",
}

# Errors that are created with arguments.
SAMPLES: Final[Mapping[type[SluiceError], SluiceError]] = {
    errors.FileRejected: Rejection(Reason.BLANK_DOCUMENT, "").to_error(),
    errors.LimitExceeded: Rejection(Reason.RATE_LIMIT_EXCEEDED, "", retry_after=12).to_error(),
    errors.ScopeMissing: errors.ScopeMissing("admin"),
    errors.ContextExists: errors.ContextExists("claims"),
    errors.BucketExists: errors.BucketExists("archive"),
    errors.BucketBound: errors.BucketBound(2),
    errors.BodyTooLarge: errors.BodyTooLarge(65_536),
    errors.UnsupportedBody: errors.UnsupportedBody("application/json"),
    errors.Invalid: errors.Invalid(
        "display_name: field required", "upload_rate_limit.max_uploads: expected at least 1, found 0"
    ),
    errors.ServiceUnavailable: errors.ServiceUnavailable("malware scanner"),
}

_UNEXPECTED: Final = "An unexpected exception. The log has its traceback, the reply has no details."

_INTRO: Final = """
# Errors

Every failure is JSON in one envelope. `message` and `errors` are for people. Programs compare the HTTP status and the
header `Sluice-Error-Code`, which holds the code of this page; a rejected upload also has a [reason code](reasons.md) in
`errors`. Codes are stable, messages may change.

Replies with 429, 503 and 507 have `Retry-After` in seconds; replies with 401 have `WWW-Authenticate: Bearer`. Every
reply has a `Request-Id`.

Bytes that are not HTTP, ambiguous framing, a head or a body that arrives too slowly, and connections beyond the
server's limit get the same envelope, and the connection is closed.
"""


def errors_page() -> str:
    """Return the page."""
    every = every_error()
    rows = [(str(error.status), f"[`{error.code}`](#{error.code})", sample(error).message) for error in every]
    sections = [block for error in every for block in _section(error)]
    return page(made_from("server/src/sluice/errors.py"), _INTRO, table(("Status", "Code", "Message"), rows), *sections)


def every_error() -> list[type[SluiceError]]:
    """Return all errors by status, the unexpected one among them."""
    return sorted([*catalogue(), SluiceError], key=lambda error: (error.status, error.code))


def sample(error: type[SluiceError]) -> SluiceError:
    """Return one error of the class, as it could be raised."""
    return SAMPLES[error] if error in SAMPLES else error()


def body_of(raised: SluiceError) -> dict[str, object]:
    """Return the envelope of an error."""
    return {
        "status": "ERROR",
        "message": raised.message,
        "errors": list(raised.errors),
        "timestamp": "2026-01-31T12:00:00Z",
    }


def when(error: type[SluiceError]) -> str:
    """Return the sentence of the class, with codes in place of the names of classes."""
    if error is SluiceError:
        return _UNEXPECTED
    sentence = " ".join((error.__doc__ or "").split()).replace("of `uploads.reasons`", "of [the list](reasons.md)")
    codes = {other.__name__: other.code for other in catalogue()}
    return re.sub(r"`(\w+)`", lambda name: f"`{codes.get(name[1], name[1])}`", sentence)


def _section(error: type[SluiceError]) -> tuple[str, ...]:
    raised = sample(error)
    facts = [f"- **Status:** {error.status}", f"- **When:** {when(error)}", f"- **What to do:** {ADVICE[error]}"]
    if raised.retry_after is not None:
        facts.append("- **Retry-After:** yes, in seconds")
    return (
        f"## {error.code}",
        "\n".join(facts),
        fenced("json", json.dumps(body_of(raised), indent=2, ensure_ascii=False)),
    )
