"""Row level security on PostgreSQL: the service's role sees and changes only the rows of its RLS scope."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy import delete, insert, select, text, update
from sqlalchemy.exc import DBAPIError

from sluice.access import operator
from sluice.api_keys.repository import find_presented
from sluice.api_keys.service import ApiKeys
from sluice.audit import AuditAction
from sluice.db.database import Database
from sluice.db.migrate import RIGHTS, NotTheOwner, current_role, grant, upgrade
from sluice.db.postgres import PostgresOptions
from sluice.db.rls import ALL_TENANTS, INSTALLATION, NO_TENANT, RlsScope
from sluice.db.schema import api_keys, audit_events, contexts, metadata, tenants
from sluice.db.statement import Statement
from sluice.hash_lists import repository as hash_rows
from sluice.hash_lists.service import EntryDraft, HashLists
from sluice.tenants import Tenant
from sluice.tenants import repository as tenant_rows
from tests.db.migrated import Migrated
from tests.db.rows import context_row
from tests.operator_action import operator_action
from tests.servers.pgbouncer import running_pgbouncer
from tests.servers.postgres import ROLE, Postgres

_NOW = datetime(2026, 1, 2, tzinfo=UTC)
_OURS, _THEIRS = "ten_ours", "ten_the'irs"
_TENANT_TABLES = [table for table in metadata.tables.values() if "tenant_id" in table.c]
# A statement that does not filter by its tenant.
_NAMES_SQL = "SELECT name, count(*) OVER () AS seen FROM tenants LIMIT 1"
_NAMES = Statement(postgres=_NAMES_SQL, sqlite=[_NAMES_SQL])


@pytest.fixture
async def owner(postgres: Postgres, migrated: Migrated) -> AsyncIterator[Database]:
    """A migrated database as its owner, with two tenants that have a key each."""
    database = Database(migrated.postgres(postgres))
    for tenant_id in (_OURS, _THEIRS):
        # Not through the service, which refuses an id with a quote: the scope must hold for one all the same.
        async with database.transaction(tenant_id) as connection:
            await tenant_rows.add(connection, Tenant(tenant_id, f"Tenant {tenant_id}", "unlimited", "active", _NOW))
        await ApiKeys(database).create(operator_action(tenant_id), "tests", ["admin"])
    yield database
    await database.aclose()


@pytest.fixture
async def as_service(owner: Database, postgres: Postgres) -> AsyncIterator[Database]:
    """The same database in the role of the service."""
    database = Database(postgres.for_service(await _url_of(owner, postgres)))
    assert await current_role(database) == ROLE
    await grant(owner, ROLE)
    yield database
    await database.aclose()


async def _query(database: Database, sql: str, scope: RlsScope) -> list[object]:
    async with database.transaction(scope) as connection:
        found = await connection.execute(text(sql))
        return [row[0] for row in found] if found.returns_rows else []


async def _url_of(database: Database, postgres: Postgres) -> str:
    return postgres.url_of(str((await _query(database, "SELECT current_database()", NO_TENANT))[0]))


@pytest.mark.asvs("8.2.2", "8.4.1")
async def test_a_query_without_a_tenant_filter_sees_only_the_rows_of_its_rls_scope(as_service: Database) -> None:
    for scope, wanted in ((_OURS, [_OURS]), (_THEIRS, [_THEIRS]), (NO_TENANT, []), (ALL_TENANTS, [_OURS, _THEIRS])):
        for table in (tenants, api_keys):
            async with as_service.reading(scope) as connection:
                found = (await connection.execute(select(table.c.tenant_id))).scalars().all()
            assert sorted(found) == wanted, (scope, table.name)


async def test_statements_on_one_connection_see_one_tenant_each(as_service: Database) -> None:
    for tenant_id in (_OURS, _THEIRS, _THEIRS, _OURS):
        assert await as_service.fetch(_NAMES, {"tenant_id": tenant_id}) == {"name": f"Tenant {tenant_id}", "seen": 1}
    assert await as_service.fetch(_NAMES, {"tenant_id": "ten_none"}) is None
    with pytest.raises(KeyError, match="tenant_id"):
        await as_service.fetch(_NAMES, {})


async def test_concurrent_statements_see_only_their_own_tenant(as_service: Database) -> None:
    wanted = [_OURS, _THEIRS] * 100
    found = await asyncio.gather(*(as_service.fetch(_NAMES, {"tenant_id": tenant_id}) for tenant_id in wanted))
    assert found == [{"name": f"Tenant {tenant_id}", "seen": 1} for tenant_id in wanted]


async def test_row_security_holds_behind_pgbouncer(owner: Database, postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.for_service(await _url_of(owner, postgres))
    await grant(owner, ROLE)
    with running_pgbouncer(tmp_path, postgres, servers=2) as port:
        options = PostgresOptions(pool_size=20, pgbouncer=True)
        pooled = Database(url.replace(f":{postgres.port}/", f":{port}/"), postgres=options)
        await test_concurrent_statements_see_only_their_own_tenant(pooled)
        await test_a_query_without_a_tenant_filter_sees_only_the_rows_of_its_rls_scope(pooled)
        await pooled.aclose()


async def test_rows_of_another_tenant_can_be_neither_written_nor_changed(as_service: Database, owner: Database) -> None:
    insertion = insert(contexts).values(context_row(_THEIRS, "x"))
    for statement in (insertion, update(tenants).where(tenants.c.tenant_id == _OURS).values(tenant_id=_THEIRS + "2")):
        with pytest.raises(DBAPIError, match="row-level security"):
            async with as_service.transaction(_OURS) as connection:
                await connection.execute(statement)
    async with as_service.transaction(_OURS) as connection:
        changed = await connection.execute(update(api_keys).values(name="taken").returning(api_keys.c.tenant_id))
        assert changed.scalars().all() == [_OURS]
    assert sorted(map(str, await _query(owner, "SELECT name FROM api_keys", ALL_TENANTS))) == ["taken", "tests"]


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
async def test_the_service_role_cannot_change_tables_or_policies_or_switch_them_off(as_service: Database) -> None:
    for statement in _FORBIDDEN:
        with pytest.raises(DBAPIError, match=r"permission denied|must be (owner|able|superuser)"):
            await _query(as_service, statement, ALL_TENANTS)
    async with as_service.transaction(_OURS) as connection:
        await connection.execute(text("SET LOCAL row_security = off"))
        with pytest.raises(DBAPIError, match="row-level security"):
            await connection.execute(select(tenants))
        await connection.rollback()


async def test_every_tenant_table_has_a_policy_and_every_table_grants(as_service: Database, owner: Database) -> None:
    policies = await _query(as_service, "SELECT DISTINCT tablename FROM pg_policies ORDER BY 1", NO_TENANT)
    assert policies == sorted(table.name for table in _TENANT_TABLES)
    assert set(RIGHTS) == {*metadata.tables, "alembic_version"}
    assert (await as_service.row_security(), await owner.row_security()) == (True, False)


async def test_hash_lists_of_the_installation_are_read_by_tenants_and_written_by_operators(
    as_service: Database,
) -> None:
    lists = HashLists(as_service)
    for tenant_id in (INSTALLATION, _OURS, _THEIRS):
        await lists.add(AuditAction(operator(tenant_id, "root"), "hash_entry.added"), [EntryDraft(bytes(32))])
    owners = await _query(as_service, "SELECT tenant_id FROM hash_entries ORDER BY 1", _OURS)
    assert owners == [INSTALLATION, _OURS]
    found = await hash_rows.find_listed(as_service, _OURS, [bytes(32), bytes(20)])
    assert sorted(one.of_installation for one in found) == [False, True]
    changes = "WITH gone AS (DELETE FROM hash_entries RETURNING tenant_id) SELECT tenant_id FROM gone"
    assert await _query(as_service, changes, _OURS) == [_OURS]
    assert await _query(as_service, "UPDATE hash_entries SET list = 'allow' RETURNING tenant_id", _OURS) == []
    with pytest.raises(DBAPIError):
        await _query(as_service, f"UPDATE hash_entries SET tenant_id = '{INSTALLATION}'", _THEIRS)


async def test_a_presented_key_is_found_only_by_its_full_prefix(as_service: Database) -> None:
    issued = await ApiKeys(as_service).create(operator_action(_OURS), "mine", ["upload"])
    found = await find_presented(as_service, issued.key.key_prefix)
    assert found is not None
    assert (found[0].api_key_id, found[0].tenant_id, found[2]) == (issued.key.api_key_id, _OURS, "active")
    for prefix in ("", "%", issued.key.key_prefix[:-1], issued.key.key_prefix + "%"):
        assert await find_presented(as_service, prefix) is None


async def test_another_role_cannot_call_the_key_lookup_function(owner: Database, postgres: Postgres) -> None:
    postgres.psql(
        "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'other') "
        "THEN CREATE ROLE other LOGIN; END IF; END $$"
    )
    other = Database((await _url_of(owner, postgres)).replace("//postgres@", "//other@"))
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await find_presented(other, "sl_live_x")
    await other.aclose()


async def test_the_service_deletes_old_entries_and_cannot_migrate(as_service: Database, postgres: Postgres) -> None:
    async with as_service.transaction(ALL_TENANTS) as connection:
        await connection.execute(delete(audit_events))
    empty = Database(postgres.for_service(postgres.createdb()))
    with pytest.raises(NotTheOwner):
        await upgrade(empty)
    await empty.aclose()
