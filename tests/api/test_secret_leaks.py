"""Secrets that must never be seen again: each is given to a running service, and then looked for in everything that it leaves behind."""

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
from sluice.db.schema import metadata
from sluice.db.whose import EVERYBODY
from tests.api.answers import data
from tests.api.places import Places
from tests.gate import API, Gate, Place, Service, running_service
from tests.observe.numbers import until
from tests.servers.collector import Collector, running_collector
from tests.servers.postgres import Postgres
from tests.servers.redis import RedisServer

BUCKET_SECRET = "canary-bucket-secret-3f1c9a"
WRONG_SECRET = "canary-wrong-secret-77e2d0"
WEBSITE = "canary-password-in-a-url-51ab"
PASSWORDS = {
    "database password": "canary-database-password-c41e",
    "password of the owner": "canary-owner-password-88d3",
    "Redis password": "canary-redis-password-2b70",
}
"""Servers of tests ask for none, and take any."""
ATTRIBUTES = {
    *("http.request.method", "http.response.status_code", "http.route"),
    *("sluice.request_id", "sluice.tenant_id", "sluice.cancelled", "error.type"),
}
"""All that a span may say."""


@dataclass
class Watched:
    """A service at its most talkative, every answer that it gave, and the secrets that it was told."""

    service: Service
    collector: Collector
    answers: list[bytes] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)

    def hear(self, response: httpx.Response) -> None:
        self.answers.append(response.read() + repr(response.headers.raw).encode())


@pytest.fixture(scope="module")
def watched(places: Places, setup_name: str, request: pytest.FixtureRequest) -> Iterator[Watched]:
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
        place = _with_passwords(places.fresh(setup_name))
        with running_service(place, **settings) as service:
            watched = Watched(service, collector)
            watched.secrets |= PASSWORDS | {"metrics token": settings["METRICS_TOKEN"]}
            _use(watched)
            if place.gateway is not None:
                _without_a_database(watched, request.getfixturevalue("postgres"))
            yield watched


def _with_passwords(place: Place) -> Place:
    if place.owner_url is None:
        return place
    user, _, where = place.database_url.partition("@")
    owner, _, there = place.owner_url.partition("@")
    urls = (f"{user}:{PASSWORDS['database password']}@{where}", f"{owner}:{PASSWORDS['password of the owner']}@{there}")
    return replace(place, database_url=urls[0], settings={**place.settings, "MIGRATION_DATABASE_URL": urls[1]})


def _use(watched: Watched) -> None:
    """Do with every secret what its owner does, and what goes wrong with it."""
    service = watched.service
    gate = service.new_gate()
    token = gate.token(scope="admin")
    assert gate.authorization is not None
    watched.secrets |= {
        "API key": gate.authorization.removeprefix("Bearer ")[21:],
        "signature of a token": token.rpartition(".")[2],
        "bucket secret": BUCKET_SECRET,
        "wrong bucket secret": WRONG_SECRET,
        "password in an address": WEBSITE,
    }
    watched.secrets |= _key_files(service.place.data_dir / "keys")
    service.http.event_hooks["response"].append(watched.hear)
    _with_credentials(gate, token)
    _everywhere(gate)
    _with_buckets(gate)
    service.http.event_hooks["response"].remove(watched.hear)


def _key_files(folder: Path) -> dict[str, str]:
    ring = json.loads((folder / "buckets.json").read_text())["keys"]
    pem = (folder / "jwt.pem").read_text().splitlines()[1]
    return {"sealing key": next(iter(ring.values())), "link secret": (folder / "links.hex").read_text().strip(), "signing key": pem}


def _with_credentials(gate: Gate, token: str) -> None:
    context = gate.context()
    file_id = gate.store(context=context)
    gate.get(f"/files/{file_id}")
    gate.as_(token).get("/files")
    gate.as_(token + "x").get("/files")
    gate.as_(f"{gate.authorization}x").get("/files")
    gate.get("/files", api_key=gate.authorization)
    gate.service.http.get("/metrics", headers={"Authorization": "Bearer canary-metrics-token-9d"})
    gate.service.http.get("/health/ready")


def _with_buckets(gate: Gate) -> None:
    body = {"name": "one", "access_key_id": "A" * 16, "secret_access_key": BUCKET_SECRET, "default_bucket": "bucket"}
    added = gate.post(gate.buckets, body)
    gate.post(gate.buckets, body | {"secret_access_key": 7, "region": BUCKET_SECRET * 9})
    gate.post(gate.buckets, body | {"name": "two", "endpoint_url": f"http://user:{WEBSITE}@127.0.0.1:1/"})
    if gate.service.place.gateway is not None:
        wrong = gate.bucket_body(secret_access_key=WRONG_SECRET)
        assert gate.post(gate.buckets, wrong).status_code == 422
        return
    config_id = data(added, 201)["config_id"]
    gate.patch(f"{gate.buckets}/{config_id}", {"access_key_id": "B" * 16, "secret_access_key": WRONG_SECRET})
    gate.upload(context=gate.context(storage_config_id=config_id))


