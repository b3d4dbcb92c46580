"""Makes spans and metrics of the records that an agent emits, and of its requests to models.

Records say when invocations, tool calls and compactions begin and end; a wrapped provider, when a request does. What is
open is the parent of what begins: an invocation of its compactions, requests and calls, a compaction of its requests.
A delta is never seen, and a defect here is never one of the run. For one thread, that of the event loop.
"""

import logging
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.metrics import Histogram, Meter
from opentelemetry.trace import SpanKind, Status, StatusCode

from pinnace_agent.core.json_access import as_object, compact_json
from pinnace_agent.core.trace_context import TRACE_VARIABLES
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.telemetry import content
from pinnace_agent.telemetry import conventions as names
from pinnace_agent.telemetry.conventions import Attributes
from pinnace_agent.telemetry.otel.export import CLOSE_S, Content, Export, set_up
from pinnace_agent.telemetry.otel.parents import NAME, VARIABLES, parent_in, release, variables_of
from pinnace_agent.telemetry.variables import TelemetryExports
from pinnace_spec.records.messages import AssistantMessage, Message, Usage

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.llm.builder import MessageBuilder
    from pinnace_agent.llm.providers import Provider
    from pinnace_agent.llm.request import LlmRequest
    from pinnace_agent.tools.base import ToolContext

_log = logging.getLogger("pinnace.telemetry")

Record = Mapping[str, object]


class Instruments:
    """The instruments of the metrics, each created once for a meter."""

    def __init__(self, meter: Meter) -> None:
        """Create them."""

        def seconds(name: str, text: str, bounds: tuple[float, ...] = names.SECOND_BOUNDS) -> Histogram:
            return meter.create_histogram(name, "s", text, explicit_bucket_boundaries_advisory=bounds)

        self.tokens = meter.create_histogram(
            names.TOKEN_USAGE,
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=names.TOKEN_BOUNDS,
        )
        self.request = seconds(names.OPERATION_DURATION, "GenAI operation duration.")
        self.first_chunk = seconds(names.TIME_TO_FIRST_CHUNK, "Time to receive the first chunk.", names.CHUNK_BOUNDS)
        self.invocation = seconds(names.INVOKE_AGENT_DURATION, "Duration of a single agent invocation.")
        self.call = seconds(names.EXECUTE_TOOL_DURATION, "Duration of a single tool execution.")


class Operation:
    """Something that has begun: its span, and the attributes of its metrics."""

    def __init__(self, span: trace.Span, labels: Attributes) -> None:
        """Begin now."""
        self.span = span
        self.labels = labels
        self.first_chunk_s: float | None = None
        self._started = time.monotonic()

    @property
    def age_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._started

    def fail(self, error_type: str, text: str = "") -> None:
        """Let it have failed; the text is exported with content alone."""
        self.labels[names.ERROR_TYPE] = error_type
        self.span.set_attribute(names.ERROR_TYPE, error_type)
        self.span.set_status(Status(StatusCode.ERROR, text or None))


class Invocation(Operation):
    """A run, from its first `agent_start` to `agent_settled`."""

    def __init__(self, span: trace.Span, labels: Attributes) -> None:
        """Begin now."""
        super().__init__(span, labels)
        self.asked: list[Message] = []
        self.answer: AssistantMessage | None = None
        self.usages: list[Usage] = []


