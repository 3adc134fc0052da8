"""What `/metrics` of a running process says, as numbers to compare. What the numbers should be stands in the tests."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import httpx
from prometheus_client.parser import text_string_to_metric_families

T = TypeVar("T")
_SECONDS = 30


@dataclass(frozen=True)
class Numbers:
    """One page of numbers."""

    text: str
    samples: Mapping[tuple[str, frozenset[tuple[str, str]]], float]

    def __call__(self, name: str, **labels: str) -> float:
        """Answer one number, 0 for what was never counted."""
        return self.samples.get((name, frozenset(labels.items())), 0.0)

    @property
    def series(self) -> set[tuple[str, frozenset[tuple[str, str]]]]:
        return set(self.samples)


def numbers(url: str, token: str | None = None) -> Numbers:
    """Read the page of the process at `url`."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    # no TLS is spoken here, and to read whom it would trust takes longer than to ask
    answer = httpx.get(f"{url}/metrics", headers=headers, timeout=30, verify=False)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    read: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in read, f"{key} is told twice: Prometheus refuses the whole page"
            read[key] = sample.value
    return Numbers(answer.text, read)


def until(look: Callable[[], T], holds: Callable[[T], bool]) -> T:
    """Look at another process again and again until what is seen `holds`, and answer it."""
    deadline = time.monotonic() + _SECONDS
    while not holds(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.05)
    return seen
