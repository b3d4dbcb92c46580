"""The way out: exporters by their standard names, what never passes them, and an end that takes two seconds at most.

Spans and metrics are handed to threads of the library, which send them; nothing here waits for a collector but `close`.
Every span passes `FilteredExporter`, in such a thread: content is put in there if it is wanted, and keys are taken
out of all texts with what the redactor knows by then. Of spans of other code, such as the library of MCP, texts of
errors are left out with the content, since they may quote it.
"""

import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Final, NamedTuple, cast

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    ConsoleMetricExporter,
    MetricExporter,
    MetricReader,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter, SpanExportResult
from opentelemetry.trace import Status
from opentelemetry.util.types import Attributes

from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.telemetry.variables import TelemetryExports

_log = logging.getLogger("pinnace.telemetry")

CLOSE_S: Final = 2.0
"""The longest that the end of the process waits for collectors."""
FAILED_S: Final = 0.3
"""What is left of it once a collector has refused something at the end: it is not asked again."""
_ERROR_TEXTS: Final = frozenset({"exception.message", "exception.stacktrace"})
_HTTP: Final = "http/protobuf"

Content = Callable[[], Mapping[str, str]]
"""Makes the attributes that hold prompts and outputs; called in the thread that exports."""


class SpanWithContent(ReadableSpan):
    """A span that has ended, with the content that it gets when it is exported."""

    def __init__(self, span: ReadableSpan, content: Content | None, attributes: Attributes, *, whole: bool) -> None:
        """Copy a span, with other attributes; `whole`: with the texts of errors."""
        status = span.status
        super().__init__(
            name=REDACTOR.text(span.name),
            context=span.context,
            parent=span.parent,
            resource=span.resource,
            attributes=attributes,
            events=[_event(event, whole=whole) for event in span.events],
            links=span.links,
            kind=span.kind,
            status=Status(status.status_code, REDACTOR.text(status.description))
            if whole and status.description
            else Status(status.status_code),
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )
        self.content = content


def _event(event: Event, *, whole: bool) -> Event:
    kept = {name: value for name, value in (event.attributes or {}).items() if whole or name not in _ERROR_TEXTS}
    return Event(event.name, _redacted(kept), event.timestamp)


def _redacted(attributes: Attributes) -> Attributes:
    """Return attributes without keys in their texts."""
    found: dict[str, object] = {}
    for name, value in (attributes or {}).items():
        if isinstance(value, str):
            found[name] = REDACTOR.text(value)
        elif isinstance(value, Sequence) and all(isinstance(each, str) for each in value):
            found[name] = tuple(REDACTOR.text(str(each)) for each in value)
        else:
            found[name] = value
    return cast("Attributes", found)  # the same types as before


class ContentProcessor(SpanProcessor):
    """Hands ended spans to the exporters, with the content of each.

    The library copies a span when it ends, so content is set right before: for one thread.
    """

    def __init__(self, exporters: Sequence[SpanExporter], *, has_content: bool) -> None:
        """Start a thread for each exporter."""
        self.content: Content | None = None
        """Of the span that ends next."""
        self._batches = [BatchSpanProcessor(FilteredExporter(each, has_content=has_content)) for each in exporters]

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Do nothing."""

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span; the oldest one is dropped if the collector takes none."""
        if self.content is not None:
            span = SpanWithContent(span, self.content, span.attributes, whole=True)
        for batch in self._batches:
            batch.on_end(span)

    def shutdown(self) -> None:
        """Send what is queued; may wait long."""
        for batch in self._batches:
            batch.shutdown()  # type: ignore[no-untyped-call]  # the library has no types there

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what is queued; may wait long."""
        flushed = [batch.force_flush(timeout_millis) for batch in self._batches]
        return all(flushed)


class FilteredExporter(SpanExporter):
    """An exporter behind a wall that no key passes, and no content that is not wanted."""

    def __init__(self, exporter: SpanExporter, *, has_content: bool) -> None:
        """Export to this one."""
        self._exporter = exporter
        self._has_content = has_content

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export spans in the form in which they may leave."""
        return self._exporter.export([self._passed(span) for span in spans])

    def _passed(self, span: ReadableSpan) -> ReadableSpan:
        attributes: dict[str, object] = dict(span.attributes or {})
        content = span.content if isinstance(span, SpanWithContent) else None
        if self._has_content and content is not None:
            try:
                attributes |= content()
            except (TypeError, ValueError) as error:  # no JSON: of an extension, for example
                _log.debug("the content of a span can't be written: %s", error)
        # cast: attributes of spans, and texts
        return SpanWithContent(span, None, _redacted(cast("Attributes", attributes)), whole=self._has_content)

    def shutdown(self) -> None:
        """End the exporter."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do as the exporter does."""
        return self._exporter.force_flush(timeout_millis)


class Problems(logging.Handler):
    """Takes what the library logs: the first problem is a warning of this program, later ones are for its log alone."""

    def __init__(self) -> None:
        """Have seen nothing."""
        super().__init__(logging.WARNING)
        self.on_problem: Callable[[], None] | None = None
        self._has_reported = False

    def emit(self, record: logging.LogRecord) -> None:
        """Report or drop; in any thread."""
        level = logging.DEBUG if self._has_reported else logging.WARNING
        self._has_reported = True
        _log.log(level, "not everything is exported: %s", record.getMessage())
        if self.on_problem is not None:
            self.on_problem()


