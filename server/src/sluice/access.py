"""Authorization: scopes, the caller, and the scope that every route requires."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal

# How a caller comes in
Via = Literal["api_key", "jwt", "command", "upload_token", "console"]
Route = tuple[str, str]


class Scope(StrEnum):
    """A permission of a credential. `admin` implies all others."""

    UPLOAD = "upload"
    DOWNLOAD = "download"
    METADATA = "metadata"
    DELETE = "delete"
    REVIEW = "review"
    ADMIN = "admin"


def known_scopes(words: Iterable[str]) -> frozenset[Scope]:
    """Return the scopes among `words`; other words of an issuer (`openid`, `profile`) grant nothing."""
    return _known_scopes(frozenset(words))


@lru_cache(maxsize=256)
def _known_scopes(words: frozenset[str]) -> frozenset[Scope]:
    return frozenset(scope for scope in Scope if scope.value in words)


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """The limits of an API key in addition to its scopes; empty and None: not limited.

    `contexts` are keys of contexts, `networks` those from which it may be used, in CIDR notation. Requests that
    continue a resumable upload do not count in `rate_per_minute`; those with upload tokens that the key made do.
    """

    contexts: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    rate_per_minute: int | None = None


NO_LIMITS: Final = KeyLimits()


@dataclass(frozen=True, slots=True)
class UploadPermit:
    """The permission of an upload token: to send files into one context, within limits.

    None and empty `allowed_extensions` mean that only the context limits. `metadata` wins over what is sent. Pages of
    `allowed_origins` may read the responses. `made_by` is the API key or the user that made the token.
    `is_counted`: the upload is counted as an attempt; one that may repeat an earlier upload is not yet.
    """

    token_id: str
    context_key: str
    max_bytes: int | None
    allowed_extensions: tuple[str, ...]
    metadata: Mapping[str, object] = field(hash=False)
    allowed_origins: tuple[str, ...] = ()
    end_user: str | None = None
    made_by: str = ""
    is_counted: bool = True


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated caller of one request.

    `actor_id` is the API key's id, the upload token's or the user's; `key_id` is the API key's id, None for others.
    `is_test` marks a test key, whose files count against no plan limit. `key_changed_at` is the version of the key that
    was read. `permit` is what the holder of an upload token may send, None for all others. `limits` are those of an API
    key. The worker is no caller, but an actor of the audit log.
    """

    tenant_id: str
    actor_id: str
    actor_name: str
    scopes: frozenset[Scope]
    via: Via | Literal["worker"]
    is_test: bool = False
    key_id: str | None = None
    key_changed_at: datetime | None = None
    permit: UploadPermit | None = None
    limits: KeyLimits = NO_LIMITS

    def allows(self, scope: Scope | None) -> bool:
        """Return whether the caller has `scope`; None is any valid credential."""
        return scope is None or scope in self.scopes or Scope.ADMIN in self.scopes

    def may_grant(self, scopes: Iterable[Scope]) -> bool:
        """Return whether the caller has all of `scopes`, and so may give them to a key."""
        return all(self.allows(scope) for scope in scopes)


def operator(tenant_id: str, user: str) -> Principal:
    """Return the caller of a command on the machine itself, which needs no credential."""
    return Principal(tenant_id, f"command|{user}", user, frozenset(), via="command")


def worker(tenant_id: str) -> Principal:
    """Return the actor of what the worker does to a tenant's things by itself."""
    return Principal(tenant_id, "worker", "worker", frozenset(), via="worker")


