"""PostgreSQL that is slow, away, behind TLS or behind a pgbouncer: callers wait for a bounded time and go on by themselves."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from sqlalchemy import text

from sluice.db.database import Database, DatabaseAway
from sluice.db.migrate import upgrade
from sluice.db.postgres import PostgresTerms
from sluice.db.whose import EVERYBODY
from sluice.engines.limiter import Taken
from sluice.engines.limiter.database import DatabaseLimiter
from tests.servers.faults import Fault, FaultProxy, fault_proxy
from tests.servers.pgbouncer import running_pgbouncer
from tests.servers.postgres import ROLE, Postgres, running_postgres

HASTY = PostgresTerms(pool_size=2, wait_seconds=4.0, connect_seconds=4.0, statement_seconds=1.0, lock_seconds=0.5)
BOUND = 12.0
"""Longest time that any call may take under `HASTY`: its waits, the driver's second for the server, two for saying goodbye.

The waits are short beside those of production and long beside what a good connection takes on a machine that runs other tests.
"""


async def ask(database: Database, question: str = "SELECT 1") -> object:
    async with database.transaction(EVERYBODY) as connection:
        return (await connection.execute(text(question))).scalar_one()


async def refused(database: Database, question: str = "SELECT 1") -> float:
    """Answer how long it took to be told that the database is away."""
    began = time.monotonic()
    with pytest.raises(DatabaseAway):
        await ask(database, question)
    return time.monotonic() - began


@pytest.fixture
async def proxy(postgres: Postgres) -> AsyncIterator[FaultProxy]:
    async with fault_proxy(f"http://127.0.0.1:{postgres.port}") as standing:
        yield standing


@pytest.fixture
async def behind(postgres: Postgres, proxy: FaultProxy) -> AsyncIterator[Database]:
    """A database reached through the proxy."""
    url = postgres.createdb().replace(f":{postgres.port}/", f":{proxy.port}/")
    database = Database(url, postgres=HASTY)
    yield database
    await database.aclose()


@pytest.mark.parametrize("fault", [Fault.BLACK_HOLE, Fault.RESET, Fault.LOST_ANSWER])
async def test_a_faulty_database_is_told_in_bounded_time_and_used_again_when_it_is_well(
    behind: Database, proxy: FaultProxy, fault: Fault
) -> None:
    assert await ask(behind) == 1
    proxy.fault = fault
    began = time.monotonic()
    told = await asyncio.gather(*(refused(behind) for _ in range(8)))
    assert time.monotonic() - began < BOUND, told
    proxy.fault = Fault.NONE
    assert await asyncio.gather(*(ask(behind) for _ in range(8))) == [1] * 8


async def test_a_commit_whose_answer_does_not_come_is_told_in_bounded_time(behind: Database, proxy: FaultProxy) -> None:
    async def commit_into_silence() -> None:
        async with behind.transaction(EVERYBODY) as connection:
            await connection.execute(text("SELECT 1"))
            proxy.fault = Fault.BLACK_HOLE

    began = time.monotonic()
    with pytest.raises(DatabaseAway):
        await commit_into_silence()
    assert time.monotonic() - began < BOUND
    proxy.fault = Fault.NONE
    assert await ask(behind) == 1


async def test_one_slow_statement_is_ended_and_the_connection_kept(behind: Database, proxy: FaultProxy) -> None:
    assert await ask(behind) == 1
    assert await refused(behind, "SELECT pg_sleep(30)") < BOUND
    assert await ask(behind) == 1
    assert proxy.connections == 1


async def test_a_row_that_another_holds_is_waited_for_in_bounded_time(behind: Database) -> None:
    async with behind.transaction(EVERYBODY) as holder:
        await holder.execute(text("SELECT pg_advisory_xact_lock(1)"))
        assert await refused(behind, "SELECT pg_advisory_xact_lock(1)") < BOUND
    await ask(behind, "SELECT pg_advisory_xact_lock(1)")


async def test_a_connection_that_is_not_free_is_waited_for_in_bounded_time(behind: Database) -> None:
    async with behind.transaction(EVERYBODY), behind.transaction(EVERYBODY):
        assert await refused(behind) < BOUND
    assert await ask(behind) == 1


async def test_a_database_that_was_restarted_is_used_again_without_a_single_failure(tmp_path: Path) -> None:
    with ExitStack() as first:
        server = first.enter_context(running_postgres(tmp_path / "a"))
        database = Database(server.url)
        await asyncio.gather(*(ask(database) for _ in range(5)))
        first.close()
        await refused(database)
        with running_postgres(tmp_path / "b", port=server.port):
            assert await asyncio.gather(*(ask(database) for _ in range(8))) == [1] * 8
            await database.aclose()


async def test_a_database_that_refuses_the_user_is_away(postgres: Postgres) -> None:
    database = Database(postgres.url.replace("//postgres@", "//nobody@"))
    await refused(database)
    await database.aclose()


async def test_a_migration_is_not_ended_for_taking_long(postgres: Postgres) -> None:
    database = Database(postgres.createdb(), postgres=PostgresTerms(statement_seconds=None, lock_seconds=None))
    assert await ask(database, "SHOW statement_timeout") == "0"
    await database.aclose()


async def test_the_first_host_that_takes_writes_is_used(postgres: Postgres) -> None:
    url = postgres.createdb().replace("@", "@127.0.0.1:1,") + "?target_session_attrs=read-write"
    database = Database(url, postgres=HASTY)
    assert await ask(database) == 1
    await database.aclose()


def _identity(of: str = "localhost") -> tuple[bytes, bytes]:
    """Make a certificate that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, of)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
    names = x509.SubjectAlternativeName([x509.DNSName(of.replace("_", "-"))])
    constraints = x509.BasicConstraints(ca=True, path_length=None)
    certificate = builder.add_extension(names, critical=False).add_extension(constraints, critical=True).sign(key, SHA256())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), pem