class Export(NamedTuple):
    """What exports, with its threads."""

    tracer_provider: trace.TracerProvider
    meter_provider: metrics.MeterProvider
    processor: ContentProcessor | None
    """None: spans are not exported."""
    problems: Problems
    parts: tuple[Callable[[], object], ...]
    """What ends each signal, and may wait long."""

    def close(self, within_s: float) -> None:
        """Send what is queued. Blocks for `within_s` at most; what is not sent by then is lost."""
        messages: queue.SimpleQueue[bool] = queue.SimpleQueue()  # a part has ended; False: something was refused
        self.problems.on_problem = lambda: messages.put(False)
        left = 0
        for part in self.parts:
            try:
                threading.Thread(target=_run, args=(part, messages), name="pinnace-telemetry", daemon=True).start()
            except RuntimeError:  # no thread is left: nor is a span worth one
                continue
            left += 1
        deadline = time.monotonic() + within_s
        while left:
            try:
                has_ended = messages.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return
            if has_ended:
                left -= 1
            else:
                deadline = min(deadline, time.monotonic() + FAILED_S)


def _run(part: Callable[[], object], messages: "queue.SimpleQueue[bool]") -> None:
    try:
        part()
    finally:
        messages.put(True)


def set_up(wanted: TelemetryExports, environ: Mapping[str, str], service: Mapping[str, str]) -> Export:
    """Make exporters and start their threads.

    Args:
        wanted: What is exported.
        environ: Names the protocols; the library reads the other variables itself.
        service: Attributes of the resource, where the variables have no others.

    Raises:
        Exception: A variable has a value that the library refuses, or an exporter is not installed.
    """
    problems = Problems()
    logger = logging.getLogger("opentelemetry")
    logger.propagate = False
    logger.handlers[:] = [problems]
    resource = Resource.create()
    given = {name: str(value) for name, value in resource.attributes.items() if not _is_unknown(value)}
    resource = resource.merge(Resource({name: value for name, value in service.items() if name not in given}))
    readers = [_reader(_metric_exporter(name, environ)) for name in wanted.metrics]
    parts: list[Callable[[], object]] = []
    processor = None
    tracer_provider: trace.TracerProvider = trace.NoOpTracerProvider()
    if wanted.traces:
        exporters = [_span_exporter(name, environ) for name in wanted.traces]
        processor = ContentProcessor(exporters, has_content=wanted.has_content)
        sdk = TracerProvider(resource=resource, shutdown_on_exit=False)
        sdk.add_span_processor(processor)
        tracer_provider = sdk
        parts.append(sdk.shutdown)
        # For extensions, and the library of MCP, whose spans belong to the calls that they are made in.
        trace.set_tracer_provider(sdk)
    meter_provider: metrics.MeterProvider = metrics.NoOpMeterProvider()
    if readers:
        meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        metrics.set_meter_provider(meters)
        meter_provider = meters
        parts.append(meters.shutdown)
    return Export(tracer_provider, meter_provider, processor, problems, tuple(parts))


def _is_unknown(value: object) -> bool:
    return isinstance(value, str) and value.startswith("unknown_service")


def _with_protocol(name: str, environ: Mapping[str, str], signal: str) -> str:
    """Return the name of an exporter; of that of OTLP with its protocol, unless that is HTTP."""
    if name != "otlp":
        return name
    variables = (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next((value for each in variables if (value := environ.get(each, "").strip())), _HTTP)
    return name if protocol == _HTTP else f"otlp_{protocol}"


def _span_exporter(name: str, environ: Mapping[str, str]) -> SpanExporter:
    if name == "console":
        return ConsoleSpanExporter(out=sys.stderr)
    name = _with_protocol(name, environ, "TRACES")
    if name == "otlp":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter()
    made = _installed("traces", name)
    if not isinstance(made, SpanExporter):
        raise TypeError(f"OTEL_TRACES_EXPORTER={name}: it exports no spans")
    return made


def _metric_exporter(name: str, environ: Mapping[str, str]) -> MetricExporter | MetricReader:
    if name == "console":
        return ConsoleMetricExporter(out=sys.stderr)
    name = _with_protocol(name, environ, "METRICS")
    if name == "otlp":
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        return OTLPMetricExporter()
    made = _installed("metrics", name)
    if not isinstance(made, MetricExporter | MetricReader):
        raise TypeError(f"OTEL_METRICS_EXPORTER={name}: it exports no metrics")
    return made


def _reader(exporter: MetricExporter | MetricReader) -> MetricReader:
    return exporter if isinstance(exporter, MetricReader) else PeriodicExportingMetricReader(exporter)


def _installed(signal: str, name: str) -> object:
    """Make an exporter that a distribution registers under a name.

    Raises:
        LookupError: None does.
    """
    registered = "otlp_proto_grpc" if name == "otlp_grpc" else name
    for entry in entry_points(group=f"opentelemetry_{signal}_exporter", name=registered):
        return entry.load()()
    needed = ": it is in the distribution opentelemetry-exporter-otlp-proto-grpc" if name == "otlp_grpc" else ""
    raise LookupError(f"no exporter of {signal} is installed under the name {name}{needed}")
