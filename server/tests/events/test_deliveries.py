"""Deliveries by the worker: a receiver that hangs, a name with a new address, and how much is sent at once."""

import asyncio
import itertools
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import func, select

from sluice.buckets.endpoints import EndpointRefused
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import webhook_deliveries
from sluice.events.catalogue import TYPES
from sluice.events.record import StoredEvent
from sluice.outgoing.addresses import judged_addresses
from sluice.outgoing.posting import SignedPoster
from sluice.outgoing.signature import new_secret
from sluice.webhooks import repository
from sluice.webhooks.endpoint import ATTEMPTS, next_wait
from sluice.webhooks.sending import WebhookSender
from sluice.webhooks.service import EndpointDraft, Webhooks
from sluice.worker.jobs import webhooks as webhook_jobs
from sluice.worker.jobs.webhooks import WebhookDeliveries, WebhookOptions
from tests.db.rows import NOW, add_tenant
from tests.events.receiver import Receiver, running_receiver
from tests.events.test_numbering import deleted, write
from tests.operator_action import operator_action
from tests.rows import each_row
from tests.run_length import amount
from tests.worker.environment import KEYRING

EVENTS = amount("WEBHOOKS", short=100, full=10_000)
PATIENCE = 60.0
ALLOWED = ("127.0.0.1",)
NAME = "hooks.example.test"
EVENT = StoredEvent("evt_1", "ten_1", "file.deleted", NOW, TYPES["file.deleted"].example, 1).to_json()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running_receiver() as running:
        yield running


@asynccontextmanager
async def working(database: Database, options: WebhookOptions) -> AsyncIterator[None]:
    """Run the job of the worker until the block ends."""
    stop = asyncio.Event()
    job = asyncio.create_task(WebhookDeliveries(database, KEYRING, options, pause_seconds=0.05).run(stop))
    try:
        yield
    finally:
        stop.set()
        await job


async def add_endpoint(database: Database, receiver: Receiver, tenant_id: str = "ten_1") -> str:
    webhooks = Webhooks(database, KEYRING, ALLOWED)
    issued = await webhooks.create(operator_action(tenant_id), EndpointDraft(receiver.url, ("*",)))
    return issued.endpoint.endpoint_id


async def states(database: Database, endpoint_id: str) -> dict[str, int]:
    """Return how many deliveries to an endpoint are in each state."""
    columns = webhook_deliveries.c
    query = select(columns.state, func.count()).where(columns.endpoint_id == endpoint_id).group_by(columns.state)
    async with database.reading(ALL_TENANTS) as connection:
        return {row[0]: row[1] for row in (await connection.execute(query)).all()}


