"""The log: lines of a request say whose it is, and no line holds a secret, even at `debug` and even of a fault that nobody expected."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.answers import data, is_now, rejected
from tests.api.places import Places
from tests.api.samples import TEXT
from tests.gate import API, Service, running_service, unguarded_service
from tests.observe.numbers import until
from tests.servers.postgres import Postgres
from tests.servers.radosgw import RadosGateway

CANARY = "canary-of-this-test"


def lines(log: Path, request_id: str) -> list[dict[str, Any]]:
    found = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
    return [line for line in found if line.get("request_id") == request_id]


@pytest.mark.asvs("16.2.1", "16.2.2", "16.3.3")
def test_a_line_of_a_request_names_the_request_and_the_tenant(sqlite_local: Service) -> None:
    gate = sqlite_local.new_gate()
    answer = gate.upload("a.txt", b"", context=gate.context())
    rejected(answer, "blank_document")
    (line,) = until(lambda: lines(sqlite_local.log, answer.headers["request-id"]), bool)
    assert (line["event"], line["tenant_id"], line["level"]) == ("upload_rejected", gate.tenant_id, "info")
    at = datetime.fromisoformat(line["timestamp"])
    assert (at.utcoffset(), is_now(line["timestamp"])) == (timedelta(0), True)


@pytest.mark.asvs("16.2.3")
def test_the_log_goes_to_one_place(sqlite_local: Service) -> None:
    sqlite_local.new_gate().get("/contexts")
    data_dir = sqlite_local.place.data_dir
    # what strangers stored may be called anything
    kept = [path for path in data_dir.rglob("*") if path.is_file() and not path.is_relative_to(data_dir / "objects")]
    assert kept
    assert not {".log", ".txt", ".jsonl"} & {path.suffix for path in kept}


@pytest.fixture
def talkative(places: Places) -> Iterator[Service]:
    """A server in production's setup that logs all that it can."""
    with unguarded_service(places.fresh("postgres-s3"), LOG_LEVEL="debug") as service:
        yield service
        service.stop()


def test_the_most_talkative_log_holds_no_secret(talkative: Service, gateway: RadosGateway) -> None:
    gate = talkative.new_gate().with_store()
    key = gate.key("admin")
    gate.bucket(name="second")
    context = gate.context(description=CANARY, metadata={"of": CANARY})
    file_id = gate.as_(key).store(context=context, metadata={"of": CANARY})
    link = data(gate.get(f"/files/{file_id}"))["download_url"]
    gate.as_(f"sl_live_{CANARY}").get("/files")
    gate.with_header(f"Bearer {gate.token()}x").get("/files")
    said = talkative.log.read_text()
    assert '"event": "serving"' in said
    secrets = (key.text, key.text.rpartition("_")[2], gateway.secret_key, link.partition("?")[2], gate.token()[:40], CANARY)
    assert [secret for secret in secrets if secret in said] == []


@pytest.fixture
def spoilt(postgres: Postgres, places: Places, tmp_path: Path) -> Iterator[Service]:
    """A server of which a test may spoil the tables."""
    place = replace(places.fresh("sqlite-local"), database_url=postgres.createdb().replace("+asyncpg", ""))
    with unguarded_service(place) as service:
        yield service


@pytest.mark.asvs("16.3.4")
def test_an_unexpected_fault_is_logged_whole_but_for_the_values(spoilt: Service) -> None:
    gate = spoilt.new_gate()
    gate.sql("ALTER TABLE contexts RENAME COLUMN description TO something_else")
    body = {"context_key": "spoilt", "display_name": CANARY, "description": CANARY}
    answer = httpx.post(spoilt.url + API + "/contexts", json=body, headers={"Authorization": str(gate.authorization)}, timeout=30)
    assert (answer.status_code, answer.json()["message"]) == (500, "Internal error")
    (line,) = until(lambda: lines(spoilt.log, answer.headers["request-id"]), bool)
    assert (line["event"], line["tenant_id"]) == ("unexpected_fault", gate.tenant_id)
    assert "Traceback" in line["exception"]
    assert "UndefinedColumn" in line["exception"]
    assert CANARY not in spoilt.log.read_text()


@pytest.fixture
def telling(places: Places) -> Iterator[Service]:
    with running_service(places.fresh("sqlite-local"), LOG_LOGINS="true", REMEMBER_SECONDS="10") as service:
        yield service


def _credentials(service: Service, answer: httpx.Response) -> list[dict[str, Any]]:
    found = until(lambda: lines(service.log, answer.headers["request-id"]), bool)
    return [line for line in found if line["event"].startswith("credential_")]


@pytest.mark.asvs("16.3.1")
def test_every_credential_that_was_refused_has_a_line_with_what_it_was(sqlite_local: Service) -> None:
    gate = sqlite_local.new_gate()
    key = gate.key("metadata")
    gate.delete(f"/api-keys/{key.api_key_id}")
    prefix = key.text[: len("sl_live_") + 12]
    for sent, said in (
        (None, {"sent": "none"}),
        ("Basic dTpw", {"sent": "other"}),
        (f"Bearer {gate.token()}x", {"sent": "jwt"}),
        (f"Bearer sl_live_{CANARY}", {"sent": "api_key"}),
        (f"Bearer {key.text}", {"sent": "api_key", "key_prefix": prefix}),
        (key.text, {"sent": "api_key", "key_prefix": prefix}),
    ):
        answer = gate.with_header(sent).get("/contexts") if sent else gate.as_(None).get("/contexts")
        assert answer.status_code == 401
        (line,) = _credentials(sqlite_local, answer)
        assert line["event"] == "credential_refused"
        assert line["address"] == "127.0.0.1"
        assert {name: line[name] for name in ("sent", "key_prefix") if name in line} == said
    assert key.text not in sqlite_local.log.read_text()
    assert CANARY not in sqlite_local.log.read_text()


@pytest.mark.asvs("16.3.1")
def test_every_credential_that_was_believed_has_a_line_where_that_is_wanted(telling: Service) -> None:
    gate = telling.new_gate()
    key, context = gate.key("admin"), gate.context()
    by_key, by_token = gate.as_(key), gate.as_(gate.token(sub="user-7", scope="upload"))
    for caller, via, actor in ((by_key, "api_key", key.api_key_id), (by_token, "jwt", "sluice|user-7")):
        # the second upload is believed from memory: it has its line too
        for answer in (caller.get("/contexts"), *(caller.upload("a.txt", TEXT, context=context) for _ in range(2))):
            assert answer.status_code in {200, 201}
            (line,) = _credentials(telling, answer)
            assert (line["event"], line["via"], line["actor_id"]) == ("credential_believed", via, actor)
            assert (line["tenant_id"], line["address"]) == (gate.tenant_id, "127.0.0.1")


def test_a_credential_that_was_believed_has_no_line_else(sqlite_local: Service) -> None:
    gate = sqlite_local.new_gate()
    gate.as_(gate.key("metadata")).get("/contexts")
    assert "credential_believed" not in sqlite_local.log.read_text()
