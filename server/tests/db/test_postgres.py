"""PostgreSQL that is slow, unavailable, behind TLS or behind pgbouncer: every call ends in bounded time."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import text

from sluice.db.database import Database, DatabaseUnavailable
from sluice.db.migrate import upgrade
from sluice.db.postgres import PostgresOptions
from sluice.db.rls import ALL_TENANTS
from sluice.limiter import Taken
from sluice.limiter.database import DatabaseLimiter
from tests.certificates import self_signed
from tests.rows import each_row
from tests.servers.faults import Fault, FaultProxy, fault_proxy
from tests.servers.pgbouncer import running_pgbouncer
from tests.servers.postgres import ROLE, Postgres, running_postgres

SHORT_WAITS = PostgresOptions(2, wait_seconds=4.0, connect_seconds=4.0, statement_seconds=1.0, lock_seconds=0.5)
BOUND = 12.0
"""Longest time that a call may take with `SHORT_WAITS`: its waits, one second for the driver and two for closing.

The waits are shorter than in production, and longer than a good connection needs on a busy machine.
"""


async def query(database: Database, sql: str = "SELECT 1") -> object:
    async with database.transaction(ALL_TENANTS) as connection:
        return (await connection.execute(text(sql))).scalar_one()


async def seconds_until_refused(database: Database, sql: str = "SELECT 1") -> float:
    """Return the seconds after which the database was reported as unavailable."""
    began = time.monotonic()
    with pytest.raises(DatabaseUnavailable):
        await query(database, sql)
    return time.monotonic() - began


@pytest.fixture
async def proxy(postgres: Postgres) -> AsyncIterator[FaultProxy]:
    async with fault_proxy(f"http://127.0.0.1:{postgres.port}") as running:
        yield running


@pytest.fixture
async def proxied(postgres: Postgres, proxy: FaultProxy) -> AsyncIterator[Database]:
    """A database reached through the proxy."""
    url = postgres.createdb().replace(f":{postgres.port}/", f":{proxy.port}/")
    database = Database(url, postgres=SHORT_WAITS)
    yield database
    await database.aclose()


@pytest.mark.parametrize("fault", [Fault.BLACK_HOLE, Fault.RESET, Fault.LOST_RESPONSE])
async def test_a_faulty_database_fails_in_time_and_recovers(proxied: Database, proxy: FaultProxy, fault: Fault) -> None:
    assert await query(proxied) == 1
    proxy.fault = fault
    began = time.monotonic()
    seconds = await asyncio.gather(*(seconds_until_refused(proxied) for _ in range(8)))
    assert time.monotonic() - began < BOUND, seconds
    proxy.fault = Fault.NONE
    assert await asyncio.gather(*(query(proxied) for _ in range(8))) == [1] * 8


async def test_a_commit_without_a_reply_fails_in_bounded_time(proxied: Database, proxy: FaultProxy) -> None:
    async def commit_into_silence() -> None:
        async with proxied.transaction(ALL_TENANTS) as connection:
            await connection.execute(text("SELECT 1"))
            proxy.fault = Fault.BLACK_HOLE

    began = time.monotonic()
    with pytest.raises(DatabaseUnavailable):
        await commit_into_silence()
    assert time.monotonic() - began < BOUND
    proxy.fault = Fault.NONE
    assert await query(proxied) == 1


async def test_a_slow_statement_is_cancelled_and_its_connection_kept(proxied: Database, proxy: FaultProxy) -> None:
    assert await query(proxied) == 1
    assert await seconds_until_refused(proxied, "SELECT pg_sleep(30)") < BOUND
    assert await query(proxied) == 1
    assert proxy.connections == 1


async def test_a_held_lock_and_a_free_connection_are_waited_for_in_bounded_time(proxied: Database) -> None:
    async with proxied.transaction(ALL_TENANTS) as holder:
        await holder.execute(text("SELECT pg_advisory_xact_lock(1)"))
        assert await seconds_until_refused(proxied, "SELECT pg_advisory_xact_lock(1)") < BOUND
        async with proxied.transaction(ALL_TENANTS):
            assert await seconds_until_refused(proxied) < BOUND
    await query(proxied, "SELECT pg_advisory_xact_lock(1)")


async def test_a_restarted_database_is_used_again_without_a_failure(tmp_path: Path) -> None:
    with ExitStack() as first:
        server = first.enter_context(running_postgres(tmp_path / "a"))
        database = Database(server.url)
        await asyncio.gather(*(query(database) for _ in range(5)))
        first.close()
        await seconds_until_refused(database)
        with running_postgres(tmp_path / "b", port=server.port):
            assert await asyncio.gather(*(query(database) for _ in range(8))) == [1] * 8
            await database.aclose()


async def test_url_and_options_decide_on_user_timeout_and_host(postgres: Postgres) -> None:
    refused = Database(postgres.url.replace("//postgres@", "//nobody@"))
    await seconds_until_refused(refused)
    migration = Database(postgres.createdb(), postgres=PostgresOptions(statement_seconds=None, lock_seconds=None))
    assert await query(migration, "SHOW statement_timeout") == "0"
    url = postgres.createdb().replace("@", "@127.0.0.1:1,") + "?target_session_attrs=read-write"
    first_writable_host = Database(url, postgres=SHORT_WAITS)
    assert await query(first_writable_host) == 1
    for database in (refused, migration, first_writable_host):
        await database.aclose()


@pytest.mark.asvs("12.3.2", "12.3.4")
async def test_sslmode_of_the_url_decides_on_tls_and_server_name_checks(tmp_path: Path) -> None:
    identity = self_signed(is_ca=True)
    (tmp_path / "ca.pem").write_bytes(identity[0])
    (tmp_path / "other.pem").write_bytes(self_signed(is_ca=True)[0])
    with running_postgres(tmp_path / "server", identity=identity) as server:
        for host, parameters, works in (
            ("127.0.0.1", "sslmode=require", True),
            ("localhost", f"sslmode=verify-full&sslrootcert={tmp_path / 'ca.pem'}", True),
            ("127.0.0.1", f"sslmode=verify-full&sslrootcert={tmp_path / 'ca.pem'}", False),
            ("localhost", f"sslmode=verify-full&sslrootcert={tmp_path / 'other.pem'}", False),
            ("localhost", f"sslmode=verify-full&sslrootcert={tmp_path / 'missing.pem'}", False),
        ):
            database = Database(f"{server.url.replace('127.0.0.1', host)}?{parameters}", postgres=SHORT_WAITS)
            if works:
                assert await query(database, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") is True
            else:
                await seconds_until_refused(database)
            await database.aclose()


@pytest.mark.asvs("13.2.1")
async def test_the_service_authenticates_by_client_certificate(tmp_path: Path) -> None:
    """The role has no password; the server accepts the certificate with the name of the role."""
    identity, own, forged = (self_signed(of, is_ca=True) for of in ("localhost", ROLE, ROLE))
    for name, (certificate, key) in {"own": own, "forged": forged}.items():
        (tmp_path / f"{name}.crt").write_bytes(certificate)
        (tmp_path / f"{name}.key").write_bytes(key)
    (tmp_path / "ca.pem").write_bytes(identity[0])
    with running_postgres(tmp_path / "server", identity=identity, trusted=own[0]) as server:
        url = server.for_service(server.url)
        server.psql(f"ALTER ROLE {ROLE} NOSUPERUSER NOCREATEROLE NOCREATEDB")
        checked = f"{url.replace('127.0.0.1', 'localhost')}?sslmode=verify-full&sslrootcert={tmp_path / 'ca.pem'}"
        for more, works in (
            (f"&sslcert={tmp_path / 'own.crt'}&sslkey={tmp_path / 'own.key'}", True),
            (f"&sslcert={tmp_path / 'forged.crt'}&sslkey={tmp_path / 'forged.key'}", False),
            ("", False),
        ):
            database = Database(checked + more, postgres=SHORT_WAITS)
            if works:
                subject = await query(database, "SELECT client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
                assert subject == f"/CN={ROLE}"
            else:
                await seconds_until_refused(database)
            await database.aclose()


@each_row(
    "url", ["postgresql://u:secret@h/n?sslmode=perhaps", "postgresql://u:secret@[h/n", "mysql://u:secret@h/n", ""]
)
def test_an_invalid_database_url_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(ValueError, match="expected") as refusal:
        Database(url)
    assert "secret" not in str(refusal.value)


class TestBehindPgbouncer:
    """Two connections to the server for many clients: state on a connection would reach another client."""

    @pytest.fixture
    async def pgbouncer_url(self, postgres: Postgres, tmp_path: Path) -> AsyncIterator[str]:
        url = postgres.createdb()
        with running_pgbouncer(tmp_path, postgres, servers=2) as port:
            yield url.replace(f":{postgres.port}/", f":{port}/")

    @pytest.fixture
    async def patient(self, pgbouncer_url: str) -> AsyncIterator[Database]:
        """A client with timeouts long enough for 200 clients on two connections on a busy machine."""
        options = PostgresOptions(
            pool_size=20, wait_seconds=60, connect_seconds=60, statement_seconds=60, lock_seconds=60, pgbouncer=True
        )
        database = Database(pgbouncer_url, postgres=options)
        yield database
        await database.aclose()

    @pytest.fixture
    async def pooled(self, pgbouncer_url: str) -> AsyncIterator[Database]:
        options = PostgresOptions(pool_size=20, statement_seconds=0.7, lock_seconds=0.4, pgbouncer=True)
        database = Database(pgbouncer_url, postgres=options)
        yield database
        await database.aclose()

    async def test_concurrent_clients_get_the_results_of_their_own_statements(self, patient: Database) -> None:
        await upgrade(patient)
        limiter = DatabaseLimiter(patient)
        results = await asyncio.gather(*(limiter.take(f"key {n % 5}", limit=7, window_seconds=600) for n in range(200)))
        assert sum(isinstance(result, Taken) for result in results) == 35
        statements = [f"SELECT {number} + length('{'x' * (number % 7)}')" for number in range(200)]
        assert await asyncio.gather(*(query(patient, sql) for sql in statements)) == [n + n % 7 for n in range(200)]

    async def test_no_prepared_statement_stays_on_the_server(self, pooled: Database) -> None:
        await asyncio.gather(*(query(pooled, f"SELECT {number}") for number in range(50)))
        assert await query(pooled, "SELECT count(*) FROM pg_prepared_statements") == 0

    async def test_timeouts_apply_in_each_transaction(self, pooled: Database) -> None:
        assert await seconds_until_refused(pooled, "SELECT pg_sleep(30)") < BOUND
        for name, wanted in (("statement_timeout", "700ms"), ("lock_timeout", "400ms")):
            assert await query(pooled, f"SHOW {name}") == wanted
        async with pooled.reading(ALL_TENANTS) as connection:
            assert (await connection.execute(text("SHOW statement_timeout"))).scalar_one() == "700ms"
