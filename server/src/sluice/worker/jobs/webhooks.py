"""Webhooks: events become deliveries, and each endpoint with something to send gets a task of its own.

A task holds the lease of its endpoint, so an endpoint is sent at most four events at once, by all workers together, and
a slow one delays only itself. After a crash the lease ends, and what was not noted is sent again, with the same id.

The tasks of a worker are limited, and shared by the tenants that have something to send: none has more than its share,
and one share is left for a tenant that has nothing yet. While an endpoint waits for a task, those that have had theirs
for some seconds send no further event and give it up.
"""

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any, Final

from sluice.buckets.endpoints import Resolve, addresses_of
from sluice.db.database import Database, DatabaseUnavailable
from sluice.db.rls import ALL_TENANTS
from sluice.db.sql import load_now
from sluice.events import outbox
from sluice.events import repository as event_rows
from sluice.events.catalogue import EndpointDisabledEvent
from sluice.events.record import StoredEvent
from sluice.events.service import number_all
from sluice.kit.cipher import CannotOpen, Sealer
from sluice.kit.completion import run_to_completion
from sluice.kit.failpoints import failpoint
from sluice.observe.log import log
from sluice.observe.metrics import WEBHOOK_ATTEMPTS
from sluice.webhooks import repository
from sluice.webhooks.endpoint import Delivery, Endpoint, next_wait
from sluice.webhooks.sending import SendResult, WebhookSender
from sluice.webhooks.service import secret_binding
from sluice.worker.job import error_boundary, repeat

_LEASE: Final = timedelta(seconds=30)
_RENEW_SECONDS: Final = 5.0
_AT_ONCE: Final = 4
_EVENTS: Final = 500
_DELIVERIES: Final = 200
_ENDPOINTS: Final = 50  # tasks of one worker
_FOUND: Final = 4 * _ENDPOINTS  # endpoints that are considered at a time
_TURN_SECONDS: Final = 5.0  # after which a task is given up if another endpoint waits for one
_NOTE_SECONDS: Final = 0.25
_FAILING: Final = timedelta(days=5)
_NOT_STORED: Final = "the response cannot be stored"

Attempt = tuple[Delivery, SendResult]


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """The hosts on the operator's list, the resolver of names, and the length of a lease."""

    allowed: Collection[str]
    resolve: Resolve = addresses_of
    lease: timedelta = _LEASE
    seconds: float = 15.0


