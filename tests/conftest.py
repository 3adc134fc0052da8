"""Fixtures that many test folders share: the two setups of the service and the gates into them. How they work is in `tests.gate`."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.api.places import Places
from tests.db.migrated import Migrated
from tests.fleet import running_fleet
from tests.gate import Gate, Service, running_service
from tests.servers.clamd import LARGEST, running_clamd
from tests.servers.postgres import Postgres, running_postgres
from tests.servers.radosgw import RadosGateway, running_radosgw
from tests.servers.redis import RedisServer, running_redis
from tests.turns import ByServers, in_turn, setups_for

HASTY = {
    "FREE_UPLOADS_PER_MONTH": "3",
    "PURGE_AFTER_DAYS": "0",
    "AUDIT_DAYS": "0.00001",
    "BODY_IDLE_SECONDS": "3",
    "UPLOADS_PER_TENANT": "1",
    "UPLOAD_WAIT_SECONDS": "0.3",
    "JWT_DEFAULT_SCOPES": "metadata,delete",
    "WORKER_SECONDS": "0.5",
}
"""Settings under which what takes days takes no time, and what takes many takes few."""

PATIENT = {"WORKER_SECONDS": "1"}
"""Those of a service that lives as long as the tests: rounds of the worker cost processor time."""


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
def places(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Places:
    return Places(request, tmp_path_factory)


@pytest.fixture(scope="session")
def sqlite_local(places: Places) -> Iterator[Service]:
    with running_service(replace(places.fresh("sqlite-local"), bears=True), **PATIENT) as service:
        yield service


@pytest.fixture(scope="session")
def postgres_s3(places: Places) -> Iterator[Service]:
    with running_service(replace(places.fresh("postgres-s3", clamd="large_clamd_address"), bears=True), **PATIENT) as service:
        yield service


@pytest.fixture(scope="session")
def postgres_local(places: Places) -> Iterator[Service]:
    with running_service(replace(places.fresh("postgres-local"), bears=True), **PATIENT) as service:
        yield service


@pytest.fixture(scope="session")
def postgres_s3_redis(places: Places, redis_server: RedisServer) -> Iterator[Service]:
    with running_fleet(places.fresh("postgres-s3", clamd="large_clamd_address"), redis_server, settings=PATIENT) as fleet:
        yield fleet.as_one()


@pytest.fixture(scope="session")
def hasty_postgres_local(places: Places) -> Iterator[Service]:
    with running_service(places.fresh("postgres-local"), **HASTY) as service:
        yield service


@pytest.fixture(scope="session")
def hasty_postgres_s3_redis(places: Places, redis_server: RedisServer) -> Iterator[Service]:
    with running_fleet(places.fresh("postgres-s3"), redis_server, settings=HASTY) as fleet:
        yield fleet.as_one()


@pytest.fixture(scope="session")
def hasty_sqlite_local(places: Places) -> Iterator[Service]:
    with running_service(places.fresh("sqlite-local"), **HASTY) as service:
        yield service


@pytest.fixture(scope="session")
def hasty_postgres_s3(places: Places) -> Iterator[Service]:
    with running_service(places.fresh("postgres-s3"), **HASTY) as service:
        yield service


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that takes a service on the setups that fit it."""
    if "setup_name" not in metafunc.fixturenames:
        return
    one_process = metafunc.definition.get_closest_marker("one_process") is not None
    metafunc.parametrize("setup_name", setups_for(metafunc.fixturenames, one_process=one_process), scope="session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests in the order in which workers take them; without workers they stay in that of their files."""
    if hasattr(config, "workerinput"):
        items[:] = in_turn(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByServers | None:
    """Answer the scheduler of `pytest -n 2 --dist loadgroup`; other ways to distribute stay as they are."""
    return ByServers(config, log) if config.getoption("dist") == "loadgroup" else None


# The servers are fixtures of their own, not parameters: they live until the session ends, in whatever order the tests come.


@pytest.fixture(scope="session")
def service(request: pytest.FixtureRequest, setup_name: str) -> Service:
    """The running service of the setup, shared by all tests of the session."""
    running: Service = request.getfixturevalue(setup_name.replace("-", "_"))
    return running


@pytest.fixture(scope="session")
def hasty(request: pytest.FixtureRequest, setup_name: str) -> Service:
    """A second service with small limits and no patience (`HASTY`)."""
    running: Service = request.getfixturevalue("hasty_" + setup_name.replace("-", "_"))
    return running


@pytest.fixture
def newcomer(service: Service) -> Gate:
    """A fresh tenant without a bucket."""
    return service.new_gate()


@pytest.fixture
def gate(service: Service) -> Gate:
    """A fresh tenant whose files land in the setup's store."""
    return service.new_gate().with_store()


@pytest.fixture(scope="session")
def lobby(service: Service) -> Gate:
    """One tenant for all requests that leave nothing behind."""
    return service.new_gate().with_store()


@pytest.fixture
def s3(service: Service) -> RadosGateway:
    """The real S3 of the setup: tests that take it run where there is one."""
    assert service.place.gateway is not None
    return service.place.gateway


@pytest.fixture
def served_here(service: Service) -> None:
    """Taken by tests of what the service does for want of an S3: they run where there is none."""
    assert service.place.gateway is None
