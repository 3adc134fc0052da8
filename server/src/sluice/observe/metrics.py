"""Metrics for Prometheus that are counted where things happen. Those read only on a scrape are in `scrape`.

No label ever names a tenant, a file or a caller: the values of each label are a short list that the code knows.
`docs/metrics.md` is generated from this file.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from sluice import __version__

# The text format, which every version of Prometheus reads.
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

# Seconds: a stage of a small upload takes about one millisecond, a scan of 500 MB minutes. The library's histogram
# costs 1.2 µs an observation (one without locks 0.2), so 12 µs for the ten of an upload, about 1 % of its CPU time.
_FINE: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 100.0)
# `_created` series double the number of series, and Prometheus reads them only in another format.
disable_created_metrics()  # type: ignore[no-untyped-call]  # untyped in the library
REGISTRY: Final = CollectorRegistry(auto_describe=True)
for _collector in (ProcessCollector, PlatformCollector, GCCollector):
    _collector(registry=REGISTRY)

Gauge("sluice_info", "Always 1; the label says which release this is.", ("version",), registry=REGISTRY).labels(
    __version__
).set(1)

UPLOADS: Final = Counter(
    "sluice_uploads_total",
    "Uploads that ended, by outcome: `stored`, `rejected` by a rule (reason: its code), `refused` as a request "
    "(reason: the error's code), `failed` because of the service (reason: the unavailable part, or the error's "
    "code), `cut_off` by the end of the server, `replayed` with the response to an earlier request.",
    ("mode", "outcome", "reason"),
    registry=REGISTRY,
)
UPLOAD_BYTES: Final = Counter(
    "sluice_upload_bytes_total", "Bytes of files that were received whole, whatever the outcome.", registry=REGISTRY
)
UPLOADS_UNDER_WAY: Final = Gauge("sluice_uploads_under_way", "Uploads being received or judged now.", registry=REGISTRY)
UPLOADS_WAITING: Final = Gauge(
    "sluice_uploads_waiting",
    "Uploads that wait for a turn of their tenant, before their body is read.",
    registry=REGISTRY,
)
UPLOADS_WAITING_FOR_SPOOL: Final = Gauge(
    "sluice_uploads_waiting_for_spool",
    "Uploads of large files that wait, in the middle of their body, for room in the spool.",
    registry=REGISTRY,
)
STAGE_SECONDS: Final = Histogram(
    "sluice_stage_seconds",
    "Seconds by stage of an upload; `upload` is all of it but `authenticate`, which every request has. `examine` and "
    "`scan` run at the same time; `scan` has the scans of stored files too.",
    ("stage",),
    buckets=_FINE,
    registry=REGISTRY,
)
ENGINE_SECONDS: Final = Histogram(
    "sluice_engine_scan_seconds",
    "Seconds by scanner, if there are several, for files whose verdict was not cached; `scan` of "
    "`sluice_stage_seconds` is the time of all.",
    ("engine",),
    buckets=_FINE,
    registry=REGISTRY,
)
ENGINE_RESULTS: Final = Counter(
    "sluice_engine_results_total",
    "Results by scanner, if there are several: `clean`, `infected`, `incomplete`, `unavailable`.",
    ("engine", "outcome"),
    registry=REGISTRY,
)
REQUESTS: Final = Counter(
    "sluice_http_requests_total",
    "Requests with a response, by the route's path as the API reference writes it.",
    ("method", "route", "status"),
    registry=REGISTRY,
)
REQUEST_SECONDS: Final = Histogram(
    "sluice_http_request_seconds",
    "Seconds from a request's head to the end of its response.",
    ("method", "route"),
    buckets=_FINE[3:],
    registry=REGISTRY,
)


@lru_cache(maxsize=1024)
def _of_requests(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    """Return the metrics with these labels: the library takes longer to find them than to count."""
    return REQUESTS.labels(method, route, str(status)), REQUEST_SECONDS.labels(method, route)


@lru_cache(maxsize=1024)
def _of_uploads(mode: str, outcome: str, reason: str) -> Counter:
    return UPLOADS.labels(mode, outcome, reason)


def count_upload(mode: str, outcome: str, reason: str) -> None:
    """Count an upload that ended."""
    _of_uploads(mode, outcome, reason).inc()


def count_request(method: str, route: str, status: int, seconds: float) -> None:
    """Count a request that has its response, and its duration."""
    counter, durations = _of_requests(method, route, status)
    counter.inc()
    durations.observe(seconds)


REFUSALS: Final = Counter(
    "sluice_connections_refused_total",
    "Connections that were closed for what came on them before or beside a request, by the error's code.",
    ("code",),
    registry=REGISTRY,
)
TOLERATED_FAILURES: Final = Counter(
    "sluice_tolerated_failures_total",
    "Checks that a stored file failed, by the mode that let it pass: `report`, or `quarantine`.",
    ("check", "mode"),
    registry=REGISTRY,
)
CUT_OFF: Final = Counter(
    "sluice_connections_cut_off_total",
    "Connections that were closed although they broke no rule of HTTP: `slow_reader` read a response too slowly, "
    "`unsent_bytes` had stopped reading for the longest time when too much was unsent, `gave_way` had no request under "
    "way when all places were taken.",
    ("why",),
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
WORKER_SECONDS: Final = Histogram(
    "sluice_worker_sweep_seconds", "Seconds by sweep.", ("sweep",), buckets=_FINE[3:], registry=REGISTRY
)
WORKER_PUT_OFF: Final = Counter(
    "sluice_worker_put_off_total", "Objects whose removal was put off because their store is away.", registry=REGISTRY
)
RESCANS: Final = Counter(
    "sluice_rescans_total",
    "Stored files that were scanned again: `clean`, `infected` (they are in quarantine now), `released` (by an "
    "operator, and infected or denied as before), `incomplete`; or not scanned, since a hash list has them: `denied` "
    "(in quarantine now), `allowed`.",
    ("outcome",),
    registry=REGISTRY,
)
for _outcome in ("clean", "infected", "released", "incomplete", "denied", "allowed"):
    RESCANS.labels(_outcome)  # so that the first `infected` shows as an increase
RESUMABLE_UPLOADS: Final = Gauge(
    "sluice_resumable_uploads",
    "Resumable uploads that wait for bytes or their verdict, as a worker counted them last.",
    registry=REGISTRY,
)
RESUMABLE_BYTES: Final = Gauge(
    "sluice_resumable_bytes",
    "Bytes of these uploads that have come and wait in the platform's store.",
    registry=REGISTRY,
)
WEBHOOK_ATTEMPTS: Final = Counter(
    "sluice_webhook_attempts_total",
    "Attempts to deliver an event to a webhook endpoint: `delivered`, `pending` (another attempt follows) or `failed` "
    "(it was the last one).",
    ["outcome"],
    registry=REGISTRY,
)
EXTERNAL_ANSWERS: Final = Counter(
    "sluice_external_checks_total",
    "Questions to external checks of contexts by what came of them: the verdict `accept`, `reject` or `quarantine`, "
    "`no_answer`, or `not_asked`: after several without an answer, or where too many are under way.",
    ("outcome",),
    registry=REGISTRY,
)
EXTERNAL_SECONDS: Final = Histogram(
    "sluice_external_check_seconds", "Seconds of a question to an external check.", buckets=_FINE[3:], registry=REGISTRY
)
EXTERNAL_BREAKERS: Final = Gauge(
    "sluice_external_checks_open",
    "External checks that are not asked for a while, after several questions without an answer.",
    registry=REGISTRY,
)
RESUMABLE_EXPIRED: Final = Counter(
    "sluice_resumable_expired_total",
    "Resumable uploads that were not finished in time and were deleted.",
    registry=REGISTRY,
)
WORKER_DUE: Final = Gauge(
    "sluice_worker_due",
    "Rows that wait for the worker, counted to 10,000: `leases` that ran out, objects to `purge`, `test_files` whose "
    "day is over.",
    ("queue",),
    registry=REGISTRY,
)
WORKER_OLDEST: Final = Gauge(
    "sluice_worker_oldest_due_seconds",
    "How long the oldest row of that queue has waited.",
    ("queue",),
    registry=REGISTRY,
)

__all__ = ["Metric"]

# Returns metrics that are read now.
Source = Callable[[], Iterable[Metric]]


def collect(*sources: Source) -> Iterator[Metric]:
    """Return the metrics of this process, those of `sources` included."""
    for source in (REGISTRY.collect, *sources):
        yield from source()


def page(metrics: Iterable[Metric]) -> bytes:
    """Return metrics in Prometheus' text format."""
    return generate_latest(_Collected(metrics))


class _Collected(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics
