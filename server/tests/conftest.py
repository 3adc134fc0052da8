"""Fixtures that many test folders share: the setups of the service and API clients for them.

How they work is described in `tests.service`.
"""

import gc
import importlib
import os
import signal
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.db.migrated import Migrated
from tests.deployments import Deployments
from tests.fleet import running_fleet
from tests.scheduling import ServerScheduling, setup_of, setups_for
from tests.servers.azurite import Azurite
from tests.servers.clamd import Clamd
from tests.servers.fake_gcs import FakeGcs
from tests.servers.postgres import Postgres
from tests.servers.radosgw import RadosGateway
from tests.servers.redis import RedisServer
from tests.servers.shared import BorrowedServers, OwnedServers, SharedServers, SharedServersHost
from tests.service import ApiClient, Service, running_service

# There is no garbage to collect while modules are loaded; enabled again in `pytest_collection_finish`.
gc.disable()
# An authority that has signed nothing. Else each HTTP client of a test loads all of the machine's, in 30 to 45 ms.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("authority.pem"))

LIMITED = {
    "FREE_UPLOADS_PER_MONTH": "3",
    "PURGE_AFTER_DAYS": "0",
    "AUDIT_DAYS": "0.00001",
    "BODY_IDLE_SECONDS": "3",
    "UPLOADS_PER_TENANT": "1",
    "UPLOAD_WAIT_SECONDS": "0.3",
    "JWT_DEFAULT_SCOPES": "metadata,delete",
}
"""Settings with small limits and short intervals."""

LONG_LIVED = {"WEBHOOK_HOSTS": "127.0.0.1", "IETF_UPLOADS": "true"}
"""Settings of a service that lives for the whole test session."""


@pytest.fixture(scope="session")
def shared_servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServers]:
    """The servers that all workers of xdist share, or those of this process."""
    address = getattr(request.config, "workerinput", {}).get("shared_servers")
    if address is not None:
        yield BorrowedServers(address)
        return
    servers = OwnedServers(tmp_path_factory.mktemp("servers"))
    yield servers
    servers.close()


@pytest.fixture(scope="session")
def postgres(shared_servers: SharedServers) -> Postgres:
    server: Postgres = shared_servers.get("postgres")
    return server


@pytest.fixture(scope="session")
def migrated(shared_servers: SharedServers) -> Migrated:
    return Migrated(shared_servers)


@pytest.fixture(scope="session")
def gateway(shared_servers: SharedServers) -> RadosGateway:
    server: RadosGateway = shared_servers.get("gateway")
    return server


@pytest.fixture(scope="session")
def gcs(shared_servers: SharedServers) -> FakeGcs:
    server: FakeGcs = shared_servers.get("gcs")
    return server


@pytest.fixture(scope="session")
def azurite(shared_servers: SharedServers) -> Azurite:
    server: Azurite = shared_servers.get("azurite")
    return server


@pytest.fixture(scope="session")
def redis_server(shared_servers: SharedServers) -> RedisServer:
    server: RedisServer = shared_servers.get("redis")
    return server


@pytest.fixture(scope="session")
def clamd_address(shared_servers: SharedServers) -> str:
    server: Clamd = shared_servers.get("clamd")
    return server.address


@pytest.fixture(scope="session")
def large_clamd_address(shared_servers: SharedServers) -> str:
    server: Clamd = shared_servers.get("large_clamd")
    return server.address


