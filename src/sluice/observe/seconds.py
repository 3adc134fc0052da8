"""A histogram of seconds that costs the event loop next to nothing. Which ones there are is in `metrics`."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.utils import floatToGoString


class Observed:
    """One series. For one thread: an upload observes ten of them, and the library's locks for each took a twentieth of its time."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self._bounds, seconds)] += 1
        self.sum += seconds


class Seconds(Collector):
    """A family of them, as Prometheus' own histogram: `le` is the upper bound of a bucket, itself included."""

    def __init__(
        self, name: str, documentation: str, labels: Sequence[str], *, bounds: Sequence[float], registry: CollectorRegistry
    ) -> None:
        """`bounds` are the upper bounds in seconds, ascending; beyond the last is `+Inf`."""
        self.label_names: Final = tuple(labels)
        self._name = name
        self._documentation = documentation
        self._bounds = tuple(bounds)
        self._series: dict[tuple[str, ...], Observed] = {}
        registry.register(self)

    def labels(self, *values: str) -> Observed:
        """Answer the series with these values of the labels."""
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = Observed(self._bounds)
        return series

    def describe(self) -> Iterator[Metric]:
        """Answer the family without its numbers."""
        yield HistogramMetricFamily(self._name, self._documentation, labels=self.label_names)

    def collect(self) -> Iterator[Metric]:
        """Answer the family."""
        family = HistogramMetricFamily(self._name, self._documentation, labels=self.label_names)
        marks = [str(floatToGoString(bound)) for bound in (*self._bounds, float("inf"))]  # type: ignore[no-untyped-call]  # untyped in the library
        for values, series in self._series.items():
            family.add_metric(values, list(zip(marks, accumulate(series.counts), strict=True)), series.sum)
        yield family
