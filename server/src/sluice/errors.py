"""The catalogue of errors: one class, one code, one status, one sentence.

Reason codes of rejected uploads live in `uploads.reasons`.

Raised where the cause is known, rendered in `api.error_responses`. `docs/errors.md` lists them, which a test checks.
"""

from collections.abc import Sequence
from typing import ClassVar, TypeVar

_T = TypeVar("_T")


class SluiceError(Exception):
    """An error that a caller sees: its HTTP status, its code (stable, for programs), its message (for people)."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    message: str = "Internal error"
    errors: Sequence[str] = ("The service failed; the request was not carried out",)
    retry_after: float | None = None  # seconds after which a retry makes sense, for 429 and 503
    limit: int | None = None  # how much is allowed in all, for 429
    report: object = None  # the `uploads.report.VerdictReport` of an upload that got so far as to be judged
    is_replayed: bool = False  # whether an earlier request got this response first

    def __init__(
        self,
        message: str | None = None,
        errors: Sequence[str] | None = None,
        *,
        retry_after: float | None = None,
        limit: int | None = None,
    ) -> None:
        self.message = message or self.message
        self.errors = tuple(errors if errors is not None else self.errors)
        self.retry_after = self.retry_after if retry_after is None else retry_after
        self.limit = self.limit if limit is None else limit
        super().__init__(f"{self.message}: {'; '.join(self.errors)}")


class Malformed(SluiceError):
    """The request cannot be read in exactly one way: broken multipart, ambiguous framing."""

    status = 400
    code = "malformed_request"
    message = "Malformed request"
    errors = ("The request could not be read",)


class FileRejected(SluiceError):
    """An upload failed a check. `errors` holds exactly one reason code."""

    status = 400
    code = "file_rejected"
    message = "File rejected"


class NoRoomToRestore(SluiceError):
    """A deleted file was not restored, because its context has no room for it."""

    status = 400
    code = "storage_quota_exceeded"
    message = "File not restored: the storage quota of its context is used up"
    errors = ("storage_quota_exceeded",)


class LimitExceeded(SluiceError):
    """An upload failed a rate or plan rule: `errors` holds exactly one reason code. It passes with time."""

    status = 429
    code = "limit_exceeded"
    message = "File rejected: too many uploads"


class Unauthenticated(SluiceError):
    """The credential is missing, invalid, expired, disabled or revoked. The body is the same for every cause."""

    status = 401
    code = "unauthenticated"
    message = "Invalid or missing API key"
    errors = ("Authentication required",)


class TokenSpent(SluiceError):
    """An upload token has taken all the files, or all the attempts, that it allows."""

    status = 401
    code = "upload_token_spent"
    message = "Upload token used up"
    errors = ("This upload link has taken all the files that it allows; ask for a new one",)


class ScopeMissing(SluiceError):
    """The caller is known but lacks a scope."""

    status = 403
    code = "scope_missing"
    message = "Scope required"
    errors = ("Insufficient permissions",)

    def __init__(self, scope: str) -> None:
        super().__init__(f"{scope.capitalize()} scope required")


class KeyLimited(SluiceError):
    """The API key is limited: to contexts, to networks, or to keys that are limited as it is."""

    status = 403
    code = "key_limited"
    message = "API key is limited"
    errors = ("address: expected one of the key's networks, found 192.0.2.1",)

    def __init__(self, *problems: str) -> None:
        super().__init__(errors=problems or None)


class CrossOrigin(SluiceError):
    """A form of the console that a page of another site sent, or no browser that says which page did."""

    status = 403
    code = "cross_origin"
    message = "Request of another site"
    errors = ("Send this form from a page of the console",)


class HttpsNeeded(SluiceError):
    """The console over plain http, from another machine: an attacker on the network could take the session over."""

    status = 403
    code = "https_needed"
    message = "The console needs https"
    errors = ("Set SLUICE_PUBLIC_URL to the https address of the service, or open the console on its own machine",)


class LinkRefused(SluiceError):
    """A signed download link that was changed or has expired."""

    status = 403
    code = "link_refused"
    message = "Download link invalid or expired"
    errors = ("Ask for a new download URL",)


class NotFound(SluiceError):
    """Unknown, deleted, or of another tenant: the response does not tell which."""

    status = 404
    code = "not_found"
    message = "Resource not found"
    errors = ("Not found",)


class NoPreview(SluiceError):
    """A file of which there is no preview: of its format, or because it cannot be drawn."""

    status = 404
    code = "no_preview"
    message = "This file has no preview"
    errors = ("The format has no preview",)

    def __init__(self, why: str = "format") -> None:
        words = {
            "format": "The format has no preview",
            "damaged": "The file is damaged",
            "encrypted": "The file is protected by a password",
            "too_complex": "The file is too complex to be drawn",
        }
        super().__init__(errors=[words[why]])


class MethodNotAllowed(SluiceError):
    """The path exists, the method on it does not."""

    status = 405
    code = "method_not_allowed"
    message = "Method not allowed"
    errors = ("This path does not take that method",)


class BodyStalled(SluiceError):
    """The client stopped sending in the middle of its body, or sends too slowly."""

    status = 408
    code = "body_stalled"
    message = "Request timeout"
    errors = ("No bytes of the body arrived for too long, or too few",)


class HeadStalled(SluiceError):
    """The client did not send the head of its request in time."""

    status = 408
    code = "head_stalled"
    message = "Request timeout"
    errors = ("The head of the request took too long",)


class ContextExists(SluiceError):
    """A context with this key exists already."""

    status = 409
    code = "context_exists"
    message = "Context already exists"

    def __init__(self, context_key: str) -> None:
        super().__init__(
            f"Context with key '{context_key}' already exists",
            [f"context_key: '{context_key}' is taken; choose another, or change that context with PATCH"],
        )


class FileHeld(SluiceError):
    """A file under a legal hold, its own or that of its context, cannot be deleted or refused."""

    status = 409
    code = "file_held"
    message = "File is under legal hold"
    errors = ("A legal hold on this file or its context forbids to delete it; end the hold first",)


class SecondReviewerNeeded(SluiceError):
    """One person decides a second time on a file in quarantine, or deletes it, where two persons have to decide."""

    status = 409
    code = "second_reviewer_needed"
    message = "A second reviewer is needed"
    errors = ("Another person has to decide the same",)


class OriginalNotReleased(SluiceError):
    """A file in quarantine is the original of one that was sanitised. It can only be viewed or refused."""

    status = 409
    code = "original_not_released"
    message = "An original cannot be released"
    errors = ("The context stores files without what was taken out of this one",)


class ContextInactive(SluiceError):
    """An upload into an inactive context."""

    status = 409
    code = "context_inactive"
    message = "Context is inactive"
    errors = ("Set the context's status to active, or upload into another",)


class BucketExists(SluiceError):
    """A bucket with this name exists already."""

    status = 409
    code = "bucket_exists"
    message = "Bucket already exists"

    def __init__(self, name: str) -> None:
        super().__init__(f"Bucket with name '{name}' already exists", [f"name: '{name}' is taken; choose another"])


class BucketBound(SluiceError):
    """A bucket that contexts resolve to, or the default, cannot be deleted."""

    status = 409
    code = "bucket_bound"
    message = "Cannot delete a bucket still bound to 0 context(s)"
    errors = ("Reassign contexts or set another default first",)

    def __init__(self, contexts: int) -> None:
        super().__init__(f"Cannot delete a bucket still bound to {contexts} context(s)")


class BucketInactive(SluiceError):
    """An inactive bucket takes no uploads and no contexts, and cannot be the default."""

    status = 409
    code = "bucket_inactive"
    message = "Bucket is inactive"
    errors = ("Set the bucket's is_active to true, or choose another bucket",)


class TooManyEndpoints(SluiceError):
    """The tenant has 10 webhook endpoints."""

    status = 409
    code = "too_many_endpoints"
    message = "Too many webhook endpoints"
    errors = ("Delete one of the 10 endpoints first",)


class EndpointDisabled(SluiceError):
    """The webhook endpoint is disabled: nothing is sent to it."""

    status = 409
    code = "endpoint_disabled"
    message = "Webhook endpoint disabled"
    errors = ("Set its status to active first",)


class JobEnded(SluiceError):
    """A job that has ended cannot be cancelled."""

    status = 409
    code = "job_ended"
    message = "Job has ended"
    errors = ("What it did stays done",)


class ErasureUnderWay(SluiceError):
    """An erasure has no receipt until it is done."""

    status = 409
    code = "erasure_under_way"
    message = "Erasure is under way"
    errors = ("Ask again when its status is done",)


class TooManyJobs(SluiceError):
    """The tenant has 20 jobs that have not ended."""

    status = 409
    code = "too_many_jobs"
    message = "Too many jobs"
    errors = ("Wait until one of the 20 jobs ends, or cancel one",)


class DefaultBucketNeeded(SluiceError):
    """The default bucket cannot be made inactive."""

    status = 409
    code = "default_bucket_needed"
    message = "The default bucket cannot be made inactive"
    errors = ("Set another default first",)


class KeyRevoked(SluiceError):
    """A revoked key can never be used or changed again."""

    status = 409
    code = "key_revoked"
    message = "API key is revoked"
    errors = ("A revoked key can never be re-enabled; create a new one",)


class RotationOverlaps(SluiceError):
    """A second rotation of a key, with an overlap, while the text before its present one is still good."""

    status = 409
    code = "rotation_overlaps"
    message = "API key not rotated: an earlier rotation still overlaps"
    errors = ("overlap_seconds: expected 0 while an earlier text of the key is still good",)


class UploadTakenOver(SluiceError):
    """An append to a resumable upload that is at another offset, or that another request continues."""

    status = 409
    code = "upload_offset_conflict"
    message = "Upload is at another offset"
    errors = ("Upload-Offset: ask for the offset with HEAD, and continue from there",)

    def __init__(self, offset: int | None = None) -> None:
        self.offset = offset  # where it is, if that is known
        super().__init__(errors=None if offset is None else [f"Upload-Offset: expected {offset}"])


class UploadLengthInconsistent(SluiceError):
    """A resumable upload by the IETF's draft whose requests state different lengths, or bring more or fewer bytes."""

    status = 400
    code = "upload_length_inconsistent"
    message = "Inconsistent lengths"
    errors = ("Upload-Length: the bytes of this upload and its stated lengths do not agree",)