async def until(is_true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await is_true():  # noqa: ASYNC110  (no event tells)
            await asyncio.sleep(0.05)  # the job of the worker, so this polls


async def until_delivered(database: Database, endpoint_id: str, number: int) -> None:
    """Wait until `number` deliveries are noted, and assert that there is no other."""

    async def are_noted() -> bool:
        return (await states(database, endpoint_id)).get("delivered", 0) >= number

    await until(are_noted)
    assert await states(database, endpoint_id) == {"delivered": number}


async def until_attempted(database: Database, endpoint_id: str) -> tuple[int, str, str]:
    """Wait for the first attempt of the only delivery to an endpoint; return attempts, state and error."""
    columns = webhook_deliveries.c
    query = select(columns.attempts, columns.state, columns.error).where(columns.endpoint_id == endpoint_id)
    found: list[Any] = []

    async def is_noted() -> bool:
        async with database.reading(ALL_TENANTS) as connection:
            found[:] = (await connection.execute(query)).all()
        return bool(found) and found[0].attempts > 0

    await until(is_noted)
    ((attempts, state, error),) = found
    return attempts, state, error


@pytest.mark.timeout(240)
async def test_a_receiver_that_hangs_delays_no_other(tables: Database, receiver: Receiver) -> None:
    with running_receiver() as hanging:
        hanging.hang()
        await add_endpoint(tables, hanging)
        endpoint_id = await add_endpoint(tables, receiver)
        for start in range(0, EVENTS, 500):
            await write(tables, *(deleted(number) for number in range(start, min(start + 500, EVENTS))))
        began = time.monotonic()
        async with working(tables, WebhookOptions(ALLOWED, seconds=PATIENCE)):
            got = await asyncio.to_thread(receiver.wait_for, EVENTS, seconds=PATIENCE)
            await until_delivered(tables, endpoint_id, EVENTS)
        print(f"\n{EVENTS} events in {time.monotonic() - began:.1f} s")  # noqa: T201
    assert len({one.headers["webhook-id"] for one in got}) == EVENTS
    assert sorted(one.event["sequence"] for one in got) == list(range(1, EVENTS + 1))
    assert receiver.most <= 4
    assert hanging.most == 4


@pytest.mark.parametrize("tenants", [2, 4])
async def test_endpoints_of_many_tenants_that_hang_do_not_delay_another_tenant(
    tables: Database, receiver: Receiver, tenants: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two, a task is left; with four, all are held, and one is given up after a turn."""
    monkeypatch.setattr(webhook_jobs, "_ENDPOINTS", 3)
    monkeypatch.setattr(webhook_jobs, "_TURN_SECONDS", 0.3)
    with running_receiver() as hanging:
        hanging.hang()
        for number in range(tenants):
            await add_tenant(tables, f"ten_hangs{number}")
            for _ in range(2):
                await add_endpoint(tables, hanging, f"ten_hangs{number}")
            await write(tables, *(deleted(each) for each in range(30)), tenant_id=f"ten_hangs{number}")
        endpoint_id = await add_endpoint(tables, receiver)
        async with working(tables, WebhookOptions(ALLOWED, seconds=1.0 if tenants > 3 else PATIENCE)):
            await asyncio.to_thread(hanging.wait_for, min(tenants, 3), seconds=PATIENCE)
            await write(tables, deleted(1))
            began = time.monotonic()
            await until_delivered(tables, endpoint_id, 1)
        assert time.monotonic() - began < PATIENCE / 2


@each_row(
    "text",
    [
        *(
            "Fri, 31 Dec 9999 23:59:59 -2359",
            "Mon, 01 Jan 0001 00:00:00 +2359",
            "Thu, 01 Jan 2026 00:00:00 +99999999999999",
        ),
        *(
            "9" * 300,
            "-1",
            "1e9",
            "soon",
            "\xb2",
            "Thu, 01 Jan 99999999999 00:00:00 GMT",
            "Thu, 32 Jan 2026 00:00:00 GMT",
        ),
    ],
)
async def test_no_wait_that_a_receiver_asks_for_ends_an_attempt(receiver: Receiver, text: str) -> None:
    receiver.respond_with(503, Retry_After=text)
    async with sender(receiver, (NAME, "127.0.0.1/32"), lambda _host: ["127.0.0.1"]) as to:
        response = await to.send(EVENT)
    assert response.status == 503
    assert next_wait(1, response.retry_after) is not None


async def test_an_attempt_that_ends_in_any_fault_is_counted_and_stops_no_other(
    tables: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = SignedPoster._post
    # What is not expected is logged: half a character would not get through the report of a worker of xdist.
    faults = {"/bad": RuntimeError("unexpected"), "/worse": OSError("half a character: \udc80")}

    async def post_or_fail(self: SignedPoster, *given: Any) -> Any:
        fault = faults.get(urlsplit(self._url).path)
        if fault is not None:
            raise fault
        return await post(self, *given)

    monkeypatch.setattr(SignedPoster, "_post", post_or_fail)
    with running_receiver() as bad, running_receiver() as worse:
        bad.path, worse.path = faults
        bad_id, worse_id, good_id = [await add_endpoint(tables, each) for each in (bad, worse, receiver)]
        async with working(tables, WebhookOptions(ALLOWED)):
            await write(tables, deleted(1))
            await until_delivered(tables, good_id, 1)
            assert await until_attempted(tables, bad_id) == (1, "pending", "the attempt failed")
            assert await until_attempted(tables, worse_id) == (1, "pending", "the host cannot be reached")


async def test_a_response_that_cannot_be_stored_is_noted_without_its_content(
    tables: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = repository.note_attempts

    async def refuse(connection: Any, tenant_id: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if any(row["response_body"] for row in rows):
            raise RuntimeError("no database takes this")
        await note(connection, tenant_id, rows)

    monkeypatch.setattr(repository, "note_attempts", refuse)
    receiver.respond_with(500, b"something")
    endpoint_id = await add_endpoint(tables, receiver)
    async with working(tables, WebhookOptions(ALLOWED)):
        await write(tables, deleted(1))
        assert await until_attempted(tables, endpoint_id) == (1, "pending", "the response cannot be stored")
    assert len(receiver.got) == 1


async def test_an_unexpected_fault_does_not_end_the_renewal_of_a_lease(
    tables: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    renew, calls = repository.renew, list[int]()
    renewed = asyncio.Event()

    async def fail_once(*given: Any) -> bool:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("once")
        renewed.set()
        return await renew(*given)

    monkeypatch.setattr(repository, "renew", fail_once)
    receiver.hang()
    await add_endpoint(tables, receiver)
    async with working(tables, WebhookOptions(ALLOWED, lease=timedelta(seconds=0.6), seconds=PATIENCE)):
        await write(tables, deleted(1))
        await asyncio.wait_for(renewed.wait(), PATIENCE / 2)


async def test_a_batch_waits_for_another(tables: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint_id = await add_endpoint(tables, receiver)
    monkeypatch.setattr(webhook_jobs, "_DELIVERIES", 20)
    monkeypatch.setattr(webhook_jobs, "_NOTE_SECONDS", 0.02)
    await write(tables, *(deleted(number) for number in range(50)))  # more than two batches
    note, waits = repository.note_attempts, itertools.cycle((0.5, 0.0))

    async def note_late(*given: Any) -> None:
        await asyncio.sleep(next(waits))  # one write outlasts the rest of its batch, the next does not
        await note(*given)

    monkeypatch.setattr(repository, "note_attempts", note_late)
    async with working(tables, WebhookOptions(ALLOWED)):
        await until_delivered(tables, endpoint_id, 50)
    assert len(receiver.got) == 50


async def test_two_workers_send_each_event_once(tables: Database, receiver: Receiver) -> None:
    endpoint_id = await add_endpoint(tables, receiver)
    options = WebhookOptions(ALLOWED)
    async with working(tables, options), working(tables, options):
        await write(tables, *(deleted(number) for number in range(100)))
        await until_delivered(tables, endpoint_id, 100)
    assert len(receiver.got) == 100


@asynccontextmanager
async def sender(
    receiver: Receiver, allowed: Sequence[str], resolve: Callable[[str], list[str]], *, seconds: float = 15.0
) -> AsyncIterator[WebhookSender]:
    """Yield a sender to the receiver by the name `NAME`."""

    async def resolved(host: str) -> list[str]:
        assert host == NAME
        return resolve(host)

    url = receiver.url.replace("127.0.0.1", NAME)
    made = WebhookSender(url, [new_secret()], allowed, ssl.create_default_context(), resolve=resolved, seconds=seconds)
    try:
        yield made
    finally:
        await made.aclose()


async def test_a_name_is_resolved_once_for_an_attempt_and_the_judged_address_is_dialled(receiver: Receiver) -> None:
    responses = iter([["127.0.0.1"], ["10.0.0.1"], ["127.0.0.1", "169.254.169.254"], []])
    async with sender(receiver, (NAME, "127.0.0.1/32"), lambda _host: next(responses)) as to:
        assert (await to.send(EVENT)).status == 204
        assert receiver.got[0].headers["host"] == f"{NAME}:{receiver.port}"
        for why in ("does not allow", "does not allow", "no address"):
            refused = await to.send(EVENT)
            assert (refused.status, why in (refused.error or "")) == (None, True)
    assert (next(responses, None), len(receiver.got)) == (None, 1)


async def test_no_response_in_time_is_a_failure(receiver: Receiver) -> None:
    receiver.hang()
    async with sender(receiver, (NAME, "127.0.0.1/32"), lambda _host: ["127.0.0.1"], seconds=0.3) as to:
        response = await to.send(EVENT)
    assert (response.status, response.error) == (None, "no response within 0.3 s")


async def test_interim_answers_without_an_end_fail_the_attempt() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as threads:
        listening.settimeout(20)

        def flood() -> None:
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                while connection.send(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 4000):
                    pass

        flooding = threads.submit(flood)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        sent = WebhookSender(url, [new_secret()], ALLOWED, ssl.create_default_context())
        response = await sent.send(EVENT)
        await sent.aclose()
        flooding.result(10)
    assert (response.status, response.error) == (None, "a response of more than 64 KiB")


async def test_a_proxy_of_the_environment_is_not_used(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_receiver() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with sender(receiver, (NAME, "127.0.0.1/32"), lambda _host: ["127.0.0.1"]) as to:
            assert (await to.send(EVENT)).status == 204
        assert not proxy.got


@each_row("address", ["10.0.0.1", "::1", "::ffff:192.168.0.1", "64:ff9b::a00:1", "2002:a00:1::"])
@each_row("others", [[], ["93.184.216.34"]])
async def test_an_address_that_is_not_public_is_refused(address: str, others: list[str]) -> None:
    async def resolve(_host: str) -> list[str]:
        return [*others, address]

    with pytest.raises(EndpointRefused, match="does not allow"):
        await judged_addresses("https://app.example.com/hook", (), resolve)


def test_waits_follow_the_plan_with_jitter_and_end() -> None:
    for attempts, planned in enumerate(ATTEMPTS[1:], 1):
        waits = [next_wait(attempts, None) for _ in range(50)]
        assert all(wait is not None and planned * 0.9 <= wait <= planned * 1.1 for wait in waits)
        assert len(set(waits)) > 1
    assert next_wait(len(ATTEMPTS), None) is None
