"""Use the console's named users: invite them, let them register passkeys and sign in with these, and end that."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from sluice.audit import AuditAction
from sluice.audit.repository import add as add_entry
from sluice.audit.repository import append
from sluice.db.database import Conflict, Database
from sluice.db.rls import ALL_TENANTS, NO_TENANT
from sluice.errors import Invalid, TooManyRequests, Unauthenticated, or_not_found
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import new_id
from sluice.kit.paging import Page, PageRequest
from sluice.kit.text import is_plain
from sluice.kit.throttle import FailureThrottle
from sluice.sessions.service import IssuedSession, Sessions
from sluice.sessions.session import Secret, hash_secret, new_secret
from sluice.sessions.user import USER_PREFIX, Role, User
from sluice.users import repository
from sluice.users.passkeys import (
    CHALLENGE_SECONDS,
    Assertion,
    Passkey,
    PasskeyRefused,
    RelyingParty,
    creation_options,
    request_options,
    verify_assertion,
    verify_creation,
)

INVITATION_LIFE: Final = timedelta(days=1)
_MAX_NAME: Final = 255
_MOST_PASSKEYS: Final = 20
_REFUSALS_PER_MINUTE: Final = 60  # of a user in the audit log


@dataclass(frozen=True, slots=True)
class Invitation:
    """A user who may register a passkey, and the text in the address of the link."""

    user: User
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ceremony:
    """The options of a ceremony as JSON, and the text that only the browser has that began it."""

    options: str
    browser: str = field(repr=False)


class Users:
    """The named users of all tenants, one tenant at a time."""

    def __init__(
        self,
        database: Database,
        sessions: Sessions,
        public_url: str,
        *,
        attempts_per_minute: int,
        clock: Clock = utc_now,
    ) -> None:
        """Let each address begin `attempts_per_minute` ceremonies."""
        self._database = database
        self._sessions = sessions
        self._clock = clock
        self._attempts = FailureThrottle(attempts_per_minute, 60.0, 10_000)
        self._refusals = FailureThrottle(_REFUSALS_PER_MINUTE, 60.0, 10_000)
        self.site = RelyingParty.of(public_url)

    # administration

    async def list_page(self, tenant_id: str, request: PageRequest) -> Page[User]:
        """Return one page, newest first."""
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_users(connection, tenant_id, request)

    async def get(self, tenant_id: str, user_id: str) -> User:
        """Return one user; raise `NotFound`."""
        async with self._database.reading(tenant_id) as connection:
            return or_not_found(await repository.find_user(connection, tenant_id, user_id))

    async def invite(self, by: AuditAction, name: str, role: Role) -> Invitation:
        """Create a user with a link that works once, within a day. Raise `Invalid`."""
        if not name or len(name) > _MAX_NAME or not is_plain(name):
            raise Invalid(f"name: expected 1 to {_MAX_NAME} characters")
        now = self._clock()
        user = User(new_id("usr"), by.tenant_id, name, role, "active", now, invited_until=now + INVITATION_LIFE)
        secret = Secret.new(by.tenant_id, user.user_id)
        async with self._database.transaction(by.tenant_id) as connection:
            await repository.add_user(connection, user, secret.hash)
            await append(connection, by, user.user_id, now, f"{name}: {role.value}")
        return Invitation(user, secret.text)

    async def invite_again(self, by: AuditAction, user_id: str) -> Invitation:
        """Make a new link for a user, which replaces the one before. Raise `NotFound`."""
        now, secret = self._clock(), Secret.new(by.tenant_id, user_id)
        values = {"invitation_hash": secret.hash, "invited_until": now + INVITATION_LIFE}
        async with self._database.transaction(by.tenant_id) as connection:
            user = or_not_found(await repository.change_user(connection, by.tenant_id, user_id, values))
            await append(connection, by, user_id, now, "a new link")
        return Invitation(user, secret.text)

    async def set_role(self, by: AuditAction, user_id: str, role: Role) -> None:
        """Give a user another role, which holds for the next request. Raise `NotFound`, `Invalid` for oneself."""
        _require_another(by, user_id)
        async with self._database.transaction(by.tenant_id) as connection:
            before = or_not_found(await repository.find_user(connection, by.tenant_id, user_id))
            await repository.change_user(connection, by.tenant_id, user_id, {"role": role.value})
            await append(connection, by, user_id, self._clock(), f"role: {before.role.value} to {role.value}")

    async def set_status(self, by: AuditAction, user_id: str, status: str) -> None:
        """Enable or disable a user, which ends sessions and link. Raise `NotFound`, `Invalid` for oneself."""
        _require_another(by, user_id)
        values: dict[str, Any] = {"status": status}
        if status != "active":
            values |= {"invitation_hash": None, "invited_until": None}
        async with self._database.transaction(by.tenant_id) as connection:
            or_not_found(await repository.change_user(connection, by.tenant_id, user_id, values))
            if status != "active":
                await repository.delete_sessions(connection, by.tenant_id, user_id)
            await append(connection, by, user_id, self._clock(), f"status: {status}")

    async def end_sessions(self, by: AuditAction, user_id: str) -> None:
        """End all sessions of a user. Raise `NotFound`."""
        async with self._database.transaction(by.tenant_id) as connection:
            or_not_found(await repository.find_user(connection, by.tenant_id, user_id))
            await repository.delete_sessions(connection, by.tenant_id, user_id)
            await append(connection, by, user_id, self._clock())

    async def remove(self, by: AuditAction, user_id: str) -> None:
        """Delete a user with its passkeys and sessions. Raise `NotFound`, `Invalid` for oneself."""
        _require_another(by, user_id)
        async with self._database.transaction(by.tenant_id) as connection:
            or_not_found(await repository.delete_user(connection, by.tenant_id, user_id))
            await append(connection, by, user_id, self._clock())

    # passkeys

    async def find_invited(self, text: str) -> User:
        """Return the user whom a link invites. Raise `Unauthenticated` if it is unknown, used or over."""
        presented = Secret.parse(text)
        if presented is None or not presented.row_id.startswith(USER_PREFIX):
            raise Unauthenticated
        async with self._database.reading(presented.tenant_id) as connection:
            user = await repository.find_invited(connection, presented, self._clock())
        if user is None:
            raise Unauthenticated
        return user

    async def list_passkeys(self, tenant_id: str, user_id: str) -> Sequence[Passkey]:
        """Return the passkeys of a user, oldest first."""
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_passkeys(connection, tenant_id, user_id)

    async def begin_registration(self, user: User, address: str) -> Ceremony:
        """Return the options for a new passkey. Raise `TooManyRequests`, or `Invalid` if the site can have none."""
        known = await self.list_passkeys(user.tenant_id, user.user_id)
        if len(known) >= _MOST_PASSKEYS:
            raise Invalid(f"passkeys: expected at most {_MOST_PASSKEYS}")
        browser = await self._begin(address)
        return Ceremony(creation_options(self._require_site(), user, known, _challenge(browser)), browser)

    async def begin_sign_in(self, address: str) -> Ceremony:
        """Return the options for signing in. Raise `TooManyRequests`, or `Invalid` if the site can have no passkeys."""
        browser = await self._begin(address)
        return Ceremony(request_options(self._require_site(), _challenge(browser)), browser)

    async def join(self, text: str, browser: str, credential: str, request_id: str) -> IssuedSession:
        """Use an invitation up, with a new passkey in place of all earlier ones, and begin the user's session.

        Raise `Unauthenticated` as `find_invited` does, `PasskeyRefused`.
        """
        user = await self.find_invited(text)
        presented, now = Secret.parse(text), self._clock()
        passkey = await self._registered(user, browser, credential)
        by = AuditAction(user.principal, "console_user.joined", request_id)
        try:
            async with self._database.transaction(user.tenant_id) as connection:
                if presented is None or not await repository.take_invitation(connection, presented, now):
                    raise Unauthenticated
                await repository.delete_passkeys(connection, user.tenant_id, user.user_id)
                await repository.delete_sessions(connection, user.tenant_id, user.user_id)
                await repository.add_passkey(connection, passkey)
                await repository.change_user(connection, user.tenant_id, user.user_id, {"last_sign_in_at": now})
                await append(connection, by, user.user_id, now)
        except Conflict as fault:
            raise PasskeyRefused("the credential is known already") from fault
        return await self._sessions.begin(user.principal, request_id)

    async def add_passkey(self, by: AuditAction, browser: str, credential: str) -> None:
        """Add a passkey for the user who asks. Raise `NotFound`, `PasskeyRefused`."""
        user = await self.get(by.tenant_id, by.principal.actor_id)
        passkey = await self._registered(user, browser, credential)
        try:
            async with self._database.transaction(by.tenant_id) as connection:
                await repository.add_passkey(connection, passkey)
                await append(connection, by, user.user_id, self._clock())
        except Conflict as fault:
            raise PasskeyRefused("the credential is known already") from fault

    async def sign_in(self, browser: str, credential: str, request_id: str) -> IssuedSession:
        """Begin the session of the user whose passkey signed the challenge of this browser. Raise `PasskeyRefused`."""
        challenge = await self._take(browser)
        assertion = Assertion.parse(credential)
        async with self._database.reading(ALL_TENANTS) as connection:
            passkey = await repository.find_passkey(connection, assertion.credential_id)
        if passkey is None:
            raise PasskeyRefused("the passkey is unknown")
        async with self._database.reading(passkey.tenant_id) as connection:
            user = await repository.find_user(connection, passkey.tenant_id, passkey.user_id)
            is_active = await repository.may_sign_in(connection, passkey.tenant_id, passkey.user_id)
        if user is None:
            raise PasskeyRefused("the user was removed")
        try:
            sign_count = verify_assertion(self._require_site(), passkey, assertion, challenge)
            if not is_active:
                raise PasskeyRefused("the user is disabled, or the tenant suspended")  # noqa: TRY301  (logged below)
            await self._use(passkey, sign_count)
        except PasskeyRefused:
            await self._note_refusal(AuditAction(user.principal, "console.signed_in", request_id))
            raise
        return await self._sessions.begin(user.principal, request_id)

    async def _note_refusal(self, by: AuditAction) -> None:
        """Append a refused sign-in to the audit log, at most `_REFUSALS_PER_MINUTE` of a user."""
        user_id = by.principal.actor_id
        if self._refusals.blocked(user_id) is not None:
            return
        self._refusals.failed(user_id)
        async with self._database.transaction(by.tenant_id) as connection:
            await add_entry(connection, by.entry(user_id, self._clock(), "refused", Unauthenticated.code))

    async def _use(self, passkey: Passkey, sign_count: int) -> None:
        now = self._clock()
        async with self._database.transaction(passkey.tenant_id) as connection:
            if not await repository.use_passkey(connection, passkey, sign_count, now):
                raise PasskeyRefused("the passkey was used at the same time, or removed")
            await repository.change_user(connection, passkey.tenant_id, passkey.user_id, {"last_sign_in_at": now})

    async def _registered(self, user: User, browser: str, credential: str) -> Passkey:
        challenge = await self._take(browser)
        return verify_creation(self._require_site(), user, credential, challenge, self._clock())

    async def _begin(self, address: str) -> str:
        """Keep a new challenge and return the browser's text of it."""
        wait = self._attempts.blocked(address)
        if wait is not None:
            raise TooManyRequests(errors=["Too many attempts from this address"], retry_after=wait)
        self._attempts.failed(address)
        self._require_site()
        browser = new_secret()
        expires_at = self._clock() + timedelta(seconds=CHALLENGE_SECONDS)
        async with self._database.transaction(NO_TENANT) as connection:
            await repository.add_challenge(connection, hash_secret(browser), expires_at)
        return browser

    async def _take(self, browser: str) -> bytes:
        """Return the challenge of a browser, which then is gone."""
        async with self._database.transaction(NO_TENANT) as connection:
            if not await repository.take_challenge(connection, hash_secret(browser), self._clock()):
                raise PasskeyRefused("this browser did not ask for it, or too long ago")
        return _challenge(browser)

    def _require_site(self) -> RelyingParty:
        if self.site is None:
            raise Invalid("SLUICE_PUBLIC_URL: expected an address with a host name, which passkeys are bound to")
        return self.site


def _require_another(by: AuditAction, user_id: str) -> None:
    if by.principal.actor_id == user_id:
        raise Invalid("user: expected another user: your own role and state are changed by another admin")


def _challenge(browser: str) -> bytes:
    """Return what the authenticator signs: it is derived from the browser's text, of which only a hash is stored."""
    return hash_secret(f"challenge|{browser}")
