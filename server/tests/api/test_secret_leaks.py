"""Secrets never leak: each is given to a running service, and then searched in everything that the service writes."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select

from sluice.access import ROUTE_SCOPES
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import metadata
from tests.api.responses import data
from tests.deployments import Deployments
from tests.observe.metrics_page import until
from tests.servers.collector import Collector, running_collector
from tests.servers.postgres import Postgres
from tests.servers.redis import RedisServer
from tests.service import API, ApiClient, Deployment, Service, running_service

BUCKET_SECRET = "canary-bucket-secret-3f1c9a"
WRONG_SECRET = "canary-wrong-secret-77e2d0"
URL_PASSWORD = "canary-password-in-a-url-51ab"
PASSWORDS = {
    "database password": "canary-database-password-c41e",
    "password of the owner": "canary-owner-password-88d3",
    "Redis password": "canary-redis-password-2b70",
}
"""The servers of the tests require no password and accept any."""
ATTRIBUTES = {
    *("http.request.method", "http.response.status_code", "http.route"),
    *("sluice.request_id", "sluice.tenant_id", "sluice.cancelled", "error.type"),
}
"""All attributes that a span may have."""


@dataclass
class WatchedService:
    """A service with the most verbose settings, all its responses, and the secrets that it was given."""

    service: Service
    collector: Collector
    responses: list[bytes] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)

    def record(self, response: httpx.Response) -> None:
        self.responses.append(response.read() + repr(response.headers.raw).encode())


@pytest.fixture(scope="module")
def watched(deployments: Deployments, setup_name: str, request: pytest.FixtureRequest) -> Iterator[WatchedService]:
    redis: RedisServer = request.getfixturevalue("redis_server")
    settings = {
        "LOG_LEVEL": "debug",
        "LIMITER": "redis",
        "REDIS_URL": redis.url.replace("//", f"//default:{PASSWORDS['Redis password']}@"),
        "BUCKET_PROBE": "false" if setup_name == "sqlite-local" else "true",
        "METRICS_TOKEN": "canary-metrics-token-9d",
    }
    with running_collector() as collector:
        settings |= {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        deployment = _with_passwords(deployments.fresh(setup_name))
        with running_service(deployment, **settings) as service:
            watched = WatchedService(service, collector)
            watched.secrets |= PASSWORDS | {"metrics token": settings["METRICS_TOKEN"]}
            _use_every_secret(watched)
            if deployment.gateway is not None:
                _use_without_database(watched, request.getfixturevalue("postgres"))
            yield watched


def _with_passwords(deployment: Deployment) -> Deployment:
    if deployment.owner_url is None:
        return deployment
    user, _, where = deployment.database_url.partition("@")
    owner, _, there = deployment.owner_url.partition("@")
    urls = (f"{user}:{PASSWORDS['database password']}@{where}", f"{owner}:{PASSWORDS['password of the owner']}@{there}")
    settings = {**deployment.settings, "MIGRATION_DATABASE_URL": urls[1]}
    return replace(deployment, database_url=urls[0], settings=settings)


def _use_every_secret(watched: WatchedService) -> None:
    service = watched.service
    client = service.new_client()
    token = client.token(scope="admin")
    assert client.authorization is not None
    watched.secrets |= {
        "API key": client.authorization.removeprefix("Bearer ")[21:],
        "signature of a token": token.rpartition(".")[2],
        "bucket secret": BUCKET_SECRET,
        "wrong bucket secret": WRONG_SECRET,
        "password in an address": URL_PASSWORD,
    }
    upload_token = data(client.post("/upload-tokens", {"context": client.create_context()}), 201)["token"]
    watched.secrets["upload token"] = upload_token[21:]
    watched.secrets |= _key_files(service.deployment.data_dir / "keys")
    service.http.event_hooks["response"].append(watched.record)
    _use_credentials(client, token)
    _use_upload_token(client, upload_token)
    _call_every_route(client)
    _use_buckets(client)
    service.http.event_hooks["response"].remove(watched.record)


def _key_files(folder: Path) -> dict[str, str]:
    ring = json.loads((folder / "buckets.json").read_text())["keys"]
    pem = (folder / "jwt.pem").read_text().splitlines()[1]
    return {
        "sealing key": next(iter(ring.values())),
        "link secret": (folder / "links.hex").read_text().strip(),
        "signing key": pem,
        "key of receipts": json.loads((folder / "receipts.json").read_text())["private"],
    }


def _use_credentials(client: ApiClient, token: str) -> None:
    context = client.create_context()
    file_id = client.store(context=context)
    client.get(f"/files/{file_id}")
    client.with_credential(token).get("/files")
    client.with_credential(token + "x").get("/files")
    client.with_credential(f"{client.authorization}x").get("/files")
    client.get("/files", api_key=client.authorization)
    client.service.http.get("/metrics", headers={"Authorization": "Bearer canary-metrics-token-9d"})
    client.service.http.get("/health/ready")


def _use_upload_token(client: ApiClient, token: str) -> None:
    holder = client.with_credential(token)
    for credential in (holder, client.with_credential(f"{token}x"), client.with_authorization(token)):
        credential.upload(context="another")
        credential.get("/files")
        credential.get(f"/upload-tokens/{token}", token=token)
        credential.request("POST", "/upload-tokens", json={"context": token})


def _use_buckets(client: ApiClient) -> None:
    body = {"name": "one", "access_key_id": "A" * 16, "secret_access_key": BUCKET_SECRET, "default_bucket": "bucket"}
    added = client.post(client.buckets, body)
    client.post(client.buckets, body | {"secret_access_key": 7, "region": BUCKET_SECRET * 9})
    client.post(client.buckets, body | {"name": "two", "endpoint_url": f"http://user:{URL_PASSWORD}@127.0.0.1:1/"})
    if client.service.deployment.gateway is not None:
        wrong = client.bucket_body(secret_access_key=WRONG_SECRET)
        assert client.post(client.buckets, wrong).status_code == 422
        return
    config_id = data(added, 201)["config_id"]
    client.patch(f"{client.buckets}/{config_id}", {"access_key_id": "B" * 16, "secret_access_key": WRONG_SECRET})
    client.upload(context=client.create_context(storage_config_id=config_id))


def _call_every_route(client: ApiClient) -> None:
    """Call every route with known ids and with secrets as ids, and send every secret as a text."""
    known = {"context_key": client.create_context(), "tenant_id": client.tenant_id, "config_id": "bkt_none"}
    known |= {"check_name": "none", "example_id": "exm_none", "digest": "0" * 64}
    known |= {f"{noun}_id": f"{noun}_none" for noun in ("report", "endpoint", "delivery", "upload", "job")}
    known |= {
        "file_id": client.store(context=known["context_key"]),
        "api_key_id": client.create_key("metadata").api_key_id,
        "token_id": data(client.post("/upload-tokens", {"context": known["context_key"]}), 201)["token_id"],
    }
    client.service.http.get(data(client.get(f"/files/{known['file_id']}"))["download_url"])
    for ids in (dict.fromkeys(known, BUCKET_SECRET), known):
        for method, route in sorted(ROUTE_SCOPES, reverse=True):
            path = route.removeprefix(API).format_map(ids)
            client.request(method, path, json={"name": 7, "secret_access_key": BUCKET_SECRET})
            client.request(method, path, params={"secret": BUCKET_SECRET})


def _use_without_database(watched: WatchedService, postgres: Postgres) -> None:
    """Send requests while the database accepts no connection: a driver's error message contains addresses."""
    name = watched.service.deployment.database_url.rpartition("/")[2]
    client = watched.service.new_client()
    postgres.psql(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    postgres.psql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    try:
        watched.record(client.get("/files"))
        watched.record(client.upload(context="any"))
        watched.record(client.service.http.get("/health/ready"))
    finally:
        postgres.psql(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    until(lambda: client.get("/contexts").status_code, lambda status: status == 200)


@pytest.mark.asvs("14.2.6", "16.2.5")
def test_responses_log_and_files_other_than_keys_contain_no_secret(watched: WatchedService) -> None:
    said = b"\n".join(watched.responses)
    assert len(watched.responses) > 10
    assert secrets_in(watched, said) == []
    log = watched.service.log.read_bytes()
    assert len(log) > 1000
    assert secrets_in(watched, log) == []
    folder = watched.service.deployment.data_dir
    files = [path for path in folder.rglob("*") if path.is_file() and path.parent.name != "keys"]
    held = {str(path.relative_to(folder)): secrets_in(watched, path.read_bytes()) for path in files}
    assert {path: names for path, names in held.items() if names} == {}


@pytest.mark.asvs("16.2.5")
def test_trace_spans_contain_no_secret(watched: WatchedService) -> None:
    """Spans contain no address, statement or error message either."""
    last = watched.service.new_client().get("/contexts").headers["request-id"]
    until(lambda: watched.collector.trace_of(last), bool)
    spans = watched.collector.spans
    routes = {span.attributes["http.route"] for span in spans if "http.route" in span.attributes}
    assert routes >= {path for _, path in ROUTE_SCOPES}
    assert any(span.failed for span in spans)
    assert secrets_in(watched, watched.collector.received) == []
    assert {name for span in spans for name in span.attributes} <= ATTRIBUTES
    assert not any(span.events for span in spans)


@pytest.mark.asvs("16.2.5")
def test_database_contains_no_secret(watched: WatchedService, request: pytest.FixtureRequest) -> None:
    async def rows(database: Database) -> bytes:
        async with database.reading(ALL_TENANTS) as connection:
            tables = [(await connection.execute(select(table))).all() for table in metadata.sorted_tables]
        return repr(tables).encode()

    deployment = watched.service.deployment
    if deployment.owner_url is not None:
        postgres: Postgres = request.getfixturevalue("postgres")
        dump = postgres.dump(deployment.owner_url)
    else:
        with closing(sqlite3.connect(deployment.data_dir / "sluice.db")) as connection:
            dump = "\n".join(connection.iterdump()).encode()
    for written in (watched.service.on_database(rows), dump):
        assert b"Weir & Sons" in written
        assert secrets_in(watched, written) == []


def test_crash_writes_no_core_dump(watched: WatchedService) -> None:
    """The memory of a server contains secrets, so it must not be written to a file."""
    limits = Path(f"/proc/{watched.service.process.pid}/limits")
    if not limits.exists():
        pytest.skip("the kernel tells no limits of a process")
    (core,) = [line.split() for line in limits.read_text().splitlines() if line.startswith("Max core file size")]
    assert core[4:6] == ["0", "0"]


def secrets_in(watched: WatchedService, haystack: bytes) -> list[str]:
    return [name for name, secret in watched.secrets.items() if secret.encode() in haystack]