_CONTEXTS: Final = "/api/v1/contexts"
_FILES: Final = "/api/v1/files"
_JOBS: Final = "/api/v1/jobs"
_ERASURES: Final = "/api/v1/erasures"
_FILE: Final = f"{_FILES}/{{file_id}}"
_QUARANTINE: Final = "/api/v1/quarantine"
_IN_QUARANTINE: Final = f"{_QUARANTINE}/{{file_id}}"
_REPORTS: Final = "/api/v1/reports"
_API_KEYS: Final = "/api/v1/api-keys"
_UPLOAD_TOKENS: Final = "/api/v1/upload-tokens"
_RESUMABLE: Final = "/api/v1/uploads"
_BUCKETS: Final = "/api/v1/tenants/{tenant_id}/storage-configs"
_CORS: Final = "/api/v1/cors"
_HASHES: Final = "/api/v1/hash-lists"
_HASH: Final = f"{_HASHES}/{{digest}}"
_EVENTS: Final = "/api/v1/events"
_WEBHOOKS: Final = "/api/v1/webhook-endpoints"
_WEBHOOK: Final = f"{_WEBHOOKS}/{{endpoint_id}}"
_REDELIVER: Final = "/api/v1/webhook-deliveries/{delivery_id}/redeliver"
_AUDIT: Final = "/api/v1/audit"
_MESSAGES: Final = "/api/v1/messages"
_EXAMPLES: Final = f"{_CONTEXTS}/{{context_key}}/examples"
_ROTATED_CHECK: Final = f"{_CONTEXTS}/{{context_key}}/external-checks/{{check_name}}/rotate-secret"
_CHECK_CONTENT: Final = "/api/v1/check-content/{token}"
_DOWNLOAD: Final = "/api/v1/downloads/{file_id}"
_PAGE: Final = "/u/{token}"

