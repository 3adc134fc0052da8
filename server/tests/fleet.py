"""Three servers and two workers behind a proxy, as one service.

They share PostgreSQL, S3, Redis and the key files.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import httpx

from tests.api.responses import check_response
from tests.servers import free_port
from tests.servers.proxies import running_haproxy
from tests.servers.redis import RedisServer
from tests.service import Deployment, Service, environment_of, forked_process, unchecked_service

SERVERS = 3
WORKERS = 2
Proxy = Callable[[Path, Sequence[int], int], AbstractContextManager[None]]
"""Run a proxy with its files in a folder, in front of the servers at the given ports, on its own port."""


@dataclass(frozen=True)
class Fleet:
    """The servers behind the proxy, and `service`, which clients talk to."""

    service: Service
    servers: Sequence[Service]

    def checked_service(self) -> Service:
        """Return the service behind the proxy, with every response checked."""
        self.service.http.event_hooks = {"response": [check_response]}
        return self.service


@contextmanager
def running_fleet(
    deployment: Deployment,
    redis: RedisServer,
    *,
    proxy: Proxy = running_haproxy,
    settings: Mapping[str, str] | None = None,
    workers: int = WORKERS,
) -> Iterator[Fleet]:
    """Run the whole fleet until the block ends; the servers must then exit cleanly."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    shared = {
        **deployment.settings,
        "PUBLIC_URL": url,
        "TRUSTED_PROXIES": "127.0.0.1",
        "LIMITER": "redis",
        "REDIS_URL": redis.url,
        "WORKER_INSIDE": "false",
        "SANDBOX_WORKERS": "2",
    }
    deployment = replace(deployment, settings={**shared, **(settings or {})})
    with ExitStack() as stack:
        servers = [stack.enter_context(unchecked_service(deployment)) for _ in range(SERVERS)]
        for number in range(workers):
            environment = environment_of(deployment, free_port())
            log = deployment.folder / f"worker-{number}.log"
            stack.enter_context(forked_process("work", log, ready=partial(_works, log), environment=environment))
        stack.enter_context(proxy(deployment.folder / "proxy", [server.port for server in servers], port))
        # connections are spread over the servers, so none is kept alive
        limits = httpx.Limits(max_connections=200, max_keepalive_connections=0)
        client = stack.enter_context(httpx.Client(base_url=url, timeout=120, limits=limits))
        yield Fleet(replace(servers[0], url=url, port=port, http=client), servers)
        for server in servers:
            if server.process.poll() is None:
                server.stop()
            assert "Traceback" not in server.log.read_text(errors="replace"), server.log.read_text(errors="replace")[
                -4000:
            ]


def _works(log: Path) -> bool:
    return b"working" in log.read_bytes()
