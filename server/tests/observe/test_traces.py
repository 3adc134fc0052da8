"""Traces: configured by the standard variables, one span per stage, no secrets, and not loaded unless configured."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from sluice.observe.traces import is_requested
from tests.cli.commands import Running, Sluice, sluice_in
from tests.observe.metrics_page import until
from tests.rows import each_row
from tests.servers import free_port
from tests.servers.collector import Collector, Span, running_collector

STAGES = {"authenticate", "upload", "receive", "look", "rate", "examine", "scan", "reserve", "store", "record"}
UPLOAD = "POST /api/v1/files/upload"
CANARY = "canary-of-a-name"
FAST = {"OTEL_BSP_SCHEDULE_DELAY": "100"}


# with a rate limit, so that an upload takes a place in it
LIMIT = {"max_uploads": 10_000, "window_seconds": 3600}
CONTEXT = {"context_key": "c", "display_name": "C", "upload_rate_limit": LIMIT}


@contextmanager
def serving(sluice: Sluice, **variables: str) -> Iterator[tuple[Running, httpx.Client]]:
    """Run a server with these OpenTelemetry variables, and a client with a key and the context `c`."""
    key = sluice("init", "--json").json["api_key"]
    headers = {"Authorization": key}
    with sluice.running(variables) as server, httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        client.post("/api/v1/contexts", json=CONTEXT)
        yield server, client


def upload(client: httpx.Client, content: bytes, context: str = "c", **headers: str) -> httpx.Response:
    files = {"file": (f"{CANARY}.txt", content)}
    return client.post("/api/v1/files/upload", data={"context": context}, files=files, headers=headers)


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
        assert "Traceback" not in server.output


def load_trace(collector: Collector, response: httpx.Response) -> list[Span]:
    """Wait for the outermost span of the request, which ends last, and return all of its spans."""
    request_id = response.headers["request-id"]
    look = lambda: collector.trace_of(request_id)  # noqa: E731  (called repeatedly)
    return until(look, lambda spans: any("http.route" in span.attributes for span in spans))


def test_an_upload_is_one_trace_with_a_span_per_stage(collector: Collector, traced: httpx.Client) -> None:
    traced.post("/api/v1/contexts", json=CONTEXT | {"context_key": "unseen"})
    response = upload(traced, b"some words of a note", "unseen")
    assert response.status_code == 201
    spans = load_trace(collector, response)
    (root,) = [span for span in spans if not span.parent_id]
    assert {span.name for span in spans} == STAGES | {UPLOAD}
    assert {span.trace_id for span in spans} == {root.trace_id}
    assert root.name == UPLOAD
    assert root.attributes["http.response.status_code"] == "201"
    assert all(span.attributes["sluice.request_id"] == response.headers["request-id"] for span in spans)
    assert all(span.attributes["sluice.tenant_id"].startswith("ten_") for span in spans if span.name != "authenticate")
    assert all(0 <= span.seconds < 60 and span.service == "sluice" for span in spans)
    (upload_span,) = [span for span in spans if span.name == "upload"]
    below = {span.name for span in spans if span.parent_id == upload_span.span_id}
    assert below >= {"receive", "examine", "scan", "store"}
    assert collector.paths == {"/v1/traces"}


def test_a_trace_of_the_caller_is_continued_and_a_rejection_marks_only_the_upload_span(
    collector: Collector, traced: httpx.Client
) -> None:
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    response = upload(traced, b"", traceparent=f"00-{trace}-{parent}-01")
    assert response.json()["errors"] == ["blank_document"]
    spans = load_trace(collector, response)
    assert {span.trace_id for span in spans} == {trace}
    assert [span.name for span in spans if span.parent_id == parent] == [UPLOAD]
    assert {span.name for span in spans if span.failed} == {"upload"}
    assert [span.attributes["error.type"] for span in spans if span.failed] == ["FileRejected"]


def test_no_span_holds_a_credential_a_file_name_or_an_id(collector: Collector, traced: httpx.Client) -> None:
    file_id = upload(traced, b"yet other words").json()["data"]["file_id"]
    link = traced.get(f"/api/v1/files/{file_id}").json()["data"]["download_url"]
    response = traced.get(link, headers={"Authorization": "", "Baggage": "secret=canary-of-baggage"})
    assert response.status_code == 200
    load_trace(collector, response)
    key = traced.headers["Authorization"]
    for secret in (CANARY, key, key.rpartition("_")[2], file_id, link.partition("?")[2], "canary"):
        assert secret.encode() not in collector.received, secret


ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@each_row(
    "variables, requested",
    [
        ({}, False),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, False),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "true"}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
    ],
)
def test_an_endpoint_or_an_exporter_enables_traces(variables: dict[str, str], *, requested: bool) -> None:
    assert is_requested(variables) is requested


# Only two modules of the server: the client of Redis loads OpenTelemetry by itself if it is installed.
_SCRIPT = """
import sys
from sluice.observe import stages, traces
with traces.exported({}), traces.span("nothing"):
    import sluice.api.app, sluice.worker.runner
print(*(name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))))
"""


def test_without_configuration_no_exporter_is_loaded(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _SCRIPT]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""


@each_row("protocol", ["grpc", "http/json"])
def test_an_unsupported_trace_protocol_is_reported_and_the_server_still_serves(protocol: str, tmp_path: Path) -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    with serving(sluice_in(tmp_path), **variables) as (server, client):
        assert upload(client, b"words").status_code == 201
    assert f"spans are sent by http/protobuf, not by {protocol}" in server.output


def test_an_unreachable_collector_delays_neither_uploads_nor_the_shutdown(tmp_path: Path) -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}"}
    with serving(sluice_in(tmp_path), **variables, **FAST) as (server, client):
        for number in range(3):
            assert upload(client, f"words {number}".encode()).status_code == 201
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
        assert time.monotonic() - began < 15
