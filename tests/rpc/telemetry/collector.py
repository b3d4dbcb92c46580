"""A collector on loopback: takes OTLP over HTTP, decodes it with the official messages, and can misbehave."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

SOON = {"OTEL_BSP_SCHEDULE_DELAY": "1", "OTEL_METRIC_EXPORT_INTERVAL": "50"}
"""Has everything sent as soon as it is there: what an agent exports is not left to its end, whose time is short."""
LIMIT_S = 60.0

Behaviour = Literal["takes", "fails", "hangs"]


class Span(NamedTuple):
    """What a test reads of a span."""

    name: str
    id: str
    parent: str
    trace: str
    kind: int
    is_error: bool
    status_text: str
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]
    start: int
    end: int


class Collector:
    """What was sent so far."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.bodies: dict[str, list[bytes]] = {"/v1/traces": [], "/v1/metrics": []}
        self.headers: list[Mapping[str, str]] = []
        self.asked = threading.Event()
        self._behaviour = behaviour
        self._gate = threading.Event()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.bodies[self.path].append(self.rfile.read(int(self.headers["Content-Length"])))
                collector.headers.append(dict(self.headers))
                collector.asked.set()
                if collector._behaviour == "hangs":
                    collector._gate.wait()
                self.send_response(500 if collector._behaviour == "fails" else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Stay silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def close(self) -> None:
        self._gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def spans(self) -> list[Span]:
        """In the order of their beginnings."""
        found = []
        for body in self.bodies["/v1/traces"]:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                about = attributes(resource.resource.attributes)
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        ids = (span.span_id.hex(), span.parent_span_id.hex(), span.trace_id.hex())
                        status = (span.status.code == 2, span.status.message)
                        times = (span.start_time_unix_nano, span.end_time_unix_nano)
                        found.append(
                            Span(span.name, *ids, span.kind, *status, attributes(span.attributes), about, *times)
                        )
        return sorted(found, key=lambda span: span.start)

    @property
    def metrics(self) -> dict[str, list[tuple[Mapping[str, Any], int, float]]]:
        """Attributes, count and sum of each point of the histograms, as last sent."""
        found: dict[str, list[tuple[Mapping[str, Any], int, float]]] = {}
        for body in self.bodies["/v1/metrics"]:
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        found[metric.name] = [
                            (attributes(point.attributes), point.count, point.sum)
                            for point in metric.histogram.data_points
                        ]
        return found

    def holds(self, text: str) -> bool:
        """Whether a text was sent, wherever."""
        return any(text.encode() in body for bodies in self.bodies.values() for body in bodies)


def attributes(pairs: Any) -> dict[str, Any]:
    """Return attributes as values."""

    def plain(value: AnyValue) -> Any:
        kind = value.WhichOneof("value")
        if kind == "array_value":
            return [plain(each) for each in value.array_value.values]
        return None if kind is None else getattr(value, kind)

    return {each.key: plain(each.value) for each in pairs}


@contextmanager
def collecting(behaviour: Behaviour = "takes") -> Iterator[Collector]:
    """Run a collector."""
    collector = Collector(behaviour)
    try:
        yield collector
    finally:
        collector.close()