# The scope that each route requires, None for any valid credential. Every route is listed here, in `SIGNED_ROUTES`, in
# `TOKEN_ROUTES` or in `PUBLIC_ROUTES`.
ROUTE_SCOPES: Final[Mapping[Route, Scope | None]] = MappingProxyType(
    {
        ("POST", _CONTEXTS): Scope.ADMIN,
        ("GET", _CONTEXTS): None,
        ("GET", f"{_CONTEXTS}/{{context_key}}"): None,
        ("PATCH", f"{_CONTEXTS}/{{context_key}}"): Scope.ADMIN,
        ("POST", f"{_CONTEXTS}/{{context_key}}/replay"): Scope.ADMIN,
        ("POST", _ROTATED_CHECK): Scope.ADMIN,
        ("PUT", f"{_CONTEXTS}/{{context_key}}/hold"): Scope.ADMIN,
        ("DELETE", f"{_CONTEXTS}/{{context_key}}/hold"): Scope.ADMIN,
        ("GET", _EXAMPLES): Scope.METADATA,
        ("POST", _EXAMPLES): Scope.ADMIN,
        ("DELETE", f"{_EXAMPLES}/{{example_id}}"): Scope.ADMIN,
        ("POST", f"{_FILES}/upload"): Scope.UPLOAD,
        ("POST", f"{_FILES}/validate"): Scope.UPLOAD,
        ("POST", _RESUMABLE): Scope.UPLOAD,
        ("GET", f"{_RESUMABLE}/{{upload_id}}"): Scope.UPLOAD,
        ("HEAD", f"{_RESUMABLE}/{{upload_id}}"): Scope.UPLOAD,
        ("PATCH", f"{_RESUMABLE}/{{upload_id}}"): Scope.UPLOAD,
        ("DELETE", f"{_RESUMABLE}/{{upload_id}}"): Scope.UPLOAD,
        ("GET", _REPORTS): Scope.METADATA,
        ("GET", f"{_REPORTS}/{{report_id}}"): Scope.METADATA,
        ("GET", _FILES): Scope.METADATA,
        ("GET", f"{_FILES}/{{file_id}}"): Scope.DOWNLOAD,
        ("GET", f"{_FILES}/{{file_id}}/metadata"): Scope.METADATA,
        ("GET", f"{_FILE}/preview"): Scope.DOWNLOAD,
        ("GET", f"{_FILE}/receipt"): Scope.METADATA,
        ("DELETE", f"{_FILES}/{{file_id}}"): Scope.DELETE,
        ("POST", f"{_FILES}/bulk-delete"): Scope.DELETE,
        ("POST", f"{_FILES}/bulk-restore"): Scope.DELETE,
        ("POST", f"{_FILES}/export"): Scope.METADATA,
        ("GET", _JOBS): Scope.METADATA,
        ("GET", f"{_JOBS}/{{job_id}}/download"): Scope.METADATA,
        ("GET", f"{_JOBS}/{{job_id}}"): Scope.METADATA,
        ("POST", f"{_JOBS}/{{job_id}}/cancel"): Scope.DELETE,
        ("POST", _ERASURES): Scope.ADMIN,
        ("GET", f"{_ERASURES}/{{job_id}}"): Scope.ADMIN,
        ("GET", f"{_ERASURES}/{{job_id}}/receipt"): Scope.ADMIN,
        ("POST", f"{_FILE}/restore"): Scope.DELETE,
        ("PUT", f"{_FILE}/hold"): Scope.ADMIN,
        ("DELETE", f"{_FILE}/hold"): Scope.ADMIN,
        ("GET", _QUARANTINE): Scope.REVIEW,
        ("GET", f"{_IN_QUARANTINE}/download"): Scope.REVIEW,
        ("GET", f"{_IN_QUARANTINE}/preview"): Scope.REVIEW,
        ("POST", f"{_IN_QUARANTINE}/release"): Scope.REVIEW,
        ("POST", f"{_IN_QUARANTINE}/refuse"): Scope.REVIEW,
        ("POST", f"{_IN_QUARANTINE}/rescan"): Scope.REVIEW,
        ("GET", "/api/v1/usage"): Scope.METADATA,
        ("GET", "/api/v1/plan"): Scope.METADATA,
        ("POST", _API_KEYS): Scope.ADMIN,
        ("GET", _API_KEYS): Scope.ADMIN,
        ("GET", f"{_API_KEYS}/{{api_key_id}}"): Scope.ADMIN,
        ("PATCH", f"{_API_KEYS}/{{api_key_id}}"): Scope.ADMIN,
        ("DELETE", f"{_API_KEYS}/{{api_key_id}}"): Scope.ADMIN,
        ("POST", f"{_API_KEYS}/{{api_key_id}}/rotate"): Scope.ADMIN,
        ("POST", _UPLOAD_TOKENS): Scope.UPLOAD,
        ("GET", _UPLOAD_TOKENS): Scope.UPLOAD,
        ("GET", f"{_UPLOAD_TOKENS}/{{token_id}}"): Scope.UPLOAD,
        ("DELETE", f"{_UPLOAD_TOKENS}/{{token_id}}"): Scope.UPLOAD,
        ("POST", _BUCKETS): Scope.ADMIN,
        ("GET", _BUCKETS): Scope.ADMIN,
        ("GET", f"{_BUCKETS}/{{config_id}}"): Scope.ADMIN,
        ("PATCH", f"{_BUCKETS}/{{config_id}}"): Scope.ADMIN,
        ("POST", f"{_BUCKETS}/{{config_id}}/set-default"): Scope.ADMIN,
        ("DELETE", f"{_BUCKETS}/{{config_id}}"): Scope.ADMIN,
        ("GET", _CORS): Scope.ADMIN,
        ("PUT", _CORS): Scope.ADMIN,
        ("GET", _HASHES): Scope.METADATA,
        ("POST", _HASHES): Scope.ADMIN,
        ("POST", f"{_HASHES}/import"): Scope.ADMIN,
        ("DELETE", _HASH): Scope.ADMIN,
        ("POST", f"{_HASH}/quarantine"): Scope.ADMIN,
        ("GET", _AUDIT): Scope.ADMIN,
        ("GET", _EVENTS): Scope.ADMIN,
        ("POST", _WEBHOOKS): Scope.ADMIN,
        ("GET", _WEBHOOKS): Scope.ADMIN,
        ("GET", _WEBHOOK): Scope.ADMIN,
        ("PATCH", _WEBHOOK): Scope.ADMIN,
        ("DELETE", _WEBHOOK): Scope.ADMIN,
        ("POST", f"{_WEBHOOK}/rotate-secret"): Scope.ADMIN,
        ("POST", f"{_WEBHOOK}/test"): Scope.ADMIN,
        ("POST", f"{_WEBHOOK}/recover"): Scope.ADMIN,
        ("GET", f"{_WEBHOOK}/deliveries"): Scope.ADMIN,
        ("POST", _REDELIVER): Scope.ADMIN,
    }
)