@pytest.fixture(scope="session")
def deployments(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Deployments:
    return Deployments(request, tmp_path_factory)


@pytest.fixture(scope="session")
def sqlite_local(deployments: Deployments) -> Iterator[Service]:
    with running_service(replace(deployments.fresh("sqlite-local"), own_zygote=True), **LONG_LIVED) as service:
        yield service


@pytest.fixture(scope="session")
def postgres_s3(deployments: Deployments) -> Iterator[Service]:
    with running_service(
        replace(deployments.fresh("postgres-s3", clamd="large_clamd_address"), own_zygote=True), **LONG_LIVED
    ) as service:
        yield service


@pytest.fixture(scope="session")
def postgres_local(deployments: Deployments) -> Iterator[Service]:
    with running_service(replace(deployments.fresh("postgres-local"), own_zygote=True), **LONG_LIVED) as service:
        yield service


@pytest.fixture(scope="session")
def postgres_s3_redis(deployments: Deployments, redis_server: RedisServer) -> Iterator[Service]:
    with running_fleet(
        deployments.fresh("postgres-s3", clamd="large_clamd_address"), redis_server, settings=LONG_LIVED
    ) as fleet:
        yield fleet.checked_service()


@pytest.fixture(scope="session")
def limited_postgres_local(deployments: Deployments) -> Iterator[Service]:
    with running_service(deployments.fresh("postgres-local"), **LIMITED) as service:
        yield service


@pytest.fixture(scope="session")
def limited_postgres_s3_redis(deployments: Deployments, redis_server: RedisServer) -> Iterator[Service]:
    with running_fleet(deployments.fresh("postgres-s3"), redis_server, settings=LIMITED) as fleet:
        yield fleet.checked_service()


@pytest.fixture(scope="session")
def limited_sqlite_local(deployments: Deployments) -> Iterator[Service]:
    with running_service(deployments.fresh("sqlite-local"), **LIMITED) as service:
        yield service


@pytest.fixture(scope="session")
def limited_postgres_s3(deployments: Deployments) -> Iterator[Service]:
    with running_service(deployments.fresh("postgres-s3"), **LIMITED) as service:
        yield service


_SERVICES = (
    "sqlite_local",
    "postgres_s3",
    "postgres_local",
    "limited_sqlite_local",
    "limited_postgres_s3",
    "limited_postgres_local",
)
_RUNNING = pytest.StashKey[dict[str, int]]()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Remember the process of a service that lives for the whole session."""
    value = yield
    if fixturedef.argname in _SERVICES:
        request.config.stash.setdefault(_RUNNING, {})[fixturedef.argname] = value.process.pid
    return value


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Stop the services of the session that this test does not use: idle, each takes 3 % of a core."""
    needed = set(_SERVICES) & set(getattr(item, "fixturenames", ()))
    if setup := setup_of(item.nodeid):
        needed |= {setup.replace("-", "_"), "limited_" + setup.replace("-", "_")}
    for name, process_id in item.config.stash.get(_RUNNING, {}).items():
        os.kill(process_id, signal.SIGCONT if name in needed else signal.SIGSTOP)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Import a share of all modules first: of a fresh clone, each worker then compiles another share, not all of them."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    folder = Path(__file__).parent
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for path in sorted(folder.rglob("test_*.py"))[number::count]:
        name = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
        with suppress(Exception, pytest.skip.Exception):  # the collection reports it
            importlib.import_module(name)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that uses a service on the setups that fit it."""
    if "setup_name" not in metafunc.fixturenames:
        return
    marks = {mark.name for mark in metafunc.definition.iter_markers()}
    setups = setups_for(metafunc.fixturenames, engine="engine" in marks, one_process="one_process" in marks)
    metafunc.parametrize("setup_name", setups, scope="session")


def pytest_collection_finish() -> None:
    """Freeze what is loaded: to traverse it takes the collector a tenth of the time of short tests."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ServerScheduling | None:
    """Return the scheduler for `pytest -n 2 --dist loadgroup`; other ways of distribution are unchanged."""
    return ServerScheduling(config, log) if config.getoption("dist") == "loadgroup" else None


_SERVERS = pytest.StashKey[SharedServersHost]()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass the addresses of the run's servers to an xdist worker."""
    stash = node.config.stash
    if _SERVERS not in stash:
        stash[_SERVERS] = SharedServersHost()
    node.workerinput["shared_servers"] = stash[_SERVERS].address


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers of the run."""
    if _SERVERS in config.stash:
        config.stash[_SERVERS].close()


# The servers are fixtures, not parameters: they live until the session ends, in whatever order the tests run.


@pytest.fixture(scope="session")
def service(request: pytest.FixtureRequest, setup_name: str) -> Service:
    """The running service of the setup, shared by all tests of the session."""
    running: Service = request.getfixturevalue(setup_name.replace("-", "_"))
    return running


@pytest.fixture(scope="session")
def limited_service(request: pytest.FixtureRequest, setup_name: str) -> Service:
    """A second service with small limits and short intervals (`LIMITED`)."""
    running: Service = request.getfixturevalue("limited_" + setup_name.replace("-", "_"))
    return running


@pytest.fixture
def bare_client(service: Service) -> ApiClient:
    """An API client of a fresh tenant without a bucket."""
    return service.new_client()


@pytest.fixture
def client(service: Service) -> ApiClient:
    """An API client of a fresh tenant whose files are stored in the setup's store."""
    return service.new_client().with_store()


@pytest.fixture(scope="session")
def shared_client(service: Service) -> ApiClient:
    """An API client of one tenant for all requests that leave nothing behind."""
    return service.new_client().with_store()


@pytest.fixture
def s3(service: Service) -> RadosGateway:
    """The real S3 of the setup. Tests that use it run only on setups with S3."""
    assert service.deployment.gateway is not None
    return service.deployment.gateway


@pytest.fixture
def without_s3(service: Service) -> None:
    """Mark a test that needs the local store: it runs only on setups without S3."""
    assert service.deployment.gateway is None
