"""`sluice events`: follow the events of a running service, or forward them to a receiver that is being written."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for it)

import base64
import json
import os
import time
from collections.abc import Iterator
from typing import Annotated, Any, Final
from urllib.parse import urlsplit, urlunsplit

import typer

from sluice_client.cli import output
from sluice_client.cli.http import ConnectionBroken, ConnectionRefused, HttpClient, UnusableAddress
from sluice_client.cli.options import Json, group_of
from sluice_client.cli.service import Service, on_service

group = group_of("Follow the events of a running service. The API key needs the scope `admin`.")

_PATH: Final = "/api/v1/events"
_WAIT_SECONDS: Final = 20
_PAGE: Final = 500
Types = Annotated[
    list[str] | None, typer.Option("--type", metavar="TYPE", help="Only events of this type; give it again for more.")
]
After = Annotated[
    str | None,
    typer.Option("--after", metavar="ID", help="Begin after this event; `oldest`: with the oldest. Default: now."),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Stop after this many events. Default: never.")]


@group.command("list")
@on_service
def list_events(
    *,
    type: Types = None,  # noqa: A002  (the option's name)
    after: Annotated[str | None, typer.Option("--after", metavar="ID", help="Only events behind this one.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="Most events to print.")] = 100,
    service: Service,
    json: Json = False,
) -> None:
    """List events, oldest first. With --json: one line of JSON each, as webhooks send it."""
    output.listing(
        _kept(service, type or [], after, limit),
        ("WHEN", "SEQUENCE", "TYPE", "ABOUT", "EVENT"),
        lambda one: (one["timestamp"], str(one["sequence"]), one["type"], _subject(one), one["id"]),
        json=json,
    )


@group.command()
@on_service
def tail(
    *,
    type: Types = None,  # noqa: A002  (the option's name)
    after: After = None,
    limit: Limit = None,
    service: Service,
    json: Json = False,
) -> None:
    """Print events as they happen, until Ctrl-C. With --json: one line of JSON each, as webhooks send it."""
    for event in _follow(service, type or [], after, limit):
        if json:
            output.as_json(event)
        else:
            output.line(f"{event['timestamp']}  {event['sequence']:>8}  {event['type']:<24}{_subject(event)}")


@group.command()
@on_service
def forward(
    *,
    to: Annotated[str, typer.Option("--to", metavar="URL", help="The receiver, such as http://localhost:3000/hook.")],
    secret: Annotated[
        str | None,
        typer.Option("--secret", envvar="SLUICE_WEBHOOK_SECRET", help="Sign with this: whsec_… Default: a new one."),
    ] = None,
    type: Types = None,  # noqa: A002  (the option's name)
    after: After = None,
    limit: Limit = None,
    service: Service,
) -> None:
    """Send events to a receiver on this machine as they happen, signed as webhooks are, until Ctrl-C.

    For those who write a receiver: nothing is registered, and nothing is sent again.
    """
    import binascii

    from sluice_client.verify import sign_webhook

    key = secret or "whsec_" + base64.b64encode(os.urandom(32)).decode()
    try:
        sign_webhook(b"", key, message_id="evt", timestamp=0)
    except (binascii.Error, ValueError) as fault:
        raise typer.BadParameter("expected whsec_ and base64", param_hint="--secret") from fault
    if secret is None:
        output.line(f"Signing with {key}")
    place = urlsplit(to)
    target = urlunsplit(("", "", place.path or "/", place.query, ""))
    try:
        receiver = HttpClient(f"{place.scheme}://{place.netloc}", {})
    except UnusableAddress as fault:
        raise typer.BadParameter(str(fault), param_hint="--to") from fault
    for event in _follow(service, type or [], after, limit):
        body = json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()
        headers = sign_webhook(body, key, message_id=event["id"], timestamp=int(time.time()))
        try:
            response = receiver.request(
                "POST",
                target,
                content=(body,),
                length=len(body),
                headers={**headers, "Content-Type": "application/json"},
            )
            result = str(response.status)
        except (ConnectionRefused, ConnectionBroken, UnusableAddress) as fault:
            result = str(fault)
        output.line(f"{event['id']}  {event['type']:<24}{result}")


def _follow(service: Service, types: list[str], after: str | None, limit: int | None) -> Iterator[dict[str, Any]]:
    """Yield events behind `after` (None: from now on), and wait for more."""
    if after is None:
        after = _last(service)
    position = None if after == "oldest" else after
    seen = 0
    while True:
        query = {"limit": _PAGE, "wait": _WAIT_SECONDS, "type": types, "after": position}
        events = service.data("GET", _PATH, query=query)
        for event in events:
            yield event
            seen += 1
            if seen == limit:
                return
        if events:
            position = events[-1]["id"]


def _kept(service: Service, types: list[str], after: str | None, limit: int) -> Iterator[dict[str, Any]]:
    """Yield the events that the service has, at most `limit`."""
    position, left = after, limit
    while left:
        query = {"limit": min(left, _PAGE), "type": types, "after": position}
        events = service.data("GET", _PATH, query=query)
        if not events:
            return
        yield from events
        position, left = events[-1]["id"], left - len(events)


def _last(service: Service) -> str:
    """Return the id of the newest event, `oldest` if there is none."""
    last = None
    while events := service.data("GET", _PATH, query={"limit": _PAGE, "after": last}):
        last = events[-1]["id"]
    return last or "oldest"


def _subject(event: dict[str, Any]) -> str:
    data = event["data"]
    names = (
        "original_filename",
        "context_key",
        "api_key_id",
        "token_id",
        "config_id",
        "endpoint_id",
        "month",
        "reason",
    )
    return " ".join(str(data[name]) for name in names if data.get(name))