def _everywhere(gate: Gate) -> None:
    """Ask every route, with ids that are there and ids that are secrets, and hand every secret in as a text."""
    known = {"context_key": gate.context(), "tenant_id": gate.tenant_id, "config_id": "bkt_none"}
    known |= {"file_id": gate.store(context=known["context_key"]), "api_key_id": gate.key("metadata").api_key_id}
    gate.service.http.get(data(gate.get(f"/files/{known['file_id']}"))["download_url"])
    for ids in (dict.fromkeys(known, BUCKET_SECRET), known):
        for method, path in sorted(ROUTE_SCOPES, reverse=True):
            gate.ask(method, path.removeprefix(API).format_map(ids), json={"name": 7, "secret_access_key": BUCKET_SECRET})
            gate.ask(method, path.removeprefix(API).format_map(ids), params={"secret": BUCKET_SECRET})


def _without_a_database(watched: Watched, postgres: Postgres) -> None:
    """Ask while the database lets nobody in: what a driver says of it names addresses."""
    name = watched.service.place.database_url.rpartition("/")[2]
    gate = watched.service.new_gate()
    postgres.psql(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    postgres.psql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    try:
        watched.hear(gate.get("/files"))
        watched.hear(gate.upload(context="any"))
        watched.hear(gate.service.http.get("/health/ready"))
    finally:
        postgres.psql(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    until(lambda: gate.get("/contexts").status_code, lambda status: status == 200)


@pytest.mark.asvs("14.2.6", "16.2.5")
def test_no_answer_holds_a_secret(watched: Watched) -> None:
    said = b"\n".join(watched.answers)
    assert len(watched.answers) > 10
    assert found(watched, said) == []


@pytest.mark.asvs("16.2.5")
def test_no_line_of_the_log_holds_a_secret(watched: Watched) -> None:
    log = watched.service.log.read_bytes()
    assert len(log) > 1000
    assert found(watched, log) == []


@pytest.mark.asvs("16.2.5")
def test_no_span_of_a_trace_holds_a_secret(watched: Watched) -> None:
    """Nor an address, a statement or the words of a fault, where secrets would be."""
    last = watched.service.new_gate().get("/contexts").headers["request-id"]
    until(lambda: watched.collector.trace_of(last), bool)
    spans = watched.collector.spans
    routes = {span.attributes["http.route"] for span in spans if "http.route" in span.attributes}
    assert routes >= {path for _, path in ROUTE_SCOPES}
    assert any(span.failed for span in spans)
    assert found(watched, watched.collector.received) == []
    assert {name for span in spans for name in span.attributes} <= ATTRIBUTES
    assert not any(span.events for span in spans)


@pytest.mark.asvs("16.2.5")
def test_no_row_of_the_database_holds_a_secret(watched: Watched) -> None:
    async def rows(database: Database) -> bytes:
        async with database.reading(EVERYBODY) as connection:
            tables = [(await connection.execute(select(table))).all() for table in metadata.sorted_tables]
        return repr(tables).encode()

    dump = watched.service.on_database(rows)
    assert b"Weir & Sons" in dump
    assert found(watched, dump) == []


@pytest.mark.asvs("16.2.5")
def test_no_dump_of_the_database_holds_a_secret(watched: Watched, request: pytest.FixtureRequest) -> None:
    place = watched.service.place
    if place.owner_url is not None:
        postgres: Postgres = request.getfixturevalue("postgres")
        dump = postgres.dump(place.owner_url)
    else:
        with closing(sqlite3.connect(place.data_dir / "sluice.db")) as connection:
            dump = "\n".join(connection.iterdump()).encode()
    assert b"Weir & Sons" in dump
    assert found(watched, dump) == []


def test_a_crash_leaves_no_core(watched: Watched) -> None:
    """The memory of a server does hold secrets, so none of it may come into a file."""
    limits = Path(f"/proc/{watched.service.process.pid}/limits")
    if not limits.exists():
        pytest.skip("the kernel tells no limits of a process")
    (core,) = [line.split() for line in limits.read_text().splitlines() if line.startswith("Max core file size")]
    assert core[4:6] == ["0", "0"]


def test_no_file_but_the_key_files_holds_a_secret(watched: Watched) -> None:
    folder = watched.service.place.data_dir
    held = {
        str(path.relative_to(folder)): found(watched, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and path.parent.name != "keys"
    }
    assert {path: names for path, names in held.items() if names} == {}


def found(watched: Watched, haystack: bytes) -> list[str]:
    """Answer the names of the secrets that are in it."""
    return [name for name, secret in watched.secrets.items() if secret.encode() in haystack]
