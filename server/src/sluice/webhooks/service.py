"""Operations on webhook endpoints: create, read, change, test, recover, and list deliveries."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from sluice.audit import AuditAction
from sluice.audit.repository import append
from sluice.buckets.endpoints import EndpointRefused, Resolve, addresses_of
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.sql import Connection
from sluice.errors import EndpointDisabled, Invalid, NotFound, TooManyEndpoints
from sluice.events import outbox
from sluice.events import repository as event_rows
from sluice.events.catalogue import EndpointTest
from sluice.events.service import number
from sluice.kit.cipher import Sealer
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import new_id
from sluice.kit.paging import Page, PageRequest
from sluice.kit.text import is_plain
from sluice.outgoing.addresses import require_reachable
from sluice.outgoing.signature import new_secret
from sluice.webhooks import repository
from sluice.webhooks.endpoint import Delivery, Endpoint

MOST_ENDPOINTS: Final = 10
MOST_RECOVERED: Final = 10_000
OLD_SECRET_LIFE: Final = timedelta(hours=24)
_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class EndpointDraft:
    """An endpoint to be created."""

    url: str
    event_types: tuple[str, ...]
    context_keys: tuple[str, ...] = ()
    description: str | None = None


@dataclass(frozen=True, slots=True)
class IssuedEndpoint:
    """An endpoint with its secret, which is shown once."""

    endpoint: Endpoint
    secret: str = field(repr=False)


class Webhooks:
    """The webhook endpoints of all tenants, one tenant at a time. `allowed` are the hosts that the operator listed."""

    def __init__(
        self,
        database: Database,
        keyring: Sealer,
        allowed: Collection[str],
        *,
        resolve: Resolve = addresses_of,
        clock: Clock = utc_now,
    ) -> None:
        self._database = database
        self._keyring = keyring
        self._allowed = allowed
        self._resolve = resolve
        self._clock = clock

    async def create(self, by: AuditAction, draft: EndpointDraft) -> IssuedEndpoint:
        """Create an active endpoint, which gets what happens from now on.

        Raise `Invalid` for a URL that may not be reached, `TooManyEndpoints`.
        """
        await self._require_reachable(draft.url)
        tenant_id, secret = by.tenant_id, new_secret()
        endpoint = Endpoint(
            endpoint_id=new_id("whk"),
            tenant_id=tenant_id,
            url=draft.url,
            event_types=draft.event_types,
            context_keys=draft.context_keys,
            description=draft.description,
            status="active",
            disabled_reason=None,
            secret_sealed="",
            old_secret_sealed=None,
            old_secret_until=None,
            created_at=self._clock(),
            updated_at=None,
            sequence=0,
            failing_since=None,
        )
        endpoint = replace(endpoint, secret_sealed=self._keyring.seal(secret, bound_to=secret_binding(endpoint)))
        await number(self._database, tenant_id)
        async with self._database.transaction(tenant_id) as connection:
            await repository.lock_tenant(connection, tenant_id)
            if len(await repository.list_all(connection, tenant_id)) >= MOST_ENDPOINTS:
                raise TooManyEndpoints
            endpoint = replace(endpoint, sequence=await event_rows.last_sequence(connection, tenant_id))
            await repository.add(connection, endpoint)
            await append(connection, by, endpoint.endpoint_id, endpoint.created_at)
        return IssuedEndpoint(endpoint, secret)

    async def get(self, tenant_id: str, endpoint_id: str) -> Endpoint:
        """Return one endpoint; raise `NotFound`."""
        async with self._database.reading(tenant_id) as connection:
            return await _require(connection, tenant_id, endpoint_id)

    async def list_all(self, tenant_id: str) -> Sequence[Endpoint]:
        """Return the tenant's endpoints, oldest first."""
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_all(connection, tenant_id)

    async def change(self, by: AuditAction, endpoint_id: str, changes: Mapping[str, Any]) -> Endpoint:
        """Change the named fields; raise `NotFound` or `Invalid`.

        An endpoint that is made active again gets what happens from now on, and what was on its way to it.
        """
        if not changes:
            return await self.get(by.tenant_id, endpoint_id)
        if "url" in changes:
            await self._require_reachable(changes["url"])
        now = self._clock()
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in changes.items()}
        values["updated_at"] = now
        await number(self._database, by.tenant_id)
        async with self._database.transaction(by.tenant_id) as connection:
            before = await _require(connection, by.tenant_id, endpoint_id)
            if changes.get("status") == "active" and before.status != "active":
                last = await event_rows.last_sequence(connection, by.tenant_id)
                values |= {"disabled_reason": None, "failing_since": None, "sequence": last}
            endpoint = await repository.change(connection, by.tenant_id, endpoint_id, values)
            if endpoint is None:
                raise NotFound
            await append(connection, by, endpoint_id, now)
        return endpoint

    async def delete(self, by: AuditAction, endpoint_id: str) -> None:
        """Delete an endpoint and forget its secret; raise `NotFound`."""
        async with self._database.transaction(by.tenant_id) as connection:
            if not await repository.remove(connection, by.tenant_id, endpoint_id):
                raise NotFound
            await append(connection, by, endpoint_id, self._clock())

    async def rotate_secret(self, by: AuditAction, endpoint_id: str) -> IssuedEndpoint:
        """Give an endpoint a new secret; the old one signs too for 24 hours. Raise `NotFound`."""
        secret, now = new_secret(), self._clock()
        async with self._database.transaction(by.tenant_id) as connection:
            before = await _require(connection, by.tenant_id, endpoint_id)
            values = {
                "secret_sealed": self._keyring.seal(secret, bound_to=secret_binding(before)),
                "old_secret_sealed": before.secret_sealed,
                "old_secret_until": now + OLD_SECRET_LIFE,
                "updated_at": now,
            }
            endpoint = await repository.change(connection, by.tenant_id, endpoint_id, values)
            if endpoint is None:
                raise NotFound
            await append(connection, by, endpoint_id, now)
        return IssuedEndpoint(endpoint, secret)

    async def test(self, by: AuditAction, endpoint_id: str) -> None:
        """Send an event of the type `endpoint.test` to one endpoint; raise `NotFound` or `EndpointDisabled`."""
        now = self._clock()
        async with self._database.transaction(by.tenant_id) as connection:
            endpoint = await _require_active(connection, by.tenant_id, endpoint_id)
            event = EndpointTest(endpoint_id=endpoint_id, url=endpoint.url)
            await outbox.add(connection, by.tenant_id, event, now)
            await append(connection, by, endpoint_id, now)

    async def list_deliveries(
        self, tenant_id: str, endpoint_id: str, state: str | None, request: PageRequest
    ) -> Page[Delivery]:
        """Return one page of deliveries to an endpoint, newest first; raise `NotFound`."""
        async with self._database.reading(tenant_id) as connection:
            await _require(connection, tenant_id, endpoint_id)
            return await repository.list_deliveries(connection, tenant_id, endpoint_id, state, request)

    async def redeliver(self, by: AuditAction, delivery_id: str) -> Delivery:
        """Restart a delivery. Raise `NotFound` if there is none, or if its event is older than 30 days."""
        async with self._database.transaction(by.tenant_id) as connection:
            delivery = await repository.redeliver(connection, by.tenant_id, delivery_id)
            if delivery is None:
                raise NotFound
            await append(connection, by, delivery_id, self._clock())
        return delivery

    async def recover(self, by: AuditAction, endpoint_id: str, since: datetime, until: datetime) -> int:
        """Deliver the events of `[since, until)` that the endpoint wants and never took; return how many.

        Raise `NotFound`, `EndpointDisabled`, or `Invalid` for more than `MOST_RECOVERED` events.
        """
        tenant_id = by.tenant_id
        await number(self._database, tenant_id)
        async with self._database.transaction(tenant_id) as connection:
            endpoint = await _require_active(connection, tenant_id, endpoint_id)
            position = recovered = seen = 0
            while True:
                found = await repository.events_between(connection, tenant_id, (since, until), position, _BATCH)
                wanted = [event for event in found if endpoint.wants(event.type, event.data)]
                seen += len(wanted)
                if seen > MOST_RECOVERED:
                    raise Invalid(f"since: more than {MOST_RECOVERED} events since then; recover a part at a time")
                recovered += await repository.add_deliveries(connection, endpoint, wanted, again=True)
                if len(found) < _BATCH:
                    break
                position = found[-1].sequence
            await append(connection, by, endpoint_id, self._clock())
        return recovered

    async def _require_reachable(self, url: str) -> None:
        """Raise `Invalid` for a URL that is never dialled."""
        try:
            await require_reachable(url, self._allowed, self._resolve)
        except EndpointRefused as fault:
            raise Invalid(f"url: {fault}") from fault


