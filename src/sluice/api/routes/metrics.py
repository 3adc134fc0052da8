"""`/metrics`: the metrics of this process, for Prometheus. `MetricsReaders` decides who may read them."""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fastapi import APIRouter, Request, Response

from sluice.errors import NotFound
from sluice.kit.health import EngineHealth
from sluice.observe import metrics, scrape

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class MetricsReaders:
    """Who may read `/metrics` and the details of `/health/ready`: those who know the token, and without one nobody.

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
    """What the endpoint needs: who may read, and the sources of metrics that are read on demand."""

    readers: MetricsReaders
    sources: Sequence[metrics.Source] = ()


@router.get("/metrics")
async def read_metrics(request: Request) -> Response:
    """Return the metrics; raise `NotFound` for those who may not read them."""
    desk: MetricsDesk = request.app.state.metrics
    if not desk.readers.admit(request.headers):
        raise NotFound
    healths: Sequence[EngineHealth] = await request.app.state.healths()
    body = metrics.page(*desk.sources, lambda: scrape.engine_families(healths))
    return Response(body, media_type=metrics.CONTENT_TYPE)
