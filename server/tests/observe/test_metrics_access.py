"""Access to `/metrics` and to the details of health: by token only; a worker has a port of its own."""

import asyncio
import signal
from collections.abc import Sequence

import httpx
import pytest

from sluice.api.app import make_monitoring_app
from sluice.api.routes.metrics import MetricsDesk, MetricsReaders
from sluice.kit.health import EngineHealth, EngineState
from tests.cli.commands import Sluice, sluice_in
from tests.observe.metrics_page import read_metrics, until
from tests.servers import free_port, listens
from tests.service import Service, forked_process

TOKEN = "a-token-of-this-test"


@pytest.mark.asvs("13.4.5")
def test_without_a_token_nobody_can_read_metrics(sluice: Sluice) -> None:
    """A proxy on the same machine that adds no header looks like the machine itself."""
    with sluice.running() as server:
        for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Bearer None"}, {"X-Unknown": "1"}):
            assert httpx.get(f"{server.url}/metrics", headers=headers).status_code == 404
        # The scanner is the builtin one, which is no antivirus.
        assert httpx.get(f"{server.url}/health/ready").json() == {"status": "degraded"}
    assert not MetricsReaders(None).admit({"authorization": "Bearer "})


@pytest.mark.asvs("13.4.5")
def test_with_a_token_only_its_holder_can_read_metrics() -> None:
    readers = MetricsReaders(TOKEN)
    assert readers.admit({"authorization": f"Bearer {TOKEN}"})
    for sent in ("", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", "Bearer \xff"):
        assert not readers.admit({"authorization": sent}), sent
    assert not readers.admit({})
    assert TOKEN not in repr(readers)


@pytest.mark.asvs("13.4.5")
def test_strangers_see_the_state_of_the_service_and_no_engine(sqlite_local: Service) -> None:
    client = sqlite_local.new_client()
    for headers in ({}, {"Authorization": client.authorization or ""}, {"Authorization": f"Bearer {TOKEN}"}):
        response = httpx.get(f"{sqlite_local.url}/health/ready", headers=headers)
        assert (response.status_code, response.json()) == (200, {"status": "degraded"})
    shown = sqlite_local.ready().json()
    assert shown["status"] == "degraded"  # the builtin scanner is no antivirus
    assert {engine["kind"] for engine in shown["engines"]} >= {"database", "storage", "sandbox", "scanner"}


async def test_health_of_the_engines_is_asked_for_once_a_second() -> None:
    asked = 0

    async def healths() -> Sequence[EngineHealth]:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return [EngineHealth("database", "sqlite", EngineState.UP)]

    app = make_monitoring_app(MetricsDesk(MetricsReaders(TOKEN)), healths)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        responses = await asyncio.gather(*(client.get("/health/ready") for _ in range(50)))
    assert {response.text for response in responses} == {'{"status":"up"}'}
    assert asked == 1


@pytest.mark.asvs("13.4.5")
def test_in_production_metrics_need_a_token(sluice: Sluice) -> None:
    sluice("init", "--json")
    production = sluice.with_settings(PRODUCTION="true", PUBLIC_URL="https://files.example")
    with production.running() as server:
        assert httpx.get(f"{server.url}/metrics").status_code == 404
    with production.with_settings(METRICS_TOKEN=TOKEN).running() as server:
        assert httpx.get(f"{server.url}/metrics").status_code == 404
        assert read_metrics(server.url, TOKEN)("sluice_engine_state", kind="database", engine="sqlite", state="up") == 1


def test_a_short_metrics_token_and_a_port_that_is_in_use_are_refused(sluice: Sluice, sqlite_local: Service) -> None:
    ended = sluice.with_settings(METRICS_TOKEN="short", PORT=str(free_port()))("serve")
    assert ended.code == 2
    assert ended.error_line.startswith("The settings are wrong. SLUICE_METRICS_TOKEN: ")
    ended = sluice.with_settings(WORKER_PORT=str(sqlite_local.port))("work")
    assert ended.code == 1
    assert ended.err.splitlines()[-1].endswith("Choose another SLUICE_HOST or SLUICE_WORKER_PORT.")


def test_a_worker_serves_health_and_metrics_until_it_is_stopped(sluice: Sluice) -> None:
    port = free_port()
    sluice("init", "--json")
    settings = sluice.with_settings(WORKER_PORT=str(port), WORKER_SECONDS="0.05", METRICS_TOKEN=TOKEN)
    log, url = sluice.folder / "worker", f"http://127.0.0.1:{port}"
    with forked_process("work", log, ready=lambda: listens(port), environment=settings.environment) as process:
        until(lambda: read_metrics(url, TOKEN), lambda page: page("sluice_worker_rounds_total", outcome="done") > 0)
        assert httpx.get(f"{url}/health/live").json() == {"status": "up"}
        assert httpx.get(f"{url}/metrics").status_code == 404
        assert httpx.get(f"{url}/health/ready", timeout=30).json() == {"status": "up"}
        ready = httpx.get(f"{url}/health/ready", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30).json()
        assert {engine["kind"]: engine["state"] for engine in ready["engines"]} == {"database": "up", "storage": "up"}
        assert httpx.get(f"{url}/api/v1/files").status_code == 404
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert '"event": "stopped"' in log.read_text()


@pytest.fixture
def sluice(tmp_path_factory: pytest.TempPathFactory) -> Sluice:
    return sluice_in(tmp_path_factory.mktemp("readers"))
