"""`sluice keys`: API keys, on a running service over HTTP, or with `--tenant` in the database of this machine."""

from datetime import datetime
from enum import StrEnum
from ipaddress import ip_network
from typing import Annotated, Any, Final, Literal

import typer

from sluice_client.cli import output
from sluice_client.cli.options import Json, Name, Yes, group_of, printable, tenant_id
from sluice_client.cli.output import CommandRefused, Exit
from sluice_client.cli.server_commands import on_this_machine
from sluice_client.cli.service import Service, complete_context, given, on_service_unless, segment

group = group_of(
    "Create, list, show, change, rotate and revoke API keys, on a running service, or with --tenant in the database of "
    "this machine, as its operator."
)

_PATH: Final = "/api/v1/api-keys"


class Scope(StrEnum):
    """A permission of a credential, as the service knows them."""

    UPLOAD = "upload"
    DOWNLOAD = "download"
    METADATA = "metadata"
    DELETE = "delete"
    REVIEW = "review"
    ADMIN = "admin"


def _networks(values: list[str] | None) -> list[str] | None:
    try:
        return None if values is None else [str(ip_network(value)) for value in values]
    except ValueError as fault:
        raise typer.BadParameter(f"expected a network such as 192.0.2.0/24: {fault}") from fault


Scopes = Annotated[
    list[Scope], typer.Option("--scope", help="What the credential may do; give it again for more. `admin` is all.")
]
Contexts = Annotated[
    list[str] | None,
    typer.Option(
        "--context",
        metavar="KEY",
        autocompletion=complete_context,
        help="A context that it may use; give it again for more.",
    ),
]
Networks = Annotated[
    list[str] | None,
    typer.Option(
        "--network",
        metavar="CIDR",
        callback=_networks,
        help="A network from which it may be used; give it again for more.",
    ),
]
Rate = Annotated[
    int | None,
    typer.Option("--rate-per-minute", min=1, max=100_000, help="Requests that it may make in a minute."),
]
ExpiresInDays = Annotated[int | None, typer.Option(min=1, max=365, help="Days until it expires. Default: never.")]
KeyId = Annotated[str, typer.Argument(metavar="KEY", help="Id of the key: key_…, not its text.")]
Operated = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        callback=tenant_id,
        metavar="TENANT",
        help="Work on the database of this machine, as its operator, on the keys of this tenant: ten_…",
    ),
]


@group.command()
@on_service_unless("tenant")
def create(
    *,
    tenant: Operated = None,
    name: Name,
    scope: Scopes,
    test: Annotated[
        bool,
        typer.Option("--test", help="Make a test key: its files count against no plan and are removed after a day."),
    ] = False,
    expires_in_days: ExpiresInDays = None,
    context: Contexts = None,
    network: Networks = None,
    rate_per_minute: Rate = None,
    service: Service | None,
    json: Json = False,
) -> None:
    """Make an API key, and print its text, which is shown once and stored nowhere.

    Without **--context**, **--network** and **--rate-per-minute** it is limited by its scopes only.
    """
    scopes = [one.value for one in scope]
    mode: Literal["live", "test"] = "test" if test else "live"
    if service is None:
        made = on_this_machine("keys").create(
            str(tenant),
            name,
            scopes,
            mode=mode,
            expires_in_days=expires_in_days,
            contexts=_unique(context),
            networks=_unique(network),
            rate_per_minute=rate_per_minute,
        )
    else:
        limits = given(
            expires_in_days=expires_in_days,
            contexts=_unique(context) or None,
            allowed_networks=_unique(network) or None,
            rate_per_minute=rate_per_minute,
        )
        made = service.data("POST", _PATH, body={"name": name, "scopes": scopes, "mode": mode, **limits})
    if json:
        output.as_json(made)
        return
    output.say(f"Made the key {made['api_key_id']}{_of(tenant)}, shown now and never again:")
    output.line(made["api_key"])


@group.command("list")
@on_service_unless("tenant")
def list_keys(
    *,
    tenant: Operated = None,
    status: Annotated[
        Literal["active", "disabled", "revoked"] | None, typer.Option(help="Only keys in this state.")
    ] = None,
    service: Service | None,
    json: Json = False,
) -> None:
    """List the keys, the newest first, each by the part that is safe to show. With --json: one line per key."""
    if service is None:
        found: Any = on_this_machine("keys").list_all(str(tenant), status)
    else:
        found = service.pages(_PATH, given(status=status))
    output.listing(
        found,
        ("key", "begins with", "name", "scopes", "status", "created", "last used"),
        lambda one: (
            one["api_key_id"],
            one["key_prefix"],
            one["name"],
            " ".join(one["scopes"]),
            one["status"],
            _moment(one["created_at"]),
            _moment(one["last_used_at"]),
        ),
        json=json,
    )


