"""A temporary Redis server for tests, with its data in memory only."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.required import require
from tests.servers import daemon, free_port, listens


@dataclass(frozen=True)
class RedisServer:
    """A running server."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        """Its address in the form of the setting `SLUICE_REDIS_URL`."""
        return f"redis://127.0.0.1:{self.port}/0"


@contextmanager
def running_redis(folder: Path, *, port: int | None = None, options: tuple[str, ...] = ()) -> Iterator[RedisServer]:
    """Run a server with its log in `folder` until the block ends. Skips the test when Redis is not installed."""
    require("Redis", "redis-server", apt="redis-server")
    folder.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with daemon(
        [*command, "--dir", str(folder), *options], folder / "redis.log", ready=lambda: listens(port)
    ) as process:
        yield RedisServer(port, process.pid)
