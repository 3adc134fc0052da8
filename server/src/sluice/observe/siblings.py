"""The metrics of the processes of one server, added up.

Each process serves its own metrics on a socket in a shared folder. The one that is asked for all of them asks every
other. A process continues the counters of the one that it replaces, so that no sum ever decreases.
"""

import asyncio
import contextlib
import json
import operator
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily, Metric

from sluice.kit.health import EngineState
from sluice.observe.scrape import PROCESSES, STATE

_SECONDS: Final = 2.0  # that a sibling has for its response
_ADDED_UP: Final = {"counter", "histogram", "summary"}
# Of these gauges the processes see the same thing, or the sum says nothing.
_LARGEST: Final = {
    "sluice_info",
    "python_info",
    "sluice_scanner_daemons",
    "sluice_scanner_signature_age_seconds",
    "sluice_spool_size_bytes",
    "sluice_worker_last_round_timestamp_seconds",
    "sluice_worker_oldest_due_seconds",
    STATE.name,
}
_SMALLEST: Final = {
    "process_max_fds",
    "process_start_time_seconds",
    "sluice_spool_free_bytes",
    "sluice_storage_free_bytes",
}

Labels = tuple[tuple[str, str], ...]
Read = Callable[[], Awaitable[Iterable[Metric]]]


@dataclass(slots=True)
class _Family:
    """One metric of one or of several processes: its values by sample name and labels."""

    name: str
    help: str
    type: str
    values: dict[tuple[str, Labels], float] = field(default_factory=dict)


class Siblings:
    """Process `number` of `count`, which share `folder`."""

    def __init__(self, folder: Path, number: int, count: int) -> None:
        self.folder = folder
        self.number = number
        self._count = count
        self._before = self._saved(number)  # counters of the processes that had this number

    @asynccontextmanager
    async def serving(self, read: Read) -> AsyncIterator[None]:
        """Serve the other processes what `read` returns, until the block ends."""

        async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                writer.write(_encode(await self._own(read)))
                await writer.drain()
            writer.close()

        path = self._socket(self.number)
        path.unlink(missing_ok=True)
        async with await asyncio.start_unix_server(serve, path):
            try:
                yield
            finally:
                await self._own(read)

    async def added_up(self, read: Read) -> Sequence[Metric]:
        """Return the metrics of all processes; of one that does not respond, the counters that it showed last."""
        others = [number for number in range(self._count) if number != self.number]
        responses = await asyncio.gather(self._own(read), *map(self._ask, others))
        found = [
            self._saved(number) if response is None else response
            for number, response in zip([self.number, *others], responses, strict=True)
        ]
        processes = GaugeMetricFamily(PROCESSES.name, PROCESSES.help, labels=PROCESSES.labels)
        answering = sum(response is not None for response in responses)
        processes.add_metric(("answering",), answering)
        processes.add_metric(("missing",), self._count - answering)
        return [processes, *map(_metric, _sum(found).values())]

    async def _own(self, read: Read) -> Mapping[str, _Family]:
        """Return the metrics of this process and of those before it with this number, and keep its counters."""
        own = _sum([self._before, {metric.name: _family(metric) for metric in await read()}])
        counters = {name: family for name, family in own.items() if family.type in _ADDED_UP}
        draft = self._counters(self.number).with_suffix(".new")
        # Written before the response: the process that replaces this one never reports less.
        draft.write_bytes(_encode(counters))
        draft.rename(self._counters(self.number))
        return own

    async def _ask(self, number: int) -> Mapping[str, _Family] | None:
        try:
            async with asyncio.timeout(_SECONDS):
                reader, writer = await asyncio.open_unix_connection(self._socket(number))
                try:
                    return _decode(await reader.read())
                finally:
                    writer.close()
        except (OSError, ValueError, TimeoutError):
            return None

    def _saved(self, number: int) -> Mapping[str, _Family]:
        try:
            return _decode(self._counters(number).read_bytes())
        except (OSError, ValueError):
            return {}

    def _socket(self, number: int) -> Path:
        return self.folder / f"{number}.sock"

    def _counters(self, number: int) -> Path:
        return self.folder / f"{number}.json"


def _family(metric: Metric) -> _Family:
    values = {(sample.name, tuple(sorted(sample.labels.items()))): float(sample.value) for sample in metric.samples}
    return _Family(metric.name, metric.documentation, metric.type, values)


def _metric(family: _Family) -> Metric:
    metric = Metric(family.name, family.help, family.type)
    for (name, labels), value in family.values.items():
        metric.add_sample(name, dict(labels), value)
    return metric


def _sum(processes: Iterable[Mapping[str, _Family]]) -> dict[str, _Family]:
    summed: dict[str, _Family] = {}
    for families in processes:
        for name, family in families.items():
            into = summed.setdefault(name, _Family(name, family.help, family.type))
            combined: Callable[[float, float], float] = (
                max if name in _LARGEST else min if name in _SMALLEST else operator.add
            )
            for key, value in family.values.items():
                into.values[key] = combined(into.values[key], value) if key in into.values else value
    if STATE.name in summed:
        _keep_worst(summed[STATE.name].values)
    return summed


def _keep_worst(states: dict[tuple[str, Labels], float]) -> None:
    """Leave each engine in one state only: the worst in which any process sees it."""
    order = [state.value for state in EngineState]
    worst: dict[tuple[str, str], str] = {}
    for (_name, labels), value in states.items():
        engine, state = _engine(labels)
        if value and (engine not in worst or order.index(state) > order.index(worst[engine])):
            worst[engine] = state
    for key in states:
        engine, state = _engine(key[1])
        states[key] = float(worst.get(engine) == state)


def _engine(labels: Labels) -> tuple[tuple[str, str], str]:
    named = dict(labels)
    return (named["kind"], named["engine"]), named["state"]


def _encode(families: Mapping[str, _Family]) -> bytes:
    return json.dumps(
        [
            [each.name, each.help, each.type, [[name, labels, value] for (name, labels), value in each.values.items()]]
            for each in families.values()
        ]
    ).encode()


def _decode(raw: bytes) -> dict[str, _Family]:
    """Return what `_encode` made. Raise `ValueError`."""
    found: list[Any] = json.loads(raw)
    return {
        name: _Family(
            name,
            text,
            kind,
            {(sample, tuple((key, value) for key, value in labels)): number for sample, labels, number in values},
        )
        for name, text, kind, values in found
    }
