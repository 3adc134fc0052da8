"""Fixtures that many test folders share: the setups of the service and API clients for them.

How they work is described in `tests.service`.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.db.migrated import Migrated
from tests.deployments import Deployments
from tests.fleet import running_fleet
from tests.scheduling import ServerScheduling, in_run_order, setups_for
from tests.servers.clamd import LARGEST, running_clamd
from tests.servers.postgres import Postgres, running_postgres
from tests.servers.radosgw import RadosGateway, running_radosgw
from tests.servers.redis import RedisServer, running_redis
from tests.service import ApiClient, Service, running_service

LIMITED = {
    "FREE_UPLOADS_PER_MONTH": "3",
    "PURGE_AFTER_DAYS": "0",
    "AUDIT_DAYS": "0.00001",
    "BODY_IDLE_SECONDS": "3",
    "UPLOADS_PER_TENANT": "1",
    "UPLOAD_WAIT_SECONDS": "0.3",
    "JWT_DEFAULT_SCOPES": "metadata,delete",
    "WORKER_SECONDS": "0.5",
}
"""Settings with small limits and short intervals."""

LONG_LIVED = {"WORKER_SECONDS": "1", "WEBHOOK_HOSTS": "127.0.0.1", "IETF_UPLOADS": "true"}
"""Settings of a service that lives for the whole test session: rounds of the worker cost processor time."""


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with running_postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Migrated:
    return Migrated(tmp_path_factory.mktemp("migrated"))


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RadosGateway]:
    with running_radosgw(tmp_path_factory.mktemp("radosgw")) as server:
        yield server


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="session")
def clamd_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_clamd(tmp_path_factory.mktemp("clamd")) as server:
        yield server.address


@pytest.fixture(scope="session")
def large_clamd_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_clamd(tmp_path_factory.mktemp("clamd"), LARGEST) as server:
        yield server.address


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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that uses a service on the setups that fit it."""
    if "setup_name" not in metafunc.fixturenames:
        return
    marks = {mark.name for mark in metafunc.definition.iter_markers()}
    setups = setups_for(metafunc.fixturenames, engine="engine" in marks, one_process="one_process" in marks)
    metafunc.parametrize("setup_name", setups, scope="session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the tests in the order in which xdist workers run them; without xdist, keep the order of the files."""
    if hasattr(config, "workerinput"):
        items[:] = in_run_order(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ServerScheduling | None:
    """Return the scheduler for `pytest -n 2 --dist loadgroup`; other ways of distribution are unchanged."""
    return ServerScheduling(config, log) if config.getoption("dist") == "loadgroup" else None


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
