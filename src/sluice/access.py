"""Who may do what: scopes, the caller, and the scope every route asks for. How a credential becomes a caller lives at the edge."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

Via = Literal["api_key", "jwt", "command"]
Route = tuple[str, str]


class Scope(StrEnum):
    """What a credential may be allowed to do. `admin` implies all others."""

    UPLOAD = "upload"
    DOWNLOAD = "download"
    METADATA = "metadata"
    DELETE = "delete"
    ADMIN = "admin"


def known_scopes(words: Iterable[str]) -> frozenset[Scope]:
    """Answer the scopes among `words`; issuers put words of their own (`openid`, `profile`) beside ours, and those grant nothing."""
    said = frozenset(words)
    return frozenset(scope for scope in Scope if scope.value in said)


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated caller of one request.

    `actor_id` is the API key's id or the user's; `key_id` is the API key's id, None for a JWT. `is_test` marks a test key, whose
    files count against no plan limit. `key_changed_at` is the edition of the key that was believed. One that is `remembered` was
    believed a moment ago and not asked for in this request: nothing may be answered on it before it is confirmed.
    """

    tenant_id: str
    actor_id: str
    actor_name: str
    scopes: frozenset[Scope]
    via: Via
    is_test: bool = False
    key_id: str | None = None
    key_changed_at: datetime | None = None
    remembered: bool = False

    def allows(self, scope: Scope | None) -> bool:
        """Tell whether the caller may do what asks for `scope`; None asks for any valid credential."""
        return scope is None or scope in self.scopes or Scope.ADMIN in self.scopes

    def may_grant(self, scopes: Iterable[Scope]) -> bool:
        """Tell whether the caller holds each of `scopes`, and so may give them to a key that it makes or changes."""
        return all(self.allows(scope) for scope in scopes)


def operator(tenant_id: str, user: str) -> Principal:
    """Answer who acts by a command on the machine itself: nobody's credential, and no bar stands between it and the service's user."""
    return Principal(tenant_id, f"command|{user}", user, frozenset(), via="command")


_CONTEXTS: Final = "/api/v1/contexts"
_FILES: Final = "/api/v1/files"
_API_KEYS: Final = "/api/v1/api-keys"
_BUCKETS: Final = "/api/v1/tenants/{tenant_id}/storage-configs"
_AUDIT: Final = "/api/v1/audit"
_DOWNLOAD: Final = "/api/v1/downloads/{file_id}"

ROUTE_SCOPES: Final[Mapping[Route, Scope | None]] = MappingProxyType(
    {
        ("POST", _CONTEXTS): Scope.ADMIN,
        ("GET", _CONTEXTS): None,
        ("GET", f"{_CONTEXTS}/{{context_key}}"): None,
        ("PATCH", f"{_CONTEXTS}/{{context_key}}"): Scope.ADMIN,
        ("POST", f"{_FILES}/upload"): Scope.UPLOAD,
        ("GET", _FILES): Scope.METADATA,
        ("GET", f"{_FILES}/{{file_id}}"): Scope.DOWNLOAD,
        ("GET", f"{_FILES}/{{file_id}}/metadata"): Scope.METADATA,
        ("DELETE", f"{_FILES}/{{file_id}}"): Scope.DELETE,
        ("POST", _API_KEYS): Scope.ADMIN,
        ("GET", _API_KEYS): Scope.ADMIN,
        ("GET", f"{_API_KEYS}/{{api_key_id}}"): Scope.ADMIN,
        ("PATCH", f"{_API_KEYS}/{{api_key_id}}"): Scope.ADMIN,
        ("DELETE", f"{_API_KEYS}/{{api_key_id}}"): Scope.ADMIN,
        ("POST", _BUCKETS): Scope.ADMIN,
        ("GET", _BUCKETS): Scope.ADMIN,
        ("GET", f"{_BUCKETS}/{{config_id}}"): Scope.ADMIN,
        ("PATCH", f"{_BUCKETS}/{{config_id}}"): Scope.ADMIN,
        ("POST", f"{_BUCKETS}/{{config_id}}/set-default"): Scope.ADMIN,
        ("DELETE", f"{_BUCKETS}/{{config_id}}"): Scope.ADMIN,
        ("GET", _AUDIT): Scope.ADMIN,
    }
)
"""The scope each route asks for, None for any valid credential. A route that stands neither here nor in `SIGNED_ROUTES` is a mistake."""

SIGNED_ROUTES: Final[frozenset[Route]] = frozenset({("GET", _DOWNLOAD), ("HEAD", _DOWNLOAD)})
"""Routes that ask for no credential because their own signature is one (`files.links`)."""


@dataclass(frozen=True, slots=True)
class Audited:
    """How a route stands in the audit trail: the word for it, and the field that names its target.

    The target is the path's parameter of that name; where the path has none, the thing is made by the request and named by its answer.
    """

    action: str
    target: str


AUDITED_ROUTES: Final[Mapping[Route, Audited]] = MappingProxyType(
    {
        ("POST", _CONTEXTS): Audited("context.created", "context_key"),
        ("PATCH", f"{_CONTEXTS}/{{context_key}}"): Audited("context.changed", "context_key"),
        ("GET", f"{_FILES}/{{file_id}}"): Audited("file.linked", "file_id"),
        ("DELETE", f"{_FILES}/{{file_id}}"): Audited("file.deleted", "file_id"),
        ("POST", _API_KEYS): Audited("api_key.created", "api_key_id"),
        ("PATCH", f"{_API_KEYS}/{{api_key_id}}"): Audited("api_key.changed", "api_key_id"),
        ("DELETE", f"{_API_KEYS}/{{api_key_id}}"): Audited("api_key.revoked", "api_key_id"),
        ("POST", _BUCKETS): Audited("bucket.added", "config_id"),
        ("PATCH", f"{_BUCKETS}/{{config_id}}"): Audited("bucket.changed", "config_id"),
        ("POST", f"{_BUCKETS}/{{config_id}}/set-default"): Audited("bucket.made_default", "config_id"),
        ("DELETE", f"{_BUCKETS}/{{config_id}}"): Audited("bucket.deleted", "config_id"),
    }
)
"""Every route that changes something or hands a file out. Uploads are not here: each has a row in the decision log."""
