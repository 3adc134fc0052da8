"""What callers get while an engine is unavailable or cannot scan a file completely.

No file is accepted or charged. Each test has its own servers, because it stops them.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from sluice.kit.cipher import Keyring
from tests.api import raw_http
from tests.api.forms import content_type, encode, field, file
from tests.api.responses import assert_rejected, data, page
from tests.api.samples import TEXT, zip_of
from tests.deployments import Deployments
from tests.servers.clamd import running_clamd
from tests.servers.faults import Fault, fault_proxy
from tests.servers.postgres import Postgres
from tests.servers.radosgw import RadosGateway
from tests.servers.redis import running_redis
from tests.servers.threads import in_a_thread
from tests.service import ApiClient, Deployment, Service, running_service


@pytest.fixture
def external_servers() -> Iterator[ExitStack]:
    """Servers, and proxies in front of servers, that a test can stop at any time; the last one started stops first."""
    with ExitStack() as stack:
        yield stack


def _assert_unavailable(response: httpx.Response) -> None:
    assert response.status_code == 503, response.text
    assert response.json()["message"] == "Service temporarily unavailable"
    assert int(response.headers["retry-after"]) >= 1


def _assert_nothing_stored(client: ApiClient, context: str) -> None:
    assert client.get("/files").json()["data"] == []
    assert client.used_bytes(context) == 0


@contextmanager
def _client_with(deployments: Deployments, **settings: str) -> Iterator[ApiClient]:
    """An API client of a service on SQLite with these settings beside its own."""
    embedded = deployments.fresh("sqlite-local")
    with running_service(replace(embedded, settings={**embedded.settings, **settings})) as service:
        yield service.new_client()


@pytest.mark.asvs("5.4.3", "16.5.3", "16.5.2")
def test_file_is_rejected_if_the_scanner_can_not_scan_all_of_it_and_gets_503_while_that_is_away(
    deployments: Deployments, tmp_path: Path, external_servers: ExitStack
) -> None:
    limited = {"MaxFileSize": "2M"}
    clamd = external_servers.enter_context(running_clamd(tmp_path / "clamd", limited))
    with _client_with(deployments, SCANNER="clamd", CLAMD=clamd.address) as client:
        context = client.create_context(max_file_size_mb=1)
        large = zip_of(("a.txt", TEXT * (3 * 2**20 // len(TEXT))))  # a member larger than what clamd scans
        assert_rejected(client.upload("a.zip", large, context=context), "scan_incomplete")
        _assert_nothing_stored(client, context)
        assert client.object_keys() == set()
        rate = {"max_uploads": 2, "window_seconds": 3600}
        context = client.create_context(max_file_size_mb=1, upload_rate_limit=rate)
        client.store(context=context)
        external_servers.close()
        for _ in range(3):
            _assert_unavailable(client.upload("b.txt", TEXT * 2, context=context))
        assert client.used_bytes(context) == len(TEXT)
        assert len(client.object_keys()) == 1
        client.store(context=client.create_context(scan_for_viruses=False))
        with running_clamd(tmp_path / "clamd", limited):
            client.store("b.txt", TEXT * 2, context=context)
            assert_rejected(client.upload(context=context), "rate_limit_exceeded", 429)


def test_upload_returns_503_when_the_scanner_is_off_and_the_context_scans(deployments: Deployments) -> None:
    with _client_with(deployments, SCANNER="off") as client:
        context = client.create_context()
        _assert_unavailable(client.upload(context=context))
        _assert_nothing_stored(client, context)
        client.store(context=client.create_context(scan_for_viruses=False))
        token = data(client.post("/upload-tokens", {"context": context}), 201)
        _assert_unavailable(client.with_authorization(f"Bearer {token['token']}").upload(context=context))
        assert data(client.get(f"/upload-tokens/{token['token_id']}"))["attempts"] == 0


@pytest.mark.asvs("16.5.2")
def test_every_route_returns_503_when_the_database_is_unavailable(
    postgres: Postgres, tmp_path: Path, external_servers: ExitStack
) -> None:
    proxy = external_servers.enter_context(in_a_thread(fault_proxy(f"http://127.0.0.1:{postgres.port}")))
    url = postgres.createdb().replace("+asyncpg", "").replace(f":{postgres.port}/", f":{proxy.port}/")
    with running_service(Deployment("postgres", tmp_path, url, {"SCANNER": "builtin"})) as service:
        client = service.new_client()
        context = client.create_context()
        link = data(client.get(f"/files/{client.store(context=context)}"))["download_url"]
        objects = client.object_keys()
        external_servers.close()
        _assert_unavailable(httpx.get(link))
        assert httpx.get(f"{link}A").status_code == 403  # an invalid signature is refused without a query
        _assert_unavailable(client.get("/contexts"))
        _assert_unavailable(client.upload(context=context))
        _assert_unavailable(client.with_credential(client.token(scope="admin")).get("/files"))
        assert httpx.get(f"{service.url}/health/live").status_code == 200
        assert httpx.get(f"{service.url}/health/ready").status_code == 503
        assert client.object_keys() == objects


@pytest.mark.asvs("16.5.2")
def test_service_recovers_when_the_database_drops_every_connection(postgres: Postgres, tmp_path: Path) -> None:
    """The end of each connection gets lost: the next request on it gets a 503, and the one after that succeeds."""
    url = postgres.createdb().replace("+asyncpg", "")
    name = url.rpartition("/")[2]
    with in_a_thread(fault_proxy(f"http://127.0.0.1:{postgres.port}")) as proxy:
        behind = url.replace(f":{postgres.port}/", f":{proxy.port}/")
        with running_service(Deployment("postgres", tmp_path, behind, {"SCANNER": "builtin"})) as service:
            client = service.new_client()
            context = client.create_context()
            client.store(context=context)
            proxy.fault = Fault.NO_END
            postgres.psql(f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{name}'")
            asked = [client.upload(context=context) for _ in range(5)] + [client.get("/files") for _ in range(5)]
            assert {response.status_code for response in asked} == {200, 201, 503}
            assert all(int(response.headers["retry-after"]) >= 1 for response in asked if response.status_code == 503)
            proxy.fault = Fault.NONE
            client.store(context=context)
            assert len(page(client.get("/files"))[0]) == 2 + sum(response.status_code == 201 for response in asked)


def test_upload_returns_503_when_its_bucket_is_unavailable(
    deployments: Deployments, gateway: RadosGateway, external_servers: ExitStack
) -> None:
    proxy = external_servers.enter_context(in_a_thread(fault_proxy(gateway.endpoint)))
    hosts = proxy.endpoint.removeprefix("http://")
    embedded = deployments.fresh("sqlite-local")
    settings = {**embedded.settings, "BUCKET_ENDPOINT_HOSTS": hosts, "S3_RETRIES": "0", "S3_CONNECT_SECONDS": "1"}
    behind = replace(gateway, endpoint=proxy.endpoint)
    deployment = replace(embedded, settings=settings, gateway=behind, bucket=gateway.fresh_bucket())
    with running_service(deployment) as service:
        client = service.new_client().with_store()
        context = client.create_context()
        external_servers.close()
        _assert_unavailable(client.upload(context=context))
        _assert_nothing_stored(client, context)
        response = client.post(client.buckets, client.bucket_body())
        assert response.status_code in {422, 503}
        assert len(data(client.get(client.buckets))) == 1


@pytest.mark.asvs("16.5.3")
def test_upload_returns_503_when_the_limiter_is_unavailable(
    deployments: Deployments, tmp_path: Path, external_servers: ExitStack
) -> None:
    redis = external_servers.enter_context(running_redis(tmp_path / "redis"))
    with _client_with(deployments, LIMITER="redis", REDIS_URL=redis.url) as client:
        context = client.create_context(upload_rate_limit={"max_uploads": 2, "window_seconds": 3600})
        client.store(context=context)
        external_servers.close()
        began = time.monotonic()
        _assert_unavailable(client.upload(context=context))
        assert time.monotonic() - began < 5
        assert httpx.get(f"{client.service.url}/health/ready").status_code == 503
        assert client.used_bytes(context) == len(TEXT)
        client.store(context=client.create_context())  # a context without a rate limit does not use the limiter
        with running_redis(tmp_path / "again", port=redis.port):
            client.store(context=context)
            client.store(context=context)
            assert_rejected(client.upload(context=context), "rate_limit_exceeded", 429)


@pytest.mark.asvs("2.4.1")
def test_concurrent_uploads_of_one_tenant_are_bounded(limited_service: Service) -> None:
    """The limit is one here: the second upload waits for a third of a second and then gets a 429."""
    client = limited_service.new_client().with_store()
    context, other = client.create_context(), limited_service.new_client().with_store()
    body = encode([file("a.txt", TEXT), field("context", context)])
    lines = (f"Content-Type: {content_type()}", f"Content-Length: {len(body)}", "Expect: 100-continue")
    with raw_http.connection(client) as sock:
        sock.sendall(raw_http.request_head(client, *lines))
        assert sock.recv(1000).startswith(b"HTTP/1.1 100")  # it has its slot: its body is requested
        response = client.upload(context=context)
        other.store(context=other.create_context())
        sock.sendall(body)
        assert raw_http.read_response(sock).status == 201
    assert (response.status_code, response.json()["message"]) == (429, "Too many requests")
    assert int(response.headers["retry-after"]) >= 1
    client.store(context=context)


def test_bucket_is_unavailable_when_its_secret_can_not_be_unsealed(deployments: Deployments) -> None:
    """The keyring lacks the key that sealed the secret: nothing is stored or charged, and links are refused."""
    with running_service(deployments.fresh("sqlite-local"), BUCKET_PROBE="false") as service:
        client = service.new_client()
        context = client.create_context()
        file_id = client.store(context=context)
        used = client.used_bytes(context)
        new = {"name": "sealed", "access_key_id": "A" * 16, "secret_access_key": "s", "default_bucket": "bucket"}
        bucket_id = data(client.post(client.buckets, new), 201)["config_id"]
        bound_to = (client.tenant_id, bucket_id, "secret_access_key")
        sealed = Keyring({"elsewhere": bytes(32)}, "elsewhere").seal("s", bound_to=bound_to)
        set_secret = "UPDATE storage_configs SET secret_sealed = :sealed WHERE config_id = :id"
        client.execute_sql(set_secret, sealed=sealed, id=bucket_id)
        client.execute_sql("UPDATE files SET storage_config_id = :id WHERE file_id = :file", id=bucket_id, file=file_id)
        _assert_unavailable(client.upload("b.txt", TEXT * 2, context=context))
        _assert_unavailable(client.get(f"/files/{file_id}"))
        assert len(client.get("/files").json()["data"]) == 1
        assert client.used_bytes(context) == used
