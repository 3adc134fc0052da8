"""`sluice events`: follow the events of a running service, or forward them to a receiver that is being written."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the HTTP client)

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sluice.cli import output
from sluice.cli.options import Json, group_of
from sluice.cli.service import DEFAULT_URL, ApiKey, Url, read_answer, service_client

if TYPE_CHECKING:
    import httpx

group = group_of("Follow the events of a running service. The API key needs the scope `admin`.")

_PATH: Final = "/api/v1/events"
_WAIT_SECONDS: Final = 20
_PAGE: Final = 500
Types = Annotated[
    list[str] | None, typer.Option("--type", metavar="TYPE", help="Only events of this type; give it again for more.")
]
After = Annotated[
    str | None,
    typer.Option("--after", metavar="ID", help="Begin behind this event; `oldest`: with the oldest. Default: now."),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="End after so many events. Default: never.")]


@group.command()
def tail(
    *,
    type: Types = None,  # noqa: A002  (the option's name)
    after: After = None,
    limit: Limit = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    json: Json = False,
) -> None:
    """Print events as they happen, until Ctrl-C. With --json: one line of JSON each, as webhooks send it."""
    with service_client(url, api_key) as client:
        for event in _follow(client, url, type or [], after, limit):
            if json:
                output.as_json(event)
            else:
                output.line(f"{event['timestamp']}  {event['sequence']:>8}  {event['type']:<24}{_subject(event)}")


@group.command()
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
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
) -> None:
    """Send events to a receiver on this machine as they happen, signed as webhooks are, until Ctrl-C.

    For those who write a receiver: nothing is registered, and nothing is sent again.
    """
    import binascii

    import httpx

    from sluice.webhooks.signature import new_secret, signed_headers

    key = secret or new_secret()
    try:
        signed_headers([key], "evt", 0, b"")
    except (binascii.Error, ValueError) as fault:
        raise typer.BadParameter("expected whsec_ and base64", param_hint="--secret") from fault
    if secret is None:
        output.line(f"Signing with {key}")
    with service_client(url, api_key) as client, httpx.Client(timeout=15.0, trust_env=False) as receiver:
        for event in _follow(client, url, type or [], after, limit):
            body = json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()
            headers = signed_headers([key], event["id"], int(time.time()), body)
            try:
                response = receiver.post(to, content=body, headers={**headers, "Content-Type": "application/json"})
                answer = str(response.status_code)
            except (httpx.HTTPError, httpx.InvalidURL) as fault:
                answer = f"{fault.__class__.__name__}: {fault}"
            output.line(f"{event['id']}  {event['type']:<24}{answer}")


def _follow(
    client: "httpx.Client", url: str, types: list[str], after: str | None, limit: int | None
) -> Iterator[dict[str, Any]]:
    """Yield events behind `after` (None: from now on), and wait for more."""
    if after is None:
        after = _last(client, url)
    position = None if after == "oldest" else after
    seen = 0
    while True:
        query: dict[str, Any] = {"limit": _PAGE, "wait": _WAIT_SECONDS, "type": types}
        if position is not None:
            query["after"] = position
        events = read_answer(client.get(_PATH, params=query), url)["data"]
        for event in events:
            yield event
            seen += 1
            if seen == limit:
                return
        if events:
            position = events[-1]["id"]


def _last(client: "httpx.Client", url: str) -> str:
    """Return the id of the newest event, `oldest` if there is none."""
    last = "oldest"
    while True:
        query: dict[str, Any] = {"limit": _PAGE} | ({} if last == "oldest" else {"after": last})
        events = read_answer(client.get(_PATH, params=query), url)["data"]
        if not events:
            return last
        last = events[-1]["id"]


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
