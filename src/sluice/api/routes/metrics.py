"""`/metrics`: the numbers of this process, for Prometheus. Who may read them is decided by `MetricsReaders`; what they are, in `observe`."""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from fastapi import APIRouter, Request, Response

from sluice.errors import NotFound
from sluice.kit.health import EngineHealth
from sluice.observe import engine_numbers, metrics

router = APIRouter(include_in_schema=False)

_THROUGH_A_PROXY: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")


@dataclass(frozen=True, slots=True)
class MetricsReaders:
    """Who may read `/metrics`: whoever knows the token; without one, this machine itself, if at all (`from_here`)."""

    token: str | None = field(repr=False)
    from_here: bool

    def admit(self, address: str, headers: Mapping[str, str]) -> bool:
        """Answer whether a request from `address` with these headers (names in small letters) is answered."""
        if self.token is not None:
            sent = headers.get("authorization", "").encode("latin-1")
            return hmac.compare_digest(sent, f"Bearer {self.token}".encode())
        return self.from_here and _is_here(address) and not any(name in headers for name in _THROUGH_A_PROXY)


@dataclass(frozen=True, slots=True)
class MetricsDesk:
    """What the endpoint needs: who may read, and the sources of the numbers that are looked up when somebody asks."""

    readers: MetricsReaders
    sources: Sequence[metrics.Source] = ()


@router.get("/metrics")
async def read_metrics(request: Request) -> Response:
    """Answer the numbers; to whoever may not read them there is no such page."""
    desk: MetricsDesk = request.app.state.metrics
    address = request.client.host if request.client else ""
    if not desk.readers.admit(address, request.headers):
        raise NotFound
    healths: Sequence[EngineHealth] = await request.app.state.healths()
    body = metrics.page(*desk.sources, lambda: engine_numbers.families(healths))
    return Response(body, media_type=metrics.CONTENT_TYPE)


def _is_here(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
