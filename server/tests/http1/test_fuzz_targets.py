"""The fuzz targets on their seeds, on damaged seeds and on random bytes. `make fuzz-edge` runs each for a minute."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.http1.fuzz_targets import SEEDS, TARGETS
from tests.rows import each_row


def test_every_target_has_seeds() -> None:
    assert SEEDS.keys() == TARGETS.keys()


@each_row("name", TARGETS)
def test_target_accepts_its_seeds(name: str) -> None:
    for seed in SEEDS[name]:
        TARGETS[name](seed)


@each_row("name", TARGETS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_target_raises_only_its_promised_error(name: str, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(SEEDS[name]))
    at = data.draw(st.integers(0, len(seed)))
    gone = data.draw(st.integers(0, 8))
    TARGETS[name](seed[:at] + data.draw(st.binary(max_size=16)) + seed[at + gone :])
    TARGETS[name](data.draw(st.binary(max_size=200)))
