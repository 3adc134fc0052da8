"""All queries of console sessions and one-time links; what a query means is decided in `service`."""

from datetime import datetime

from sqlalchemy import and_, delete, insert, or_, select, update

from sluice.db.schema import console_challenges, console_links, console_sessions, console_users, tenants
from sluice.db.sql import AnyRow, Connection, rows_of
from sluice.sessions.session import Link, Secret, Session
from sluice.sessions.user import USER_PREFIX, Role

_LINK = [console_links.c[name] for name in Link.__slots__]
_SESSION = [console_sessions.c[name] for name in Session.__slots__ if name in console_sessions.c]


async def add_link(connection: Connection, link: Link, secret_hash: bytes) -> None:
    """Insert one link."""
    values = {name: getattr(link, name) for name in Link.__slots__}
    await connection.execute(
        insert(console_links).values(values | {"scopes": list(link.scopes), "secret_hash": secret_hash})
    )


async def bind_link(connection: Connection, presented: Secret, browser_hash: bytes, at: datetime) -> Link | None:
    """Bind a link to a browser; return it, or None if it is unknown, over, or bound to another browser."""
    columns = console_links.c
    statement = (
        update(console_links)
        .where(
            columns.tenant_id == presented.tenant_id,
            columns.link_id == presented.row_id,
            columns.secret_hash == presented.hash,
            columns.expires_at > at,
            or_(columns.browser_hash.is_(None), columns.browser_hash == browser_hash),
        )
        .values(browser_hash=browser_hash)
        .returning(*_LINK)
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else _link(row)


async def take_link(connection: Connection, presented: Secret, browser_hash: bytes, at: datetime) -> Link | None:
    """Delete a link and return it; None if it is unknown, over, or not bound to this browser."""
    columns = console_links.c
    statement = (
        delete(console_links)
        .where(
            columns.tenant_id == presented.tenant_id,
            columns.link_id == presented.row_id,
            columns.secret_hash == presented.hash,
            columns.expires_at > at,
            columns.browser_hash == browser_hash,
        )
        .returning(*_LINK)
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else _link(row)


async def add_session(connection: Connection, session: Session, secret_hash: bytes) -> None:
    """Insert one session."""
    values = {name: getattr(session, name) for name in Session.__slots__ if name in console_sessions.c}
    await connection.execute(
        insert(console_sessions).values(values | {"scopes": list(session.scopes), "secret_hash": secret_hash})
    )


async def find_session(connection: Connection, presented: Secret, at: datetime) -> Session | None:
    """Return a session that is not over, of a tenant that is active; None if there is none.

    That of a named user has the scopes of the user's role now, and ends when the user is disabled or removed.
    """
    columns, user = console_sessions.c, console_users.c
    query = (
        select(*_SESSION, tenants.c.name.label("tenant_name"), user.role)
        .join(tenants, tenants.c.tenant_id == columns.tenant_id)
        .join(
            console_users,
            and_(user.tenant_id == columns.tenant_id, user.user_id == columns.user_id),
            isouter=True,
        )
        .where(
            columns.tenant_id == presented.tenant_id,
            columns.session_id == presented.row_id,
            columns.secret_hash == presented.hash,
            columns.expires_at > at,
            tenants.c.status == "active",
            or_(columns.user_id.not_like(f"{USER_PREFIX.replace('_', '/_')}%", escape="/"), user.status == "active"),
        )
    )
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    values = dict(row._mapping)  # noqa: SLF001  (SQLAlchemy's documented name)
    role = values.pop("role")
    scopes = row.scopes if role is None else sorted(Role(role).scopes)
    return Session(**values | {"scopes": tuple(scopes)})


async def has_session(connection: Connection, tenant_id: str, session_id: str, at: datetime) -> bool:
    """Return whether a session is not over."""
    columns = console_sessions.c
    query = select(columns.session_id).where(
        columns.tenant_id == tenant_id, columns.session_id == session_id, columns.expires_at > at
    )
    return (await connection.execute(query)).one_or_none() is not None


async def delete_session(connection: Connection, tenant_id: str, session_id: str) -> bool:
    """Delete a session; return whether there was one."""
    columns = console_sessions.c
    statement = delete(console_sessions).where(columns.tenant_id == tenant_id, columns.session_id == session_id)
    return (await connection.execute(statement.returning(columns.session_id))).one_or_none() is not None


async def delete_expired(connection: Connection, before: datetime, limit: int) -> int:
    """Delete links, sessions and challenges that expired before `before`, at most `limit` of each; return how many."""
    deleted = 0
    for table in (console_links, console_sessions):
        (key,) = table.primary_key
        old = select(table.c.tenant_id, key).where(table.c.expires_at < before).limit(limit)
        owned = [(tenant_id, row_id) for tenant_id, row_id in (await connection.execute(old)).all()]
        if owned:
            await connection.execute(delete(table).where(*rows_of(table, owned)))
        deleted += len(owned)
    over = select(console_challenges.c.challenge_hash).where(console_challenges.c.expires_at < before).limit(limit)
    gone = delete(console_challenges).where(console_challenges.c.challenge_hash.in_(over))
    deleted += len((await connection.execute(gone.returning(console_challenges.c.expires_at))).all())
    return deleted


def _link(row: AnyRow) -> Link:
    return Link(**dict(row._mapping) | {"scopes": tuple(row.scopes)})  # noqa: SLF001  (SQLAlchemy's documented name)
