"""Three servers with two workers behind a proxy keep the promises of one server, while servers stop and start."""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.api import forms
from tests.api import test_concurrency as concurrency
from tests.api.responses import page
from tests.api.samples import noise
from tests.deployments import Deployments
from tests.fleet import Fleet, running_fleet
from tests.load import assert_downloadable, uploading_clients
from tests.observe.metrics_page import read_metrics
from tests.run_length import amount
from tests.scanning.waiting import until
from tests.servers import free_port
from tests.servers.proxies import running_nginx
from tests.servers.redis import RedisServer
from tests.service import API, ApiClient

SHARED_TESTS = [
    concurrency.test_concurrent_uploads_fill_the_quota_exactly,
    concurrency.test_concurrent_uploads_never_exceed_the_rate,
    concurrency.test_used_bytes_match_the_files_after_concurrent_changes,
    concurrency.test_only_one_of_concurrent_deletions_succeeds,
    concurrency.test_every_concurrent_download_link_is_counted,
    concurrency.test_revoked_key_stores_nothing_after_the_revocation,
]
QUOTA_MB = amount("FLEET_MB", short=1, full=3)
FITTING = amount("FLEET_FILES", short=20, full=300)
UPLOADS = FITTING * 10 // 3


@pytest.fixture(scope="module")
def fleet(deployments: Deployments, redis_server: RedisServer) -> Iterator[Fleet]:
    long_timeouts = {"UPLOADS_PER_TENANT": "1000", "UPLOAD_WAIT_SECONDS": "600", "SANDBOX_WAIT_SECONDS": "600"}
    long_timeouts |= {"DATABASE_WAIT_SECONDS": "300", "S3_CONNECT_SECONDS": "60", "S3_REQUEST_SECONDS": "300"}
    with running_fleet(deployments.fresh("postgres-s3"), redis_server, settings=long_timeouts) as running:
        yield running


@pytest.fixture
def client(fleet: Fleet) -> ApiClient:
    return fleet.service.new_client().with_store()


def test_proxy_spreads_requests_over_all_servers(fleet: Fleet, client: ApiClient) -> None:
    context = client.create_context()
    for _ in range(12):
        client.store(context=context)
    for server in fleet.servers:
        assert 'outcome="stored"' in read_metrics(server.url).text
    assert page(client.get("/files"))[1]["total"] == 12


@pytest.mark.parametrize("shared_test", SHARED_TESTS, ids=lambda test: test.__name__.removeprefix("test_"))
def test_counts_are_exact_across_servers(shared_test: Callable[[ApiClient], None], client: ApiClient) -> None:
    shared_test(client)


def test_buckets_are_changed_once_across_servers(fleet: Fleet) -> None:
    concurrency.test_concurrent_first_buckets_get_one_default(fleet.service.new_client())
    concurrency.test_readers_see_one_default_bucket_while_it_moves(fleet.service.new_client())
    concurrency.test_bucket_is_never_deleted_while_it_is_being_bound(client_on_s3=fleet.service.new_client())


@pytest.mark.timeout(900)
async def test_exactly_the_uploads_that_fit_the_quota_are_stored(client: ApiClient) -> None:
    context, size = (
        client.create_context(storage_quota_mb=QUOTA_MB, scan_for_viruses=False),
        QUOTA_MB * 2**20 // FITTING,
    )
    body = forms.encode([forms.file("a.zzz", noise(size)), forms.field("context", context)])
    headers = {"Content-Type": forms.content_type(), "Authorization": str(client.authorization)}
    limits = httpx.Limits(max_connections=UPLOADS)
    async with httpx.AsyncClient(base_url=client.service.url, timeout=800, limits=limits) as http:

        async def upload() -> int:
            """Upload, and retry after a 503 as long as Retry-After says."""
            response = await http.post(f"{API}/files/upload", content=body, headers=headers)
            if response.status_code != 503:
                return response.status_code
            await asyncio.sleep(int(response.headers["retry-after"]))
            return await upload()

        statuses = await asyncio.gather(*(upload() for _ in range(UPLOADS)))
    assert Counter(statuses) == {201: FITTING, 400: UPLOADS - FITTING}
    assert client.used_bytes(context) == FITTING * size
    assert page(client.get("/files"))[1]["total"] == FITTING


def test_acknowledged_files_survive_a_killed_server(deployments: Deployments, redis_server: RedisServer) -> None:
    lease = {"UPLOAD_LEASE_SECONDS": "2"}
    with running_fleet(deployments.fresh("postgres-s3"), redis_server, settings=lease, workers=1) as fleet:
        client = fleet.service.new_client().with_store()
        with uploading_clients(client, client.create_context(), clients=3, size=50_000) as load:
            assert until(lambda: len(load.stored) >= 10, 120)
            fleet.servers[1].process.kill()
            fleet.servers[2].process.send_signal(signal.SIGTERM)
            assert fleet.servers[2].process.wait(40) == 0
            assert until(lambda: len(load.stored) >= 30, 120)
        # the proxy's status for a server that died during the request
        assert load.statuses.keys() <= {201, 502, 503, 504}, load.unexpected
        assert load.statuses.total() - load.statuses[201] <= 6, load.statuses
        assert_downloadable(client, load)


def test_nginx_streams_bodies_without_buffering(fleet: Fleet, client: ApiClient, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    ports = [server.port for server in fleet.servers]
    with running_nginx(tmp_path, ports, port), httpx.Client(base_url=url, timeout=120) as http:
        client = replace(client, service=replace(client.service, url=url, port=port, http=http))
        context = client.create_context(max_file_size_mb=30)
        client.store("a.zzz", noise(30_000_000), context=context)
        assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size > 1_000_000]
        assert client.with_credential("sl_live_wrong").get("/files").status_code == 401
        assert httpx.get(f"{url}/metrics").status_code == 404
