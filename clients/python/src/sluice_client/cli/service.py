"""A running service as commands reach it: over HTTP, with the credential of an option, the environment or a profile."""

# ruff: noqa: PLC0415  (httpx is loaded for a request, not for a command that makes none)

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

import typer

from sluice_client.cli import output
from sluice_client.cli.output import CommandRefused, Exit, exit_of
from sluice_client.cli.profiles import Target, profile_name, target_of

if TYPE_CHECKING:
    from sluice_client.cli.http import HttpClient, OpenResponse, Response

_SUCCESSES: Final = frozenset({200, 201, 202})
_OK: Final = 200
_NOT_FOUND: Final = 404
_UNAUTHENTICATED: Final = 401
_PAGE: Final = 100

SaveTo = Annotated[
    Path | None, typer.Option("--to", metavar="FILE", help="Where to write it. Without this: standard output.")
]
Url = Annotated[
    str | None,
    typer.Option("--url", help="Address of the service. Default: SLUICE_URL, the profile, http://127.0.0.1:8000."),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        help="API key or token. Default: SLUICE_API_KEY, the profile. Not on a shared machine: others see options.",
    ),
]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        callback=profile_name,
        metavar="NAME",
        help="Use this profile of `sluice login`, whatever the environment says. Default: SLUICE_PROFILE.",
    ),
]


_COMPLETION_SECONDS: Final = 2.0


def complete_context(context: typer.Context, incomplete: str) -> Sequence[str]:
    """Return the keys of contexts that begin with a text, for a shell: none if the service does not respond at once."""
    address = {name: context.params.get(name) for name in signature(_options).parameters}
    try:
        with opened(_options(**address)) as service:
            service.http.library.timeout = _COMPLETION_SECONDS
            found = service.data("GET", "/api/v1/contexts", query={"page_size": _PAGE})
    except (CommandRefused, typer.BadParameter):
        return ()
    return [each["context_key"] for each in found if each["context_key"].startswith(incomplete)]


