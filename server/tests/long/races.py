"""The races of server/tests/api/test_concurrency.py, repeated on three servers behind a proxy: counts are exact every time."""

import os
from collections.abc import Callable, Iterator

import pytest

from tests.api import test_concurrency as at_once
from tests.deployments import Deployments
from tests.fleet import Fleet, running_fleet
from tests.servers.redis import RedisServer
from tests.service import ApiClient

TURNS = range(int(os.environ.get("SLUICE_TEST_REPEATS", "20")))
STORING = [
    at_once.test_concurrent_uploads_fill_the_quota_exactly,
    at_once.test_concurrent_uploads_never_exceed_the_rate,
    at_once.test_revoked_key_stores_nothing_after_the_revocation,
]
BUCKETS = [
    at_once.test_concurrent_first_buckets_get_one_default,
    at_once.test_readers_see_one_default_bucket_while_it_moves,
]
ENDS = [
    at_once.test_bucket_is_never_deleted_while_it_is_being_bound,
    at_once.test_default_bucket_is_never_deleted_or_made_inactive,
]


def _name(race: Callable[..., None]) -> str:
    return race.__name__.removeprefix("test_")


@pytest.fixture(scope="module")
def fleet(deployments: Deployments, redis_server: RedisServer) -> Iterator[Fleet]:
    patience = {"UPLOADS_PER_TENANT": "1000", "UPLOAD_WAIT_SECONDS": "300"}
    patience |= {"SANDBOX_WAIT_SECONDS": "300", "DATABASE_WAIT_SECONDS": "120"}
    with running_fleet(deployments.fresh("postgres-s3"), redis_server, settings=patience) as running:
        yield running


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("race", STORING, ids=_name)
def test_limits_on_stored_files_hold_exactly(fleet: Fleet, race: Callable[[ApiClient], None], turn: int) -> None:
    race(fleet.service.new_client().with_store())


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("race", BUCKETS, ids=_name)
def test_concurrent_changes_leave_one_default(fleet: Fleet, race: Callable[[ApiClient], None], turn: int) -> None:
    race(fleet.service.new_client())


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("race", ENDS, ids=_name)
def test_a_bound_or_default_bucket_is_never_deleted(fleet: Fleet, race: Callable[..., None], turn: int) -> None:
    race(client_on_s3=fleet.service.new_client())
