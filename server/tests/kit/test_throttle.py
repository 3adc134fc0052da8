"""`FailureThrottle`: addresses that fail too often are blocked for a while."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.kit.throttle import FailureThrottle
from tests.rows import each_row


class FakeClock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def throttle(clock: FakeClock, *, limit: int = 3, window: float = 60, room: int = 10) -> FailureThrottle:
    return FailureThrottle(limit, window, room, monotonic=clock)


def fail(blocker: FailureThrottle, address: str, times: int) -> None:
    for _ in range(times):
        blocker.failed(address)


def test_an_address_is_blocked_after_the_limit_of_failures_until_the_oldest_leaves_the_window() -> None:
    clock = FakeClock()
    blocker = throttle(clock)
    assert blocker.blocked("192.0.2.1") is None
    for _ in range(2):
        blocker.failed("192.0.2.1")
        clock.now += 10
    assert blocker.blocked("192.0.2.1") is None
    blocker.failed("192.0.2.1")
    assert blocker.blocked("192.0.2.1") == 40
    clock.now += 40
    assert blocker.blocked("192.0.2.1") is None
    blocker.failed("192.0.2.1")
    assert blocker.blocked("192.0.2.1") == 10


@each_row(
    "one, other, blocked",
    [
        ("192.0.2.1", "192.0.2.2", None),
        ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", 60),
        ("2001:DB8::1", "2001:db8:0:0::2", 60),
        ("2001:db8::1", "2001:db8:0:1::1", None),
        ("::ffff:192.0.2.1", "192.0.2.1", 60),
        ("unix", "unix", 60),  # a peer without an address is counted by its name
        ("unix", "", None),
    ],
)
def test_addresses_of_one_network_count_as_one_others_apart(one: str, other: str, blocked: float | None) -> None:
    blocker = throttle(FakeClock())
    fail(blocker, one, 3)
    assert blocker.blocked(other) == blocked


def test_many_addresses_take_bounded_memory_and_those_that_failed_last_stay() -> None:
    clock = FakeClock()
    blocker = throttle(clock, limit=1)
    for number in range(1000):
        blocker.failed(f"10.0.{number // 256}.{number % 256}")
    assert len(blocker) == 10
    assert (blocker.blocked("10.0.3.231"), blocker.blocked("10.0.0.0")) == (60, None)
    clock.now += 60
    blocker.failed("192.0.2.2")
    assert len(blocker) == 1
    blocker = throttle(clock, limit=2)
    for number in range(100):
        blocker.failed("192.0.2.1")
        blocker.failed(f"10.0.0.{number}")
    assert blocker.blocked("192.0.2.1") == 60


@given(limit=st.integers(1, 5), window=st.integers(1, 20), pauses=st.lists(st.integers(0, 10), min_size=1, max_size=60))
def test_blocks_exactly_when_a_window_holds_the_limit_of_failures(limit: int, window: int, pauses: list[int]) -> None:
    clock = FakeClock()
    blocker = throttle(clock, limit=limit, window=window)
    moments: list[float] = []
    for pause in pauses:
        clock.now += pause
        in_window = sum(moment > clock.now - window for moment in moments)
        blocked = blocker.blocked("192.0.2.1")
        assert (blocked is not None) == (in_window >= limit)
        if blocked is None:
            blocker.failed("192.0.2.1")
            moments.append(clock.now)


@each_row("wrong", [(0, 60, 1), (1, 0, 1), (1, 60, 0)])
def test_invalid_throttle_parameters_are_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="throttle"):
        FailureThrottle(*wrong)
