"""The dashboard and the alerts, evaluated by a real Prometheus that scrapes a real server and a real worker.

The configuration comes from `deploy/`, with its example addresses and intervals replaced.
"""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.responses import assert_rejected
from tests.deployments import Deployments
from tests.observe.metrics_page import until
from tests.rows import each_row
from tests.scanner.faulty_clamd import faulty_clamd, responds_after_bytes
from tests.servers import free_port, listens
from tests.servers.prometheus import Prometheus, running_prometheus
from tests.servers.threads import in_a_thread
from tests.service import Deployment, Service, environment_of, forked_process, running_service

DEPLOY = Path(__file__).parents[3] / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "sluice.json").read_text())
TOKEN = "a-token-of-this-test"
EXPRESSIONS = [
    (panel["title"], target["expr"])
    for panel in DASHBOARD["panels"]
    if panel["type"] != "row"
    for target in panel["targets"]
]


@pytest.fixture(scope="module")
def worker_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def production(deployments: Deployments) -> Deployment:
    return deployments.fresh("postgres-s3", clamd="clamd_address")


@pytest.fixture(scope="module")
def dated_clamd() -> Iterator[str]:
    """The address of a fake clamd whose signatures have a date, unlike those of the real clamd of the tests."""
    with in_a_thread(faulty_clamd(responds_after_bytes(b"stream: OK\0"))) as clamd:
        clamd.version = f"ClamAV 1.4.6/27500/{time.strftime('%a %b %e %H:%M:%S %Y', time.gmtime())}".encode()
        yield clamd.address


@pytest.fixture(scope="module")
def scraped(production: Deployment, dated_clamd: str) -> Iterator[Service]:
    """A server without a worker that has stored one upload and rejected one."""
    clamds = f"{production.settings['CLAMD']},{dated_clamd}"
    with running_service(production, METRICS_TOKEN=TOKEN, WORKER_INSIDE="false", CLAMD=clamds) as service:
        client = service.new_client().with_store()
        context = client.create_context(upload_rate_limit={"max_uploads": 100, "window_seconds": 60})
        client.store(context=context)
        assert_rejected(client.upload("a.txt", b"", context=context), "blank_document")
        yield service


@pytest.fixture(scope="module")
def prometheus(
    scraped: Service, worker_port: int, production: Deployment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """A Prometheus that has scraped both processes several times."""
    folder = tmp_path_factory.mktemp("prometheus")
    settings = {"METRICS_TOKEN": TOKEN, "WORKER_PORT": str(worker_port)}
    environment = environment_of(production, scraped.port, **settings)
    targets = {"127.0.0.1:8000": f"127.0.0.1:{scraped.port}", "127.0.0.1:8001": f"127.0.0.1:{worker_port}"}
    with (
        forked_process("work", folder / "worker.log", ready=lambda: listens(worker_port), environment=environment),
        running_prometheus(folder, DEPLOY / "prometheus", targets, TOKEN) as running,
    ):
        scrapes = "min(count_over_time(sluice_info[5m])) >= 4 and count(sluice_info) == 2"
        until(lambda: running.query(scrapes), bool)
        yield running


def test_prometheus_scrapes_server_and_worker(prometheus: Prometheus) -> None:
    targets = prometheus.ask("targets", state="active")["activeTargets"]
    assert {target["labels"]["job"]: target["health"] for target in targets} == {"sluice": "up", "sluice-worker": "up"}


@each_row("panel, expression", EXPRESSIONS)
def test_dashboard_panel_shows_data(panel: str, expression: str, prometheus: Prometheus) -> None:
    query = expression.replace("$__rate_interval", "5m").replace("$instance", ".*")
    assert "$" not in query
    assert prometheus.query(query), f"{panel}: {query} returns no series"


def test_alert_rules_evaluate_without_errors_and_fire_none_for_a_healthy_service(prometheus: Prometheus) -> None:
    def rules() -> list[dict[str, Any]]:
        return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]

    until(rules, lambda found: bool(found) and all(rule["health"] != "unknown" for rule in found))
    assert {rule["name"]: rule.get("lastError", "") for rule in rules() if rule["health"] != "ok"} == {}
    firing = prometheus.query('ALERTS{alertstate="firing"}')
    assert [alert["metric"]["alertname"] for alert in firing] == []


def test_metrics_and_labels_used_by_alerts_exist(prometheus: Prometheus) -> None:
    # It has no series until something fails; promtool's cases have its labels.
    later = ("sluice_connections_refused_total", "SluiceConnectionsRefused")
    for group in prometheus.ask("rules")["groups"]:
        for rule in group["rules"]:
            for name, matchers in re.findall(r"\b((?:sluice_|up\b)\w*)(?:\{([^}]*)\})?", rule["query"]):
                labels = re.findall(r"(\w+)(?:=|!)", matchers)
                selector = ", ".join(f'{label}!=""' for label in labels)
                query = f"{name}{{{selector}}}"
                assert prometheus.query(query) or (name, rule["name"]) == later, f"{rule['name']}: {query}"


def test_dashboard_names_existing_alerts() -> None:
    rules = (DEPLOY / "prometheus" / "sluice.rules.yml").read_text()
    named = re.findall(r"Alert: (\w+)", json.dumps(DASHBOARD))
    assert named
    for alert in named:
        assert f"- alert: {alert}\n" in rules
