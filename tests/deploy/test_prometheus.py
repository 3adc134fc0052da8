"""Each expression of the dashboard and of the alerts, run by a real Prometheus that scrapes a real server and a real worker.

The configuration is the one of `deploy/`, with its example addresses and intervals replaced.
"""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.answers import rejected
from tests.api.places import Places
from tests.engines.scanner.faulty_clamd import faulty_clamd, hearing_out
from tests.gate import Place, Service, environment_of, forked, running_service
from tests.observe.numbers import until
from tests.servers import free_port, listens
from tests.servers.prometheus import Prometheus, running_prometheus
from tests.servers.threads import in_a_thread

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "sluice.json").read_text())
TOKEN = "a-token-of-this-test"
EXPRESSIONS = [
    (panel["title"], target["expr"]) for panel in DASHBOARD["panels"] if panel["type"] != "row" for target in panel["targets"]
]


@pytest.fixture(scope="module")
def worker_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def production(places: Places) -> Place:
    return places.fresh("postgres-s3")


@pytest.fixture(scope="module")
def dated_clamd() -> Iterator[str]:
    """The address of a clamd whose signatures have a date, as bought ones have and those of the tests' real clamd have not."""
    with in_a_thread(faulty_clamd(hearing_out(b"stream: OK\0"))) as clamd:
        clamd.version = f"ClamAV 1.4.6/27500/{time.strftime('%a %b %e %H:%M:%S %Y', time.gmtime())}".encode()
        yield clamd.address


@pytest.fixture(scope="module")
def scraped(production: Place, dated_clamd: str) -> Iterator[Service]:
    """A server that has seen an upload of each ordinary fate, and no worker in it."""
    clamds = f"{production.settings['CLAMD']},{dated_clamd}"
    with running_service(production, METRICS_TOKEN=TOKEN, WORKER_INSIDE="false", CLAMD=clamds) as service:
        gate = service.new_gate().with_store()
        context = gate.context(upload_rate_limit={"max_uploads": 100, "window_seconds": 60})
        gate.store(context=context)
        rejected(gate.upload("a.txt", b"", context=context), "blank_document")
        yield service


@pytest.fixture(scope="module")
def prometheus(
    scraped: Service, worker_port: int, production: Place, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """A Prometheus that has scraped both processes some times."""
    folder = tmp_path_factory.mktemp("prometheus")
    settings = {"METRICS_TOKEN": TOKEN, "WORKER_PORT": str(worker_port)}
    environment = environment_of(production, scraped.port, **settings)
    targets = {"127.0.0.1:8000": f"127.0.0.1:{scraped.port}", "127.0.0.1:8001": f"127.0.0.1:{worker_port}"}
    with (
        forked("work", folder / "worker.log", ready=lambda: listens(worker_port), environment=environment),
        running_prometheus(folder, DEPLOY / "prometheus", targets, TOKEN) as running,
    ):
        scrapes = "min(count_over_time(sluice_info[5m])) >= 4 and count(sluice_info) == 2"
        until(lambda: running.query(scrapes), bool)
        yield running


def test_both_processes_are_scraped(prometheus: Prometheus) -> None:
    targets = prometheus.ask("targets", state="active")["activeTargets"]
    assert {target["labels"]["job"]: target["health"] for target in targets} == {"sluice": "up", "sluice-worker": "up"}


@pytest.mark.parametrize(("panel", "expression"), EXPRESSIONS)
def test_every_panel_of_the_dashboard_shows_something(panel: str, expression: str, prometheus: Prometheus) -> None:
    asked = expression.replace("$__rate_interval", "5m").replace("$instance", ".*")
    assert "$" not in asked
    assert prometheus.query(asked), f"{panel}: nothing is found by {asked}"


def test_every_alert_is_evaluated_without_an_error(prometheus: Prometheus) -> None:
    def rules() -> list[dict[str, Any]]:
        return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]

    until(rules, lambda found: bool(found) and all(rule["health"] != "unknown" for rule in found))
    assert {rule["name"]: rule.get("lastError", "") for rule in rules() if rule["health"] != "ok"} == {}


def test_every_number_and_label_that_an_alert_names_is_told(prometheus: Prometheus) -> None:
    for group in prometheus.ask("rules")["groups"]:
        for rule in group["rules"]:
            for name, matchers in re.findall(r"\b((?:sluice_|up\b)\w*)(?:\{([^}]*)\})?", rule["query"]):
                labels = re.findall(r"(\w+)(?:=|!)", matchers)
                told = ", ".join(f'{label}!=""' for label in labels)
                assert prometheus.query(f"{name}{{{told}}}") or not_yet_told(name, rule["name"]), (
                    f"{rule['name']}: {name}{{{told}}}"
                )


def not_yet_told(name: str, alert: str) -> bool:
    """Answer whether a number has no series as long as nothing went wrong; its alert's labels are in the tests of the rules."""
    return (name, alert) == ("sluice_connections_refused_total", "SluiceConnectionsRefused")


def test_a_healthy_service_wakes_nobody(prometheus: Prometheus) -> None:
    firing = prometheus.query('ALERTS{alertstate="firing"}')
    assert [alert["metric"]["alertname"] for alert in firing] == []


def test_the_dashboard_names_the_alerts_that_there_are() -> None:
    rules = (DEPLOY / "prometheus" / "sluice.rules.yml").read_text()
    named = re.findall(r"Alert: (\w+)", json.dumps(DASHBOARD))
    assert named
    for alert in named:
        assert f"- alert: {alert}\n" in rules
