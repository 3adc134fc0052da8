"""`/health/ready` and `/metrics` answer while the database hangs: that is when somebody asks."""

import time
from dataclasses import replace

import httpx

from tests.api.places import Places
from tests.gate import running_service
from tests.observe.numbers import numbers, until
from tests.servers.faults import Fault, fault_proxy
from tests.servers.postgres import Postgres
from tests.servers.threads import in_a_thread

_BOUND_SECONDS = 9.0
"""Prometheus waits for ten."""


def test_a_database_that_hangs_is_told_in_time_and_so_is_its_return(postgres: Postgres, places: Places) -> None:
    url = postgres.createdb().replace("+asyncpg", "")
    with in_a_thread(fault_proxy(f"http://127.0.0.1:{postgres.port}")) as proxy:
        behind = url.replace(f":{postgres.port}/", f":{proxy.port}/")
        place = replace(places.fresh("sqlite-local"), database_url=behind)
        with running_service(place, WORKER_INSIDE="false") as service:
            assert httpx.get(f"{service.url}/health/ready", timeout=30).status_code == 200
            proxy.fault = Fault.BLACK_HOLE
            began = time.monotonic()
            answer = httpx.get(f"{service.url}/health/ready", timeout=30)
            assert time.monotonic() - began < _BOUND_SECONDS
            states = {engine["kind"]: engine["state"] for engine in answer.json()["engines"]}
            assert (answer.status_code, states["database"], states["scanner"]) == (503, "down", "up")
            began = time.monotonic()
            page = numbers(service.url)
            assert time.monotonic() - began < _BOUND_SECONDS
            assert page("sluice_engine_state", kind="database", engine="postgresql", state="down") == 1
            assert page("sluice_pool_size", pool="database") >= 1
            proxy.fault = Fault.NONE
            until(lambda: httpx.get(f"{service.url}/health/ready", timeout=30).status_code, lambda status: status == 200)
