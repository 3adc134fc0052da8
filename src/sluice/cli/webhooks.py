"""`sluice webhooks`: the webhook endpoints of a tenant, on a running service over HTTP."""

from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

import typer

from sluice.cli import output
from sluice.cli.options import MOMENT, Json, group_of, past_moment
from sluice.cli.output import CommandRefused, Exit
from sluice.cli.service import DEFAULT_URL, ApiKey, Url, read_answer, service_client
from sluice.kit.clock import utc_now

group = group_of(
    "Add, change, test and remove webhook endpoints, and look at deliveries. The API key needs the scope `admin`."
)

_PATH: Final = "/api/v1/webhook-endpoints"
Endpoint = Annotated[str, typer.Argument(metavar="ENDPOINT", help="Id of the endpoint: whk_…")]


def _ask(method: str, path: str, url: str, api_key: str, body: dict[str, Any] | None = None) -> Any:
    with service_client(url, api_key) as client:
        return read_answer(client.request(method, path, json=body), url)["data"]


@group.command()
def add(
    to: Annotated[str, typer.Argument(metavar="URL", help="Where events are sent: https://…")],
    *,
    event: Annotated[
        list[str] | None, typer.Option("--event", metavar="TYPE", help="Only events of this type. Default: all.")
    ] = None,
    context: Annotated[
        list[str] | None, typer.Option("--context", metavar="KEY", help="Only events of this context. Default: all.")
    ] = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    json: Json = False,
) -> None:
    """Add an endpoint. Its secret is shown once; receivers verify signatures with it."""
    body = {"url": to, "events": event or ["*"], "contexts": context or []}
    made = _ask("POST", _PATH, url, api_key, body)
    if json:
        output.as_json(made)
        return
    output.line(f"Added {made['endpoint_id']}. Its secret, shown now and never again:", f"  {made['secret']}")


@group.command("list")
def list_endpoints(*, url: Url = DEFAULT_URL, api_key: ApiKey = "", json: Json = False) -> None:
    """List the endpoints, oldest first. With --json: one line per endpoint."""
    found = _ask("GET", _PATH, url, api_key)
    if json:
        for one in found:
            output.as_json(one)
        return
    rows = [
        (one["endpoint_id"], one["status"], one["disabled_reason"] or "-", " ".join(one["events"]), one["url"])
        for one in found
    ]
    output.table(("ENDPOINT", "STATUS", "WHY", "EVENTS", "URL"), rows)


@group.command("test")
def send_test(endpoint: Endpoint, *, url: Url = DEFAULT_URL, api_key: ApiKey = "") -> None:
    """Send an event of the type endpoint.test to one endpoint."""
    _ask("POST", f"{_PATH}/{quote(endpoint, safe='')}/test", url, api_key)
    output.line("A test event is on its way.")


@group.command("rotate-secret")
def rotate_secret(endpoint: Endpoint, *, url: Url = DEFAULT_URL, api_key: ApiKey = "") -> None:
    """Give an endpoint a new secret, shown once. The old one signs too for 24 hours."""
    made = _ask("POST", f"{_PATH}/{quote(endpoint, safe='')}/rotate-secret", url, api_key)
    output.line(f"The new secret of {endpoint}, shown now and never again:", f"  {made['secret']}")


@group.command()
def deliveries(
    endpoint: Endpoint,
    *,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that failed for good.")] = False,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    json: Json = False,
) -> None:
    """List the newest 100 deliveries to an endpoint. With --json: one line per delivery."""
    more = "&status=failed" if failed else ""
    found = _ask("GET", f"{_PATH}/{quote(endpoint, safe='')}/deliveries?page_size=100{more}", url, api_key)
    if json:
        for one in found:
            output.as_json(one)
        return
    rows = [
        (one["delivery_id"], one["event_type"], one["status"], str(one["attempts"]), one["error"] or "-")
        for one in found
    ]
    output.table(("DELIVERY", "EVENT", "STATUS", "ATTEMPTS", "ERROR"), rows)


@group.command()
def update(
    endpoint: Endpoint,
    *,
    to: Annotated[str | None, typer.Option("--to", metavar="URL", help="Where events are sent from now on.")] = None,
    event: Annotated[
        list[str] | None, typer.Option("--event", metavar="TYPE", help="Only events of this type; `*` is all.")
    ] = None,
    context: Annotated[
        list[str] | None, typer.Option("--context", metavar="KEY", help="Only events of this context.")
    ] = None,
    status: Annotated[
        Literal["active", "disabled"] | None, typer.Option(help="Whether anything is sent to it.")
    ] = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
) -> None:
    """Change an endpoint, or enable one that was disabled. What is not named stays as it is."""
    named = {"url": to, "events": event, "contexts": context, "status": status}
    body = {name: value for name, value in named.items() if value}
    if not body:
        raise CommandRefused("Nothing to change: name --to, --event, --context or --status.", Exit.USAGE)
    _ask("PATCH", f"{_PATH}/{quote(endpoint, safe='')}", url, api_key, body)
    output.line(f"Changed {endpoint}.")


@group.command()
def recover(
    endpoint: Endpoint,
    *,
    since: Annotated[str, typer.Option(callback=past_moment, metavar="WHEN", help=f"The first moment: {MOMENT}.")],
    until: Annotated[
        str | None, typer.Option(callback=past_moment, metavar="WHEN", help="The end of that time. Default: now.")
    ] = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
) -> None:
    """Deliver the events of a time that the endpoint asks for and did not take."""
    body = {"since": since, "until": until or utc_now().isoformat()}
    begun = _ask("POST", f"{_PATH}/{quote(endpoint, safe='')}/recover", url, api_key, body)
    output.line(f"Deliveries that begin anew: {begun['deliveries']}.")


@group.command()
def redeliver(
    delivery: Annotated[str, typer.Argument(metavar="DELIVERY", help="Id of the delivery: dlv_…")],
    *,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
) -> None:
    """Let a delivery begin anew, whatever became of it."""
    _ask("POST", f"/api/v1/webhook-deliveries/{quote(delivery, safe='')}/redeliver", url, api_key)
    output.line(f"The delivery {delivery} begins anew.")


@group.command()
def remove(endpoint: Endpoint, *, url: Url = DEFAULT_URL, api_key: ApiKey = "") -> None:
    """Remove an endpoint: nothing more is sent to it, and its secret is forgotten."""
    _ask("DELETE", f"{_PATH}/{quote(endpoint, safe='')}", url, api_key)
    output.line(f"Removed {endpoint}.")
