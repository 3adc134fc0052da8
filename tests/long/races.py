"""Rows 4, 5, 6, 7 and 9 of what must never happen, again and again, on three servers behind a proxy: counts are exact every time."""

import os
from collections.abc import Callable, Iterator

import pytest

from tests.api import test_concurrency as at_once
from tests.api.places import Places
from tests.fleet import Fleet, running_fleet
from tests.gate import Gate
from tests.servers.redis import RedisServer

TURNS = range(int(os.environ.get("SLUICE_TEST_REPEATS", "20")))
STORING = [
    at_once.test_a_quota_is_filled_exactly,
    at_once.test_a_rate_is_kept_exactly,
    at_once.test_a_revoked_key_stores_nothing_from_then_on,
]
BUCKETS = [at_once.test_first_buckets_added_at_once_have_one_default, at_once.test_every_look_sees_one_default_while_it_moves]
ENDS = [at_once.test_a_bound_bucket_is_never_deleted, at_once.test_the_default_is_never_deleted_or_switched_off]


def _name(race: Callable[..., None]) -> str:
    return race.__name__.removeprefix("test_")


@pytest.fixture(scope="module")
def fleet(places: Places, redis_server: RedisServer) -> Iterator[Fleet]:
    patience = {
        "UPLOADS_PER_TENANT": "1000",
        "UPLOAD_WAIT_SECONDS": "300",
        "SANDBOX_WAIT_SECONDS": "300",
        "DATABASE_WAIT_SECONDS": "120",
    }
    with running_fleet(places.fresh("postgres-s3"), redis_server, settings=patience) as running:
        yield running


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("race", STORING, ids=_name)
def test_what_is_stored_is_exact(fleet: Fleet, race: Callable[[Gate], None], turn: int) -> None:
    race(fleet.service.new_gate().with_store())


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("race", BUCKETS, ids=_name)
def test_there_is_one_default_bucket(fleet: Fleet, race: Callable[[Gate], None], turn: int) -> None:
    race(fleet.service.new_gate())


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("race", ENDS, ids=_name)
def test_no_bucket_that_is_needed_is_deleted(fleet: Fleet, race: Callable[[Gate, int], None], turn: int) -> None:
    race(fleet.service.new_gate(), turn)
