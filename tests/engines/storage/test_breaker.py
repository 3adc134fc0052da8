"""The breaker alone, by a clock that is held still, and in the S3 store before a network that swallows everything."""

import time

import pytest

from sluice.engines.storage import StoreFault
from sluice.engines.storage.breaker import Breaker
from sluice.engines.storage.protocol import StoreAway
from sluice.engines.storage.s3_client import Patience
from tests.engines.storage.conftest import MakeS3, Seal
from tests.servers.faults import Fault, fault_proxy
from tests.servers.radosgw import RadosGateway


class Bench:
    def __init__(self) -> None:
        self.now = 100.0
        self.breaker = Breaker(failures=3, rest_seconds=10, monotonic=lambda: self.now)

    def ask(self, fault: Exception | None = None) -> bool:
        """Answer whether the request got as far as the store."""
        reached = False
        try:
            with self.breaker.passing():
                reached = True
                if fault is not None:
                    raise fault
        except StoreFault:
            pass
        return reached


AWAY = StoreAway("away")


def test_a_store_that_fails_three_times_is_left_alone_and_then_tried_again() -> None:
    bench = Bench()
    assert [bench.ask(AWAY) for _ in range(5)] == [True, True, True, False, False]
    bench.now += 10
    assert [bench.ask(AWAY), bench.ask(AWAY)] == [True, False]
    bench.now += 10
    assert [bench.ask(), bench.ask(AWAY), bench.ask(AWAY), bench.ask()] == [True] * 4


def test_one_request_tries_and_the_others_wait_for_what_it_finds() -> None:
    bench = Bench()
    for _ in range(3):
        bench.ask(AWAY)
    bench.now += 10
    with bench.breaker.passing():
        assert not bench.ask()
    assert bench.ask()


def test_what_says_nothing_about_the_store_is_no_failure() -> None:
    bench = Bench()
    assert all(bench.ask(StoreFault("the key is taken")) for _ in range(5))
    bench.ask(AWAY)
    bench.ask(AWAY)
    bench.ask()
    assert [bench.ask(AWAY) for _ in range(4)] == [True, True, True, False]


async def test_a_bucket_that_does_not_answer_costs_later_uploads_no_time(
    gateway: RadosGateway, make_s3: MakeS3, seal: Seal
) -> None:
    async with fault_proxy(gateway.endpoint) as proxy:
        patience = Patience(connect_seconds=0.5, request_seconds=0.5, retries=0)
        store = make_s3(endpoint_url=proxy.endpoint, patience=patience, rest_seconds=1.0)
        proxy.fault = Fault.BLACK_HOLE
        for number in range(3):
            with pytest.raises(StoreFault):
                await store.put(f"dead/{number}", seal(b"x"), content_type="text/plain")
        began = time.monotonic()
        for number in range(50):
            with pytest.raises(StoreFault, match="left alone"):
                await store.put(f"dead/{number}", seal(b"x"), content_type="text/plain")
        assert time.monotonic() - began < 0.9
        proxy.fault = Fault.NONE
        deadline, alive = began + 20, seal(b"x")
        while True:
            try:
                await store.put("alive", alive, content_type="text/plain")
            except StoreFault:
                assert time.monotonic() < deadline
            else:
                break
        assert await store.size("alive") == 1
