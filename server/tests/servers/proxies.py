"""HAProxy and nginx for tests, each with its configuration from `deploy/`, in front of servers on loopback."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.required import require
from tests.servers import daemon, listens

DEPLOY = Path(__file__).parents[3] / "deploy"
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
def running_haproxy(folder: Path, ports: Sequence[int], port: int, *, identity: Path | None = None) -> Iterator[None]:
    """Run one on `port` in front of three servers until the block ends. Skips the test when it is not installed.

    With an `identity` (a file with certificate and key, PEM) it serves TLS.
    """
    require("HAProxy", "haproxy", apt="haproxy")
    folder.mkdir(parents=True, exist_ok=True)
    servers = {f"SLUICE_SERVER_{number}": f"127.0.0.1:{server}" for number, server in enumerate(ports, start=1)}
    environment = {
        **os.environ,
        **servers,
        "SLUICE_BIND": f"127.0.0.1:{port}" + ("" if identity is None else f" ssl crt {identity} alpn h2,http/1.1"),
    }
    command = ["haproxy", "-db", "-f", str(DEPLOY / "haproxy.cfg")]
    with daemon(command, folder / "haproxy.log", ready=lambda: listens(port), environment=environment):
        yield


@contextmanager
def running_nginx(folder: Path, ports: Sequence[int], port: int, *, identity: Path | None = None) -> Iterator[None]:
    """Run one on `port` in front of three servers until the block ends. Skips the test when it is not installed.

    With an `identity` (a file with certificate and key, PEM) it serves TLS; without one, its TLS directives are
    removed.
    """
    require("nginx", "nginx", apt="nginx-light")
    folder.mkdir(parents=True, exist_ok=True)
    text = (DEPLOY / "nginx.conf").read_text()
    for number, server in enumerate(ports, start=1):
        text = text.replace(f"127.0.0.1:800{number} ", f"127.0.0.1:{server} ")
    if identity is None:
        text = re.sub(r"^ +ssl_.*\n", "", text, flags=re.MULTILINE).replace(
            "listen 443 ssl http2;", f"listen 127.0.0.1:{port};"
        )
    else:
        text = text.replace("listen 443 ", f"listen 127.0.0.1:{port} ")
        text = re.sub(r"/etc/nginx/sluice\.(crt|key)", str(identity), text)
    (folder / "sluice.conf").write_text(text)
    (folder / "nginx.conf").write_text(_NGINX.format(folder=folder))
    command = ["nginx", "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]
    with daemon(command, folder / "nginx.log", ready=lambda: listens(port)):
        yield
