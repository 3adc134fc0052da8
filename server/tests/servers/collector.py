"""A small OpenTelemetry collector on loopback that receives spans by OTLP over HTTP and keeps them."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    """One span as it was received."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    failed: bool
    seconds: float
    attributes: Mapping[str, str]
    events: tuple[str, ...]
    service: str


@dataclass
class Collector:
    """A running collector: its endpoint, all spans so far, and every byte that it received."""

    endpoint: str
    spans: list[Span] = field(default_factory=list)
    received: bytes = b""
    paths: set[str] = field(default_factory=set)

    def trace_of(self, request_id: str) -> list[Span]:
        """Return the spans of one request."""
        return [span for span in list(self.spans) if span.attributes.get("sluice.request_id") == request_id]


@contextmanager
def running_collector() -> Iterator[Collector]:
    """Run a collector until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.paths.add(self.path)
            collector.received += body
            collector.spans.extend(_spans(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _spans(body: bytes) -> Iterator[Span]:
    request = ExportTraceServiceRequest.FromString(body)
    for resource in request.resource_spans:
        service = {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.status.code == span.status.STATUS_CODE_ERROR,
                    (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                    {each.key: each.value.string_value or str(each.value.int_value) for each in span.attributes},
                    tuple(event.name for event in span.events),
                    service,
                )
