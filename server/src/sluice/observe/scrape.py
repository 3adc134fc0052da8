"""Metrics that are read only when Prometheus scrapes: the state of the engines, the spool, the connections."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sluice.kit.health import EngineHealth, EngineState


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """Name, labels and help text of one metric."""

    name: str
    labels: tuple[str, ...]
    help: str


STATE: Final = MetricSpec(
    "sluice_engine_state", ("kind", "engine", "state"), "1 for the state in which the engine is, 0 for the others."
)
POOL_SIZE: Final = MetricSpec(
    "sluice_pool_size",
    ("pool",),
    "Places of a pool of this process: connections (uploads have their own), checkers, scans.",
)
POOL_IN_USE: Final = MetricSpec(
    "sluice_pool_in_use", ("pool",), "Places that are taken. Small files may have places beyond the size."
)
POOL_WAITING: Final = MetricSpec("sluice_pool_waiting", ("pool",), "Callers in line for a place.")
DAEMONS: Final = MetricSpec("sluice_scanner_daemons", ("state",), "Scanner daemons `in_service` and `away`.")
SIGNATURE_AGE: Final = MetricSpec(
    "sluice_scanner_signature_age_seconds",
    (),
    "Age of the oldest signatures among the daemons in service, by the hour.",
)
RESTARTS: Final = MetricSpec("sluice_sandbox_restarts_total", (), "How often the sandbox had to be started again.")
FREE: Final = MetricSpec("sluice_storage_free_bytes", (), "Free bytes where the platform's own store is a folder.")
SPOOL_BYTES: Final = MetricSpec(
    "sluice_spool_bytes", ("where",), "Bytes of uploads that are being judged, in `memory` or on `disk`."
)
SPOOL_FREE: Final = MetricSpec("sluice_spool_free_bytes", (), "Free bytes of the spool's file system.")
SPOOL_SIZE: Final = MetricSpec("sluice_spool_size_bytes", (), "All bytes of the spool's file system.")
CONNECTIONS: Final = MetricSpec(
    "sluice_connections",
    ("state",),
    "Open connections: `silent` without a request (no head yet, or only a part of one), `busy` with one.",
)
UNSENT: Final = MetricSpec(
    "sluice_unsent_bytes", (), "Bytes of responses that clients have not read, in the memory of this process."
)
PROCESSES: Final = MetricSpec(
    "sluice_processes",
    ("state",),
    "Processes of a server that has several: `answering`, or `missing` because they start just now.",
)
SPECS: Final = (
    *(STATE, POOL_SIZE, POOL_IN_USE, POOL_WAITING, DAEMONS, SIGNATURE_AGE, RESTARTS, FREE),
    *(SPOOL_BYTES, SPOOL_FREE, SPOOL_SIZE),
    *(CONNECTIONS, UNSENT),
    PROCESSES,
)

_HOUR: Final = 3600
# The database reports the connections that uploads have for themselves under names with this prefix.
_UPLOADS: Final = "upload_"
_Limits = Mapping[str, int | str]


def engine_families(healths: Sequence[EngineHealth]) -> Iterator[Metric]:
    """Return the metrics of these engines; what an engine does not report is left out, not guessed."""
    state = _gauge(STATE)
    for (kind, name), found in {(health.kind, health.name): health.state for health in healths}.items():
        for each in EngineState:
            state.add_metric((kind, name, each.value), float(found is each))
    yield state
    limits: dict[str, _Limits] = {}
    for health in healths:  # of several scanners, those of the first that states one
        limits[health.kind] = {**health.limits, **limits.get(health.kind, {})}
    yield from _pool_families(limits)
    yield from _scanner_families(limits.get("scanner", {}))
    restarts = _number(limits.get("sandbox", {}), "restarts")
    if restarts is not None:
        yield CounterMetricFamily(RESTARTS.name, RESTARTS.help, restarts)
    free = _number(limits.get("storage", {}), "free_bytes")
    if free is not None:
        yield GaugeMetricFamily(FREE.name, FREE.help, free)


def spool_families(folder: Path, in_memory: int, on_disk: int) -> Iterator[Metric]:
    """Return the metrics of the spool in `folder` with these numbers of bytes; free space only if the folder exists."""
    used = _gauge(SPOOL_BYTES)
    used.add_metric(("memory",), in_memory)
    used.add_metric(("disk",), on_disk)
    yield used
    try:
        disk = shutil.disk_usage(folder)
    except OSError:
        return
    yield GaugeMetricFamily(SPOOL_FREE.name, SPOOL_FREE.help, disk.free)
    yield GaugeMetricFamily(SPOOL_SIZE.name, SPOOL_SIZE.help, disk.total)


def connection_families(silent: int, busy: int, unsent_bytes: int) -> Iterator[Metric]:
    """Return the metrics of a server's connections."""
    connections = _gauge(CONNECTIONS)
    connections.add_metric(("silent",), silent)
    connections.add_metric(("busy",), busy)
    yield connections
    yield GaugeMetricFamily(UNSENT.name, UNSENT.help, unsent_bytes)


def _pool_families(limits_by_kind: Mapping[str, _Limits]) -> Iterator[Metric]:
    size, in_use, waiting = _gauge(POOL_SIZE), _gauge(POOL_IN_USE), _gauge(POOL_WAITING)
    uploads = {
        name.removeprefix(_UPLOADS): value
        for name, value in limits_by_kind.get("database", {}).items()
        if name.startswith(_UPLOADS)
    }
    for pool, limits in {**limits_by_kind, "database_uploads": uploads}.items():
        for family, value in (
            (size, _pool_size(limits)),
            (in_use, _number(limits, "running")),
            (waiting, _number(limits, "waiting")),
        ):
            if value is not None:
                family.add_metric((pool,), value)
    yield from (size, in_use, waiting)


def _pool_size(limits: _Limits) -> float | None:
    """Return the size that an engine reports: for each of its daemons, its workers, or its connections."""
    each, daemons = _number(limits, "concurrency"), _number(limits, "in_service")
    if each is not None and daemons is not None:
        return each * daemons
    workers = _number(limits, "workers")
    return _number(limits, "connections") if workers is None else workers


def _scanner_families(limits: _Limits) -> Iterator[Metric]:
    daemons, in_service = _number(limits, "daemons"), _number(limits, "in_service")
    if daemons is not None and in_service is not None:
        family = _gauge(DAEMONS)
        family.add_metric(("in_service",), in_service)
        family.add_metric(("away",), daemons - in_service)
        yield family
    hours = _number(limits, "signature_age_hours")
    if hours is not None:
        yield GaugeMetricFamily(SIGNATURE_AGE.name, SIGNATURE_AGE.help, hours * _HOUR)


def _gauge(spec: MetricSpec) -> GaugeMetricFamily:
    return GaugeMetricFamily(spec.name, spec.help, labels=spec.labels)


def _number(limits: _Limits, name: str) -> float | None:
    value = limits.get(name)
    return float(value) if isinstance(value, int) else None
