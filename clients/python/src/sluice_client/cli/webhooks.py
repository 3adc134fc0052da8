"""`sluice webhooks`: the webhook endpoints of a tenant, on a running service over HTTP."""

from datetime import UTC, datetime
from typing import Annotated, Final, Literal

import typer

from sluice_client.cli import output
from sluice_client.cli.options import MOMENT, Json, Yes, group_of, past_moment
from sluice_client.cli.output import CommandRefused, Exit
from sluice_client.cli.service import Service, complete_context, given, on_service, segment

group = group_of(
    "Create, show, change, test and delete webhook endpoints, and look at deliveries. The API key needs the scope "
    "`admin`."
)

_PATH: Final = "/api/v1/webhook-endpoints"
Endpoint = Annotated[str, typer.Argument(metavar="ENDPOINT", help="Id of the endpoint: whk_…")]


def _path(endpoint: str, action: str = "") -> str:
    return f"{_PATH}/{segment(endpoint)}{action}"


@group.command()
@on_service
def create(
    to: Annotated[str, typer.Argument(metavar="URL", help="Where events are sent: https://…")],
    *,
    event: Annotated[
        list[str] | None, typer.Option("--event", metavar="TYPE", help="Only events of this type. Default: all.")
    ] = None,
    context: Annotated[
        list[str] | None,
        typer.Option(
            "--context",
            metavar="KEY",
            autocompletion=complete_context,
            help="Only events of this context. Default: all.",
        ),
    ] = None,
    description: Annotated[str | None, typer.Option("--description", help="A note for people.")] = None,
    service: Service,
    json: Json = False,
) -> None:
    """Create an endpoint, and print its secret, which is shown once; receivers verify signatures with it."""
    body = {"url": to, "events": event or ["*"], "contexts": context or []} | given(description=description)
    made = service.data("POST", _PATH, body=body)
    if json:
        output.as_json(made)
        return
    output.say(f"Created {made['endpoint_id']}. Its secret, shown now and never again:")
    output.line(made["secret"])


@group.command("list")
@on_service
def list_endpoints(*, service: Service, json: Json = False) -> None:
    """List the endpoints, oldest first. With --json: one line per endpoint."""
    output.listing(
        service.data("GET", _PATH),
        ("ENDPOINT", "STATUS", "WHY", "EVENTS", "URL"),
        lambda one: (
            one["endpoint_id"],
            one["status"],
            one["disabled_reason"] or "-",
            " ".join(one["events"]),
            one["url"],
        ),
        json=json,
    )


@group.command()
@on_service
def show(endpoint: Endpoint, *, service: Service, json: Json = False) -> None:
    """Show one endpoint."""
    output.fields(service.data("GET", _path(endpoint)), json=json)


@group.command("test")
@on_service
def send_test(endpoint: Endpoint, *, service: Service, json: Json = False) -> None:
    """Send an event of the type endpoint.test to one endpoint."""
    output.done(service.data("POST", _path(endpoint, "/test")), "A test event is on its way.", json=json)


@group.command("rotate-secret")
@on_service
def rotate_secret(endpoint: Endpoint, *, service: Service, json: Json = False) -> None:
    """Give an endpoint a new secret, and print it, which is done once. The old one signs too for 24 hours."""
    made = service.data("POST", _path(endpoint, "/rotate-secret"))
    if json:
        output.as_json(made)
        return
    output.say(f"The new secret of {endpoint}, shown now and never again:")
    output.line(made["secret"])


@group.command()
@on_service
def deliveries(
    endpoint: Endpoint,
    *,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that failed for good.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Most deliveries to print.")] = 100,
    service: Service,
    json: Json = False,
) -> None:
    """List deliveries to an endpoint, newest first. With --json: one line per delivery."""
    output.listing(
        service.pages(_path(endpoint, "/deliveries"), {"status": "failed"} if failed else {}, limit),
        ("DELIVERY", "EVENT", "STATUS", "ATTEMPTS", "ERROR"),
        lambda one: (
            one["delivery_id"],
            one["event_type"],
            one["status"],
            str(one["attempts"]),
            one["error"] or "-",
        ),
        json=json,
    )


@group.command()
@on_service
def update(
    endpoint: Endpoint,
    *,
    to: Annotated[str | None, typer.Option("--to", metavar="URL", help="Where events are sent from now on.")] = None,
    event: Annotated[
        list[str] | None, typer.Option("--event", metavar="TYPE", help="Only events of this type; `*` is all.")
    ] = None,
    context: Annotated[
        list[str] | None,
        typer.Option("--context", metavar="KEY", autocompletion=complete_context, help="Only events of this context."),
    ] = None,
    description: Annotated[str | None, typer.Option("--description", help="A note for people.")] = None,
    status: Annotated[
        Literal["active", "disabled"] | None, typer.Option(help="Whether anything is sent to it.")
    ] = None,
    service: Service,
    json: Json = False,
) -> None:
    """Change an endpoint, or enable one that was disabled. What is not named stays as it is."""
    named = {"url": to, "events": event, "contexts": context, "status": status, "description": description}
    body = {name: value for name, value in named.items() if value}
    if not body:
        raise CommandRefused("Nothing to change: name --to, --event, --context, --description or --status.", Exit.USAGE)
    output.done(service.data("PATCH", _path(endpoint), body=body), f"Changed {endpoint}.", json=json)


@group.command()
@on_service
def recover(
    endpoint: Endpoint,
    *,
    since: Annotated[str, typer.Option(callback=past_moment, metavar="WHEN", help=f"The first moment: {MOMENT}.")],
    until: Annotated[
        str | None, typer.Option(callback=past_moment, metavar="WHEN", help="The end of that time. Default: now.")
    ] = None,
    service: Service,
    json: Json = False,
) -> None:
    """Deliver the events of a time that the endpoint asks for and did not take."""
    body = {"since": since, "until": until or datetime.now(UTC).isoformat()}
    begun = service.data("POST", _path(endpoint, "/recover"), body=body)
    output.done(begun, f"Deliveries restarted: {begun['deliveries']}.", json=json)


@group.command()
@on_service
def redeliver(
    delivery: Annotated[str, typer.Argument(metavar="DELIVERY", help="Id of the delivery: dlv_…")],
    *,
    service: Service,
    json: Json = False,
) -> None:
    """Restart a delivery, whatever its state."""
    begun = service.data("POST", f"/api/v1/webhook-deliveries/{segment(delivery)}/redeliver")
    output.done(begun, f"Delivery {delivery} restarted.", json=json)


@group.command()
@on_service
def delete(endpoint: Endpoint, *, yes: Yes = False, service: Service, json: Json = False) -> None:
    """Delete an endpoint: nothing more is sent to it, and its secret is forgotten."""
    output.confirm(f"Delete the endpoint {endpoint} and its secret", yes=yes)
    output.done(service.data("DELETE", _path(endpoint)), f"Deleted {endpoint}.", json=json)
