"""Three servers and two workers behind a proxy, as one service: PostgreSQL, S3 and Redis are all that they share but the key files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import httpx

from tests.gate import Place, Service, environment_of, forked, unguarded_service
from tests.servers import free_port
from tests.servers.proxies import running_haproxy
from tests.servers.redis import RedisServer

SERVERS = 3
WORKERS = 2
Proxy = Callable[[Path, Sequence[int]], AbstractContextManager[int]]


@dataclass(frozen=True)
class Fleet:
    """The servers behind the proxy, and `service`, which is what clients reach."""

    service: Service
    servers: Sequence[Service]


@contextmanager
def running_fleet(
    place: Place, redis: RedisServer, *, proxy: Proxy = running_haproxy, settings: Mapping[str, str] | None = None
) -> Iterator[Fleet]:
    """Run all of it until the block ends; the servers must then end well."""
    shared = {**place.settings, "LIMITER": "redis", "REDIS_URL": redis.url, "WORKER_INSIDE": "false", "SANDBOX_WORKERS": "2"}
    place = replace(place, settings={**shared, **(settings or {})})
    with ExitStack() as stack:
        servers = [stack.enter_context(unguarded_service(place)) for _ in range(SERVERS)]
        for number in range(WORKERS):
            environment = environment_of(place, free_port())
            log = place.folder / f"worker-{number}.log"
            stack.enter_context(forked("work", log, ready=partial(_works, log), environment=environment))
        port = stack.enter_context(proxy(place.folder / "proxy", [server.port for server in servers]))
        url = f"http://127.0.0.1:{port}"
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
