"""Use console sessions: make a one-time link, open it, sign in with it, recognize a user, sign out."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from sluice.access import Principal, Scope, known_scopes
from sluice.audit import AuditAction
from sluice.audit.repository import append
from sluice.db.database import Database
from sluice.errors import Unauthenticated
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import new_id
from sluice.sessions import repository
from sluice.sessions.session import Link, Secret, Session, hash_secret, new_secret

LINK_LIFE: Final = timedelta(seconds=60)
SESSION_LIFE: Final = timedelta(hours=8)
# What a user can see something with. An upload key can only send files.
CONSOLE_SCOPES: Final = frozenset({Scope.METADATA, Scope.REVIEW, Scope.ADMIN})


@dataclass(frozen=True, slots=True)
class IssuedLink:
    """A new link, with the text in its address."""

    link: Link
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class OpenedLink:
    """A link that a browser has opened, and the text that only this browser has."""

    link: Link
    browser: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class IssuedSession:
    """A session just begun, with the text for the browser's cookie."""

    session: Session
    text: str = field(repr=False)


class Sessions:
    """The sessions of all tenants, one tenant at a time."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    async def create_link(self, by: AuditAction, user_id: str, user_name: str, scopes: Sequence[str]) -> IssuedLink:
        """Make a link that signs this user in once, within a minute, in the browser that opens it first."""
        now = self._clock()
        link = Link(new_id("lnk"), by.tenant_id, user_id, user_name, tuple(scopes), now, now + LINK_LIFE)
        secret = Secret.new(by.tenant_id, link.link_id)
        async with self._database.transaction(by.tenant_id) as connection:
            await repository.add_link(connection, link, secret.hash)
            await append(connection, by, link.link_id, now)
        return IssuedLink(link, secret.text)

    async def open_link(self, text: str, browser: str | None) -> OpenedLink:
        """Bind a link to the browser that opens it; `browser` is what an earlier call gave to this browser.

        Raise `Unauthenticated` for a link that is unknown, over, used, or bound to another browser.
        """
        presented = _parsed(text)
        mark = browser or new_secret()
        async with self._database.transaction(presented.tenant_id) as connection:
            link = await repository.bind_link(connection, presented, hash_secret(mark), self._clock())
        if link is None:
            raise Unauthenticated
        return OpenedLink(link, mark)

    async def sign_in(self, text: str, browser: str) -> IssuedSession:
        """Use a link up and begin its session. Raise `Unauthenticated` as `open_link` does."""
        presented, now = _parsed(text), self._clock()
        async with self._database.transaction(presented.tenant_id) as connection:
            link = await repository.take_link(connection, presented, hash_secret(browser), now)
        if link is None:
            raise Unauthenticated
        principal = Principal(link.tenant_id, link.user_id, link.user_name, known_scopes(link.scopes), via="console")
        return await self.begin(principal)

    async def begin(self, principal: Principal, request_id: str | None = None) -> IssuedSession:
        """Begin the session of a user whose identity is proven. Raise `Unauthenticated` if they may see nothing."""
        if not any(principal.allows(scope) for scope in CONSOLE_SCOPES):
            raise Unauthenticated
        now = self._clock()
        session = Session(
            session_id=new_id("ses"),
            tenant_id=principal.tenant_id,
            user_id=principal.actor_id,
            user_name=principal.actor_name,
            scopes=tuple(scope.value for scope in Scope if scope in principal.scopes),
            created_at=now,
            expires_at=now + SESSION_LIFE,
        )
        secret = Secret.new(session.tenant_id, session.session_id)
        by = AuditAction(replace(principal, via="console"), "console.signed_in", request_id)
        async with self._database.transaction(session.tenant_id) as connection:
            await repository.add_session(connection, session, secret.hash)
            await append(connection, by, session.session_id, now)
        return IssuedSession(session, secret.text)

    async def find(self, text: str) -> Session | None:
        """Return the session of a cookie; None if it is unknown, over, or its tenant is suspended."""
        presented = Secret.parse(text)
        if presented is None:
            return None
        async with self._database.reading(presented.tenant_id) as connection:
            return await repository.find_session(connection, presented, self._clock())

    async def is_over(self, session: Session) -> bool:
        """Return whether a session has ended since it was found."""
        async with self._database.reading(session.tenant_id) as connection:
            return not await repository.has_session(connection, session.tenant_id, session.session_id, self._clock())

    async def end(self, session: Session, request_id: str | None = None) -> None:
        """End a session at once, in every process."""
        by = AuditAction(session.principal, "console.signed_out", request_id)
        async with self._database.transaction(session.tenant_id) as connection:
            if await repository.delete_session(connection, session.tenant_id, session.session_id):
                await append(connection, by, session.session_id, self._clock())


def _parsed(text: str) -> Secret:
    presented = Secret.parse(text)
    if presented is None:
        raise Unauthenticated
    return presented
