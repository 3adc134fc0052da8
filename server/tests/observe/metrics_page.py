"""`/metrics` of a running process, parsed into numbers."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.service import METRICS_TOKEN

T = TypeVar("T")
_SECONDS = 30


@dataclass(frozen=True)
class MetricsPage:
    """The samples of one `/metrics` page."""

    text: str
    samples: Mapping[tuple[str, frozenset[tuple[str, str]]], float]

    def __call__(self, name: str, **labels: str) -> float:
        """Return one sample, or 0 if it was never counted."""
        return self.samples.get((name, frozenset(labels.items())), 0.0)

    @property
    def series(self) -> set[tuple[str, frozenset[tuple[str, str]]]]:
        return set(self.samples)


def read_metrics(url: str, token: str = METRICS_TOKEN) -> MetricsPage:
    """Read the page of the process at `url`."""
    headers = {"Authorization": f"Bearer {token}"}
    # plain HTTP: loading the trusted certificates takes longer than the request
    response = httpx.get(f"{url}/metrics", headers=headers, timeout=30, verify=False)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    read: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in read, f"{key} occurs twice: Prometheus refuses the page"
            read[key] = sample.value
    return MetricsPage(response.text, read)


def until(look: Callable[[], T], holds: Callable[[T], bool]) -> T:
    """Call `look` until its value satisfies `holds`, and return the value."""
    deadline = time.monotonic() + _SECONDS
    while not holds(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.05)
    return seen
