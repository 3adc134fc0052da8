"""A real Prometheus on loopback that scrapes its targets every half second."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.required import require
from tests.servers import daemon, free_port, listens


@dataclass(frozen=True)
class Prometheus:
    """A running server."""

    url: str

    def ask(self, path: str, **query: str) -> Any:
        """Return the data of a successful request to its HTTP API."""
        response = httpx.get(f"{self.url}/api/v1/{path}", params=query, timeout=30)
        body = response.json()
        assert body["status"] == "success", f"{query}: {body}"
        return body["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series that an expression yields now."""
        result: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return result


@contextmanager
def running_prometheus(folder: Path, shipped: Path, targets: Mapping[str, str], token: str) -> Iterator[Prometheus]:
    """Run it with a copy of the configuration in `shipped`, its example targets replaced, until the block ends."""
    require("Prometheus", "prometheus", "promtool", apt="prometheus")
    shutil.copytree(shipped, folder / "conf")
    config = folder / "conf" / "prometheus.yml"
    text = config.read_text().replace("_interval: 15s", "_interval: 500ms")
    for example, target in targets.items():
        assert example in text, example
        text = text.replace(example, target)
    config.write_text(text)
    (folder / "conf" / "sluice.token").write_text(token)
    port = free_port()
    address = f"127.0.0.1:{port}"
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    with daemon(command, folder / "prometheus.log", ready=lambda: listens(port) and _is_ready(address)):
        yield Prometheus(f"http://{address}")


def _is_ready(address: str) -> bool:
    try:
        return httpx.get(f"http://{address}/-/ready", timeout=5).status_code == 200
    except httpx.TransportError:
        return False
