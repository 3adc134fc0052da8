"""Three PostgreSQL nodes under Patroni with one etcd, for failover tests.

Replication is synchronous, so no commit is lost with a primary.
"""

import contextlib
import json
import os
import pwd
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

import httpx

from tests.required import require
from tests.servers import daemon, free_port, run
from tests.servers.postgres import programs_of

NODES = 3
LEASE_SECONDS = 20
"""How long Patroni trusts a silent primary; the smallest value that it accepts."""


@dataclass(frozen=True)
class Node:
    """One PostgreSQL and the Patroni that manages it, with its REST port."""

    name: str
    port: int
    rest: int
    data: Path
    patroni: Popen[bytes]

    def kill(self) -> None:
        """Kill both at once, like a power failure."""
        postmaster = int((self.data / "postmaster.pid").read_text().split()[0])
        self.patroni.kill()
        os.kill(postmaster, signal.SIGKILL)


@dataclass(frozen=True)
class Cluster:
    """The running nodes; `start` runs one by its name and its ports."""

    nodes: list[Node]
    start: Callable[[str, int, int], Node]

    def restart(self, node: Node) -> None:
        """Start a node that was killed: it joins as a standby."""
        self.nodes[self.nodes.index(node)] = self.start(node.name, node.port, node.rest)

    def url(self, database: str) -> str:
        """Return a URL with all nodes that connects to the current primary."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"postgresql://postgres@{hosts}/{database}?target_session_attrs=read-write"

    def members(self) -> list[dict[str, Any]]:
        """Return the cluster's members as the first responding node reports them."""
        for node in self.nodes:
            with contextlib.suppress(httpx.TransportError, json.JSONDecodeError):
                members: list[dict[str, Any]] = httpx.get(f"http://127.0.0.1:{node.rest}/cluster", timeout=3).json()[
                    "members"
                ]
                return members
        return []

    def primary(self) -> Node | None:
        """Return the node that accepts writes, or None while there is none."""
        leading = {
            member["name"] for member in self.members() if member["role"] == "leader" and member["state"] == "running"
        }
        return next((node for node in self.nodes if node.name in leading), None)

    def is_whole(self) -> bool:
        """Return whether there are a primary, a synchronous standby and a replica."""
        members = self.members()
        roles = sorted(member["role"] for member in members if member["state"] in {"running", "streaming"})
        return roles == ["leader", "replica", "sync_standby"]


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """Run the cluster until the block ends; 10 s to start. Skips the test when Patroni or etcd is not installed."""
    require("Patroni", "patroni", "etcd", apt="patroni etcd-server python3-psycopg2 postgresql")
    folder.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="sluice-test-patroni-"))  # the user `postgres` cannot enter pytest's folders
    as_user = "postgres" if os.geteuid() == 0 else None
    if as_user:
        os.chown(home, pwd.getpwnam(as_user).pw_uid, -1)
    try:
        with ExitStack() as stack:
            etcd = stack.enter_context(_running_etcd(home, folder, as_user))

            def start(name: str, port: int, rest: int) -> Node:
                return stack.enter_context(_running_node(name, (port, rest), etcd, (home, folder), as_user))

            nodes = [start(f"n{number}", free_port(), free_port()) for number in range(1, NODES + 1)]
            yield Cluster(nodes, start)
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _running_etcd(home: Path, folder: Path, as_user: str | None) -> Iterator[int]:
    port, peer = free_port(), free_port()
    options = {
        "name": "e",
        "data-dir": f"{home}/etcd",
        "listen-client-urls": f"http://127.0.0.1:{port}",
        "advertise-client-urls": f"http://127.0.0.1:{port}",
        "listen-peer-urls": f"http://127.0.0.1:{peer}",
        "initial-advertise-peer-urls": f"http://127.0.0.1:{peer}",
        "initial-cluster": f"e=http://127.0.0.1:{peer}",
        "log-level": "error",
    }
    command = ["etcd", *(part for name, value in options.items() for part in (f"--{name}", value))]
    with daemon(
        command, folder / "etcd.log", ready=lambda: _is_ready(f"http://127.0.0.1:{port}/health"), as_user=as_user
    ):
        yield port


@contextmanager
def _running_node(
    name: str, ports: tuple[int, int], etcd: int, folders: tuple[Path, Path], as_user: str | None
) -> Iterator[Node]:
    (port, rest), (home, folder) = ports, folders
    data = home / name
    config = home / f"{name}.json"
    config.write_text(json.dumps(_config(name, etcd, port, rest, home)))  # JSON is YAML
    if as_user:
        os.chown(config, pwd.getpwnam(as_user).pw_uid, -1)
    ready = f"http://127.0.0.1:{rest}/health"
    with daemon(
        ["patroni", str(config)], folder / f"{name}.log", ready=lambda: _is_ready(ready), as_user=as_user
    ) as patroni:
        try:
            yield Node(name, port, rest, data, patroni)
        finally:
            _stop(data, as_user)


def _config(name: str, etcd: int, port: int, rest: int, home: Path) -> dict[str, Any]:
    shared = {
        "ttl": LEASE_SECONDS,
        "loop_wait": 1,
        "retry_timeout": 3,
        "synchronous_mode": True,
        "postgresql": {"use_pg_rewind": True, "parameters": {"max_connections": 100, "fsync": "off"}},
    }
    login = {"username": "postgres"}
    return {
        "scope": "sluice",
        "name": name,
        "restapi": {"listen": f"127.0.0.1:{rest}", "connect_address": f"127.0.0.1:{rest}"},
        "etcd3": {"host": f"127.0.0.1:{etcd}"},
        "bootstrap": {
            "dcs": shared,
            "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "no-sync", {"auth": "trust"}],
            "pg_hba": [
                "host all all 127.0.0.1/32 trust",
                "host replication all 127.0.0.1/32 trust",
                "local all all trust",
            ],
        },
        "postgresql": {
            "listen": f"127.0.0.1:{port}",
            "connect_address": f"127.0.0.1:{port}",
            "data_dir": str(home / name),
            "bin_dir": str(programs_of()),
            "pgpass": str(home / f"pgpass-{name}"),
            "authentication": {"superuser": login, "replication": login, "rewind": login},
            "parameters": {"unix_socket_directories": str(home)},
        },
    }


def _stop(data: Path, as_user: str | None) -> None:
    """Stop PostgreSQL when its Patroni was killed or failed to."""
    with contextlib.suppress(OSError, RuntimeError):
        drop = ["setpriv", f"--reuid={as_user}", f"--regid={as_user}", "--init-groups"] if as_user else []
        if (data / "postmaster.pid").exists():
            run([*drop, str(programs_of() / "pg_ctl"), "stop", "-D", str(data), "-m", "immediate"])


def _is_ready(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(url, timeout=3).status_code == httpx.codes.OK
    return False
