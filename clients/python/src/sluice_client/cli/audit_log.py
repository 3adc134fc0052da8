"""`sluice audit-log` and `sluice cors`: the audit log of a tenant, and the origins of pages that may call the API."""

from typing import Annotated, Final

import typer

from sluice_client.cli import output
from sluice_client.cli.options import Json, group_of
from sluice_client.cli.service import Service, given, on_service

log_group = group_of("Read the audit log of a tenant. The API key needs the scope `admin`.")
cors_group = group_of("Show and set the origins of pages that may call the API. The API key needs the scope `admin`.")

_CORS: Final = "/api/v1/cors"


@log_group.command("list")
@on_service
def list_entries(
    *,
    actor: Annotated[str | None, typer.Option("--actor", metavar="ID", help="Only what this key or user did.")] = None,
    action: Annotated[
        str | None, typer.Option("--action", metavar="ACTION", help="Only this action, such as api_key.created.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Most entries to print.")] = 100,
    service: Service,
    json: Json = False,
) -> None:
    """List entries, newest first. With --json: one line per entry."""
    output.listing(
        service.pages("/api/v1/audit", given(actor=actor, action=action), limit),
        ("WHEN", "ACTION", "TARGET", "BY", "VIA", "OUTCOME"),
        lambda one: (
            one["created_at"],
            one["action"],
            one["target"] or "-",
            one["actor_name"] or one["actor_id"] or "-",
            one["via"],
            one["outcome"],
        ),
        json=json,
    )


@cors_group.command("show")
@on_service
def show_cors(*, service: Service, json: Json = False) -> None:
    """Show the origins of pages that may call the API."""
    found = service.data("GET", _CORS)
    if json:
        output.as_json(found)
    else:
        output.line(*found["allowed_origins"])


@cors_group.command("set")
@on_service
def set_cors(
    origins: Annotated[
        list[str] | None, typer.Argument(metavar="[ORIGIN]...", help="Such as https://www.example.com; none: no page.")
    ] = None,
    *,
    service: Service,
    json: Json = False,
) -> None:
    """Set the origins of pages that may call the API, instead of those that were."""
    found = service.data("PUT", _CORS, body={"allowed_origins": origins or []})
    output.done(found, f"Pages of {len(found['allowed_origins'])} origins may call the API.", json=json)
