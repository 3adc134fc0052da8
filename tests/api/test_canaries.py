"""Secrets that must never be seen again: each is given to a running service, and then looked for in everything that it leaves behind."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select

from sluice.db.database import Database
from sluice.db.schema import metadata
from sluice.db.whose import EVERYBODY
from tests.api.answers import data
from tests.api.places import Places
from tests.gate import Gate, Service, running_service
from tests.servers.postgres import Postgres

BUCKET_SECRET = "canary-bucket-secret-3f1c9a"
WRONG_SECRET = "canary-wrong-secret-77e2d0"
WEBSITE = "canary-password-in-a-url-51ab"


@dataclass
class Watched:
    """A service at its most talkative, every answer that it gave, and the secrets that it was told."""

    service: Service
    answers: list[bytes] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)

    def hear(self, response: httpx.Response) -> None:
        self.answers.append(response.read() + repr(response.headers.raw).encode())


@pytest.fixture(scope="module")
def watched(places: Places, setup_name: str) -> Iterator[Watched]:
    settings = {
        "LOG_LEVEL": "debug",
        "BUCKET_PROBE": "false" if setup_name == "sqlite-local" else "true",
        "METRICS_TOKEN": "canary-metrics-token-9d",
    }
    with running_service(places.fresh(setup_name), **settings) as service:
        watched = Watched(service)
        watched.secrets["metrics token"] = settings["METRICS_TOKEN"]
        _use(watched)
        yield watched


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
