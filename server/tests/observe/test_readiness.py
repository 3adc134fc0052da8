"""`/health/ready` and `/metrics` respond while the database hangs."""

import time
from dataclasses import replace

import httpx

from tests.deployments import Deployments
from tests.observe.metrics_page import read_metrics, until
from tests.servers.faults import Fault, fault_proxy
from tests.servers.postgres import Postgres
from tests.servers.threads import in_a_thread
from tests.service import Service, running_service

_BOUND_SECONDS = 9.0
"""Prometheus waits for ten seconds."""


def _timely(service: Service) -> httpx.Response:
    began = time.monotonic()
    response = service.ready()
    assert time.monotonic() - began < _BOUND_SECONDS
    return response


def test_readiness_and_metrics_answer_while_the_database_hangs(postgres: Postgres, deployments: Deployments) -> None:
    url = postgres.createdb().replace("+asyncpg", "")
    with in_a_thread(fault_proxy(f"http://127.0.0.1:{postgres.port}")) as proxy:
        behind = url.replace(f":{postgres.port}/", f":{proxy.port}/")
        deployment = replace(deployments.fresh("sqlite-local"), database_url=behind)
        with running_service(deployment, WORKER_INSIDE="false") as service:
            assert httpx.get(f"{service.url}/health/ready", timeout=30).status_code == 200
            proxy.fault = Fault.BLACK_HOLE
            response = until(
                lambda: _timely(service), lambda response: response.status_code == 503
            )  # it may be a second old
            states = {engine["kind"]: engine["state"] for engine in response.json()["engines"]}
            assert (states["database"], states["scanner"]) == ("down", "degraded")
            began = time.monotonic()
            page = read_metrics(service.url)
            assert time.monotonic() - began < _BOUND_SECONDS
            assert page("sluice_engine_state", kind="database", engine="postgresql", state="down") == 1
            assert page("sluice_pool_size", pool="database") >= 1
            proxy.fault = Fault.NONE
            until(lambda: httpx.get(f"{service.url}/health/ready", timeout=30).is_success, bool)
