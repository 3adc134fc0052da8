"""`sluice health`: ask the server of these settings on this machine whether it is ready; for containers."""

# ruff: noqa: PLC0415  (a health check runs every few seconds and loads as little as it can)

from typing import Annotated, Final

import typer

from sluice.cli.environment import task_settings
from sluice_client.cli import output
from sluice_client.cli.output import CommandRefused, Exit

_SECONDS: Final = 8.0


def health(
    *,
    worker: Annotated[bool, typer.Option("--worker", help="Ask the worker at SLUICE_WORKER_PORT instead.")] = False,
) -> int:
    """Ask the running server whether it is ready, and print `up`, `degraded` or `down`.

    Exits with 1 when it is down, with 6 when nothing responds. It asks at SLUICE_HOST and SLUICE_PORT on this machine;
    **sluice doctor** tries every engine by itself.
    """
    import http.client
    import json

    settings = task_settings()
    port = settings.worker_port if worker else settings.port
    if port is None:
        raise CommandRefused("The worker serves no health: set SLUICE_WORKER_PORT.", Exit.USAGE)
    # Clients cannot connect to a wildcard address.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104  (named, not bound)
    connection = http.client.HTTPConnection(host, port, timeout=_SECONDS)
    try:
        connection.request("GET", "/health/ready")
        status = json.loads(connection.getresponse().read())["status"]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as fault:
        raise CommandRefused(f"No service responds at {host}:{port}.", Exit.UNAVAILABLE) from fault
    finally:
        connection.close()
    output.line(str(status))
    return Exit.ERROR if status == "down" else Exit.DONE