class UploadComplete(SluiceError):
    """An append to a resumable upload by the IETF's draft whose file is stored."""

    status = 400
    code = "upload_complete"
    message = "Upload is complete"
    errors = ("Upload-Complete: the file is stored; nothing can be appended",)


class UploadFinished(SluiceError):
    """A resumable upload that has its verdict, or gets it now, cannot be cancelled."""

    status = 409
    code = "upload_finished"
    message = "Upload is finished"
    errors = ("All bytes have come and are judged; a stored file can be deleted",)


class VersionUnsupported(SluiceError):
    """A resumable upload by another version of the protocol."""

    status = 412
    code = "version_unsupported"
    message = "Precondition failed"
    errors = ("Tus-Resumable: expected 1.0.0",)


class PreconditionFailed(SluiceError):
    """A download on the condition that the file has an entity tag, which is not the one that it has."""

    status = 412
    code = "precondition_failed"
    message = "Precondition failed"
    errors = ("If-Match: names another version than the present one",)


class IdempotencyKeyInUse(SluiceError):
    """Another upload with the same idempotency key has not ended yet."""

    status = 409
    code = "idempotency_key_in_use"
    message = "Upload in progress"
    errors = ("Idempotency-Key: another upload with this key has not ended; try again later",)
    retry_after = 2.0


