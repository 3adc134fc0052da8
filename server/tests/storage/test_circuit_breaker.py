"""The circuit breaker, alone with a fake clock, and in the S3 store with a network that does not respond."""

import asyncio
import time
from contextlib import ExitStack

import pytest

from sluice.storage import StoreError
from sluice.storage.common import CircuitBreaker
from sluice.storage.protocol import StoreUnavailable, Timeouts
from tests.servers.faults import Fault, fault_proxy
from tests.servers.radosgw import RadosGateway
from tests.storage.conftest import MakeS3, Seal


class BreakerHarness:
    """A breaker with a fake clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.breaker = CircuitBreaker(failures=3, rest_seconds=10, monotonic=lambda: self.now)

    def request(self, fault: Exception | None = None) -> bool:
        """Return whether the request reached the store."""
        reached = False
        try:
            with self.breaker.guard():
                reached = True
                if fault is not None:
                    raise fault
        except StoreError:
            pass
        return reached


UNAVAILABLE = StoreUnavailable("unreachable")


@pytest.fixture
def rested() -> BreakerHarness:
    """A breaker that is open and has rested for as long as it must."""
    harness = BreakerHarness()
    for _ in range(3):
        harness.request(UNAVAILABLE)
    harness.now += 10
    return harness


def test_breaker_opens_after_three_failures_and_retries_after_rest() -> None:
    harness = BreakerHarness()
    assert [harness.request(UNAVAILABLE) for _ in range(5)] == [True, True, True, False, False]
    harness.now += 10
    assert [harness.request(UNAVAILABLE), harness.request(UNAVAILABLE)] == [True, False]
    harness.now += 10
    assert all(harness.request(fault) for fault in (None, UNAVAILABLE, UNAVAILABLE, None))


def test_only_one_trial_request_passes_while_breaker_is_open_unless_it_is_cancelled(rested: BreakerHarness) -> None:
    with pytest.raises(asyncio.CancelledError), rested.breaker.guard():
        raise asyncio.CancelledError
    assert [rested.request(UNAVAILABLE), rested.request()] == [True, False]
    rested.now += 10
    with rested.breaker.guard():
        assert not rested.request()
    assert rested.request()


def test_errors_unrelated_to_availability_do_not_open_breaker() -> None:
    harness = BreakerHarness()
    assert all(harness.request(StoreError("the key is taken")) for _ in range(5))
    harness.request(UNAVAILABLE)
    harness.request(UNAVAILABLE)
    harness.request()
    assert [harness.request(UNAVAILABLE) for _ in range(4)] == [True, True, True, False]


def test_slow_trial_blocks_other_requests_for_one_rest_at_most(rested: BreakerHarness) -> None:
    with rested.breaker.guard():  # a put of minutes
        rested.now += 9.9
        assert not rested.request()
        rested.now += 0.1
        assert rested.request()
        assert rested.request()  # the second trial closed the breaker
        rested.now += 300
    assert rested.request()


def test_hanging_trial_allows_another_trial_after_each_rest(rested: BreakerHarness) -> None:
    with ExitStack() as hanging:
        for _ in range(5):
            hanging.enter_context(rested.breaker.guard())
            assert not rested.request()
            rested.now += 10


async def test_unresponsive_bucket_delays_no_later_upload(gateway: RadosGateway, make_s3: MakeS3, seal: Seal) -> None:
    async with fault_proxy(gateway.endpoint) as proxy:
        timeouts = Timeouts(connect_seconds=0.5, request_seconds=0.5, retries=0)
        store = make_s3(endpoint_url=proxy.endpoint, timeouts=timeouts, rest_seconds=1.0)
        proxy.fault = Fault.BLACK_HOLE
        for number in range(3):
            with pytest.raises(StoreError):
                await store.put(f"dead/{number}", seal(b"x"), content_type="text/plain")
        began = time.monotonic()
        for number in range(50):
            with pytest.raises(StoreError, match="left alone"):
                await store.put(f"dead/{number}", seal(b"x"), content_type="text/plain")
        assert time.monotonic() - began < 0.9
        proxy.fault = Fault.NONE
        deadline, alive = began + 20, seal(b"x")
        while True:
            try:
                await store.put("alive", alive, content_type="text/plain")
            except StoreError:
                assert time.monotonic() < deadline
            else:
                break
        assert await store.size("alive") == 1