@pytest.mark.asvs("12.3.2", "12.3.4")
async def test_tls_is_used_and_the_servers_name_checked_as_the_url_says(tmp_path: Path) -> None:
    identity = _identity()
    (tmp_path / "ca.pem").write_bytes(identity[0])
    (tmp_path / "other.pem").write_bytes(_identity()[0])
    with running_postgres(tmp_path / "server", identity=identity) as server:
        for host, words, works in (
            ("127.0.0.1", "sslmode=require", True),
            ("localhost", f"sslmode=verify-full&sslrootcert={tmp_path / 'ca.pem'}", True),
            ("127.0.0.1", f"sslmode=verify-full&sslrootcert={tmp_path / 'ca.pem'}", False),
            ("localhost", f"sslmode=verify-full&sslrootcert={tmp_path / 'other.pem'}", False),
            ("localhost", f"sslmode=verify-full&sslrootcert={tmp_path / 'missing.pem'}", False),
        ):
            database = Database(f"{server.url.replace('127.0.0.1', host)}?{words}", postgres=HASTY)
            if works:
                assert await ask(database, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") is True
            else:
                await refused(database)
            await database.aclose()


@pytest.mark.asvs("13.2.1")
async def test_the_service_is_known_to_the_database_by_a_certificate_of_its_own(tmp_path: Path) -> None:
    """A role without a password and without rights over others; the server lets in who shows the certificate of that role's name."""
    identity, own, forged = _identity(), _identity(ROLE), _identity(ROLE)
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
            database = Database(checked + more, postgres=HASTY)
            if works:
                assert await ask(database, "SELECT client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == f"/CN={ROLE}"
            else:
                await refused(database)
            await database.aclose()


@pytest.mark.parametrize(
    "url", ["postgresql://u:secret@h/n?sslmode=perhaps", "postgresql://u:secret@[h/n", "mysql://u:secret@h/n", ""]
)
def test_a_url_of_no_database_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match="expected") as refusal:
        Database(url)
    assert "secret" not in str(refusal.value)


class TestBehindPgbouncer:
    """Two connections to the server for many clients: whatever is kept on a connection is met by somebody else."""

    @pytest.fixture
    async def bouncer(self, postgres: Postgres, tmp_path: Path) -> AsyncIterator[str]:
        url = postgres.createdb()
        with running_pgbouncer(tmp_path, postgres, servers=2) as port:
            yield url.replace(f":{postgres.port}/", f":{port}/")

    @pytest.fixture
    async def patient(self, bouncer: str) -> AsyncIterator[Database]:
        """Waits as long as it takes 200 clients to get their turns on two connections, also on a busy machine."""
        terms = PostgresTerms(pool_size=20, wait_seconds=60, statement_seconds=60, lock_seconds=60, pgbouncer=True)
        database = Database(bouncer, postgres=terms)
        yield database
        await database.aclose()

    @pytest.fixture
    async def pooled(self, bouncer: str) -> AsyncIterator[Database]:
        terms = PostgresTerms(pool_size=20, statement_seconds=0.7, lock_seconds=0.4, pgbouncer=True)
        database = Database(bouncer, postgres=terms)
        yield database
        await database.aclose()

    async def test_many_at_once_do_not_meet_each_others_statements(self, patient: Database) -> None:
        await upgrade(patient)
        limiter = DatabaseLimiter(patient)
        answers = await asyncio.gather(*(limiter.take(f"key {n % 5}", limit=7, window_seconds=600) for n in range(200)))
        assert sum(isinstance(answer, Taken) for answer in answers) == 35
        questions = [f"SELECT {number} + length('{'x' * (number % 7)}')" for number in range(200)]
        assert await asyncio.gather(*(ask(patient, question) for question in questions)) == [n + n % 7 for n in range(200)]

    async def test_no_prepared_statement_is_left_at_the_server(self, pooled: Database) -> None:
        await asyncio.gather(*(ask(pooled, f"SELECT {number}") for number in range(50)))
        assert await ask(pooled, "SELECT count(*) FROM pg_prepared_statements") == 0

    async def test_timeouts_hold_in_each_transaction(self, pooled: Database) -> None:
        assert await refused(pooled, "SELECT pg_sleep(30)") < BOUND
        for name, wanted in (("statement_timeout", "700ms"), ("lock_timeout", "400ms")):
            assert await ask(pooled, f"SHOW {name}") == wanted
        async with pooled.reading(EVERYBODY) as connection:
            assert (await connection.execute(text("SHOW statement_timeout"))).scalar_one() == "700ms"