class BodyTooLarge(SluiceError):
    """The body is larger than the service accepts at all."""

    status = 413
    code = "body_too_large"
    message = "Request body too large"

    def __init__(self, limit: int) -> None:
        super().__init__(errors=[f"body: at most {limit} bytes are accepted here"])


class UnsupportedBody(SluiceError):
    """The body is of a type, or in a coding, that this endpoint does not read."""

    status = 415
    code = "unsupported_media_type"
    message = "Unsupported media type"

    def __init__(self, expected: str, *, field: str = "Content-Type") -> None:
        super().__init__(errors=[f"{field}: expected {expected}"])


class RangeUnsatisfiable(SluiceError):
    """A byte range beyond the end of the file."""

    status = 416
    code = "range_unsatisfiable"
    message = "Range not satisfiable"
    errors = ("Range: begins after the end of the file",)


class Invalid(SluiceError):
    """The body, a form field or a query parameter failed its schema: one `<field>: <problem>` for each problem."""

    status = 422
    code = "validation_error"
    message = "Validation error"

    def __init__(self, *problems: str) -> None:
        super().__init__(errors=problems)


class ImportStopped(SluiceError):
    """A line of an imported file is wrong. The lines that `errors` names were applied, and nothing else of the file."""

    status = 422
    code = "import_stopped"
    message = "Import stopped"
    errors = (
        "line 4711: expected a SHA-256, SHA-1 or MD5 in hexadecimal digits, found 'readme.txt'",
        "Lines 1 to 4000 were applied: 4000 entries added, 0 changed",
    )

    def __init__(self, *problems: str) -> None:
        super().__init__(errors=problems or None)


