"""Taking the address that a process answers on, and how it speaks HTTP there. What is answered is in `serving` and `watched`."""

import contextlib
import logging
import math
import socket
from functools import partial

import uvicorn

from sluice.api.pace import Patience
from sluice.api.wire import GuardedProtocol
from sluice.cli.outcomes import CommandRefused, Exit
from sluice.settings import Settings


def bound(host: str, port: int, setting: str) -> contextlib.closing[socket.socket]:
    """Take the address; nobody is listening yet. Raises `CommandRefused`, which names `setting`, the port's."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _name, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as fault:
        raise CommandRefused(
            f"Sluice cannot listen on {host}:{port}: {fault.strerror}. Choose another SLUICE_HOST or {setting}.", Exit.FAILED
        ) from fault
    return contextlib.closing(listener)


def server_config(app: object, settings: Settings) -> uvicorn.Config:
    """Answer how uvicorn serves `app`: strictly, and telling nobody what it is."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    patience = Patience(
        head_seconds=settings.head_seconds,
        idle_seconds=settings.body_idle_seconds,
        bytes_per_second=settings.body_bytes_per_second,
        connections=settings.connections,
    )
    return uvicorn.Config(
        app,  # type: ignore[arg-type]  # uvicorn's own description of an ASGI app is narrower than Starlette's
        http=partial(GuardedProtocol, patience=patience),  # type: ignore[arg-type]  # uvicorn calls it; that it is a class is nowhere needed
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_graceful_shutdown=math.ceil(settings.drain_seconds),
    )
