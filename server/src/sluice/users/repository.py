"""All queries of the console's users, their passkeys, and the challenges that browsers sign."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from sluice.db.schema import console_challenges, console_passkeys, console_sessions, console_users, tenants
from sluice.db.sql import AnyRow, Connection, load_page
from sluice.kit.paging import Page, PageRequest
from sluice.sessions.session import Secret
from sluice.sessions.user import Role, User
from sluice.users.passkeys import Passkey

_USER = [console_users.c[name] for name in User.__slots__]
_PASSKEY = [console_passkeys.c[name] for name in Passkey.__slots__]


async def add_user(connection: Connection, user: User, invitation_hash: bytes) -> None:
    """Insert one user."""
    values = {name: getattr(user, name) for name in User.__slots__}
    await connection.execute(insert(console_users).values(values | {"invitation_hash": invitation_hash}))


async def list_users(connection: Connection, tenant_id: str, request: PageRequest) -> Page[User]:
    """Return one page, newest first."""
    number = select(func.count()).select_from(console_users).where(console_users.c.tenant_id == tenant_id)
    total = (await connection.execute(number)).scalar_one()
    rows = await load_page(connection, tenant_id, _USER, (), request, total=total)
    return Page(tuple(map(_user, rows)), request, total)


async def find_user(connection: Connection, tenant_id: str, user_id: str) -> User | None:
    """Return a user; None if there is none."""
    columns = console_users.c
    query = select(*_USER).where(columns.tenant_id == tenant_id, columns.user_id == user_id)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _user(row)


async def may_sign_in(connection: Connection, tenant_id: str, user_id: str) -> bool:
    """Return whether a user is there and active, and its tenant too."""
    columns = console_users.c
    query = (
        select(columns.user_id)
        .join(tenants, tenants.c.tenant_id == columns.tenant_id)
        .where(
            columns.tenant_id == tenant_id,
            columns.user_id == user_id,
            columns.status == "active",
            tenants.c.status == "active",
        )
    )
    return (await connection.execute(query)).one_or_none() is not None


async def change_user(connection: Connection, tenant_id: str, user_id: str, values: Mapping[str, Any]) -> User | None:
    """Write the values and return the changed user; None if there is none."""
    columns = console_users.c
    statement = (
        update(console_users)
        .where(columns.tenant_id == tenant_id, columns.user_id == user_id)
        .values(values)
        .returning(*_USER)
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else _user(row)


async def delete_user(connection: Connection, tenant_id: str, user_id: str) -> User | None:
    """Delete a user with its passkeys and sessions, and return it; None if there is none."""
    await delete_passkeys(connection, tenant_id, user_id)
    await delete_sessions(connection, tenant_id, user_id)
    columns = console_users.c
    own = (columns.tenant_id == tenant_id, columns.user_id == user_id)
    row = (await connection.execute(delete(console_users).where(*own).returning(*_USER))).one_or_none()
    return None if row is None else _user(row)


async def find_invited(connection: Connection, presented: Secret, at: datetime) -> User | None:
    """Return the user of an invitation that is neither used nor over; user and tenant are active."""
    columns = console_users.c
    query = (
        select(*_USER)
        .join(tenants, tenants.c.tenant_id == columns.tenant_id)
        .where(
            columns.tenant_id == presented.tenant_id,
            columns.user_id == presented.row_id,
            columns.invitation_hash == presented.hash,
            columns.invited_until > at,
            columns.status == "active",
            tenants.c.status == "active",
        )
    )
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _user(row)


async def take_invitation(connection: Connection, presented: Secret, at: datetime) -> bool:
    """Use an invitation up; return whether it worked."""
    columns = console_users.c
    statement = (
        update(console_users)
        .where(
            columns.tenant_id == presented.tenant_id,
            columns.user_id == presented.row_id,
            columns.invitation_hash == presented.hash,
            columns.invited_until > at,
            columns.status == "active",
        )
        .values(invitation_hash=None, invited_until=None)
    )
    return (await connection.execute(statement.returning(columns.user_id))).one_or_none() is not None


async def add_passkey(connection: Connection, passkey: Passkey) -> None:
    """Insert one passkey; a constraint refuses it (`Conflict`) when its credential is known."""
    values = {name: getattr(passkey, name) for name in Passkey.__slots__}
    await connection.execute(insert(console_passkeys).values(values))


async def list_passkeys(connection: Connection, tenant_id: str, user_id: str) -> Sequence[Passkey]:
    """Return the passkeys of a user, oldest first."""
    columns = console_passkeys.c
    own = (columns.tenant_id == tenant_id, columns.user_id == user_id)
    rows = (await connection.execute(select(*_PASSKEY).where(*own).order_by(columns.created_at))).all()
    return [_passkey(row) for row in rows]


async def find_passkey(connection: Connection, credential_id: bytes) -> Passkey | None:
    """Return the passkey of a credential, of any tenant; None if there is none."""
    query = select(*_PASSKEY).where(console_passkeys.c.credential_id == credential_id)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else _passkey(row)


async def use_passkey(connection: Connection, passkey: Passkey, sign_count: int, at: datetime) -> bool:
    """Write that a passkey was used; return False if another use came between, or it is gone."""
    columns = console_passkeys.c
    statement = (
        update(console_passkeys)
        .where(
            columns.tenant_id == passkey.tenant_id,
            columns.credential_id == passkey.credential_id,
            columns.sign_count == passkey.sign_count,
        )
        .values(sign_count=sign_count, last_used_at=at)
    )
    return (await connection.execute(statement.returning(columns.user_id))).one_or_none() is not None


async def delete_passkeys(connection: Connection, tenant_id: str, user_id: str) -> None:
    """Delete all passkeys of a user."""
    columns = console_passkeys.c
    own = (columns.tenant_id == tenant_id, columns.user_id == user_id)
    await connection.execute(delete(console_passkeys).where(*own))


async def delete_sessions(connection: Connection, tenant_id: str, user_id: str) -> None:
    """End all sessions of a user."""
    columns = console_sessions.c
    own = (columns.tenant_id == tenant_id, columns.user_id == user_id)
    await connection.execute(delete(console_sessions).where(*own))


async def add_challenge(connection: Connection, challenge_hash: bytes, expires_at: datetime) -> None:
    """Insert one challenge."""
    await connection.execute(insert(console_challenges).values(challenge_hash=challenge_hash, expires_at=expires_at))


async def take_challenge(connection: Connection, challenge_hash: bytes, at: datetime) -> bool:
    """Use a challenge up; return whether it was there and not over."""
    columns = console_challenges.c
    statement = delete(console_challenges).where(columns.challenge_hash == challenge_hash)
    row = (await connection.execute(statement.returning(columns.expires_at))).one_or_none()
    return row is not None and bool(row.expires_at > at)


def _user(row: AnyRow) -> User:
    values = dict(row._mapping)  # noqa: SLF001  (SQLAlchemy's documented name)
    return User(**values | {"role": Role(row.role)})


def _passkey(row: AnyRow) -> Passkey:
    return Passkey(**dict(row._mapping))  # noqa: SLF001  (SQLAlchemy's documented name)
