"""The second wall on PostgreSQL: in a role that owns nothing, a unit of work sees and changes the rows of its tenant alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.exc import DBAPIError

from sluice.api_keys.repository import find_presented
from sluice.api_keys.service import ApiKeys
from sluice.db.database import Database
from sluice.db.hot import same
from sluice.db.migrate import NotTheOwner, upgrade
from sluice.db.postgres import PostgresTerms
from sluice.db.roles import RIGHTS, grant, role_of
from sluice.db.schema import api_keys, audit_events, contexts, metadata, tenants
from sluice.db.whose import EVERYBODY, NOBODY, Whose
from sluice.tenants.service import Tenants
from tests.db.migrated import Migrated
from tests.deeds import deed_of
from tests.servers.pgbouncer import running_pgbouncer
from tests.servers.postgres import ROLE, Postgres

_NOW = datetime(2026, 1, 2, tzinfo=UTC)
_OURS, _THEIRS = "ten_ours", "ten_the'irs"
_WALLED = [table for table in metadata.tables.values() if "tenant_id" in table.c]
_NAMES = same(select(tenants.c.name, func.count().over().label("seen")).limit(1))
"""A unit of the hot path that has forgotten its tenant."""


@pytest.fixture
async def owner(postgres: Postgres, migrated: Migrated) -> AsyncIterator[Database]:
    """A migrated database as its owner, with two tenants that have a key each."""
    database = Database(migrated.postgres(postgres))
    for tenant_id in (_OURS, _THEIRS):
        await Tenants(database).create(f"Tenant {tenant_id}", "unlimited", tenant_id=tenant_id)
        await ApiKeys(database).create(deed_of(tenant_id), "tests", ["admin"])
    yield database
    await database.aclose()


@pytest.fixture
async def walled(owner: Database, postgres: Postgres) -> AsyncIterator[Database]:
    """The same in the role that the service works in."""
    name = (await _ask(owner, "SELECT current_database()", NOBODY))[0]
    database = Database(postgres.for_service(postgres.url_of(str(name))))
    assert await role_of(database) == ROLE
    await grant(owner, ROLE)
    yield database
    await database.aclose()


async def _ask(database: Database, question: str, whose: Whose) -> list[object]:
    async with database.transaction(whose) as connection:
        found = await connection.execute(text(question))
        return [row[0] for row in found] if found.returns_rows else []


@pytest.mark.asvs("8.2.2")
@pytest.mark.asvs("8.4.1")
async def test_a_query_that_forgets_its_tenant_sees_the_rows_of_one_or_of_nobody(walled: Database) -> None:
    for whose, wanted in ((_OURS, [_OURS]), (_THEIRS, [_THEIRS]), (NOBODY, []), (EVERYBODY, [_OURS, _THEIRS])):
        for table in (tenants, api_keys):
            async with walled.reading(whose) as connection:
                found = (await connection.execute(select(table.c.tenant_id))).scalars().all()
            assert sorted(found) == wanted, (whose, table.name)


async def test_the_hot_path_sees_one_tenant_at_a_time_on_one_connection(walled: Database) -> None:
    for tenant_id in (_OURS, _THEIRS, _THEIRS, _OURS):
        assert await walled.fetch(_NAMES, {"tenant_id": tenant_id}) == {"name": f"Tenant {tenant_id}", "seen": 1}
    assert await walled.fetch(_NAMES, {"tenant_id": "ten_none"}) is None


async def test_a_unit_of_the_hot_path_has_to_say_whose_it_is(walled: Database) -> None:
    with pytest.raises(KeyError, match="tenant_id"):
        await walled.fetch(_NAMES, {})


async def test_many_at_once_do_not_meet_each_others_rows(walled: Database) -> None:
    wanted = [_OURS, _THEIRS] * 100
    found = await asyncio.gather(*(walled.fetch(_NAMES, {"tenant_id": tenant_id}) for tenant_id in wanted))
    assert found == [{"name": f"Tenant {tenant_id}", "seen": 1} for tenant_id in wanted]


async def test_behind_pgbouncer_too(owner: Database, postgres: Postgres, tmp_path: Path) -> None:
    name = (await _ask(owner, "SELECT current_database()", NOBODY))[0]
    url = postgres.for_service(postgres.url_of(str(name)))
    await grant(owner, ROLE)
    with ExitStack() as stack:
        port = stack.enter_context(running_pgbouncer(tmp_path, postgres, servers=2))
        pooled = Database(url.replace(f":{postgres.port}/", f":{port}/"), postgres=PostgresTerms(pool_size=20, pgbouncer=True))
        await test_many_at_once_do_not_meet_each_others_rows(pooled)
        await test_a_query_that_forgets_its_tenant_sees_the_rows_of_one_or_of_nobody(pooled)
        await pooled.aclose()


@pytest.mark.parametrize(
    "statement",
    [
        insert(contexts).values(
            context_id="ctx_1",
            tenant_id=_THEIRS,
            context_key="x",
            display_name="x",
            allowed_extensions=[],
            max_file_size_mb=1,
            storage_path_template="x",
            reject_blank_files=True,
            reject_corrupt_files=True,
            scan_for_viruses=True,
            storage_used_bytes=0,
            status="active",
            metadata={},
            rules_version=1,
            created_at=_NOW,
        ),
        update(tenants).where(tenants.c.tenant_id == _OURS).values(tenant_id=_THEIRS + "2"),
    ],
    ids=["insert", "give away"],
)
async def test_a_row_cannot_be_written_for_another_tenant(walled: Database, statement: object) -> None:
    with pytest.raises(DBAPIError, match="row-level security"):
        async with walled.transaction(_OURS) as connection:
            await connection.execute(statement)  # type: ignore[call-overload]  # either kind of statement


async def test_rows_of_another_tenant_cannot_be_changed(walled: Database, owner: Database) -> None:
    async with walled.transaction(_OURS) as connection:
        changed = await connection.execute(update(api_keys).values(name="taken").returning(api_keys.c.tenant_id))
        assert changed.scalars().all() == [_OURS]
    assert sorted(map(str, await _ask(owner, "SELECT name FROM api_keys", EVERYBODY))) == ["taken", "tests"]


_FORBIDDEN = [
    "ALTER TABLE files ADD COLUMN x int",
    "ALTER TABLE files DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE files OWNER TO CURRENT_USER",
    "DROP POLICY its_tenant ON files",
    "CREATE POLICY mine ON files USING (true)",
    "DROP TABLE files",
    "TRUNCATE decisions",
    "DROP TRIGGER audit_events_append_only ON audit_events",
    "CREATE TABLE mine (x int)",
    "CREATE FUNCTION public.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE OR REPLACE FUNCTION audit_events_append_only() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "ALTER ROLE CURRENT_USER BYPASSRLS",
    "SET ROLE postgres",
    "UPDATE alembic_version SET version_num = '0001'",
    "UPDATE audit_events SET action = 'x'",
    "UPDATE decisions SET reason = 'x'",
    "DELETE FROM tenants",
    "DELETE FROM api_keys",
]


@pytest.mark.asvs("13.2.2")
async def test_the_services_role_cannot_change_tables_nor_the_wall(walled: Database) -> None:
    for statement in _FORBIDDEN:
        with pytest.raises(DBAPIError, match=r"permission denied|must be (owner|able|superuser)"):
            await _ask(walled, statement, EVERYBODY)


async def test_switching_row_security_off_shows_nothing(walled: Database) -> None:
    async with walled.transaction(_OURS) as connection:
        await connection.execute(text("SET LOCAL row_security = off"))
        with pytest.raises(DBAPIError, match="row-level security"):
            await connection.execute(select(tenants))
        await connection.rollback()


async def test_every_table_with_a_tenant_has_the_wall_and_every_table_its_rights(walled: Database) -> None:
    policies = await _ask(walled, "SELECT tablename FROM pg_policies ORDER BY 1", NOBODY)
    assert policies == sorted(table.name for table in _WALLED)
    assert set(RIGHTS) == {*metadata.tables, "alembic_version"}
    assert await walled.row_security() is True


async def test_nothing_holds_the_owner(owner: Database) -> None:
    assert await owner.row_security() is False


async def test_a_presented_key_is_found_by_its_whole_prefix_alone(walled: Database) -> None:
    issued = await ApiKeys(walled).create(deed_of(_OURS), "mine", ["upload"])
    found = await find_presented(walled, issued.key.key_prefix)
    assert found is not None
    assert (found[0].api_key_id, found[0].tenant_id, found[2]) == (issued.key.api_key_id, _OURS, "active")
    for prefix in ("", "%", issued.key.key_prefix[:-1], issued.key.key_prefix + "%"):
        assert await find_presented(walled, prefix) is None


async def test_the_function_that_finds_keys_is_not_for_everybody(owner: Database, postgres: Postgres) -> None:
    postgres.psql(
        "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'other') THEN CREATE ROLE other LOGIN; END IF; END $$"
    )
    name = str((await _ask(owner, "SELECT current_database()", NOBODY))[0])
    other = Database(postgres.url_of(name).replace("//postgres@", "//other@"))
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await find_presented(other, "sl_live_x")
    await other.aclose()


async def test_the_services_role_does_not_migrate(postgres: Postgres) -> None:
    empty = Database(postgres.for_service(postgres.createdb()))
    with pytest.raises(NotTheOwner):
        await upgrade(empty)
    await empty.aclose()


async def test_old_entries_of_the_logs_can_go(walled: Database) -> None:
    async with walled.transaction(EVERYBODY) as connection:
        await connection.execute(delete(audit_events))
