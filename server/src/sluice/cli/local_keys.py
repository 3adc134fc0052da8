"""API keys in the database of this machine, as its operator has them: `sluice keys` with `--tenant`.

Every function returns what the API would, so that `keys` prints both alike.
"""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the database's library)

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from sluice.access import KeyLimits
from sluice.cli.environment import on_database, operator_action
from sluice.cli.tenants import require_tenant
from sluice_client.cli.output import CommandRefused, Exit

if TYPE_CHECKING:
    from sluice.api_keys.api_key import ApiKey
    from sluice.api_keys.service import ApiKeys
    from sluice.db.database import Database

_PAGE: Final = 100
_T = TypeVar("_T")


def create(
    tenant: str,
    name: str,
    scopes: Sequence[str],
    *,
    mode: Literal["live", "test"],
    expires_in_days: int | None,
    contexts: Sequence[str],
    networks: Sequence[str],
    rate_per_minute: int | None,
) -> dict[str, Any]:
    """Make a key of a tenant; the result has its text."""
    _require_networks(networks)

    def act(keys: "ApiKeys") -> Awaitable[Any]:
        limits = KeyLimits(tuple(contexts), tuple(networks), rate_per_minute)
        action = operator_action("api_key.created", tenant)
        return keys.create(action, name, list(scopes), mode=mode, expires_in_days=expires_in_days, limits=limits)

    issued = _on_keys(tenant, act)
    return asdict(issued.key) | {"api_key": issued.text}


def list_all(tenant: str, status: Literal["active", "disabled", "revoked"] | None) -> list[dict[str, Any]]:
    """Return the keys of a tenant, the newest first."""
    from sluice.kit.paging import PageRequest

    async def act(keys: "ApiKeys") -> "list[ApiKey]":
        found: list[ApiKey] = []
        page = await keys.list_page(tenant, status, PageRequest(1, _PAGE))
        while page.items:
            found.extend(page.items)
            page = await keys.list_page(tenant, status, PageRequest(page.request.page + 1, _PAGE))
        return found

    return [asdict(one) for one in _on_keys(tenant, act)]


def show(tenant: str, key: str) -> dict[str, Any]:
    """Return one key."""
    return asdict(_on_key(tenant, key, lambda keys: keys.get(tenant, key)))


def change(tenant: str, key: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Change a key, and return it."""
    _require_networks(changes.get("allowed_networks") or ())
    action = operator_action("api_key.changed", tenant)
    return asdict(_on_key(tenant, key, lambda keys: keys.change(action, key, dict(changes))))


def rotate(tenant: str, key: str, overlap_seconds: int, expires_in_days: int | None) -> dict[str, Any]:
    """Give a key a new text; the result has it."""
    action, overlap = operator_action("api_key.rotated", tenant), timedelta(seconds=overlap_seconds)
    issued = _on_key(tenant, key, lambda keys: keys.rotate(action, key, overlap, expires_in_days=expires_in_days))
    return asdict(issued.key) | {"api_key": issued.text}


def revoke(tenant: str, key: str) -> dict[str, Any]:
    """Revoke a key."""
    _on_key(tenant, key, lambda keys: keys.revoke(operator_action("api_key.revoked", tenant), key))
    return {"api_key_id": key, "status": "revoked"}


def _require_networks(networks: Sequence[str]) -> None:
    from sluice.api_keys.limits import parse_network

    try:
        for network in networks:
            parse_network(network)
    except ValueError as fault:
        raise CommandRefused(f"--network: expected a network such as 192.0.2.0/24: {fault}.", Exit.USAGE) from fault


def _on_keys(tenant: str, act: "Callable[[ApiKeys], Awaitable[_T]]") -> _T:
    from sluice.api_keys.service import ApiKeys
    from sluice.errors import Invalid

    async def acted(database: "Database") -> _T:
        await require_tenant(database, tenant)
        try:
            return await act(ApiKeys(database))
        except Invalid as fault:
            raise CommandRefused(f"{fault.errors[0]}.", Exit.USAGE) from fault

    return on_database(acted)


def _on_key(tenant: str, key: str, act: "Callable[[ApiKeys], Awaitable[_T]]") -> _T:
    from sluice.errors import KeyRevoked, NotFound

    async def acted(keys: "ApiKeys") -> _T:
        try:
            return await act(keys)
        except NotFound as fault:
            raise CommandRefused(
                f"The tenant {tenant} has no key {key}: `sluice keys list --tenant {tenant}` names them all.",
                Exit.NOT_FOUND,
            ) from fault
        except KeyRevoked as fault:
            raise CommandRefused(f"The key {key} is revoked: make a new one.") from fault

    return _on_keys(tenant, acted)
