"""Traces: configured by the standard variables alone, a span per stage, nothing secret in them, and nothing loaded without them."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from sluice.observe.traces import wanted
from tests.cli.commands import Running, Sluice, sluice_in
from tests.observe.numbers import until
from tests.servers import free_port
from tests.servers.collector import Collector, Span, running_collector

STAGES = {"authenticate", "upload", "receive", "look", "rate", "examine", "scan", "reserve", "store", "record"}
UPLOAD = "POST /api/v1/files/upload"
CANARY = "canary-of-a-name"
FAST = {"OTEL_BSP_SCHEDULE_DELAY": "100"}


@contextmanager
def serving(sluice: Sluice, **variables: str) -> Iterator[tuple[Running, httpx.Client]]:
    """Run a server with these variables of OpenTelemetry, and a client with a key and the context `c`."""
    key = sluice("init", "--json").json["api_key"]
    headers = {"Authorization": key}
    with sluice.running(variables) as server, httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        client.post("/api/v1/contexts", json={"context_key": "c", "display_name": "C"})
        yield server, client


def upload(client: httpx.Client, content: bytes, **headers: str) -> httpx.Response:
    files = {"file": (f"{CANARY}.txt", content)}
    return client.post("/api/v1/files/upload", data={"context": "c"}, files=files, headers=headers)


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with running_collector() as running:
        yield running


@pytest.fixture(scope="module")
def traced(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server that sends its spans to the collector."""
    sluice = sluice_in(tmp_path_factory.mktemp("traced"))
    with serving(sluice, OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint, **FAST) as (server, client):
        yield client
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
        assert "Traceback" not in server.shown


def whole_trace(collector: Collector, answer: httpx.Response) -> list[Span]:
    """Wait for the request's outermost span, which ends last, and answer all of its spans."""
    request_id = answer.headers["request-id"]
    look = lambda: collector.trace_of(request_id)  # noqa: E731  (looked at again and again)
    return until(look, lambda spans: any("http.route" in span.attributes for span in spans))


def test_an_upload_is_one_trace_with_a_span_per_stage(collector: Collector, traced: httpx.Client) -> None:
    answer = upload(traced, b"some words of a note")
    assert answer.status_code == 201
    spans = whole_trace(collector, answer)
    (root,) = [span for span in spans if not span.parent_id]
    assert {span.name for span in spans} == STAGES | {UPLOAD}
    assert {span.trace_id for span in spans} == {root.trace_id}
    assert root.name == UPLOAD
    assert root.attributes["http.response.status_code"] == "201"
    assert all(span.attributes["sluice.request_id"] == answer.headers["request-id"] for span in spans)
    assert all(span.attributes["sluice.tenant_id"].startswith("ten_") for span in spans if span.name != "authenticate")
    assert all(0 <= span.seconds < 60 and span.service == "sluice" for span in spans)
    (whole,) = [span for span in spans if span.name == "upload"]
    assert {span.name for span in spans if span.parent_id == whole.span_id} >= {"receive", "examine", "scan", "store"}
    assert collector.paths == {"/v1/traces"}


def test_a_rejection_marks_the_stages_that_it_ended_and_not_the_request(collector: Collector, traced: httpx.Client) -> None:
    answer = upload(traced, b"")
    assert answer.json()["errors"] == ["blank_document"]
    spans = whole_trace(collector, answer)
    assert {span.name for span in spans if span.failed} == {"upload"}
    assert [span.attributes["error.type"] for span in spans if span.failed] == ["FileRejected"]


def test_the_callers_own_trace_goes_on(collector: Collector, traced: httpx.Client) -> None:
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    answer = upload(traced, b"other words", traceparent=f"00-{trace}-{parent}-01")
    spans = whole_trace(collector, answer)
    assert {span.trace_id for span in spans} == {trace}
    assert [span.name for span in spans if span.parent_id == parent] == [UPLOAD]


def test_no_span_holds_a_credential_a_name_or_an_address_with_ids(collector: Collector, traced: httpx.Client) -> None:
    file_id = upload(traced, b"yet other words").json()["data"]["file_id"]
    link = traced.get(f"/api/v1/files/{file_id}").json()["data"]["download_url"]
    answer = traced.get(link, headers={"Authorization": "", "Baggage": "secret=canary-of-baggage"})
    assert answer.status_code == 200
    whole_trace(collector, answer)
    key = traced.headers["Authorization"]
    for secret in (CANARY, key, key.rpartition("_")[2], file_id, link.partition("?")[2], "canary"):
        assert secret.encode() not in collector.received, secret


@pytest.mark.parametrize("variables", [{}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_SDK_DISABLED": "true"}])
def test_without_configuration_no_traces_are_wanted(variables: dict[str, str]) -> None:
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"} if variables else {}
    assert not wanted(variables | endpoint)


def test_an_endpoint_or_an_exporter_is_asking_for_traces() -> None:
    assert wanted({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"})
    assert wanted({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"})
    assert wanted({"OTEL_TRACES_EXPORTER": "otlp"})


# Not the whole server: the client of Redis loads what it finds of OpenTelemetry by itself.
_LOADED = """
import sys
from sluice.observe import stages, traces
with traces.exported({}), traces.span("nothing"):
    import sluice.api.app, sluice.worker.loop
print(*(name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))))
"""


def test_without_configuration_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _LOADED], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("protocol", ["grpc", "http/json"])
def test_a_protocol_that_is_not_spoken_is_said_and_the_service_serves(protocol: str, tmp_path: Path) -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    with serving(sluice_in(tmp_path), **variables) as (server, client):
        assert upload(client, b"words").status_code == 201
    assert f"spans are sent by http/protobuf, not by {protocol}" in server.shown


def test_a_collector_that_is_away_costs_no_upload_and_no_end(tmp_path: Path) -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}"}
    with serving(sluice_in(tmp_path), **variables, **FAST) as (server, client):
        for number in range(3):
            assert upload(client, f"words {number}".encode()).status_code == 201
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
        assert time.monotonic() - began < 15
