import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.kit.throttle import FailureThrottle


class Watch:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def throttle(watch: Watch, *, limit: int = 3, window: float = 60, room: int = 10) -> FailureThrottle:
    return FailureThrottle(limit, window, room, monotonic=watch)


def fail(brake: FailureThrottle, address: str, times: int) -> None:
    for _ in range(times):
        brake.failed(address)


def test_an_address_may_fail_until_the_limit() -> None:
    brake = throttle(Watch())
    assert brake.blocked("192.0.2.1") is None
    fail(brake, "192.0.2.1", 2)
    assert brake.blocked("192.0.2.1") is None
    brake.failed("192.0.2.1")
    assert brake.blocked("192.0.2.1") == 60


def test_a_block_ends_when_the_oldest_failure_is_past() -> None:
    watch = Watch()
    brake = throttle(watch)
    for _ in range(3):
        brake.failed("192.0.2.1")
        watch.now += 10
    assert brake.blocked("192.0.2.1") == 30
    watch.now += 30
    assert brake.blocked("192.0.2.1") is None
    brake.failed("192.0.2.1")
    assert brake.blocked("192.0.2.1") == 10


def test_other_addresses_are_not_blocked() -> None:
    brake = throttle(Watch())
    fail(brake, "192.0.2.1", 3)
    assert brake.blocked("192.0.2.2") is None


@pytest.mark.parametrize(
    ("one", "other"),
    [("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff"), ("2001:DB8::1", "2001:db8:0:0::2"), ("::ffff:192.0.2.1", "192.0.2.1")],
)
def test_addresses_of_one_line_count_as_one(one: str, other: str) -> None:
    brake = throttle(Watch())
    fail(brake, one, 3)
    assert brake.blocked(other) == 60


def test_another_ipv6_network_is_another_line() -> None:
    brake = throttle(Watch())
    fail(brake, "2001:db8::1", 3)
    assert brake.blocked("2001:db8:0:1::1") is None


def test_what_is_no_address_is_counted_by_its_name() -> None:
    brake = throttle(Watch())
    fail(brake, "unix", 3)
    assert brake.blocked("unix") == 60
    assert brake.blocked("") is None


def test_a_flood_of_addresses_takes_bounded_memory_and_the_newest_stay() -> None:
    brake = throttle(Watch(), limit=1)
    for number in range(1000):
        brake.failed(f"10.0.{number // 256}.{number % 256}")
    assert len(brake) == 10
    assert brake.blocked("10.0.3.231") == 60
    assert brake.blocked("10.0.0.0") is None


def test_an_address_that_goes_on_failing_is_not_pushed_out() -> None:
    brake = throttle(Watch(), limit=2)
    for number in range(100):
        brake.failed("192.0.2.1")
        brake.failed(f"10.0.0.{number}")
    assert brake.blocked("192.0.2.1") == 60


def test_addresses_past_the_window_are_forgotten() -> None:
    watch = Watch()
    brake = throttle(watch)
    fail(brake, "192.0.2.1", 3)
    watch.now += 60
    brake.failed("192.0.2.2")
    assert len(brake) == 1


@given(
    limit=st.integers(1, 5),
    window=st.integers(1, 20),
    pauses=st.lists(st.integers(0, 10), min_size=1, max_size=60),
)
def test_no_window_ever_holds_more_failures_than_the_limit(limit: int, window: int, pauses: list[int]) -> None:
    watch = Watch()
    brake = throttle(watch, limit=limit, window=window)
    moments: list[float] = []
    for pause in pauses:
        watch.now += pause
        in_window = sum(moment > watch.now - window for moment in moments)
        blocked = brake.blocked("192.0.2.1")
        assert (blocked is not None) == (in_window >= limit)
        if blocked is None:
            brake.failed("192.0.2.1")
            moments.append(watch.now)


@pytest.mark.parametrize("wrong", [(0, 60, 1), (1, 0, 1), (1, 60, 0)])
def test_a_throttle_that_could_not_work_is_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="throttle"):
        FailureThrottle(*wrong)
