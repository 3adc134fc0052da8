"""A running service as commands reach it: over HTTP, with an API key."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the HTTP client)

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sluice.cli import output
from sluice.cli.output import CommandRefused, Exit

if TYPE_CHECKING:
    import httpx

DEFAULT_URL: Final = "http://127.0.0.1:8000"
SaveTo = Annotated[
    Path | None, typer.Option("--to", metavar="FILE", help="Where to write it. Without this: standard output.")
]
Url = Annotated[str, typer.Option("--url", envvar="SLUICE_URL", help="Address of the service.")]
ApiKey = Annotated[
    str,
    typer.Option(
        "--api-key", envvar="SLUICE_API_KEY", help="API key or token. Better in the variable: other users see options."
    ),
]


@contextmanager
def service_client(url: str, credential: str) -> "Iterator[httpx.Client]":
    """Yield a client of the service; turn failures of the connection into `CommandRefused`."""
    import httpx

    if not credential:
        raise CommandRefused("An API key is needed: put it into SLUICE_API_KEY, or give it with --api-key.", Exit.USAGE)

    headers = {"Authorization": f"Bearer {credential}"}
    # A large file is checked and scanned after its last byte: the response may take minutes.
    timeout = httpx.Timeout(connect=10.0, read=600.0, write=60.0, pool=10.0)
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=timeout) as client:
            yield client
    except (httpx.ConnectError, httpx.ConnectTimeout) as fault:
        raise CommandRefused(
            f"No service answers at {url}: start one with `sluice serve`, or give its address with --url.", Exit.FAILED
        ) from fault
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError) as fault:
        raise CommandRefused(f"{url} or the API key cannot be sent: {fault}.", Exit.USAGE) from fault
    except httpx.TransportError as fault:
        raise CommandRefused(
            f"The connection to {url} broke: {str(fault) or type(fault).__name__}.", Exit.FAILED
        ) from fault


def save(response: "httpx.Response", url: str, to: Path | None) -> None:
    """Write the body of an open answer to a file, or to standard output; raise `CommandRefused` for a failure.

    The file is there once all of it was written.
    """
    if response.status_code != HTTPStatus.OK:
        response.read()
        read_answer(response, url)
        raise CommandRefused(f"{url} answered with status {response.status_code}.", Exit.FAILED)
    if to is None:
        for chunk in response.iter_bytes():
            sys.stdout.buffer.write(chunk)
        return
    part = to.with_name(f"{to.name}.part")
    try:
        with part.open("xb") as file:
            for chunk in response.iter_bytes():
                file.write(chunk)
        part.replace(to)
    except FileExistsError as fault:
        raise CommandRefused(f"{part} is there already: another download writes it, or was killed.") from fault
    except OSError as fault:
        part.unlink(missing_ok=True)
        raise CommandRefused(f"{to} cannot be written: {fault.strerror}.", Exit.FAILED) from fault
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    output.line(f"Wrote {to}.")


def require_context(client: "httpx.Client", url: str, context: str) -> None:
    """Request the context before any file is sent: a wrong key or name is reported once, not for every file."""
    from urllib.parse import quote

    response = client.get(f"/api/v1/contexts/{quote(context, safe='')}")
    envelope = envelope_of(response)
    if response.status_code == HTTPStatus.NOT_FOUND and envelope is not None:
        raise CommandRefused(f"The service has no context {context}.")
    if response.status_code == HTTPStatus.UNAUTHORIZED:
        raise CommandRefused("The service does not accept this API key.")
    if envelope is None:
        raise CommandRefused(
            f"What answers at {url} is no Sluice service (status {response.status_code}).", Exit.FAILED
        )
    if response.status_code != HTTPStatus.OK:
        raise CommandRefused(message_of(envelope), Exit.FAILED)


def envelope_of(response: "httpx.Response") -> dict[str, Any] | None:
    """Return the envelope of a Sluice service's response, None for any other response."""
    try:
        body = response.json()
    except ValueError:
        return None
    return body if isinstance(body, dict) and body.get("status") in {"SUCCESS", "ERROR"} else None


def message_of(envelope: dict[str, Any], retry_after: str | None = None) -> str:
    """Return what an envelope says, in one line."""
    errors = f" ({'; '.join(envelope['errors'])})" if envelope.get("errors") else ""
    retry = f"; try again in {retry_after} s" if retry_after else ""
    return f"{envelope['message']}{errors}{retry}"


def read_answer(response: "httpx.Response", url: str) -> dict[str, Any]:
    """Return the envelope of a success; raise `CommandRefused` for anything else."""
    envelope = envelope_of(response)
    if envelope is None:
        raise CommandRefused(
            f"What answers at {url} is no Sluice service (status {response.status_code}).", Exit.FAILED
        )
    match response.status_code:
        case HTTPStatus.OK | HTTPStatus.CREATED | HTTPStatus.ACCEPTED:
            return envelope
        case HTTPStatus.UNAUTHORIZED:
            raise CommandRefused("The service does not accept this API key.")
        case HTTPStatus.UNPROCESSABLE_ENTITY:
            raise CommandRefused(f"{message_of(envelope)}.", Exit.USAGE)
        case status:
            code = Exit.FAILED if status >= HTTPStatus.INTERNAL_SERVER_ERROR else Exit.REFUSED
            raise CommandRefused(f"{message_of(envelope)}.", code)