class WebhookDeliveries:
    """Sends events to the webhook endpoints of all tenants."""

    def __init__(self, database: Database, keyring: Sealer, options: WebhookOptions, *, pause_seconds: float) -> None:
        self._database = database
        self._keyring = keyring
        self._options = options
        self._pause_seconds = pause_seconds
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by endpoint
        self._held: Counter[str] = Counter()  # tasks by tenant
        self._waiting: frozenset[str] = frozenset()  # tenants with an endpoint for which there was no task

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return (
            ssl.create_default_context()
        )  # parses all certificates of the machine, 25 ms: not before there is an event

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; what is being sent is then given up, and sent again later."""
        try:
            await repeat("webhook_deliveries", self._start_tasks, stop=stop, pause_seconds=lambda: self._pause_seconds)
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _start_tasks(self) -> int:
        """Assign numbers to events, and start a task for each endpoint that has work. Return 0: the pause is short.

        Without any endpoint nothing needs numbers so soon: readers of the feed and rounds of the worker assign them.
        """
        async with self._database.reading(ALL_TENANTS) as connection:
            if not await repository.list_of_all_tenants(connection, "", 1):
                return 0
        await number_all(self._database)
        async with self._database.reading(ALL_TENANTS) as connection:
            found = await repository.find_endpoints_with_work(connection, _FOUND)
        share = max(1, _ENDPOINTS // (1 + len({tenant_id for tenant_id, _ in found} | self._held.keys())))
        waiting = set()
        for tenant_id, endpoint_id in found:
            if endpoint_id in self._tasks:
                continue
            if len(self._tasks) < _ENDPOINTS and self._held[tenant_id] < share:
                self._held[tenant_id] += 1
                self._tasks[endpoint_id] = asyncio.create_task(self._serve(tenant_id, endpoint_id))
            else:
                waiting.add(tenant_id)
        self._held = +self._held
        self._waiting = frozenset(waiting)
        return 0

    def _gives_way(self, tenant_id: str) -> bool:
        """Return whether an endpoint waits for the task of one of this tenant."""
        return tenant_id in self._waiting or (bool(self._waiting) and len(self._tasks) >= _ENDPOINTS)

    async def _serve(self, tenant_id: str, endpoint_id: str) -> None:
        try:
            with error_boundary("webhook_deliveries", endpoint_id=endpoint_id):
                async with self._database.transaction(tenant_id) as connection:
                    endpoint = await repository.claim(connection, tenant_id, endpoint_id, self._options.lease)
                if endpoint is not None:
                    await self._serve_claimed(endpoint)
        except DatabaseUnavailable as fault:
            log.warning("worker_waits", job="webhook_deliveries", fault=str(fault))
        finally:
            del self._tasks[endpoint_id]
            self._held[tenant_id] -= 1

    async def _serve_claimed(self, endpoint: Endpoint) -> None:
        try:
            async with self._database.reading(ALL_TENANTS) as connection:
                now = await load_now(connection)
            sealed = [endpoint.secret_sealed]
            # The secret before the current one signs too, for its last day.
            if endpoint.old_secret_sealed and endpoint.old_secret_until and endpoint.old_secret_until > now:
                sealed.append(endpoint.old_secret_sealed)
            secrets = [self._keyring.open(one, bound_to=secret_binding(endpoint)) for one in sealed]
        except CannotOpen as fault:
            log.warning("webhook_secret_unreadable", endpoint_id=endpoint.endpoint_id, fault=str(fault))
            return  # the lease ends, and a host with the newer keyring may take it
        sender = WebhookSender(
            endpoint.url,
            secrets,
            self._options.allowed,
            self._tls,
            resolve=self._options.resolve,
            seconds=self._options.seconds,
        )
        gives_way = partial(self._gives_way, endpoint.tenant_id)
        run = _EndpointRun(self._database, endpoint, sender, self._options.lease, gives_way)
        is_defect = False
        try:
            await run.run()
        except Exception:
            is_defect = True  # the lease ends by itself: at once, the same would happen again
            raise
        finally:
            # Also when the worker stops just now: a connection must not stay open.
            await run_to_completion(sender.aclose())
            if not is_defect:
                with suppress(DatabaseUnavailable):
                    async with self._database.transaction(endpoint.tenant_id) as connection:
                        await repository.release(connection, endpoint.tenant_id, endpoint.endpoint_id)


class _EndpointRun:
    """Sends all that is due to one endpoint, while its lease is held."""

    def __init__(
        self,
        database: Database,
        endpoint: Endpoint,
        sender: WebhookSender,
        lease: timedelta,
        gives_way: Callable[[], bool],
    ) -> None:
        self._database = database
        self._endpoint = endpoint
        self._sender = sender
        self._lease = lease
        self._gives_way = gives_way
        self._turn_ends = time.monotonic() + _TURN_SECONDS
        self._named = {"endpoint_id": endpoint.endpoint_id}
        self._sequence = endpoint.sequence
        self._failing_since = endpoint.failing_since
        self._results: list[Attempt] = []
        self._noting = asyncio.Lock()  # what is due is read only after all results are recorded
        self._over = asyncio.Event()  # the endpoint was changed, disabled or deleted, or the lease was lost

    async def run(self) -> None:
        keeping = [asyncio.create_task(self._keep_lease()), asyncio.create_task(self._note_regularly())]
        try:
            while not self._over.is_set():
                more = await self._fan_out()
                async with self._database.reading(self._endpoint.tenant_id) as connection:
                    due = await repository.due_deliveries(connection, self._endpoint, _DELIVERIES)
                if not due and not more:
                    return
                await self._send_all(due)
                await self._note()
                if self._must_end():
                    return
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)
            await self._note()

    async def _fan_out(self) -> bool:
        """Make the deliveries of the next events; return whether there may be more."""
        tenant_id = self._endpoint.tenant_id
        async with self._database.transaction(tenant_id) as connection:
            found = await event_rows.list_after(connection, tenant_id, self._sequence, (), _EVENTS)
            if not found:
                return False
            wanted = [event for event in found if self._endpoint.wants(event.type, event.data)]
            await repository.add_deliveries(connection, self._endpoint, wanted)
            await repository.move_on(connection, self._endpoint, found[-1].sequence)
        self._sequence = found[-1].sequence
        return len(found) == _EVENTS

    async def _send_all(self, due: Sequence[tuple[Delivery, StoredEvent]]) -> None:
        waiting = iter(due)

        async def send_next() -> None:
            for delivery, event in waiting:
                if self._must_end():
                    return
                result = await self._sender.send(event.to_json())
                failpoint("webhook.sent")
                self._results.append((delivery, result))
                if result.is_gone:
                    self._over.set()

        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(send_next())

    def _must_end(self) -> bool:
        return self._over.is_set() or (time.monotonic() > self._turn_ends and self._gives_way())

    async def _note_regularly(self) -> None:
        while True:
            await asyncio.sleep(_NOTE_SECONDS)
            with suppress(DatabaseUnavailable), error_boundary("webhook_deliveries", **self._named):
                await self._note()

    async def _note(self) -> None:
        """Write the results of the attempts since the last call; they are sent again if that fails for good."""
        async with self._noting:
            try:
                await self._note_results()
            except DatabaseUnavailable:
                raise
            except Exception:  # noqa: BLE001  (an attempt that cannot be noted would be made again and again)
                log.exception("webhook_answer_not_stored", **self._named)
                bare = [replace(result, headers=(), body="", error=_NOT_STORED) for _, result in self._results]
                self._results = [(each[0], result) for each, result in zip(self._results, bare, strict=True)]
                await self._note_results()

    async def _note_results(self) -> None:
        results, self._results = self._results, []
        if not results:
            return
        try:
            async with self._database.transaction(self._endpoint.tenant_id) as connection:
                now = await load_now(connection)
                rows = [_noted(delivery, result, now) for delivery, result in results]
                await repository.note_attempts(connection, self._endpoint.tenant_id, rows)
                since = None if any(result.is_success for _, result in results) else self._failing_since or now
                if since != self._failing_since:
                    await repository.note_health(connection, self._endpoint, since)
                reason: Any = None
                if any(result.is_gone for _, result in results):
                    reason = "gone"
                elif since is not None and now - since >= _FAILING:
                    reason = "failing"
                if reason is not None and await repository.disable(connection, self._endpoint, reason, now):
                    event = EndpointDisabledEvent(
                        endpoint_id=self._endpoint.endpoint_id, url=self._endpoint.url, reason=reason
                    )
                    await outbox.add(connection, self._endpoint.tenant_id, event, now)
        except BaseException:
            self._results = results + self._results
            raise
        self._failing_since = since
        for row in rows:
            WEBHOOK_ATTEMPTS.labels(row["state"]).inc()
        if reason is not None:
            log.warning("webhook_endpoint_disabled", endpoint_id=self._endpoint.endpoint_id, reason=reason)
            self._over.set()

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(min(_RENEW_SECONDS, self._lease.total_seconds() / 3))
            with suppress(DatabaseUnavailable), error_boundary("webhook_deliveries", **self._named):
                async with self._database.transaction(self._endpoint.tenant_id) as connection:
                    if not await repository.renew(connection, self._endpoint, self._lease):
                        self._over.set()


def _noted(delivery: Delivery, result: SendResult, now: datetime) -> dict[str, Any]:
    wait = None if result.is_success else next_wait(delivery.attempts + 1, result.retry_after)
    state = "delivered" if result.is_success else "failed" if wait is None else "pending"
    return {
        "delivery_id": delivery.delivery_id,
        "wait_seconds": None if wait is None else wait.total_seconds(),
        "state": state,
        "attempts": delivery.attempts + 1,
        "attempted_at": now,
        "response_status": result.status,
        "response_headers": list(result.headers),
        "response_body": result.body,
        "error": result.error,
        "duration_ms": result.duration_ms,
    }
