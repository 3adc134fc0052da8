"""Traces by OpenTelemetry, configured by its standard `OTEL_*` variables. Without those the library is not imported.

A span has a name, a duration, a request id and a tenant id. It never holds a file's name, a path with ids, a query or
the message of an exception: those may hold secrets.
"""

# ruff: noqa: PLC0415  (a process that sends no traces must not pay for the library)

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from threading import Thread
from typing import TYPE_CHECKING, Final

import structlog

from sluice.observe.log import log

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_FLUSH_SECONDS: Final = 3.0  # for which the end of a process waits for a collector that does not respond
_SERVER_ERROR: Final = 500
_PROPAGATED: Final = frozenset({b"traceparent", b"tracestate"})
_NO_SPAN: Final[AbstractContextManager[None]] = nullcontext()


class _Tracing:
    """The tracer of this process, None while no traces are exported."""

    tracer: "Tracer | None" = None


@contextmanager
def exported(environment: Mapping[str, str]) -> Iterator[None]:
    """Send spans to the collector that `environment` names until the block ends; do nothing if it names none.

    An unavailable collector costs spans and a line in the log, never a request.
    """
    obstacle = _obstacle(environment) if is_requested(environment) else ""
    if obstacle:
        log.warning("traces_off", why=obstacle)
    if obstacle or not is_requested(environment):
        yield
        return
    provider = _provider()
    _Tracing.tracer = provider.get_tracer("sluice")
    try:
        yield
    finally:
        _Tracing.tracer = None
        # In a thread of its own: the library exceeds its own timeout when the collector does not respond.
        flush = Thread(target=provider.shutdown, daemon=True)
        flush.start()
        flush.join(_FLUSH_SECONDS)


def is_requested(environment: Mapping[str, str]) -> bool:
    """Return whether `environment` requests traces: an OTLP endpoint or exporter, and nothing that disables them."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    return exporter == "otlp" or (not exporter and any(environment.get(name) for name in _ENDPOINTS))


def _obstacle(environment: Mapping[str, str]) -> str:
    """Return why spans cannot be sent, or an empty string."""
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), "http/protobuf")
    if protocol != "http/protobuf":
        return f"spans are sent by http/protobuf, not by {protocol}: set OTEL_EXPORTER_OTLP_PROTOCOL"
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        return "OpenTelemetry is not installed: pip install 'sluice[otel]'"
    return ""


def _provider() -> "TracerProvider":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create()
    if str(resource.attributes["service.name"]).startswith("unknown_service"):  # the library's default
        resource = resource.merge(Resource({"service.name": "sluice"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def span(name: str) -> AbstractContextManager[None]:
    """Open a child span of the current one for a block."""
    return _NO_SPAN if _Tracing.tracer is None else _span(_Tracing.tracer, name)


@contextmanager
def _span(tracer: "Tracer", name: str) -> Iterator[None]:
    with tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as opened:
        opened.set_attributes(_context_attributes())
        try:
            yield
        except asyncio.CancelledError:
            # Cancelled work has not failed, such as the scan of a file that is rejected meanwhile.
            opened.set_attribute("sluice.cancelled", True)
            raise
        except BaseException as error:
            _mark_failed(opened, type(error).__name__)
            raise


class RequestSpan:
    """The root span of one HTTP request; `end` names it when its route is known."""

    def __init__(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Start it, as a child of the caller's span if `traceparent` names one.

        Without a collector this does nothing.
        """
        self._method = method
        self._span: Span | None = None
        if _Tracing.tracer is not None:
            self._start(_Tracing.tracer, headers)

    def _start(self, tracer: "Tracer", headers: Iterable[tuple[bytes, bytes]]) -> None:
        from opentelemetry import context, propagate, trace

        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers if name in _PROPAGATED}
        parent = propagate.extract(carrier)
        self._span = tracer.start_span(self._method, parent, kind=trace.SpanKind.SERVER, record_exception=False)
        self._token = context.attach(trace.set_span_in_context(self._span, parent))

    def end(self, route: str, status: int) -> None:
        """End it; a second call is a no-op."""
        if self._span is None:
            return
        from opentelemetry import context

        self._span.update_name(f"{self._method} {route}")
        self._span.set_attributes(_context_attributes() | {"http.request.method": self._method, "http.route": route})
        self._span.set_attribute("http.response.status_code", status)
        if status >= _SERVER_ERROR:
            _mark_failed(self._span, str(status))
        self._span.end()
        context.detach(self._token)
        self._span = None


def _context_attributes() -> dict[str, str]:
    """Return the ids of request and tenant that the lines of the log carry too."""
    bound = structlog.contextvars.get_contextvars()
    return {f"sluice.{name}": str(bound[name]) for name in ("request_id", "tenant_id") if name in bound}


def _mark_failed(opened: "Span", error_type: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    opened.set_attribute("error.type", error_type)
    opened.set_status(Status(StatusCode.ERROR))