class IdempotencyKeyReused(SluiceError):
    """The idempotency key was sent before, with another file, context or metadata."""

    status = 422
    code = "idempotency_key_reused"
    message = "Idempotency key reused"
    errors = ("Idempotency-Key: was sent with another file, context or metadata; use a new key",)


class TooManyRequests(SluiceError):
    """The tenant has too many requests under way, or an address failed to authenticate too often."""

    status = 429
    code = "too_many_requests"
    message = "Too many requests"
    errors = ("Slow down and try again",)
    retry_after = 5.0


class ChecksumMismatch(SluiceError):
    """The bytes of an append have another checksum than the request names; none of them are kept."""

    status = 460
    code = "checksum_mismatch"
    message = "Checksum mismatch"
    errors = ("Upload-Checksum: the bytes that came have another one; send them again",)


class HeadTooLarge(SluiceError):
    """The head of the request is larger than the service accepts: target, one field, their number or all of it."""

    status = 431
    code = "head_too_large"
    message = "Request header fields too large"

    def __init__(self, problem: str = "The head has more bytes than are accepted") -> None:
        super().__init__(errors=[problem])


class TooManyConnections(SluiceError):
    """The server has as many connections as it accepts."""

    status = 503
    code = "too_many_connections"
    message = "Service temporarily unavailable"
    errors = ("Too many connections are open; try again later",)
    retry_after = 5.0


class ServiceUnavailable(SluiceError):
    """A part of the service that the request needs is unavailable. Nothing was stored, nothing charged."""

    status = 503
    code = "unavailable"
    message = "Service temporarily unavailable"
    errors = ("Try again later; nothing was stored",)
    retry_after = 5.0

    def __init__(self, part: str, *, retry_after: float = 5.0) -> None:
        self.part = part
        super().__init__(
            errors=[f"The {part} is unavailable; nothing was stored, try again later"], retry_after=retry_after
        )


class ImportInterrupted(SluiceError):
    """The service failed during an import. The lines that `errors` names were applied; the whole may be sent again."""

    status = 503
    code = "import_interrupted"
    message = "Import interrupted"
    errors = ("The database is unavailable", "Lines 1 to 4000 were applied: 4000 entries added, 0 changed")
    retry_after = 5.0

    def __init__(self, *problems: str) -> None:
        super().__init__(errors=problems or None)


class SpoolBusy(SluiceError):
    """Uploads in progress, of this tenant or of all, have too many bytes, so a large file found no room in time."""

    status = 503
    code = "spool_busy"
    message = "Service temporarily unavailable"
    errors = ("Too many bytes of uploads are under way; nothing was stored, try again later",)
    retry_after = 5.0


class OutcomeUnknown(SluiceError):
    """The database connection failed while a stored file was being recorded: the file may have been kept or not."""

    status = 503
    code = "outcome_unknown"
    message = "Service temporarily unavailable"
    errors = ("The file may have been stored; look whether it is listed before sending it again",)
    retry_after = 10.0


class StorageFull(SluiceError):
    """The disk or the bucket is full. Nothing was stored, nothing charged."""

    status = 507
    code = "storage_full"
    message = "Insufficient storage"
    errors = ("The storage is full; nothing was stored",)
    retry_after = 60.0


def or_not_found(value: _T | None) -> _T:
    """Return `value`; raise `NotFound` if it is None."""
    if value is None:
        raise NotFound
    return value


def catalogue() -> list[type[SluiceError]]:
    """Return every error class, by status and code."""
    return sorted(SluiceError.__subclasses__(), key=lambda error: (error.status, error.code))
