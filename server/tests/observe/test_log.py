"""The log: lines of a request name request and tenant, and no line holds a secret, even with `debug`."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.responses import assert_rejected, data, is_now
from tests.api.samples import TEXT
from tests.deployments import Deployments
from tests.observe.metrics_page import until
from tests.servers.postgres import Postgres
from tests.servers.radosgw import RadosGateway
from tests.service import API, Service, running_service, unchecked_service

CANARY = "canary-of-this-test"


def lines(log: Path, request_id: str) -> list[dict[str, Any]]:
    found = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
    return [line for line in found if line.get("request_id") == request_id]


@pytest.mark.asvs("16.2.1", "16.2.2", "16.3.3")
def test_a_line_of_a_request_names_the_request_and_the_tenant(sqlite_local: Service) -> None:
    client = sqlite_local.new_client()
    response = client.upload("a.txt", b"", context=client.create_context())
    assert_rejected(response, "blank_document")
    (line,) = until(lambda: lines(sqlite_local.log, response.headers["request-id"]), bool)
    assert (line["event"], line["tenant_id"], line["level"]) == ("upload_rejected", client.tenant_id, "info")
    at = datetime.fromisoformat(line["timestamp"])
    assert (at.utcoffset(), is_now(line["timestamp"])) == (timedelta(0), True)


@pytest.mark.asvs("16.2.3")
def test_no_log_file_is_written_into_the_data_folder(sqlite_local: Service) -> None:
    sqlite_local.new_client().get("/contexts")
    data_dir = sqlite_local.deployment.data_dir
    # stored files may have any name
    kept = [path for path in data_dir.rglob("*") if path.is_file() and not path.is_relative_to(data_dir / "objects")]
    assert kept
    assert not {".log", ".txt", ".jsonl"} & {path.suffix for path in kept}


@pytest.fixture
def talkative(deployments: Deployments) -> Iterator[Service]:
    """A server with the setup of production and the log level `debug`."""
    with unchecked_service(deployments.fresh("postgres-s3"), LOG_LEVEL="debug") as service:
        yield service
        service.stop()


def test_a_debug_log_holds_no_secret(talkative: Service, gateway: RadosGateway) -> None:
    client = talkative.new_client().with_store()
    key = client.create_key("admin")
    client.add_bucket(name="second")
    context = client.create_context(description=CANARY, metadata={"of": CANARY})
    file_id = client.with_credential(key).store(context=context, metadata={"of": CANARY})
    link = data(client.get(f"/files/{file_id}"))["download_url"]
    client.with_credential(f"sl_live_{CANARY}").get("/files")
    client.with_authorization(f"Bearer {client.token()}x").get("/files")
    said = talkative.log.read_text()
    assert '"event": "serving"' in said
    secrets = (key.text, key.text.rpartition("_")[2], gateway.secret_key, link.partition("?")[2], client.token()[:40])
    assert [secret for secret in secrets if secret in said] == []
    assert CANARY not in said


@pytest.fixture
def spoilt(postgres: Postgres, deployments: Deployments, tmp_path: Path) -> Iterator[Service]:
    """A server whose tables a test may damage."""
    deployment = replace(deployments.fresh("sqlite-local"), database_url=postgres.createdb().replace("+asyncpg", ""))
    with unchecked_service(deployment) as service:
        yield service


@pytest.mark.asvs("16.3.4")
def test_an_unexpected_error_is_logged_with_a_traceback_but_no_values(spoilt: Service) -> None:
    client = spoilt.new_client()
    client.execute_sql("ALTER TABLE contexts RENAME COLUMN description TO something_else")
    body = {"context_key": "spoilt", "display_name": CANARY, "description": CANARY}
    headers = {"Authorization": str(client.authorization)}
    response = httpx.post(spoilt.url + API + "/contexts", json=body, headers=headers, timeout=30)
    assert (response.status_code, response.json()["message"]) == (500, "Internal error")
    (line,) = until(lambda: lines(spoilt.log, response.headers["request-id"]), bool)
    assert (line["event"], line["tenant_id"]) == ("unexpected_error", client.tenant_id)
    assert [word in line["exception"] for word in ("Traceback", "UndefinedColumn")] == [True, True]
    assert CANARY not in spoilt.log.read_text()


@pytest.fixture
def telling(deployments: Deployments) -> Iterator[Service]:
    with running_service(deployments.fresh("sqlite-local"), LOG_LOGINS="true", REMEMBER_SECONDS="10") as service:
        yield service


def _credentials(service: Service, response: httpx.Response) -> list[dict[str, Any]]:
    found = until(lambda: lines(service.log, response.headers["request-id"]), bool)
    return [line for line in found if line["event"].startswith("credential_")]


@pytest.mark.asvs("16.3.1")
def test_every_refused_credential_is_logged_with_its_kind(sqlite_local: Service) -> None:
    client = sqlite_local.new_client()
    key = client.create_key("metadata")
    client.delete(f"/api-keys/{key.api_key_id}")
    prefix = key.text[: len("sl_live_") + 12]
    client.get("/contexts")  # an accepted credential, which is not logged by default
    for sent, said in (
        (None, {"sent": "none"}),
        ("Basic dTpw", {"sent": "other"}),
        (f"Bearer {client.token()}x", {"sent": "jwt"}),
        (f"Bearer sl_live_{CANARY}", {"sent": "api_key"}),
        (f"Bearer {key.text}", {"sent": "api_key", "key_prefix": prefix}),
        (key.text, {"sent": "api_key", "key_prefix": prefix}),
    ):
        caller = client.with_authorization(sent) if sent else client.with_credential(None)
        response = caller.get("/contexts")
        assert response.status_code == 401
        (line,) = _credentials(sqlite_local, response)
        assert (line["event"], line["address"]) == ("credential_refused", "127.0.0.1")
        assert {name: line[name] for name in ("sent", "key_prefix") if name in line} == said
    log = sqlite_local.log.read_text()
    assert [secret for secret in (key.text, CANARY, "credential_believed") if secret in log] == []


@pytest.mark.asvs("16.3.1")
def test_every_accepted_credential_is_logged_when_enabled(telling: Service) -> None:
    client = telling.new_client()
    key, context = client.create_key("admin"), client.create_context()
    by_key, by_token = client.with_credential(key), client.with_credential(client.token(sub="user-7", scope="upload"))
    for caller, via, actor in ((by_key, "api_key", key.api_key_id), (by_token, "jwt", "sluice|user-7")):
        # the second upload uses the cached caller, and is logged too
        for response in (caller.get("/contexts"), *(caller.upload("a.txt", TEXT, context=context) for _ in range(2))):
            assert response.status_code in {200, 201}
            (line,) = _credentials(telling, response)
            assert (line["event"], line["via"], line["actor_id"]) == ("credential_believed", via, actor)
            assert (line["tenant_id"], line["address"]) == (client.tenant_id, "127.0.0.1")
