"""Our histogram writes what the library's would."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from sluice.observe.seconds import Seconds

BOUNDS = (0.001, 0.01, 0.1, 1.0)
TIMES = st.one_of(st.sampled_from(BOUNDS), st.floats(min_value=0, max_value=10))


@given(st.lists(st.tuples(st.sampled_from(["store", "scan"]), TIMES)))
def test_a_page_reads_as_with_the_librarys_histogram(observed: list[tuple[str, float]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    seconds = Seconds("seconds", "What took how long.", ("stage",), bounds=BOUNDS, registry=ours)
    histogram = Histogram("seconds", "What took how long.", ("stage",), buckets=BOUNDS, registry=theirs)
    for stage, took in observed:
        seconds.labels(stage).observe(took)
        histogram.labels(stage).observe(took)
    assert generate_latest(ours) == generate_latest(theirs)
