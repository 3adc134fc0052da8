"""The values of sessions and one-time links as they are stored, and the text that a browser has of them.

<tenant id>.<row id>.<43 characters of secret>

The text contains the tenant so that the row is found like any other of that tenant. Only the SHA-256 of the
secret is stored: with 256 random bits there is nothing to guess.
"""

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Self

from sluice.access import Principal, known_scopes

_TEXT: Final = re.compile(r"([A-Za-z0-9_-]{1,64})\.([a-z]{3}_[0-9a-z]{26})\.([A-Za-z0-9_-]{43})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Link:
    """A link that signs a user in once, until `expires_at`."""

    link_id: str
    tenant_id: str
    user_id: str
    user_name: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Session:
    """A user who is signed in to the console of one tenant, until `expires_at`.

    `tenant_name` is empty before the session is read.
    """

    session_id: str
    tenant_id: str
    user_id: str
    user_name: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime
    tenant_name: str = ""

    @property
    def principal(self) -> Principal:
        """The user as the services know callers."""
        return Principal(self.tenant_id, self.user_id, self.user_name, known_scopes(self.scopes), via="console")


@dataclass(frozen=True, slots=True)
class Secret:
    """The secret of one row, as a browser has it."""

    tenant_id: str
    row_id: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls, tenant_id: str, row_id: str) -> Self:
        """Return a random secret of 256 bits."""
        return cls(tenant_id, row_id, new_secret())

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the secret in `text`, or None if no secret has this form."""
        found = _TEXT.fullmatch(text)
        return None if found is None else cls(found[1], found[2], found[3])

    @property
    def text(self) -> str:
        """The text for the browser."""
        return f"{self.tenant_id}.{self.row_id}.{self.secret}"

    @property
    def hash(self) -> bytes:
        """The value in the row."""
        return hash_secret(self.secret)


def new_secret() -> str:
    """Return 43 characters with 256 random bits."""
    return secrets.token_urlsafe(32)


def hash_secret(secret: str) -> bytes:
    """Return the SHA-256 of a secret."""
    return hashlib.sha256(secret.encode()).digest()