class Telemetry:
    """The observer of one agent."""

    def __init__(self, export: Export, parent: otel_context.Context, release: str) -> None:
        """Observe nothing yet; `parent` holds the span that the whole process works for, if there is one."""
        self._export = export
        self._parent = parent
        self._agent: Attributes = {names.AGENT_NAME: NAME, names.AGENT_VERSION: release}
        self._tracer = export.tracer_provider.get_tracer(NAME, release)
        self._instruments = Instruments(export.meter_provider.get_meter(NAME, release))
        self._invocation: Invocation | None = None
        self._compaction: Operation | None = None
        self._calls: dict[int, tuple[Operation, object]] = {}  # by their places in the turn, with their arguments
        self._request: Operation | None = None  # of the run
        self._retry = 0

    def before(self, on_record: Callable[[Record], None] | None) -> Callable[[Record], None]:
        """Return what takes each record of the agent, and passes it on."""

        def take(record: Record) -> None:
            with _contained(str(record["type"])):
                self.record(record)
            if on_record is not None:
                on_record(record)

        return take

    def record(self, record: Record) -> None:
        """Take a record. Never waits."""
        match record["type"]:
            case "agent_start":
                self._begin_invocation()
            case "message_start":
                self._message_starts(cast("Message", record["message"]))  # the field of that record, as below
            case "message_end":
                self._message_ends(cast("Message", record["message"]))
            case "tool_execution_start":
                self._call_starts(record)
            case "tool_execution_end":
                self._call_ends(record)
            case "auto_retry_start":
                self._retry = cast("int", record["attempt"])
            case "auto_retry_end":
                self._retry = 0
            case "compaction_start":
                attributes: Attributes = {names.COMPACTION_REASON: str(record["reason"]), **self._agent}
                self._compaction = Operation(self._start("compact", attributes), {})
            case "compaction_end":
                self._compaction_ends(record)
            case "agent_settled":
                self._settled(record)
            case _:
                pass

    # Invocations.

    def _begin_invocation(self) -> None:
        if self._invocation is None:
            attributes: Attributes = {names.OPERATION: names.INVOKE_AGENT, **self._agent}
            span = self._start(f"{names.INVOKE_AGENT} {NAME}", attributes)
            self._invocation = Invocation(span, {names.AGENT_NAME: NAME})

    def _message_starts(self, message: Message) -> None:
        request = self._request
        if message["role"] == "assistant" and request is not None and request.first_chunk_s is None:
            request.first_chunk_s = request.age_s

    def _message_ends(self, message: Message) -> None:
        if (invocation := self._invocation) is None:
            return
        if message["role"] == "assistant":
            invocation.answer = message
        elif message["role"] == "user":
            invocation.asked.append(message)

    def _settled(self, record: Record) -> None:
        invocation, self._invocation, self._retry = self._invocation, None, 0
        if invocation is None:
            return
        answer, asked = invocation.answer, invocation.asked
        outcome = "completed"
        if record["aborted"]:
            outcome = "aborted"
        elif (limit := record.get("limit")) is not None:
            outcome = "limit"
            invocation.span.set_attribute(names.LIMIT, str(limit))
        elif answer is not None and answer["stopReason"] == "error":
            outcome = "error"
            invocation.fail(_error_type(answer), answer.get("errorMessage", ""))
        invocation.span.set_attribute(names.OUTCOME, outcome)
        if invocation.usages:
            from pinnace_agent.compaction.summarize import sum_of_usages

            total = invocation.usages[0]
            for usage in invocation.usages[1:]:
                total = sum_of_usages(total, usage)
            _set(invocation.span, names.usage_attributes(total))

        def texts() -> Mapping[str, str]:
            found = {names.INPUT_MESSAGES: content.input_messages(asked)}
            if answer is not None:
                found[names.OUTPUT_MESSAGES] = content.output_messages(answer)
            return found

        self._end(invocation, self._instruments.invocation, texts)

    # Requests.

    def provider(self, provider: "Provider") -> "Provider":
        """Return a provider whose requests are observed."""
        return TracedProvider(provider, self)

    def request_starts(self, request: "LlmRequest") -> Operation:
        """Begin a request."""
        labels: Attributes = {names.OPERATION: names.CHAT, **names.model_attributes(request.model)}
        attributes: Attributes = {**labels, names.REQUEST_STREAM: True, names.THINKING_LEVEL: request.thinking_level}
        if request.session_id:
            attributes[names.CONVERSATION] = request.session_id
        if request.max_tokens is not None:
            attributes[names.REQUEST_MAX_TOKENS] = request.max_tokens
        if self._retry:
            attributes[names.RETRY_ATTEMPT] = self._retry
        span = self._start(f"{names.CHAT} {request.model['id']}", attributes, SpanKind.CLIENT)
        operation = Operation(span, labels)
        if (invocation := self._invocation) is not None:
            shared = (names.PROVIDER, names.REQUEST_MODEL, names.CONVERSATION)
            _set(invocation.span, {name: attributes[name] for name in shared if name in attributes})
            if self._compaction is None:
                self._request = operation
        return operation

    def request_ends(self, operation: Operation, request: "LlmRequest", builder: "MessageBuilder") -> None:
        """End a request, whose answer is complete unless it was cancelled."""
        if self._request is operation:
            self._request = None
        answer = builder.message if builder.is_finished else None
        instruments, span, labels = self._instruments, operation.span, operation.labels
        if operation.first_chunk_s is not None:
            span.set_attribute(names.FIRST_CHUNK, operation.first_chunk_s)
            instruments.first_chunk.record(operation.first_chunk_s, labels)
        if answer is None:
            span.set_attribute(names.FINISH_REASONS, ["aborted"])
        else:
            _set(span, names.answer_attributes(answer))
            labels[names.RESPONSE_MODEL] = answer.get("responseModel") or answer["model"]
            if answer["stopReason"] == "error":
                signs = builder.signs
                error_type = str(signs.status or signs.kind or "provider_error")
                operation.fail(error_type, answer.get("errorMessage", ""))
            usage = answer["usage"]
            if self._invocation is not None:
                self._invocation.usages.append(usage)
            for kind, count in (("input", names.input_tokens(usage)), ("output", usage["output"])):
                if count:
                    instruments.tokens.record(count, {**labels, names.TOKEN_TYPE: kind})

        def texts() -> Mapping[str, str]:
            found = {names.INPUT_MESSAGES: content.input_messages(request.messages)}
            if request.system_prompt:
                found[names.SYSTEM_INSTRUCTIONS] = content.system_instructions(request.system_prompt)
            if request.tools:
                found[names.TOOL_DEFINITIONS] = content.tool_definitions(request.tools)
            if answer is not None:
                found[names.OUTPUT_MESSAGES] = content.output_messages(answer)
            return found

        self._end(operation, instruments.request, texts)

    # Calls of tools.

    def _call_starts(self, record: Record) -> None:
        name = REDACTOR.text(str(record["toolName"]))
        labels: Attributes = {names.TOOL_NAME: name, names.TOOL_TYPE: "function"}
        call: Attributes = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_CALL_ID: str(record["toolCallId"])}
        span = self._start(f"{names.EXECUTE_TOOL} {name}", {**call, **labels, **self._agent})
        self._calls[cast("int", record["callIndex"])] = Operation(span, labels), record.get("args")

    def _call_ends(self, record: Record) -> None:
        operation, arguments = self._calls.pop(cast("int", record["callIndex"]), (None, None))
        if operation is None:
            return
        if record["isError"]:
            operation.fail(names.TOOL_ERROR)
        result = (as_object(record.get("result")) or {}).get("content")

        def texts() -> Mapping[str, str]:
            return {names.TOOL_ARGUMENTS: compact_json(arguments), names.TOOL_RESULT: compact_json(result)}

        self._end(operation, self._instruments.call, texts)

    @contextmanager
    def trace_call(self, index: int, context: "ToolContext") -> Generator[None]:
        """Make the span of a call current for the task that executes its tool, and for the programs that it starts."""
        operation, _ = self._calls.get(index, (None, None))
        if operation is None:
            yield
            return
        current = trace.set_span_in_context(operation.span)
        variables: dict[str, str] = {}
        with _contained("a call"):
            variables = variables_of(current)
            others = {name: value for name, value in context.env.items() if name not in VARIABLES.values()}
            context.env = {**others, **variables}
        token, mark = otel_context.attach(current), TRACE_VARIABLES.set(variables)
        try:
            yield
        finally:
            TRACE_VARIABLES.reset(mark)
            otel_context.detach(token)

    # Compactions, and the end.

    def _compaction_ends(self, record: Record) -> None:
        operation, self._compaction = self._compaction, None
        if operation is None:
            return
        if record["aborted"]:
            operation.span.set_attribute(names.OUTCOME, "aborted")
        elif record["result"] is None:
            operation.span.set_attribute(names.OUTCOME, "error")
            operation.fail("compaction_failed", str(record.get("errorMessage", "")))
        else:
            operation.span.set_attribute(names.OUTCOME, "completed")
        self._end(operation)

    def close(self) -> None:
        """End what is open and have everything sent. Blocks for `CLOSE_S` at most; the last call of all."""
        open_ones = [*(operation for operation, _ in self._calls.values()), self._request]
        for operation in (*open_ones, self._compaction, self._invocation):
            if operation is not None:
                operation.fail(names.INTERRUPTED)
                self._end(operation)
        self._calls, self._request, self._compaction, self._invocation = {}, None, None, None
        self._export.close(CLOSE_S)

    def _start(self, name: str, attributes: Attributes, kind: SpanKind = SpanKind.INTERNAL) -> trace.Span:
        """Start a span in what is open: a call of the same task, a compaction, or the invocation."""
        parent = self._parent
        current = trace.get_current_span().get_span_context()
        if current.is_valid and current != trace.get_current_span(parent).get_span_context():
            parent = otel_context.get_current()
        elif (operation := self._compaction or self._invocation) is not None:
            parent = trace.set_span_in_context(operation.span, self._parent)
        return self._tracer.start_span(name, parent, kind, attributes)

    def _end(self, operation: Operation, metric: Histogram | None = None, texts: Content | None = None) -> None:
        if metric is not None:
            metric.record(operation.age_s, operation.labels)
        processor = self._export.processor
        if processor is not None:
            processor.content = texts
        operation.span.end()
        if processor is not None:
            processor.content = None


