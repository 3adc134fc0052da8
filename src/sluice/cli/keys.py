"""`sluice keys` and `sluice token`: create, list, limit, rotate and revoke API keys; sign tokens with the local key."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the database's library)

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeVar

import typer

from sluice.access import KeyLimits, Scope
from sluice.cli import output
from sluice.cli.environment import on_database, operator_action, task_settings
from sluice.cli.options import Json, Name, Tenant, group_of, printable
from sluice.cli.output import CommandRefused, Exit
from sluice.cli.tenants import require_tenant

if TYPE_CHECKING:
    from sluice.api_keys.api_key import ApiKey
    from sluice.api_keys.service import ApiKeys, Issued
    from sluice.db.database import Database

_PAGE: Final = 100
_T = TypeVar("_T")

group = group_of("Make, list, limit, rotate and revoke API keys.")


def _networks(values: list[str]) -> list[str]:
    from sluice.api_keys.limits import parse_network

    try:
        return [str(parse_network(value)) for value in values]
    except ValueError as fault:
        raise typer.BadParameter(f"expected a network such as 192.0.2.0/24: {fault}") from fault


Scopes = Annotated[
    list[Scope], typer.Option("--scope", help="What the credential may do; give it again for more. `admin` is all.")
]

Contexts = Annotated[
    list[str], typer.Option("--context", metavar="KEY", help="A context that it may use; give it again for more.")
]
Networks = Annotated[
    list[str],
    typer.Option(
        "--network",
        metavar="CIDR",
        callback=_networks,
        help="A network from which it may be used; give it again for more.",
    ),
]
Rate = Annotated[int | None, typer.Option(min=1, max=100_000, help="Requests that it may make in a minute.")]
ExpiresInDays = Annotated[int | None, typer.Option(min=1, max=365, help="Days until it expires. Default: never.")]
KeyId = Annotated[str, typer.Argument(metavar="KEY", help="Id of the key: key_…, not its text.")]


@group.command()
def create(
    *,
    tenant: Tenant,
    name: Name,
    scope: Scopes,
    test: Annotated[
        bool,
        typer.Option("--test", help="Make a test key: its files count against no plan and are removed after a day."),
    ] = False,
    expires_in_days: ExpiresInDays = None,
    context: Contexts = [],  # noqa: B006  (typer copies it)
    network: Networks = [],  # noqa: B006
    rate_per_minute: Rate = None,
    json: Json = False,
) -> None:
    """Make an API key. Its text is shown once and stored nowhere.

    Without **--context**, **--network** and **--rate-per-minute** it is limited by its scopes only.
    """
    from sluice.api_keys.service import ApiKeys
    from sluice.errors import Invalid

    async def act(database: "Database") -> "Issued":
        await require_tenant(database, tenant)
        try:
            return await ApiKeys(database).create(
                operator_action("api_key.created", tenant),
                name,
                [one.value for one in scope],
                mode="test" if test else "live",
                expires_in_days=expires_in_days,
                limits=KeyLimits(_unique(context), _unique(network), rate_per_minute),
            )
        except Invalid as fault:
            raise CommandRefused(f"{fault.errors[0]}.", Exit.USAGE) from fault

    issued = on_database(act)
    if json:
        output.as_json(asdict(issued.key) | {"api_key": issued.text})
        return
    output.line(f"Made the key {issued.key.api_key_id} of {tenant}, shown now and never again:")
    output.line(f"  {issued.text}")


@group.command("list")
def list_keys(
    *,
    tenant: Tenant,
    status: Annotated[
        Literal["active", "disabled", "revoked"] | None, typer.Option(help="Only keys in this state.")
    ] = None,
    json: Json = False,
) -> None:
    """List the keys of a tenant, the newest first, each by the part that is safe to show.

    With --json: one line per key.
    """
    from sluice.api_keys.service import ApiKeys
    from sluice.kit.paging import PageRequest

    async def act(database: "Database") -> "list[ApiKey]":
        await require_tenant(database, tenant)
        found: list[ApiKey] = []
        page = await ApiKeys(database).list_page(tenant, status, PageRequest(1, _PAGE))
        while page.items:
            found.extend(page.items)
            page = await ApiKeys(database).list_page(tenant, status, PageRequest(page.request.page + 1, _PAGE))
        return found

    found = on_database(act)
    if json:
        for one in found:
            output.as_json(asdict(one))
        return
    rows = [
        (
            one.api_key_id,
            one.key_prefix,
            one.name,
            " ".join(one.scopes),
            one.status,
            output.moment(one.created_at),
            output.moment(one.expires_at),
            output.moment(one.last_used_at),
        )
        for one in found
    ]
    output.table(("key", "begins with", "name", "scopes", "status", "created", "expires", "last used"), rows)


@group.command()
def limit(
    key: KeyId,
    *,
    tenant: Tenant,
    context: Contexts = [],  # noqa: B006  (as above)
    network: Networks = [],  # noqa: B006
    rate_per_minute: Rate = None,
) -> None:
    """Set what a key is limited to, instead of what it was limited to before; without options: to its scopes only."""
    changes = {
        "contexts": list(_unique(context)) or None,
        "allowed_networks": list(_unique(network)) or None,
        "rate_per_minute": rate_per_minute,
    }
    _on_key(key, tenant, lambda keys: keys.change(operator_action("api_key.changed", tenant), key, changes))
    output.line(f"The key {key} is limited as given: servers that are running see it within seconds.")


@group.command()
def rotate(
    key: KeyId,
    *,
    tenant: Tenant,
    overlap_seconds: Annotated[
        int, typer.Option(min=0, max=604_800, help="For so long its present text is good too.")
    ] = 86_400,
    expires_in_days: Annotated[
        int | None, typer.Option(min=1, max=365, help="Days until it expires. Default: as before.")
    ] = None,
    json: Json = False,
) -> None:
    """Give a key a new text, shown once and stored nowhere. Its id, scopes and limits stay."""
    action, overlap = operator_action("api_key.rotated", tenant), timedelta(seconds=overlap_seconds)
    issued = _on_key(key, tenant, lambda keys: keys.rotate(action, key, overlap, expires_in_days=expires_in_days))
    if json:
        output.as_json(asdict(issued.key) | {"api_key": issued.text})
        return
    output.line(f"The new text of the key {key}, shown now and never again:")
    output.line(f"  {issued.text}")
    until = issued.key.previous_expires_at
    output.line(
        "Its text before is refused." if until is None else f"Its text before is good until {output.moment(until)}."
    )


@group.command()
def revoke(key: KeyId, *, tenant: Tenant) -> None:
    """Revoke a key permanently: every process refuses it from now on. A second time changes nothing."""
    _on_key(key, tenant, lambda keys: keys.revoke(operator_action("api_key.revoked", tenant), key))
    output.line(f"The key {key} is revoked.")


def _on_key(key: str, tenant: str, act: "Callable[[ApiKeys], Awaitable[_T]]") -> _T:
    """Return what `act` returns; refuse the command for the text of a key, and for a key of no such tenant."""
    from sluice.api_keys.service import ApiKeys
    from sluice.errors import Invalid, KeyRevoked, NotFound

    if not key.startswith("key_"):  # it may be the key's text, which must not be shown again
        raise CommandRefused(
            f"Expected the id of a key, key_…: `sluice keys list --tenant {tenant}` names them all.", Exit.USAGE
        )

    async def acted(database: "Database") -> _T:
        await require_tenant(database, tenant)
        try:
            return await act(ApiKeys(database))
        except NotFound as fault:
            raise CommandRefused(
                f"The tenant {tenant} has no key {key}: `sluice keys list --tenant {tenant}` names them all."
            ) from fault
        except KeyRevoked as fault:
            raise CommandRefused(f"The key {key} is revoked: make a new one.") from fault
        except Invalid as fault:
            raise CommandRefused(f"{fault.errors[0]}.", Exit.USAGE) from fault

    return on_database(acted)


def _unique(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def token(
    *,
    tenant: Tenant,
    subject: Annotated[
        str,
        typer.Option(callback=printable, help="Id of the user that the token stands for; recorded as the uploader."),
    ],
    name: Annotated[
        str | None,
        typer.Option(callback=printable, help="The user's name, shown beside the files. Default: the subject."),
    ] = None,
    scope: Scopes,
    expires_in: Annotated[int, typer.Option(min=1, max=31_536_000, help="Seconds until it expires.")] = 3600,
) -> None:
    """Print a JWT signed by this machine's own key (made by **sluice init** or the first start), and nothing else.

    It cannot be revoked: it works until it expires, or the tenant is suspended.
    """
    from sluice.kit.clock import utc_now
    from sluice.wiring.start import load_signing_key, local_rules

    on_database(lambda database: require_tenant(database, tenant))
    settings = task_settings()
    try:
        text = load_signing_key(settings).sign(
            local_rules(settings),
            tenant_id=tenant,
            subject=subject,
            name=name or subject,
            scopes=[one.value for one in scope],
            lifetime_seconds=expires_in,
            now=utc_now(),
        )
    except ValueError as fault:
        raise CommandRefused(f"This token cannot be signed: {fault}.", Exit.USAGE) from fault
    output.line(text)
