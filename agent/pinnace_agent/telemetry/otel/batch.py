"""The span of a batch, which is the parent of its tasks' runs; those are exported by the agents themselves."""

from collections.abc import Mapping
from typing import Final

from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode

from pinnace_agent.telemetry import conventions as names
from pinnace_agent.telemetry.conventions import Attributes
from pinnace_agent.telemetry.otel.export import CLOSE_S, Export, set_up
from pinnace_agent.telemetry.otel.parents import NAME, parent_in, release, variables_of
from pinnace_agent.telemetry.variables import TelemetryExports

BATCH: Final = f"{NAME} batch"


class BatchSpan:
    """The span of one run of a batch, from its construction on."""

    def __init__(self, export: Export, span: trace.Span) -> None:
        """Take a span that has begun."""
        self._export = export
        self._span = span

    @property
    def variables(self) -> dict[str, str]:
        """What the environment of the agents has of it."""
        return variables_of(trace.set_span_in_context(self._span))

    def end(self, attributes: Attributes, *, is_interrupted: bool) -> None:
        """End it with what is known at the end, and have it sent. Blocks for `CLOSE_S` at most; the last call."""
        for name, value in attributes.items():
            self._span.set_attribute(name, value)
        self._span.set_attribute(names.OUTCOME, names.INTERRUPTED if is_interrupted else "completed")
        if is_interrupted:
            self._span.set_attribute(names.ERROR_TYPE, names.INTERRUPTED)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()
        self._export.close(CLOSE_S)


def begin_span(wanted: TelemetryExports, environ: Mapping[str, str], tasks: int) -> BatchSpan:
    """Begin the span of a batch.

    Args:
        wanted: What is exported; of it, only the traces concern a batch.
        environ: May name the span that the batch works for.
        tasks: How many are to be run.

    Raises:
        Exception: A variable has a value that the library refuses.
    """
    made = release()
    export = set_up(wanted._replace(metrics=()), environ, {"service.name": NAME, "service.version": made})
    attributes: Attributes = {names.OPERATION: names.INVOKE_WORKFLOW, names.AGENT_NAME: BATCH}
    attributes |= {names.AGENT_VERSION: made, names.BATCH_TASKS: tasks}
    tracer = export.tracer_provider.get_tracer(NAME, made)
    span = tracer.start_span(f"{names.INVOKE_WORKFLOW} {BATCH}", parent_in(environ), attributes=attributes)
    return BatchSpan(export, span)
