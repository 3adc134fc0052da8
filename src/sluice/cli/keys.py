"""What the commands for credentials do with the database and the local key."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from sluice.api_keys.api_key import ApiKey, KeyStatus
from sluice.api_keys.service import ApiKeys, Issued
from sluice.cli.configured import settings_for_a_task
from sluice.cli.environment import on_database
from sluice.cli.outcomes import CommandRefused, Exit
from sluice.cli.tenants import deed, existing
from sluice.db.database import Database
from sluice.errors import NotFound
from sluice.kit.clock import utc_now
from sluice.kit.paging import PageRequest
from sluice.wiring.secrets import load_signing_key, local_rules

_PAGE: Final = 100


def create(tenant_id: str, name: str, scopes: Sequence[str], *, test: bool, expires_in_days: int | None) -> Issued:
    """Make a key; raises `CommandRefused` when there is no such tenant."""

    async def act(database: Database) -> Issued:
        await existing(database, tenant_id)
        return await ApiKeys(database).create(
            deed("api_key.created", tenant_id), name, scopes, mode="test" if test else "live", expires_in_days=expires_in_days
        )

    return on_database(act)


def list_all(tenant_id: str, status: KeyStatus | None) -> Sequence[ApiKey]:
    """Answer all keys of a tenant, or those with `status`, the newest first."""

    async def act(database: Database) -> Sequence[ApiKey]:
        await existing(database, tenant_id)
        found: list[ApiKey] = []
        page = await ApiKeys(database).list_page(tenant_id, status, PageRequest(1, _PAGE))
        while page.items:
            found.extend(page.items)
            page = await ApiKeys(database).list_page(tenant_id, status, PageRequest(page.request.page + 1, _PAGE))
        return found

    return on_database(act)


def revoke(tenant_id: str, api_key_id: str) -> None:
    """Revoke a key for ever; raises `CommandRefused` when the tenant has none of this id."""

    async def act(database: Database) -> None:
        await existing(database, tenant_id)
        try:
            await ApiKeys(database).revoke(deed("api_key.revoked", tenant_id), api_key_id)
        except NotFound as fault:
            raise CommandRefused(
                f"The tenant {tenant_id} has no key {api_key_id}: `sluice keys list --tenant {tenant_id}` names them all."
            ) from fault

    on_database(act)


def token(tenant_id: str, subject: str, name: str, scopes: Sequence[str], lifetime_seconds: int) -> str:
    """Answer a token of the local key; raises `CommandRefused` for a tenant that there is not, or words that no verifier would take."""
    _require_tenant(tenant_id)
    settings = settings_for_a_task()
    try:
        return load_signing_key(settings).sign(
            local_rules(settings),
            tenant_id=tenant_id,
            subject=subject,
            name=name,
            scopes=scopes,
            lifetime_seconds=lifetime_seconds,
            now=utc_now(),
        )
    except ValueError as fault:
        raise CommandRefused(f"No such token can be signed: {fault}.", Exit.USAGE) from fault


def fields(key: ApiKey) -> dict[str, object]:
    """Answer the key for scripts; its text is not part of it."""
    return asdict(key)


def _require_tenant(tenant_id: str) -> None:
    async def act(database: Database) -> None:
        await existing(database, tenant_id)

    on_database(act)