class TracedProvider:
    """A provider whose requests are observed."""

    def __init__(self, provider: "Provider", telemetry: Telemetry) -> None:
        """Ask `provider`."""
        self._provider = provider
        self._telemetry = telemetry

    async def stream(self, request: "LlmRequest", builder: "MessageBuilder") -> None:
        """Ask for one answer and build it; see `Provider.stream`."""
        operation = self._begin(request)
        try:
            await self._provider.stream(request, builder)
        finally:
            if operation is not None:
                with _contained("the end of a request"):
                    self._telemetry.request_ends(operation, request, builder)

    def _begin(self, request: "LlmRequest") -> Operation | None:
        try:
            return self._telemetry.request_starts(request)
        except Exception:  # as in `_contained`
            _log.exception("telemetry has failed at %s", "a request")
            return None


def observe(wanted: TelemetryExports, environ: Mapping[str, str]) -> Telemetry:
    """Return an observer that exports what is wanted; `environ` may name the span that the process works for.

    Call it before the event loop runs.

    Raises:
        Exception: A variable has a value that the library refuses.
    """
    made = release()
    export = set_up(wanted, environ, {"service.name": NAME, "service.version": made})
    parent = parent_in(environ)
    otel_context.attach(parent)  # of all tasks, for spans of other code: the connections of MCP servers, for example
    return Telemetry(export, parent, made)


@contextmanager
def _contained(place: str) -> Generator[None]:
    """Log a defect: an exporter, a sampler or an id generator may be anybody's, and a run must not notice."""
    try:
        yield
    except Exception:
        _log.exception("telemetry has failed at %s", place)


def _error_type(answer: AssistantMessage) -> str:
    return str(answer.get("status") or answer.get("errorCode") or "provider_error")


def _set(span: trace.Span, attributes: Attributes) -> None:
    for name, value in attributes.items():
        span.set_attribute(name, value)
