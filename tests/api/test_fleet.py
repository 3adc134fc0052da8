"""What holds on one server holds on three with two workers behind a proxy: counts are exact, and servers come and go unnoticed."""

import asyncio
import hashlib
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.api import forms
from tests.api import test_concurrency as at_once
from tests.api.answers import data, page
from tests.api.places import Places
from tests.api.samples import noise
from tests.fleet import Fleet, running_fleet
from tests.gate import API, Gate
from tests.length import amount
from tests.servers.proxies import running_nginx
from tests.servers.redis import RedisServer

PROMISES = [
    at_once.test_a_quota_is_filled_exactly,
    at_once.test_a_rate_is_kept_exactly,
    at_once.test_used_bytes_stay_the_sum_while_files_come_and_go,
    at_once.test_one_of_many_deletions_deletes,
    at_once.test_every_download_link_is_counted,
    at_once.test_a_revoked_key_stores_nothing_from_then_on,
]
BUCKET_PROMISES = [
    at_once.test_first_buckets_added_at_once_have_one_default,
    at_once.test_every_look_sees_one_default_while_it_moves,
]
QUOTA_MB = amount("FLEET_MB", short=1, whole=3)
SIZE = 10_485
"""A hundred of these fit into a megabyte, and no more."""
UPLOADS = 1000 * QUOTA_MB // 3


@pytest.fixture(scope="module")
def fleet(places: Places, redis_server: RedisServer) -> Iterator[Fleet]:
    patience = {
        "UPLOADS_PER_TENANT": "1000",
        "UPLOAD_WAIT_SECONDS": "600",
        "SANDBOX_WAIT_SECONDS": "600",
        "DATABASE_WAIT_SECONDS": "300",
        "S3_CONNECT_SECONDS": "60",
        "S3_REQUEST_SECONDS": "300",
    }
    with running_fleet(places.fresh("postgres-s3"), redis_server, settings=patience) as running:
        yield running


@pytest.fixture
def gate(fleet: Fleet) -> Gate:
    return fleet.service.new_gate().with_store()


def test_the_proxy_spreads_requests_over_all_servers(fleet: Fleet, gate: Gate) -> None:
    context = gate.context()
    for _ in range(12):
        gate.store(context=context)
    for server in fleet.servers:
        assert 'outcome="stored"' in httpx.get(f"{server.url}/metrics").text
    assert page(gate.get("/files"))[1]["total"] == 12


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__.removeprefix("test_"))
def test_counts_are_exact_across_servers(promise: Callable[[Gate], None], gate: Gate) -> None:
    promise(gate)


@pytest.mark.parametrize("promise", BUCKET_PROMISES, ids=lambda promise: promise.__name__.removeprefix("test_"))
def test_there_is_one_default_bucket_across_servers(promise: Callable[[Gate], None], fleet: Fleet) -> None:
    promise(fleet.service.new_gate())


@pytest.mark.parametrize("attempt", range(4))
def test_a_bound_bucket_is_never_deleted_across_servers(fleet: Fleet, attempt: int) -> None:
    at_once.test_a_bound_bucket_is_never_deleted(fleet.service.new_gate(), attempt)


@pytest.mark.timeout(900)
async def test_of_many_uploads_at_once_those_that_fit_are_stored(gate: Gate) -> None:
    context = gate.context(storage_quota_mb=QUOTA_MB, scan_for_viruses=False)
    body = forms.encode([forms.file("a.zzz", noise(SIZE)), forms.field("context", context)])
    headers = {"Content-Type": forms.content_type(), "Authorization": str(gate.authorization)}
    limits = httpx.Limits(max_connections=UPLOADS)
    async with httpx.AsyncClient(base_url=gate.service.url, timeout=800, limits=limits) as client:

        async def upload() -> int:
            """A client that is told to come back comes back."""
            answer = await client.post(f"{API}/files/upload", content=body, headers=headers)
            if answer.status_code != 503:
                return answer.status_code
            await asyncio.sleep(int(answer.headers["retry-after"]))
            return await upload()

        statuses = await asyncio.gather(*(upload() for _ in range(UPLOADS)))
    fitting = 100 * QUOTA_MB
    assert Counter(statuses) == {201: fitting, 400: UPLOADS - fitting}
    assert gate.used(context) == fitting * SIZE
    assert page(gate.get("/files"))[1]["total"] == fitting


def test_what_was_acknowledged_outlives_a_server_that_is_killed_and_one_that_drains(
    places: Places, redis_server: RedisServer
) -> None:
    with running_fleet(places.fresh("postgres-s3"), redis_server, settings={"UPLOAD_LEASE_SECONDS": "2"}) as fleet:
        gate = fleet.service.new_gate().with_store()
        context = gate.context()
        stored: dict[str, str] = {}
        odd: list[str] = []
        enough = [threading.Event() for _ in range(3)]

        def upload_on(number: int) -> None:
            for turn in range(30):
                content = noise(50_000, seed=number * 100 + turn)
                try:
                    answer = gate.upload("a.zzz", content, context=context)
                except httpx.TransportError:
                    continue
                if answer.status_code == 201:
                    stored[data(answer, 201)["file_id"]] = hashlib.sha256(content).hexdigest()
                else:
                    odd.append(f"{answer.status_code} {answer.text[:200]}")
                if turn == 8:
                    enough[number].set()

        threads = [threading.Thread(target=upload_on, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for one in enough:
            assert one.wait(120)
        fleet.servers[1].process.kill()
        fleet.servers[2].process.send_signal(signal.SIGTERM)
        assert fleet.servers[2].process.wait(40) == 0
        for thread in threads:
            thread.join()
        # the proxy's words for a server that died with the request
        assert {line.split()[0] for line in odd} <= {"502", "503", "504"}, odd
        assert len(odd) <= 6, odd
        assert len(stored) >= 80
        for file_id, digest in stored.items():
            link = data(gate.get(f"/files/{file_id}"))["download_url"]
            assert hashlib.sha256(httpx.get(link, timeout=60).content).hexdigest() == digest


def test_nginx_passes_bodies_on_as_they_come(places: Places, redis_server: RedisServer) -> None:
    with running_fleet(places.fresh("postgres-s3"), redis_server, proxy=running_nginx) as fleet:
        gate = fleet.service.new_gate().with_store()
        context = gate.context(max_file_size_mb=30)
        gate.store("a.zzz", noise(30_000_000), context=context)
        proxy = fleet.service.place.folder / "proxy"
        assert not [path for path in proxy.rglob("*") if path.is_file() and path.stat().st_size > 1_000_000]
        assert gate.as_("sl_live_wrong").get("/files").status_code == 401
        assert httpx.get(f"{fleet.service.url}/metrics").status_code == 404
