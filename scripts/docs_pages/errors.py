"""`docs/errors.md`: every error class. The classes are declared in `sluice.errors`; what a caller can do about each is said here."""

import json
import re
from collections.abc import Mapping
from typing import Final

from docs_pages.markdown import fenced, made_from, page, table
from sluice import errors
from sluice.errors import SluiceError, catalogue
from sluice.uploads.pipeline import refusal_of
from sluice.uploads.reasons import Reason
from sluice.uploads.values import Rejection

ADVICE: Final[Mapping[type[SluiceError], str]] = {
    errors.Malformed: "Send the request again from a client library; a proxy in between may have changed it. The entry names the part.",
    errors.FileRejected: "Look the code up in [the list of reasons](reasons.md). The same bytes pass only where that list says so.",
    errors.LimitExceeded: "Wait for as long as `Retry-After` says. The code is one of [the list of reasons](reasons.md).",
    errors.Unauthenticated: "Send a valid API key or JWT in the `Authorization` header. The reply never says what was wrong; the log does for a JWT.",
    errors.ScopeMissing: "Use a credential that has the scope, or have an administrator add it to the key.",
    errors.LinkRefused: "Ask for a new download URL. A link is valid only unchanged, and only until its expiry.",
    errors.NotFound: "Check the path and the id. Another tenant's things and deleted things answer exactly so.",
    errors.MethodNotAllowed: "See the `Allow` header and [the API reference](reference/api.md).",
    errors.BodyStalled: "Send the upload again. Nothing was stored.",
    errors.HeadStalled: "Send the request again; the network or the client was too slow.",
    errors.ContextExists: "Choose another key, or change the existing context with PATCH.",
    errors.ContextInactive: "Set the context's `status` to `active`, or upload into another context.",
    errors.BucketExists: "Choose another name.",
    errors.BucketBound: "Bind those contexts to another bucket. For the default bucket, make another one the default first.",
    errors.BucketInactive: "Set the bucket's `is_active` to true, or choose another bucket.",
    errors.DefaultBucketNeeded: "Make another bucket the default first.",
    errors.KeyRevoked: "Create a new key. A revoked one never works again.",
    errors.BodyTooLarge: "Send less. The entry names the limit in bytes.",
    errors.UnsupportedBody: "Set the `Content-Type` that the entry names, and send the body without a `Content-Encoding`.",
    errors.RangeUnsatisfiable: "Ask for a range within the file; its size stands in the metadata of the file.",
    errors.Invalid: "Mend each named field. Every entry has the form `<field>: <problem>`; nested fields are dotted.",
    errors.TooManyRequests: "Wait for as long as `Retry-After` says, and send fewer requests at once.",
    errors.HeadTooLarge: "Send fewer or shorter header fields, or a shorter address. The entry names the limit.",
    errors.TooManyConnections: "Try again after `Retry-After` seconds, and keep fewer connections open.",
    errors.Unavailable: "Try again after `Retry-After` seconds. The entry names the part that is away; `/health/ready` shows more.",
    errors.OutcomeUnknown: "Look whether the file is in the list before you send it again; the answer of the database was lost.",
    errors.StorageFull: "Try again later; the operator has to make room.",
    SluiceError: "Report it with the `Request-Id` of the reply: the log has the whole fault under that id.",
}

SAMPLES: Final[Mapping[type[SluiceError], SluiceError]] = {
    errors.FileRejected: refusal_of(Rejection(Reason.BLANK_DOCUMENT, "")),
    errors.LimitExceeded: refusal_of(Rejection(Reason.RATE_LIMIT_EXCEEDED, "", retry_after=12)),
    errors.ScopeMissing: errors.ScopeMissing("admin"),
    errors.ContextExists: errors.ContextExists("claims"),
    errors.BucketExists: errors.BucketExists("archive"),
    errors.BucketBound: errors.BucketBound(2),
    errors.BodyTooLarge: errors.BodyTooLarge(65_536),
    errors.UnsupportedBody: errors.UnsupportedBody("application/json"),
    errors.Invalid: errors.Invalid("display_name: field required", "upload_rate_limit.max_uploads: expected at least 1, found 0"),
    errors.Unavailable: errors.Unavailable("malware scanner"),
}
"""Errors that are made with something to say."""

_UNEXPECTED: Final = "A fault that nobody expected. The log has all of it, the reply says nothing of it."

_INTRO: Final = """
# Errors

Failures are JSON in one envelope, whatever caused them. `message` and `errors` are for people. Programs compare the HTTP
status and the header `Sluice-Error-Code`, which holds the code of this page; a rejected upload also has a
[reason code](reasons.md) in `errors`. Codes are stable, words may change.

Replies with 429, 503 and 507 carry `Retry-After` in seconds; replies with 401 carry `WWW-Authenticate: Bearer`. Every reply, good or
bad, has a `Request-Id`.

Bytes that are no HTTP, a frame with two readings, a head or a body that comes too slowly, and connections beyond the server's room are
answered in the same envelope, and the connection is closed.
"""


def errors_page() -> str:
    """Answer the page."""
    every = every_error()
    rows = [(str(error.status), f"[`{error.code}`](#{error.code})", sample(error).message) for error in every]
    sections = [block for error in every for block in _section(error)]
    return page(made_from("src/sluice/errors.py"), _INTRO, table(("Status", "Code", "Message"), rows), *sections)


def every_error() -> list[type[SluiceError]]:
    """Answer all errors by status; the unexpected one has its place among them."""
    return sorted([*catalogue(), SluiceError], key=lambda error: (error.status, error.code))


def sample(error: type[SluiceError]) -> SluiceError:
    """Answer one error of the class, as it could be raised."""
    return SAMPLES[error] if error in SAMPLES else error()


def body_of(raised: SluiceError) -> dict[str, object]:
    """Answer the envelope of an error."""
    return {
        "status": "ERROR",
        "message": raised.message,
        "errors": list(raised.errors),
        "timestamp": "2026-01-31T12:00:00Z",
    }


def when(error: type[SluiceError]) -> str:
    """Answer the class's own sentence, with codes in place of the names of classes."""
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
    return f"## {error.code}", "\n".join(facts), fenced("json", json.dumps(body_of(raised), indent=2, ensure_ascii=False))
