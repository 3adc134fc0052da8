"""Three servers and two workers behind a proxy, as one service: PostgreSQL, S3 and Redis are all that they share but the key files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import httpx

from tests.api.answers import check_edges
from tests.gate import Place, Service, environment_of, forked, unguarded_service
from tests.servers import free_port
from tests.servers.proxies import running_haproxy
from tests.servers.redis import RedisServer

SERVERS = 3
WORKERS = 2
Proxy = Callable[[Path, Sequence[int], int], AbstractContextManager[None]]
"""Runs a proxy with files in a folder, before servers at those ports, on a port of its own."""


@dataclass(frozen=True)
class Fleet:
    """The servers behind the proxy, and `service`, which is what clients reach."""

    service: Service
    servers: Sequence[Service]

    def as_one(self) -> Service:
        """Answer what clients reach, each answer held to what all answers have in common: no server may be away, and none busy for long."""
        self.service.http.event_hooks = {"response": [check_edges]}
        return self.service


@contextmanager
def running_fleet(
    place: Place, redis: RedisServer, *, proxy: Proxy = running_haproxy, settings: Mapping[str, str] | None = None
) -> Iterator[Fleet]:
    """Run all of it until the block ends; the servers must then end well."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    shared = {
        **place.settings,
        "PUBLIC_URL": url,
        "TRUSTED_PROXIES": "127.0.0.1",
        "LIMITER": "redis",
        "REDIS_URL": redis.url,
        "WORKER_INSIDE": "false",
        "SANDBOX_WORKERS": "2",
    }
    place = replace(place, settings={**shared, **(settings or {})})
    with ExitStack() as stack:
        servers = [stack.enter_context(unguarded_service(place)) for _ in range(SERVERS)]
        for number in range(WORKERS):
            environment = environment_of(place, free_port())
            log = place.folder / f"worker-{number}.log"
            stack.enter_context(forked("work", log, ready=partial(_works, log), environment=environment))
        stack.enter_context(proxy(place.folder / "proxy", [server.port for server in servers], port))
        # connections are spread over the servers, so none is kept
        limits = httpx.Limits(max_connections=200, max_keepalive_connections=0)
        client = stack.enter_context(httpx.Client(base_url=url, timeout=120, limits=limits))
        yield Fleet(replace(servers[0], url=url, port=port, http=client), servers)
        for server in servers:
            if server.process.poll() is None:
                server.stop()
            assert "Traceback" not in server.log.read_text(errors="replace"), server.log.read_text(errors="replace")[-4000:]


def _works(log: Path) -> bool:
    return b"working" in log.read_bytes()
