"""The numbers that the service keeps of itself, for Prometheus: each is declared here. They are counted where the thing happens.

No label ever names a tenant, a file or a caller: every label's values are a short list that the code knows. What is looked up only when
somebody asks (engines, pools, disks) is in `engine_numbers` and `spool_numbers`. `docs/metrics.md` is made from this file.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import Metric

from sluice import __version__
from sluice.observe.seconds import Seconds

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Prometheus' text format, which every version of it reads."""

_FINE: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 100.0)
"""Seconds: a stage of a small upload takes about one millisecond, a scan of 500 MB minutes."""

# They double the series, and Prometheus reads them only in another format.
disable_created_metrics()  # type: ignore[no-untyped-call]  # untyped in the library
REGISTRY: Final = CollectorRegistry(auto_describe=True)
for _collector in (ProcessCollector, PlatformCollector, GCCollector):
    _collector(registry=REGISTRY)

Gauge("sluice_info", "Always 1; the label says which release this is.", ("version",), registry=REGISTRY).labels(__version__).set(1)

UPLOADS: Final = Counter(
    "sluice_uploads_total",
    "Uploads that ended, by how: `stored`, `validated` (a dry run), `rejected` by a rule (reason: its code), `refused` as a request "
    "(reason: the error's code), `failed` by a fault of ours (reason: the part that was away, or the error's code), "
    "`cut_off` with the server's end.",
    ("mode", "outcome", "reason"),
    registry=REGISTRY,
)
UPLOAD_BYTES: Final = Counter(
    "sluice_upload_bytes_total", "Bytes of files that were received whole, whatever became of them.", registry=REGISTRY
)
UPLOADS_UNDER_WAY: Final = Gauge("sluice_uploads_under_way", "Uploads being received or judged now.", registry=REGISTRY)
UPLOADS_WAITING: Final = Gauge(
    "sluice_uploads_waiting", "Uploads that wait for a turn of their tenant, before their body is read.", registry=REGISTRY
)
STAGE_SECONDS: Final = Seconds(
    "sluice_stage_seconds",
    "Seconds by stage of an upload; `upload` is all of it but `authenticate`, which every request has. `examine` and `scan` run at "
    "the same time; `scan` has the scans of stored files too.",
    ("stage",),
    bounds=_FINE,
    registry=REGISTRY,
)
REQUESTS: Final = Counter(
    "sluice_http_requests_total",
    "Answered requests, by the route's path as the API reference writes it.",
    ("method", "route", "status"),
    registry=REGISTRY,
)
REQUEST_SECONDS: Final = Seconds(
    "sluice_http_request_seconds",
    "Seconds from a request's head to the end of its answer.",
    ("method", "route"),
    bounds=_FINE[3:],
    registry=REGISTRY,
)
REFUSALS: Final = Counter(
    "sluice_connections_refused_total",
    "Connections that were closed for what came on them before or beside a request, by the error's code.",
    ("code",),
    registry=REGISTRY,
)
WORKER_ROUNDS: Final = Counter(
    "sluice_worker_rounds_total",
    "Rounds of the worker: `done`, `database_away`, `fault`.",
    ("outcome",),
    registry=REGISTRY,
)
WORKER_ROUND_AT: Final = Gauge(
    "sluice_worker_last_round_timestamp_seconds",
    "When the last round that was `done` ended; 0 before the first.",
    registry=REGISTRY,
)
WORKER_DONE: Final = Counter(
    "sluice_worker_done_total", "Rows that the worker dealt with, by sweep.", ("sweep",), registry=REGISTRY
)
WORKER_SECONDS: Final = Seconds("sluice_worker_sweep_seconds", "Seconds by sweep.", ("sweep",), bounds=_FINE[3:], registry=REGISTRY)
WORKER_PUT_OFF: Final = Counter(
    "sluice_worker_put_off_total", "Objects whose removal was put off because their store is away.", registry=REGISTRY
)
RESCANS: Final = Counter(
    "sluice_rescans_total",
    "Stored files that were scanned again: `clean`, `infected` (they are in quarantine now), `released` (by an operator, and infected as before), `incomplete`.",
    ("outcome",),
    registry=REGISTRY,
)
for _outcome in ("clean", "infected", "released", "incomplete"):
    RESCANS.labels(_outcome)  # a first `infected` must be seen as one more than none
WORKER_DUE: Final = Gauge(
    "sluice_worker_due",
    "Rows that wait for the worker, counted to 10,000: `leases` that ran out, objects to `purge`, `test_files` whose day is over.",
    ("queue",),
    registry=REGISTRY,
)
WORKER_OLDEST: Final = Gauge(
    "sluice_worker_oldest_due_seconds", "How long the oldest row of that queue has waited.", ("queue",), registry=REGISTRY
)

__all__ = ["Metric"]

Source = Callable[[], Iterable[Metric]]
"""Answers families that are looked up now."""


def page(*sources: Source) -> bytes:
    """Answer every number as Prometheus reads it, those of `sources` included."""
    return generate_latest(_Together([REGISTRY.collect, *sources]))


class _Together:
    """Several sources as the one that `generate_latest` asks."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        for source in self._sources:
            yield from source()