# What an API key that is limited to some contexts may use: what is named by the path must be of them, and the lists and
# jobs require a context. All other routes are of the whole tenant. Uploads are judged in `uploads.snapshot`.
CONTEXT_ROUTES: Final[frozenset[Route]] = frozenset(
    {
        ("GET", _CONTEXTS),
        ("GET", f"{_CONTEXTS}/{{context_key}}"),
        ("GET", _EXAMPLES),
        ("GET", _REPORTS),
        ("GET", f"{_REPORTS}/{{report_id}}"),
        ("GET", _FILES),
        ("GET", _FILE),
        ("DELETE", _FILE),
        ("GET", f"{_FILE}/metadata"),
        ("GET", f"{_FILE}/preview"),
        ("GET", f"{_FILE}/receipt"),
        ("POST", f"{_FILE}/restore"),
        ("POST", f"{_FILES}/bulk-delete"),
        ("POST", f"{_FILES}/bulk-restore"),
        ("POST", f"{_FILES}/export"),
        ("GET", f"{_JOBS}/{{job_id}}"),
        ("GET", f"{_JOBS}/{{job_id}}/download"),
        ("POST", f"{_JOBS}/{{job_id}}/cancel"),
        ("GET", _QUARANTINE),
        ("GET", f"{_IN_QUARANTINE}/download"),
        ("GET", f"{_IN_QUARANTINE}/preview"),
        ("POST", f"{_IN_QUARANTINE}/release"),
        ("POST", f"{_IN_QUARANTINE}/refuse"),
        ("POST", f"{_IN_QUARANTINE}/rescan"),
        ("POST", _UPLOAD_TOKENS),
        ("GET", f"{_UPLOAD_TOKENS}/{{token_id}}"),
        ("DELETE", f"{_UPLOAD_TOKENS}/{{token_id}}"),
    }
)

# Lists whose requests may wait for what comes next: they have limits of their own (`events.service`)
WAITING_ROUTES: Final[frozenset[Route]] = frozenset({("GET", _EVENTS)})

# Routes whose signature is the credential (`files.links`)
SIGNED_ROUTES: Final[frozenset[Route]] = frozenset(
    {("GET", _DOWNLOAD), ("HEAD", _DOWNLOAD), ("GET", f"{_DOWNLOAD}/preview")}
)

# Routes whose path holds the credential: the upload token of the upload page, the link of a question to an external
# check
TOKEN_ROUTES: Final[frozenset[Route]] = frozenset(
    {("GET", _PAGE), ("HEAD", _PAGE), ("POST", _PAGE), ("GET", _CHECK_CONTENT), ("HEAD", _CHECK_CONTENT)}
)

# Routes that need no credential: they hold no tenant's data, and respond to every caller alike
PUBLIC_ROUTES: Final[frozenset[Route]] = frozenset(
    {("GET", _MESSAGES), ("GET", f"{_MESSAGES}/{{locale}}"), ("OPTIONS", _RESUMABLE)}
)


@dataclass(frozen=True, slots=True)
class Audited:
    """The entry of a route in the audit log: its action, and the path parameter that is its target.

    If the path has no such parameter, the request makes the target and the response names it.
    """

    action: str
    target: str


