"""The catalogue of errors: one class, one code, one status, one sentence. Reason codes of rejected uploads live in `uploads.reasons`.

Raised where the fault is known, rendered once, at the edge (`api.render`). `docs/errors.md` lists them; a test holds it to that.
"""

from collections.abc import Sequence
from typing import ClassVar


class SluiceError(Exception):
    """A refusal that a caller sees. Subclasses say status (HTTP), code (stable, for programs) and message (for people)."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    message: str = "Internal error"
    errors: Sequence[str] = ("The service failed; the request was not carried out",)
    retry_after: float | None = None
    """Seconds after which a retry makes sense, for 429 and 503."""
    limit: int | None = None
    """How much is allowed in all, for 429."""

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
    """An upload failed a check. `errors` holds exactly one reason code of `uploads.reasons`."""

    status = 400
    code = "file_rejected"
    message = "File rejected"


class LimitExceeded(SluiceError):
    """An upload failed a rate or plan rule: the same shape as `FileRejected`, but time alone heals it."""

    status = 429
    code = "limit_exceeded"
    message = "File rejected: too many uploads"


class Unauthenticated(SluiceError):
    """No credential, or one that is not to be believed. The same body for every cause."""

    status = 401
    code = "unauthenticated"
    message = "Invalid or missing API key"
    errors = ("Authentication required",)


class ScopeMissing(SluiceError):
    """The caller is known but lacks a scope."""

    status = 403
    code = "scope_missing"
    message = "Scope required"
    errors = ("Insufficient permissions",)

    def __init__(self, scope: str) -> None:
        super().__init__(f"{scope.capitalize()} scope required")


class LinkRefused(SluiceError):
    """A signed download link that was changed, or whose time is over."""

    status = 403
    code = "link_refused"
    message = "Download link invalid or expired"
    errors = ("Ask for a new download URL",)


class NotFound(SluiceError):
    """No such thing for this tenant: unknown, another tenant's, deleted. Never told apart."""

    status = 404
    code = "not_found"
    message = "Resource not found"
    errors = ("Not found",)


class MethodNotAllowed(SluiceError):
    """The path exists, the method on it does not."""

    status = 405
    code = "method_not_allowed"
    message = "Method not allowed"
    errors = ("This path does not take that method",)


class BodyStalled(SluiceError):
    """The client stopped sending in the middle of its body, or sends so slowly that it never comes to an end."""

    status = 408
    code = "body_stalled"
    message = "Request timeout"
    errors = ("No bytes of the body arrived for too long, or too few",)


class HeadStalled(SluiceError):
    """The client began a request and did not come to the end of its head in time."""

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


class ContextInactive(SluiceError):
    """An upload into a context that is switched off."""

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
    """The body, a form field or a query parameter failed its schema: one entry per problem, each `<field>: <problem>`."""

    status = 422
    code = "validation_error"
    message = "Validation error"

    def __init__(self, *problems: str) -> None:
        super().__init__(errors=problems)


class TooManyRequests(SluiceError):
    """The tenant has too many requests under way, or an address failed to authenticate too often."""

    status = 429
    code = "too_many_requests"
    message = "Too many requests"
    errors = ("Slow down and try again",)
    retry_after = 5.0


class HeadTooLarge(SluiceError):
    """The head of the request is larger than the service accepts: its target, one field, their number or all together."""

    status = 431
    code = "head_too_large"
    message = "Request header fields too large"

    def __init__(self, problem: str = "The head has more bytes than are accepted") -> None:
        super().__init__(errors=[problem])


class TooManyConnections(SluiceError):
    """The server holds as many connections as it may."""

    status = 503
    code = "too_many_connections"
    message = "Service temporarily unavailable"
    errors = ("Too many connections are open; try again later",)
    retry_after = 5.0


class Unavailable(SluiceError):
    """A part that the request needs is away. Nothing was stored, nothing charged."""

    status = 503
    code = "unavailable"
    message = "Service temporarily unavailable"
    errors = ("Try again later; nothing was stored",)
    retry_after = 5.0

    def __init__(self, part: str, *, retry_after: float = 5.0) -> None:
        self.part = part
        super().__init__(errors=[f"The {part} is unavailable; nothing was stored, try again later"], retry_after=retry_after)


class OutcomeUnknown(SluiceError):
    """The database went away while a stored file was being recorded: it may be kept or not. Never both acknowledged and lost."""

    status = 503
    code = "outcome_unknown"
    message = "Service temporarily unavailable"
    errors = ("The file may have been stored; look whether it is listed before sending it again",)
    retry_after = 10.0


class StorageFull(SluiceError):
    """No room is left on the disk or in the bucket. Nothing was stored, nothing charged."""

    status = 507
    code = "storage_full"
    message = "Insufficient storage"
    errors = ("The storage is full; nothing was stored",)
    retry_after = 60.0


def catalogue() -> list[type[SluiceError]]:
    """Answer every error class, by status and code."""
    return sorted(SluiceError.__subclasses__(), key=lambda error: (error.status, error.code))
