"""What the engines say of their health, as numbers for Prometheus. Asking them is done elsewhere; here is only how it is told."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from sluice.kit.health import EngineHealth, EngineState


@dataclass(frozen=True, slots=True)
class Number:
    """One family: its name, its labels and what it tells."""

    name: str
    labels: tuple[str, ...]
    help: str


STATE: Final = Number(
    "sluice_engine_state", ("kind", "engine", "state"), "1 for the state in which the engine is, 0 for the others."
)
POOL_SIZE: Final = Number(
    "sluice_pool_size", ("pool",), "Places of a pool of this process: connections (uploads have their own), checkers, scans."
)
POOL_IN_USE: Final = Number("sluice_pool_in_use", ("pool",), "Places that are taken. Small files may have places beyond the size.")
POOL_WAITING: Final = Number("sluice_pool_waiting", ("pool",), "Callers in line for a place.")
DAEMONS: Final = Number("sluice_scanner_daemons", ("state",), "Scanner daemons `in_service` and `away`.")
SIGNATURE_AGE: Final = Number(
    "sluice_scanner_signature_age_seconds", (), "Age of the oldest signatures among the daemons in service, by the hour."
)
RESTARTS: Final = Number("sluice_sandbox_restarts_total", (), "How often the sandbox had to be started again.")
FREE: Final = Number("sluice_storage_free_bytes", (), "Free bytes where the platform's own store is a folder.")
NUMBERS: Final = (STATE, POOL_SIZE, POOL_IN_USE, POOL_WAITING, DAEMONS, SIGNATURE_AGE, RESTARTS, FREE)

_HOUR: Final = 3600
_UPLOADS: Final = "upload_"
_Limits = Mapping[str, int | str]


def families(healths: Sequence[EngineHealth]) -> Iterator[Metric]:
    """Answer the families that these engines fill; what an engine does not say is left out, not guessed."""
    state = _gauge(STATE)
    for (kind, name), found in {(health.kind, health.name): health.state for health in healths}.items():
        for each in EngineState:
            state.add_metric((kind, name, each.value), float(found is each))
    yield state
    said = {health.kind: health.limits for health in healths}
    yield from _pools(said)
    yield from _scanner(said.get("scanner", {}))
    restarts = _number(said.get("sandbox", {}), "restarts")
    if restarts is not None:
        yield CounterMetricFamily(RESTARTS.name, RESTARTS.help, restarts)
    free = _number(said.get("storage", {}), "free_bytes")
    if free is not None:
        yield GaugeMetricFamily(FREE.name, FREE.help, free)


def _pools(said: Mapping[str, _Limits]) -> Iterator[Metric]:
    size, in_use, waiting = _gauge(POOL_SIZE), _gauge(POOL_IN_USE), _gauge(POOL_WAITING)
    for pool, limits in {**said, "database_uploads": _uploads(said.get("database", {}))}.items():
        for family, value in (
            (size, _size(limits)),
            (in_use, _number(limits, "running")),
            (waiting, _number(limits, "waiting")),
        ):
            if value is not None:
                family.add_metric((pool,), value)
    yield from (size, in_use, waiting)


def _uploads(limits: _Limits) -> _Limits:
    """Answer what a database says of the connections that uploads have for themselves."""
    return {name.removeprefix(_UPLOADS): value for name, value in limits.items() if name.startswith(_UPLOADS)}


def _size(limits: _Limits) -> float | None:
    """Answer the places of a pool: it says them, or it has so many for each of its daemons."""
    each, daemons = _number(limits, "concurrency"), _number(limits, "in_service")
    if each is not None and daemons is not None:
        return each * daemons
    workers = _number(limits, "workers")
    return _number(limits, "connections") if workers is None else workers


def _scanner(limits: _Limits) -> Iterator[Metric]:
    daemons, in_service = _number(limits, "daemons"), _number(limits, "in_service")
    if daemons is not None and in_service is not None:
        family = _gauge(DAEMONS)
        family.add_metric(("in_service",), in_service)
        family.add_metric(("away",), daemons - in_service)
        yield family
    hours = _number(limits, "signature_age_hours")
    if hours is not None:
        yield GaugeMetricFamily(SIGNATURE_AGE.name, SIGNATURE_AGE.help, hours * _HOUR)


def _gauge(number: Number) -> GaugeMetricFamily:
    return GaugeMetricFamily(number.name, number.help, labels=number.labels)


def _number(limits: _Limits, name: str) -> float | None:
    value = limits.get(name)
    return float(value) if isinstance(value, int) else None
