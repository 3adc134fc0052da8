"""HAProxy and nginx for tests, each with its own file of `deploy/`, before servers on loopback."""

import os
import re
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
def running_haproxy(folder: Path, ports: Sequence[int], port: int, *, identity: Path | None = None) -> Iterator[None]:
    """Run one before three servers on `port` until the block ends. Skips the test where there is none.

    With an `identity` (a file with certificate and key, PEM) it speaks TLS, as it is meant to.
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
    """Run one before three servers on `port` until the block ends. Skips the test where there is none.

    With an `identity` (a file with certificate and key, PEM) it speaks TLS, as it is meant to; without, its lines on TLS are left out.
    """
    require("nginx", "nginx", apt="nginx-light")
    folder.mkdir(parents=True, exist_ok=True)
    words = (DEPLOY / "nginx.conf").read_text()
    for number, server in enumerate(ports, start=1):
        words = words.replace(f"127.0.0.1:800{number} ", f"127.0.0.1:{server} ")
    if identity is None:
        words = re.sub(r"^ +ssl_.*\n", "", words, flags=re.MULTILINE).replace("listen 443 ssl http2;", f"listen 127.0.0.1:{port};")
    else:
        words = words.replace("listen 443 ", f"listen 127.0.0.1:{port} ")
        words = re.sub(r"/etc/nginx/sluice\.(crt|key)", str(identity), words)
    (folder / "sluice.conf").write_text(words)
    (folder / "nginx.conf").write_text(_NGINX.format(folder=folder))
    command = ["nginx", "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]
    with daemon(command, folder / "nginx.log", ready=lambda: listens(port)):
        yield
