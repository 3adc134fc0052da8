"""Measurement of one stage of an upload or one sweep: its seconds as a metric, and a span if traces are exported."""

import functools
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

from prometheus_client import Histogram

from sluice.observe.metrics import STAGE_SECONDS, WORKER_SECONDS
from sluice.observe.traces import span

P = ParamSpec("P")
T = TypeVar("T")
Async = Callable[P, Coroutine[Any, Any, T]]


def staged(stage: str) -> Callable[[Async[P, T]], Async[P, T]]:
    """Measure each call of a coroutine function as `stage` of an upload, however the call ends."""
    return _measured(STAGE_SECONDS.labels(stage), stage)


def swept(sweep: str) -> Callable[[Async[P, T]], Async[P, T]]:
    """Measure each call of a coroutine function as `sweep` of the worker, however the call ends."""
    return _measured(WORKER_SECONDS.labels(sweep), sweep)


def _measured(seconds: Histogram, name: str) -> Callable[[Async[P, T]], Async[P, T]]:
    def decorate(inner: Async[P, T]) -> Async[P, T]:
        @functools.wraps(inner)
        async def measured(*args: P.args, **kwargs: P.kwargs) -> T:
            start = perf_counter()
            try:
                with span(name):
                    return await inner(*args, **kwargs)
            finally:
                seconds.observe(perf_counter() - start)

        return measured

    return decorate