class Service:
    """A service and the credential of a command."""

    def __init__(self, target: Target, http: "HttpClient") -> None:
        self.url = target.url
        self.credential = target.credential
        self.http = http

    def envelope(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> dict[str, Any]:
        """Return the envelope of a success; raise `CommandRefused` for anything else."""
        return self.success(self.http.request(method, path, query=query, body=body))

    def data(self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """Return `data` of a success; raise `CommandRefused` for anything else."""
        return self.envelope(method, path, query=query, body=body)["data"]

    def pages(self, path: str, query: Mapping[str, Any], limit: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield the items of a list in pages, at most `limit`, and say on standard error what the service warns of."""
        left, page, pages = limit, 1, 1
        warnings: list[str] = []
        while page <= pages and left != 0:
            response = self.http.request("GET", path, query={**query, "page": page, "page_size": _PAGE})
            envelope = self.success(response)
            warnings = response.headers.get_list("Warning")
            items = envelope["data"] if left is None else envelope["data"][:left]
            yield from items
            left = None if left is None else left - len(items)
            page, pages = page + 1, envelope["pagination"]["total_pages"]
        for warning in warnings:
            output.complain(warning.partition('"')[2].rstrip('"') + ".")

    def success(self, response: "Response") -> dict[str, Any]:
        """Return the envelope of a success; raise `CommandRefused` for any other response."""
        envelope = envelope_of(response)
        if envelope is None:
            raise CommandRefused(
                f"What responds at {self.url} is no Sluice service (status {response.status}).",
                exit_of(response.status),
            )
        if response.status in _SUCCESSES:
            return envelope
        error_code = response.headers.get("Sluice-Error-Code")
        sentence = f"{message_of(envelope, response.headers.get('Retry-After'))}."
        if response.status == _UNAUTHENTICATED:
            sentence = "The service does not accept this API key."
        raise CommandRefused(sentence, exit_of(response.status, error_code), error_code=error_code)

    def require_context(self, context: str) -> None:
        """Request the context before any file is sent: a wrong key or name is reported once, not for every file."""
        response = self.http.request("GET", f"/api/v1/contexts/{segment(context)}")
        if response.status == _NOT_FOUND and envelope_of(response) is not None:
            raise CommandRefused(f"The service has no context {context}.", Exit.NOT_FOUND, error_code="not_found")
        self.success(response)

    def download(self, path: str, to: Path | None) -> None:
        """Write the body of a response to a file, or to standard output; raise `CommandRefused` for a failure."""
        with self.http.stream("GET", path) as response:
            self.save(response, to)

    def save(self, response: "OpenResponse", to: Path | None) -> None:
        """Write the body of an open response. The file is there once all of it was written."""
        if response.status != _OK:
            self.success(response.read())
            raise CommandRefused(f"{self.url} responded with status {response.status}.")
        if to is None:
            for piece in response.pieces():
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return
        part = to.with_name(f"{to.name}.part")
        try:
            with part.open("xb") as file:
                for piece in response.pieces():
                    file.write(piece)
            part.replace(to)
        except FileExistsError as fault:
            raise CommandRefused(f"{part} is there already: another download writes it, or was killed.") from fault
        except OSError as fault:
            part.unlink(missing_ok=True)
            raise CommandRefused(f"{to} cannot be written: {fault.strerror}.") from fault
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        output.say(f"Wrote {to}.")


def download_link(link: str, to: Path | None) -> None:
    """Download what a signed link leads to. No API key is sent: the link is a credential, and may lead away."""
    parts = urlsplit(link)
    with opened(Target(f"{parts.scheme}://{parts.netloc}", ""), needs_key=False) as place:
        place.download(urlunsplit(("", "", parts.path, parts.query, "")), to)


@contextmanager
def opened(target: Target, *, needs_key: bool = True) -> Iterator[Service]:
    """Yield a service; turn failures of the connection into `CommandRefused`."""
    from sluice_client.cli.http import ConnectionBroken, ConnectionRefused, HttpClient, UnknownHost, UnusableAddress

    if needs_key and not target.credential:
        raise CommandRefused(
            "An API key is needed: keep one with `sluice login`, or put it into SLUICE_API_KEY.", Exit.CREDENTIALS
        )
    headers = {"Accept": "application/json", "Authorization": f"Bearer {target.credential}"} if needs_key else {}
    http = None
    try:
        http = HttpClient(target.url, headers)
        yield Service(target, http)
    except UnknownHost as fault:
        host = urlsplit(target.url).hostname
        raise CommandRefused(
            f"The host name {host} cannot be resolved: is the address {target.url} right?", Exit.UNAVAILABLE
        ) from fault
    except ConnectionRefused as fault:
        raise CommandRefused(
            f"No service responds at {target.url}: start one with `sluice serve`, or give its address with --url.",
            Exit.UNAVAILABLE,
        ) from fault
    except UnusableAddress as fault:
        raise CommandRefused(f"{target.url} or the API key cannot be sent: {fault}.", Exit.USAGE) from fault
    except ConnectionBroken as fault:
        raise CommandRefused(f"The connection to {target.url} broke: {fault}.", Exit.UNAVAILABLE) from fault
    finally:
        if http is not None:
            http.close()


def _options(*, url: Url = None, api_key: ApiKey = None, profile: ProfileOption = None) -> Target:
    return target_of(url, api_key, profile)


def on_service(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name a service, behind its own, and the service as its parameter `service`."""
    return _on_service(command, "")


def on_service_unless(option: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Do the same, but with this option the command works on the database of this machine: `service` is None."""
    return lambda command: _on_service(command, option)


def _on_service(command: Callable[..., Any], unless: str) -> Callable[..., Any]:
    options = signature(_options, eval_str=True).parameters
    own = signature(command, eval_str=True).parameters
    names = [*(one for one in own.values() if one.name != "service"), *options.values()]

    def run(**given: Any) -> Any:
        address = {name: given.pop(name) for name in options}
        if unless and given[unless]:
            return command(service=None, **given)
        with opened(_options(**address)) as service:
            return command(service=service, **given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {one.name: one.annotation for one in names}
    vars(run)["__signature__"] = Signature(names)
    return run


def segment(text: str) -> str:
    """Return a text as one segment of a path."""
    return quote(text, safe="")


def envelope_of(response: "Response") -> dict[str, Any] | None:
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


def given(**values: Any) -> dict[str, Any]:
    """Return those values that were given."""
    return {name: value for name, value in values.items() if value is not None}


def body_of(named: Mapping[str, Any], fields: Iterable[str], body_file: Path | None) -> dict[str, Any]:
    """Return the body of a request: that of a file, then `--field NAME=VALUE`, then the options that were given."""
    import json  # few commands take one

    body: dict[str, Any] = {}
    if body_file is not None:
        try:
            text = sys.stdin.read() if str(body_file) == "-" else body_file.read_text(encoding="utf-8")
            body = json.loads(text)
        except OSError as fault:
            raise CommandRefused(f"{body_file} cannot be read: {fault.strerror}.") from fault
        except json.JSONDecodeError as fault:
            raise CommandRefused(f"{body_file}:{fault.lineno}: {fault.msg}.", Exit.USAGE) from fault
        except ValueError as fault:
            raise CommandRefused(f"{body_file} is not UTF-8.", Exit.USAGE) from fault
        if not isinstance(body, dict):
            raise CommandRefused(f"{body_file}:1: expected a JSON object.", Exit.USAGE)
    for text in fields:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter("expected NAME=VALUE", param_hint="--field")
        try:
            body[name] = json.loads(value)
        except ValueError:
            body[name] = value
    return body | dict(named)


Fields = Annotated[
    list[str],
    typer.Option(
        "--field", metavar="NAME=VALUE", help="Any other field of the API, its value as JSON or text; again for more."
    ),
]
BodyFile = Annotated[
    Path | None, typer.Option("--body", metavar="FILE", help="A JSON object with the fields; - reads standard input.")
]
