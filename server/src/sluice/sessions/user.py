"""The value of a named user of the console, as it is stored, and the roles."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from sluice.access import Principal, Scope

USER_PREFIX: Final = "usr_"


class Role(StrEnum):
    """What a user may do."""

    VIEWER = "viewer"
    REVIEWER = "reviewer"
    ADMIN = "admin"

    @property
    def scopes(self) -> frozenset[Scope]:
        """The scopes of the role."""
        return _SCOPES[self]


_SCOPES: Final = {
    Role.VIEWER: frozenset({Scope.METADATA}),
    Role.REVIEWER: frozenset({Scope.METADATA, Scope.REVIEW}),
    Role.ADMIN: frozenset({Scope.ADMIN}),
}


@dataclass(frozen=True, slots=True)
class User:
    """A person who signs in with a passkey. `status` is `active` or `disabled`.

    `invited_until` is when the link of an invitation is over that was not used yet, None if there is none.
    """

    user_id: str
    tenant_id: str
    name: str
    role: Role
    status: str
    created_at: datetime
    invited_until: datetime | None = None
    last_sign_in_at: datetime | None = None

    @property
    def principal(self) -> Principal:
        """The user as the services know callers."""
        return Principal(self.tenant_id, self.user_id, self.name, self.role.scopes, via="console")

    def status_at(self, now: datetime) -> str:
        """Return the status for people: also whether an invitation to a user who never signed in is open or over."""
        if self.status != "active" or self.last_sign_in_at is not None:
            return self.status
        return "invited" if self.invited_until is not None and self.invited_until > now else "expired"
