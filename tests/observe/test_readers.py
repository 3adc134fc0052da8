"""Who may read `/metrics`: a known token, or without one this machine; a worker answers at a port of its own."""

import signal

import httpx
import pytest

from sluice.api.routes.metrics import MetricsReaders
from tests.cli.commands import Sluice, sluice_in
from tests.gate import Service, forked
from tests.observe.numbers import numbers, until
from tests.servers import free_port, listens

TOKEN = "a-token-of-this-test"
HERE = MetricsReaders(None, from_here=True)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1"])
def test_without_a_token_this_machine_may_read(address: str) -> None:
    assert HERE.admit(address, {})


@pytest.mark.parametrize("address", ["10.0.0.7", "192.0.2.1", "2001:db8::1", "0.0.0.0", "testclient", ""])
@pytest.mark.asvs("13.4.5")
def test_without_a_token_no_other_machine_may(address: str) -> None:
    assert not HERE.admit(address, {})


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"])
def test_what_came_through_a_proxy_came_from_elsewhere(header: str, sqlite_local: Service) -> None:
    assert httpx.get(f"{sqlite_local.url}/metrics").status_code == 200
    answer = httpx.get(f"{sqlite_local.url}/metrics", headers={header: "127.0.0.1"})
    assert (answer.status_code, answer.json()["errors"]) == (404, ["Not found"])


def test_with_a_token_only_who_knows_it_may() -> None:
    readers = MetricsReaders(TOKEN, from_here=True)
    assert readers.admit("192.0.2.1", {"authorization": f"Bearer {TOKEN}"})
    for sent in ("", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", "Bearer \xff"):
        assert not readers.admit("127.0.0.1", {"authorization": sent}), sent
    assert not readers.admit("127.0.0.1", {})
    assert TOKEN not in repr(readers)


@pytest.mark.asvs("13.4.5")
def test_in_production_nobody_may_without_a_token(sluice: Sluice) -> None:
    sluice("init", "--json")
    with sluice.with_settings(PRODUCTION="true").running() as server:
        assert httpx.get(f"{server.url}/metrics").status_code == 404
    with sluice.with_settings(PRODUCTION="true", METRICS_TOKEN=TOKEN).running() as server:
        assert httpx.get(f"{server.url}/metrics").status_code == 404
        assert numbers(server.url, TOKEN)("sluice_engine_state", kind="database", engine="sqlite", state="up") == 1


def test_a_short_token_is_refused(sluice: Sluice) -> None:
    ended = sluice.with_settings(METRICS_TOKEN="short", PORT=str(free_port()))("serve")
    assert ended.code == 2
    assert ended.complaint.startswith("The settings are wrong. SLUICE_METRICS_TOKEN: ")


def test_a_worker_answers_monitors_at_its_port_until_it_is_told_to_end(sluice: Sluice) -> None:
    port = free_port()
    sluice("init", "--json")
    environment = sluice.with_settings(WORKER_PORT=str(port), WORKER_SECONDS="0.05").environment
    log, url = sluice.folder / "worker", f"http://127.0.0.1:{port}"
    with forked("work", log, ready=lambda: listens(port), environment=environment) as process:
        until(lambda: numbers(url), lambda page: page("sluice_worker_rounds_total", outcome="done") > 0)
        assert httpx.get(f"{url}/health/live").json() == {"status": "up"}
        ready = httpx.get(f"{url}/health/ready", timeout=30).json()
        assert {engine["kind"]: engine["state"] for engine in ready["engines"]} == {"database": "up", "storage": "up"}
        assert httpx.get(f"{url}/api/v1/files").status_code == 404
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert '"event": "stopped"' in log.read_text()


def test_a_taken_port_of_a_worker_is_said(sluice: Sluice, sqlite_local: Service) -> None:
    ended = sluice.with_settings(WORKER_PORT=str(sqlite_local.port))("work")
    assert ended.code == 3
    assert ended.err.splitlines()[-1].endswith("Choose another SLUICE_HOST or SLUICE_WORKER_PORT.")


@pytest.fixture
def sluice(tmp_path_factory: pytest.TempPathFactory) -> Sluice:
    return sluice_in(tmp_path_factory.mktemp("readers"))