@group.command()
@on_service_unless("tenant")
def show(key: KeyId, *, tenant: Operated = None, service: Service | None, json: Json = False) -> None:
    """Show one key: its scopes, its limits, and when it expires. Its text is stored nowhere."""
    _require_id(key, tenant)
    if service is None:
        found = on_this_machine("keys").show(str(tenant), key)
    else:
        found = service.data("GET", f"{_PATH}/{segment(key)}")
    if not json:
        found = {name: _moment(value) if isinstance(value, datetime) else value for name, value in found.items()}
    output.fields(found, json=json)


@group.command()
@on_service_unless("tenant")
def update(
    key: KeyId,
    *,
    tenant: Operated = None,
    name: Annotated[
        str | None, typer.Option("--name", callback=printable, metavar="NAME", help="Its new name for people.")
    ] = None,
    scope: Annotated[
        list[Scope] | None, typer.Option("--scope", help="Its scopes from now on; give it again for more.")
    ] = None,
    status: Annotated[
        Literal["active", "disabled"] | None, typer.Option(help="Whether it is accepted. `revoke` is for ever.")
    ] = None,
    service: Service | None,
    json: Json = False,
) -> None:
    """Change a key. What is not named stays as it is; `sluice keys limit` sets its limits."""
    changes = given(name=name, scopes=[one.value for one in scope] if scope else None, status=status)
    if not changes:
        raise CommandRefused("Nothing to change: name --name, --scope or --status.", Exit.USAGE)
    output.done(_changed(key, tenant, changes, service), f"Changed the key {key}.", json=json)


@group.command()
@on_service_unless("tenant")
def limit(
    key: KeyId,
    *,
    tenant: Operated = None,
    context: Contexts = None,
    network: Networks = None,
    rate_per_minute: Rate = None,
    service: Service | None,
    json: Json = False,
) -> None:
    """Set what a key is limited to, instead of what it was limited to before; without options: to its scopes only."""
    changes = {
        "contexts": _unique(context) or None,
        "allowed_networks": _unique(network) or None,
        "rate_per_minute": rate_per_minute,
    }
    changed = _changed(key, tenant, changes, service)
    output.done(
        changed, f"The key {key} is limited as given: servers that are running see it within seconds.", json=json
    )


@group.command()
@on_service_unless("tenant")
def rotate(
    key: KeyId,
    *,
    tenant: Operated = None,
    overlap_seconds: Annotated[
        int, typer.Option(min=0, max=604_800, help="Seconds for which the present text remains valid.")
    ] = 86_400,
    expires_in_days: Annotated[
        int | None, typer.Option(min=1, max=365, help="Days until it expires. Default: as before.")
    ] = None,
    service: Service | None,
    json: Json = False,
) -> None:
    """Give a key a new text, and print it; it is shown once and stored nowhere. Its id, scopes and limits stay."""
    _require_id(key, tenant)
    if service is None:
        made = on_this_machine("keys").rotate(str(tenant), key, overlap_seconds, expires_in_days)
    else:
        body = {"overlap_seconds": overlap_seconds, **given(expires_in_days=expires_in_days)}
        made = service.data("POST", f"{_PATH}/{segment(key)}/rotate", body=body)
    if json:
        output.as_json(made)
        return
    until = made["previous_expires_at"]
    before = "is refused." if until is None else f"is good until {_moment(until)}."
    output.say(f"Its text before {before} The new text of the key {key}, shown now and never again:")
    output.line(made["api_key"])


@group.command()
@on_service_unless("tenant")
def revoke(
    key: KeyId, *, tenant: Operated = None, yes: Yes = False, service: Service | None, json: Json = False
) -> None:
    """Revoke a key permanently: every process refuses it from now on. A second time changes nothing."""
    _require_id(key, tenant)
    output.confirm(f"Revoke the key {key} for ever", yes=yes)
    if service is None:
        revoked = on_this_machine("keys").revoke(str(tenant), key)
    else:
        revoked = service.data("DELETE", f"{_PATH}/{segment(key)}")
    output.done(revoked, f"The key {key} is revoked.", json=json)


def _changed(key: str, tenant: str | None, changes: dict[str, Any], service: Service | None) -> dict[str, Any]:
    _require_id(key, tenant)
    if service is None:
        local: dict[str, Any] = on_this_machine("keys").change(str(tenant), key, changes)
        return local
    changed: dict[str, Any] = service.data("PATCH", f"{_PATH}/{segment(key)}", body=changes)
    return changed


def _require_id(key: str, tenant: str | None) -> None:
    if not key.startswith("key_"):  # it may be the key's text, which must not be shown again
        of_tenant = f" --tenant {tenant}" if tenant else ""
        raise CommandRefused(
            f"Expected the id of a key, key_…: `sluice keys list{of_tenant}` names them all.", Exit.USAGE
        )


def _of(tenant: str | None) -> str:
    return f" of {tenant}" if tenant else ""


def _moment(value: datetime | str | None) -> str:
    return output.moment(datetime.fromisoformat(value) if isinstance(value, str) else value)


def _unique(names: list[str] | None) -> list[str]:
    return list(dict.fromkeys(names or ()))