# Every route that changes something or hands a file out. Uploads are not listed: each has a row in the decision log.
AUDITED_ROUTES: Final[Mapping[Route, Audited]] = MappingProxyType(
    {
        ("POST", _CONTEXTS): Audited("context.created", "context_key"),
        ("PATCH", f"{_CONTEXTS}/{{context_key}}"): Audited("context.changed", "context_key"),
        ("POST", _ROTATED_CHECK): Audited("context.check_secret_rotated", "context_key"),
        ("POST", _EXAMPLES): Audited("context.example_added", "context_key"),
        ("DELETE", f"{_EXAMPLES}/{{example_id}}"): Audited("context.example_removed", "context_key"),
        ("GET", f"{_FILES}/{{file_id}}"): Audited("file.linked", "file_id"),
        ("GET", f"{_FILE}/preview"): Audited("file.previewed", "file_id"),
        ("DELETE", f"{_FILES}/{{file_id}}"): Audited("file.deleted", "file_id"),
        ("POST", f"{_FILES}/bulk-delete"): Audited("job.created", "job_id"),
        ("POST", _ERASURES): Audited("erasure.created", "job_id"),
        ("POST", f"{_FILES}/bulk-restore"): Audited("job.created", "job_id"),
        ("POST", f"{_FILES}/export"): Audited("job.created", "job_id"),
        ("GET", f"{_JOBS}/{{job_id}}/download"): Audited("job.linked", "job_id"),
        ("POST", f"{_JOBS}/{{job_id}}/cancel"): Audited("job.cancelled", "job_id"),
        ("POST", f"{_FILE}/restore"): Audited("file.restored", "file_id"),
        ("PUT", f"{_FILE}/hold"): Audited("file.held", "file_id"),
        ("DELETE", f"{_FILE}/hold"): Audited("file.unheld", "file_id"),
        ("PUT", f"{_CONTEXTS}/{{context_key}}/hold"): Audited("context.held", "context_key"),
        ("DELETE", f"{_CONTEXTS}/{{context_key}}/hold"): Audited("context.unheld", "context_key"),
        ("GET", f"{_IN_QUARANTINE}/download"): Audited("file.quarantine_downloaded", "file_id"),
        ("GET", f"{_IN_QUARANTINE}/preview"): Audited("file.quarantine_previewed", "file_id"),
        ("POST", f"{_IN_QUARANTINE}/release"): Audited("file.released", "file_id"),
        ("POST", f"{_IN_QUARANTINE}/refuse"): Audited("file.refused", "file_id"),
        ("POST", f"{_IN_QUARANTINE}/rescan"): Audited("file.rescan_asked", "file_id"),
        ("POST", _API_KEYS): Audited("api_key.created", "api_key_id"),
        ("PATCH", f"{_API_KEYS}/{{api_key_id}}"): Audited("api_key.changed", "api_key_id"),
        ("DELETE", f"{_API_KEYS}/{{api_key_id}}"): Audited("api_key.revoked", "api_key_id"),
        ("POST", f"{_API_KEYS}/{{api_key_id}}/rotate"): Audited("api_key.rotated", "api_key_id"),
        ("POST", _UPLOAD_TOKENS): Audited("upload_token.created", "token_id"),
        ("DELETE", f"{_UPLOAD_TOKENS}/{{token_id}}"): Audited("upload_token.revoked", "token_id"),
        ("PUT", _CORS): Audited("cors.changed", "tenant_id"),
        ("POST", _HASHES): Audited("hash_entry.added", "digest"),
        ("POST", f"{_HASHES}/import"): Audited("hash_list.imported", "import_id"),
        ("DELETE", _HASH): Audited("hash_entry.removed", "digest"),
        ("POST", f"{_HASH}/quarantine"): Audited("job.created", "job_id"),
        ("POST", _WEBHOOKS): Audited("webhook_endpoint.created", "endpoint_id"),
        ("PATCH", _WEBHOOK): Audited("webhook_endpoint.changed", "endpoint_id"),
        ("DELETE", _WEBHOOK): Audited("webhook_endpoint.deleted", "endpoint_id"),
        ("POST", f"{_WEBHOOK}/rotate-secret"): Audited("webhook_endpoint.secret_rotated", "endpoint_id"),
        ("POST", f"{_WEBHOOK}/test"): Audited("webhook_endpoint.tested", "endpoint_id"),
        ("POST", f"{_WEBHOOK}/recover"): Audited("webhook_endpoint.recovered", "endpoint_id"),
        ("POST", _REDELIVER): Audited("webhook_delivery.redelivered", "delivery_id"),
        ("POST", _BUCKETS): Audited("bucket.added", "config_id"),
        ("PATCH", f"{_BUCKETS}/{{config_id}}"): Audited("bucket.changed", "config_id"),
        ("POST", f"{_BUCKETS}/{{config_id}}/set-default"): Audited("bucket.made_default", "config_id"),
        ("DELETE", f"{_BUCKETS}/{{config_id}}"): Audited("bucket.deleted", "config_id"),
    }
)
