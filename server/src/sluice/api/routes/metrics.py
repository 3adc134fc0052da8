"""`/metrics`: metrics of this process and its siblings, for Prometheus. `MetricsReaders` decides who may read them."""

import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from fastapi import APIRouter, Request, Response

from sluice.errors import NotFound
from sluice.kit.health import EngineHealth
from sluice.observe import metrics, scrape
from sluice.observe.siblings import Siblings

Healths: TypeAlias = Callable[[], Awaitable[Sequence[EngineHealth]]]

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class MetricsReaders:
    """Decides who may read `/metrics` and the details of `/health/ready`: holders of the token; without one, no client.

    The address of a request shows nothing: a proxy on this machine may forward those of strangers, without a header
    that says so.
    """

    token: str | None = field(repr=False)

    def admit(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request with these headers (names in lower case) may read."""
        sent = headers.get("authorization", "").encode("latin-1")
        return self.token is not None and hmac.compare_digest(sent, f"Bearer {self.token}".encode())


@dataclass(frozen=True, slots=True)
class MetricsDesk:
    """The dependencies of the endpoint: who may read, the metrics that are read on demand, and the other processes."""

    readers: MetricsReaders
    sources: Sequence[metrics.Source] = ()
    siblings: Siblings | None = None

    async def read(self, healths: Healths) -> Sequence[metrics.Metric]:
        """Return the metrics of this process alone."""
        found = await healths()
        return list(metrics.collect(*self.sources, lambda: scrape.engine_families(found)))


@router.get("/metrics")
async def read_metrics(request: Request) -> Response:
    """Return the metrics; raise `NotFound` for those who may not read them."""
    desk: MetricsDesk = request.app.state.metrics
    if not desk.readers.admit(request.headers):
        raise NotFound
    read = partial(desk.read, request.app.state.healths)
    found = await (read() if desk.siblings is None else desk.siblings.added_up(read))
    return Response(metrics.page(found), media_type=metrics.CONTENT_TYPE)