class EndpointSecrets:
    """The sealed secrets of all endpoints, for the rotation of the keys that seal them.

    A call that was interrupted can be repeated.
    """

    def __init__(self, database: Database, keyring: Sealer) -> None:
        self._database = database
        self._keyring = keyring

    async def count_old(self) -> int:
        """Return how many endpoints have a secret that is sealed with a key that is not the current one."""
        return len([endpoint async for endpoint in self._with_old_keys()])

    async def seal_again(self) -> int:
        """Seal those again, endpoint by endpoint, and return how many."""
        done = 0
        async for endpoint in self._with_old_keys():
            binding = secret_binding(endpoint)
            values = {
                name: self._keyring.seal(self._keyring.open(sealed, bound_to=binding), bound_to=binding)
                for name in ("secret_sealed", "old_secret_sealed")
                if (sealed := getattr(endpoint, name)) is not None
            }
            async with self._database.transaction(endpoint.tenant_id) as connection:
                current = await repository.find(connection, endpoint.tenant_id, endpoint.endpoint_id)
                if current is not None and current.secret_sealed == endpoint.secret_sealed:
                    await repository.change(connection, endpoint.tenant_id, endpoint.endpoint_id, values)
                    done += 1
        return done

    async def _with_old_keys(self) -> AsyncIterator[Endpoint]:
        after = ""
        while True:
            async with self._database.reading(ALL_TENANTS) as connection:
                found = await repository.list_of_all_tenants(connection, after, _BATCH)
            for endpoint in found:
                sealed = (endpoint.secret_sealed, endpoint.old_secret_sealed)
                if not all(self._keyring.is_current(one) for one in sealed if one is not None):
                    yield endpoint
            if len(found) < _BATCH:
                return
            after = found[-1].endpoint_id


def secret_binding(endpoint: Endpoint) -> tuple[str, ...]:
    """Return what a sealed secret is bound to: it cannot be opened in another row."""
    return (endpoint.tenant_id, endpoint.endpoint_id, "webhook_secret")


async def _require(connection: Connection, tenant_id: str, endpoint_id: str) -> Endpoint:
    endpoint = await repository.find(connection, tenant_id, endpoint_id) if is_plain(endpoint_id) else None
    if endpoint is None:
        raise NotFound
    return endpoint


async def _require_active(connection: Connection, tenant_id: str, endpoint_id: str) -> Endpoint:
    endpoint = await _require(connection, tenant_id, endpoint_id)
    if endpoint.status != "active":
        raise EndpointDisabled
    return endpoint
