"""What callers are told while a neighbour of the service is away or cannot look at all of a file: never a pass, nothing stored or charged.

Each test has servers of its own, since it ends them.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.api import raw
from tests.api.answers import data, page, rejected
from tests.api.forms import content_type, encode, field, file
from tests.api.places import Places
from tests.api.samples import TEXT, zip_of
from tests.gate import Gate, Place, Service, running_service
from tests.servers.clamd import running_clamd
from tests.servers.faults import Fault, fault_proxy
from tests.servers.postgres import Postgres, running_postgres
from tests.servers.radosgw import running_radosgw
from tests.servers.redis import running_redis
from tests.servers.threads import in_a_thread


@pytest.fixture
def neighbours() -> Iterator[ExitStack]:
    """Servers that a test ends when it likes: the last one entered first."""
    with ExitStack() as stack:
        yield stack


def _unavailable(answer: httpx.Response) -> None:
    assert answer.status_code == 503, answer.text
    assert answer.json()["message"] == "Service temporarily unavailable"
    assert int(answer.headers["retry-after"]) >= 1


def _nothing_happened(gate: Gate, context: str) -> None:
    assert gate.get("/files").json()["data"] == []
    assert gate.used(context) == 0


@pytest.mark.asvs("5.4.3", "16.5.3", "16.5.2")
def test_without_a_scanner_an_upload_is_told_to_come_back(places: Places, tmp_path: Path, neighbours: ExitStack) -> None:
    clamd = neighbours.enter_context(running_clamd(tmp_path / "clamd"))
    place = replace(places.fresh("sqlite-local"), settings={"SCANNER": "clamd", "CLAMD": clamd.address})
    with running_service(place) as service:
        gate = service.new_gate()
        context = gate.context(upload_rate_limit={"max_uploads": 2, "window_seconds": 3600})
        gate.store(context=context)
        neighbours.close()
        answers = [gate.upload("b.txt", TEXT * 2, context=context) for _ in range(3)]
        for answer in answers:
            _unavailable(answer)
        assert gate.used(context) == len(TEXT)
        assert len(gate.objects()) == 1
        gate.store(context=gate.context(scan_for_viruses=False))
        with running_clamd(tmp_path / "clamd"):
            gate.store("b.txt", TEXT * 2, context=context)
            rejected(gate.upload(context=context), "rate_limit_exceeded", 429)


def test_a_scanner_that_is_switched_off_refuses_contexts_that_ask_for_a_scan(places: Places) -> None:
    place = replace(places.fresh("sqlite-local"), settings={"SCANNER": "off"})
    with running_service(place) as service:
        gate = service.new_gate()
        context = gate.context()
        _unavailable(gate.upload(context=context))
        _nothing_happened(gate, context)
        gate.store(context=gate.context(scan_for_viruses=False))


def test_a_file_that_the_scanner_can_not_look_through_is_rejected(places: Places, tmp_path: Path, neighbours: ExitStack) -> None:
    clamd = neighbours.enter_context(running_clamd(tmp_path / "clamd", {"MaxFileSize": "2M"}))
    place = replace(places.fresh("sqlite-local"), settings={"SCANNER": "clamd", "CLAMD": clamd.address})
    with running_service(place) as service:
        gate = service.new_gate()
        context = gate.context(max_file_size_mb=1)
        large = zip_of(("a.txt", TEXT * (3 * 2**20 // len(TEXT))))  # a member that is larger than what clamd scans
        rejected(gate.upload("a.zip", large, context=context), "scan_incomplete")
        _nothing_happened(gate, context)
        assert gate.objects() == set()
        gate.store(context=context)


@pytest.mark.asvs("16.5.2")
def test_without_a_database_every_answer_is_to_come_back(places: Places, tmp_path: Path, neighbours: ExitStack) -> None:
    postgres = neighbours.enter_context(running_postgres(tmp_path / "postgres"))
    url = postgres.createdb().replace("+asyncpg", "")
    with running_service(Place("postgres", tmp_path, url, {"SCANNER": "builtin"})) as service:
        gate = service.new_gate()
        context = gate.context()
        link = data(gate.get(f"/files/{gate.store(context=context)}"))["download_url"]
        objects = gate.objects()
        neighbours.close()
        _unavailable(httpx.get(link))
        assert httpx.get(f"{link}A").status_code == 403  # what was not signed is refused without asking
        _unavailable(gate.get("/contexts"))
        _unavailable(gate.upload(context=context))
        _unavailable(gate.as_(gate.token(scope="admin")).get("/files"))
        assert httpx.get(f"{service.url}/health/live").status_code == 200
        assert httpx.get(f"{service.url}/health/ready").status_code == 503
        assert gate.objects() == objects


@pytest.mark.asvs("16.5.2")
def test_a_database_that_ends_every_connection_unheard_is_no_fault_of_ours(postgres: Postgres, tmp_path: Path) -> None:
    """It says so on each and hangs up, and the hanging up gets lost: whoever asks next is told to come back, and the next is served."""
    url = postgres.createdb().replace("+asyncpg", "")
    name = url.rpartition("/")[2]
    with in_a_thread(fault_proxy(f"http://127.0.0.1:{postgres.port}")) as proxy:
        behind = url.replace(f":{postgres.port}/", f":{proxy.port}/")
        with running_service(Place("postgres", tmp_path, behind, {"SCANNER": "builtin"})) as service:
            gate = service.new_gate()
            context = gate.context()
            gate.store(context=context)
            proxy.fault = Fault.NO_END
            postgres.psql(f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{name}'")
            asked = [gate.upload(context=context) for _ in range(5)] + [gate.get("/files") for _ in range(5)]
            assert {answer.status_code for answer in asked} == {200, 201, 503}
            assert all(int(answer.headers["retry-after"]) >= 1 for answer in asked if answer.status_code == 503)
            proxy.fault = Fault.NONE
            gate.store(context=context)
            assert len(page(gate.get("/files"))[0]) == 2 + sum(answer.status_code == 201 for answer in asked)


def test_without_its_bucket_an_upload_is_told_to_come_back(places: Places, tmp_path: Path, neighbours: ExitStack) -> None:
    gateway = neighbours.enter_context(running_radosgw(tmp_path / "radosgw"))
    hosts = gateway.endpoint.removeprefix("http://")
    embedded = places.fresh("sqlite-local")
    settings = {**embedded.settings, "BUCKET_ENDPOINT_HOSTS": hosts, "S3_RETRIES": "0", "S3_CONNECT_SECONDS": "1"}
    place = replace(embedded, settings=settings, gateway=gateway, bucket=gateway.fresh_bucket())
    with running_service(place) as service:
        gate = service.new_gate().with_store()
        context = gate.context()
        neighbours.close()
        _unavailable(gate.upload(context=context))
        _nothing_happened(gate, context)
        answer = gate.post(gate.buckets, gate.bucket_body())
        assert answer.status_code in {422, 503}
        assert len(data(gate.get(gate.buckets))) == 1


@pytest.mark.asvs("16.5.3")
def test_without_its_limiter_an_upload_is_told_to_come_back(places: Places, tmp_path: Path, neighbours: ExitStack) -> None:
    redis = neighbours.enter_context(running_redis(tmp_path / "redis"))
    embedded = places.fresh("sqlite-local")
    place = replace(embedded, settings={**embedded.settings, "LIMITER": "redis", "REDIS_URL": redis.url})
    with running_service(place) as service:
        gate = service.new_gate()
        context = gate.context(upload_rate_limit={"max_uploads": 2, "window_seconds": 3600})
        gate.store(context=context)
        neighbours.close()
        began = time.monotonic()
        _unavailable(gate.upload(context=context))
        assert time.monotonic() - began < 5
        assert httpx.get(f"{service.url}/health/ready").status_code == 503
        assert gate.used(context) == len(TEXT)
        gate.store(context=gate.context())  # a context without a rate limit asks no limiter
        with running_redis(tmp_path / "again", port=redis.port):
            gate.store(context=context)
            gate.store(context=context)
            rejected(gate.upload(context=context), "rate_limit_exceeded", 429)


@pytest.mark.asvs("2.4.1")
def test_one_tenants_uploads_at_once_are_bounded(hasty: Service) -> None:
    """One at a time here: the second waits its turn for a third of a second, and is then told to come back."""
    gate = hasty.new_gate().with_store()
    context, other = gate.context(), hasty.new_gate().with_store()
    body = encode([file("a.txt", TEXT), field("context", context)])
    lines = (f"Content-Type: {content_type()}", f"Content-Length: {len(body)}", "Expect: 100-continue")
    with raw.connection(gate) as plug:
        plug.sendall(raw.request_head(gate, *lines))
        assert plug.recv(1000).startswith(b"HTTP/1.1 100")  # it has its turn: its body is asked for
        answer = gate.upload(context=context)
        other.store(context=other.context())
        plug.sendall(body)
        assert raw.read_answer(plug).status == 201
    assert (answer.status_code, answer.json()["message"]) == (429, "Too many requests")
    assert int(answer.headers["retry-after"]) >= 1
    gate.store(context=context)
