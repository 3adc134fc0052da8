"""HAProxy and nginx for tests, each with its own file of `deploy/`, before servers on loopback."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.servers import daemon, listens, require

DEPLOY = Path(__file__).parents[2] / "deploy"
_NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/sluice.conf;
}}
"""


@contextmanager
def running_haproxy(folder: Path, ports: Sequence[int], port: int) -> Iterator[None]:
    """Run one before three servers on `port` until the block ends. Skips the test where there is none."""
    require("HAProxy", "haproxy", apt="haproxy")
    folder.mkdir(parents=True, exist_ok=True)
    servers = {f"SLUICE_SERVER_{number}": f"127.0.0.1:{server}" for number, server in enumerate(ports, start=1)}
    environment = {**os.environ, **servers, "SLUICE_BIND": f"127.0.0.1:{port}"}
    command = ["haproxy", "-db", "-f", str(DEPLOY / "haproxy.cfg")]
    with daemon(command, folder / "haproxy.log", ready=lambda: listens(port), environment=environment):
        yield


@contextmanager
def running_nginx(folder: Path, ports: Sequence[int], port: int) -> Iterator[None]:
    """Run one before three servers on `port` until the block ends. Skips the test where there is none."""
    require("nginx", "nginx", apt="nginx-light")
    folder.mkdir(parents=True, exist_ok=True)
    words = (DEPLOY / "nginx.conf").read_text()
    for number, server in enumerate(ports, start=1):
        words = words.replace(f"127.0.0.1:800{number} ", f"127.0.0.1:{server} ")
    (folder / "sluice.conf").write_text(words.replace("listen 127.0.0.1:8080;", f"listen 127.0.0.1:{port};"))
    (folder / "nginx.conf").write_text(_NGINX.format(folder=folder))
    command = ["nginx", "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]
    with daemon(command, folder / "nginx.log", ready=lambda: listens(port)):
        yield
