"""How records and requests become spans, and what leaves the process, with the library's exporter in memory."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from opentelemetry.context import Context
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult
from opentelemetry.trace import Span, Status, StatusCode
from tests.agent.telemetry.test_conventions import MODEL

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.telemetry.otel.export import ContentProcessor, Export, Problems
from pinnace_agent.telemetry.otel.observer import Telemetry
from pinnace_agent.tools.base import ToolContext

KEY = "sk-test-9f8e7d6c5b4a"


class Observed:
    """An observer, and what it has exported."""

    def __init__(self, *, has_content: bool = False, sampler: Sampler | None = None) -> None:
        self.exporter = InMemorySpanExporter()
        self.processor = ContentProcessor([self.exporter], has_content=has_content)
        self.provider = TracerProvider(sampler, shutdown_on_exit=False)
        self.provider.add_span_processor(self.processor)
        parts: tuple[Callable[[], object], ...] = (self.provider.shutdown,)
        self.export = Export(self.provider, NoOpMeterProvider(), self.processor, Problems(), parts)
        self.telemetry = Telemetry(self.export, Context(), "1")

    def take(self, *records: dict[str, Any]) -> None:
        for record in records:
            self.telemetry.record(record)

    @property
    def spans(self) -> list[ReadableSpan]:
        self.processor.force_flush()
        return list(self.exporter.get_finished_spans())

    def one(self, name: str) -> ReadableSpan:
        [found] = [span for span in self.spans if span.name == name]
        return found


class Silent:
    def started(self, message: object) -> None:
        pass

    def update(self, event: object, builder: object) -> None:
        pass

    async def room(self) -> None:
        pass


class Answering:
    """A provider that does as told with the builder."""

    def __init__(self, answer: Callable[[MessageBuilder], object]) -> None:
        self._answer = answer

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        self._answer(builder)


def refusing(builder: MessageBuilder) -> None:
    builder.fail(f"{KEY} is refused")


async def ask(observed: Observed, answer: Callable[[MessageBuilder], object]) -> None:
    request = LlmRequest(MODEL, "", ({"role": "user", "content": "hi", "timestamp": 0},), (), "off", None, {}, "s1")
    await observed.telemetry.provider(Answering(answer)).stream(request, MessageBuilder(MODEL, Silent(), 0))


def call(kind: str, index: int = 0, **fields: Any) -> dict[str, Any]:
    names = {"toolCallId": "same", "toolName": "bash", "callIndex": index}
    return {"type": f"tool_execution_{kind}", **names, "args": {"a": KEY}, "isError": False, "result": {}, **fields}


START = {"type": "agent_start"}
SETTLED = {"type": "agent_settled", "aborted": False}


@pytest.fixture
def observed() -> Iterator[Observed]:
    made = Observed()
    yield made
    made.export.close(10)


async def test_a_retry_continues_an_invocation(observed: Observed) -> None:
    observed.take(START)
    await ask(observed, refusing)
    observed.take({"type": "agent_end", "messages": [], "willRetry": True})
    observed.take({"type": "auto_retry_start", "attempt": 1}, START)
    await ask(observed, lambda builder: builder.finish("stop"))
    observed.take({"type": "auto_retry_end", "success": True, "attempt": 1}, SETTLED)
    first, second, invocation = observed.spans

    assert ["chat m1", "chat m1", "invoke_agent pinnace"] == [span.name for span in (first, second, invocation)]
    assert invocation.context is not None
    assert [invocation.context.span_id] * 2 == [span.parent and span.parent.span_id for span in (first, second)]
    assert (first.attributes or {})["error.type"] == "provider_error"
    assert (second.attributes or {})["pinnace.retry.attempt"] == 1


async def test_an_automatic_compaction_is_in_the_invocation_with_its_requests(observed: Observed) -> None:
    observed.take(START, {"type": "compaction_start", "reason": "threshold"})
    await ask(observed, lambda builder: builder.finish("stop"))
    failed = {"reason": "threshold", "aborted": False, "result": None, "errorMessage": "no"}
    observed.take({"type": "compaction_end", **failed}, SETTLED)
    request, compaction, invocation = observed.spans

    assert compaction.context is not None
    assert invocation.context is not None
    assert request.parent == compaction.context
    assert compaction.parent == invocation.context
    assert "compaction_failed" == (compaction.attributes or {})["error.type"]


async def test_a_cancelled_request_has_ended(observed: Observed) -> None:
    def cancelled(_builder: MessageBuilder) -> None:
        raise trio.BrokenResourceError  # as `Cancelled`, which only trio can make

    observed.take(START)
    with pytest.raises(trio.BrokenResourceError):
        await ask(observed, cancelled)
    observed.take({**SETTLED, "aborted": True})

    request = observed.one("chat m1")
    assert ("aborted",) == (request.attributes or {})["gen_ai.response.finish_reasons"]
    assert StatusCode.UNSET == request.status.status_code
    assert "aborted" == (observed.one("invoke_agent pinnace").attributes or {})["pinnace.outcome"]


def test_a_limit_is_an_outcome(observed: Observed) -> None:
    observed.take(START, {**SETTLED, "reason": "limit", "limit": "maxTurns"})
    found = observed.one("invoke_agent pinnace").attributes or {}
    assert ("limit", "maxTurns") == (found["pinnace.outcome"], found["pinnace.limit"])


def test_calls_with_the_same_id_are_told_apart_by_their_places(observed: Observed) -> None:
    contexts = [ToolContext(".", "same", print, {"TRACESTATE": "of=another", "A": "1"}) for _ in range(2)]
    observed.take(START, call("start"), call("start", 1))
    for index, context in enumerate(contexts):
        with observed.telemetry.trace_call(index, context):
            pass
    observed.take(call("end", 1), call("end"), SETTLED)
    second, first, _ = observed.spans

    for span, context in zip((first, second), contexts, strict=True):
        assert span.context is not None
        assert {"A", "TRACEPARENT"} == context.env.keys()
        assert f"{span.context.span_id:016x}" == context.env["TRACEPARENT"].split("-")[2]


def test_what_is_open_at_the_end_of_the_process_has_ended(observed: Observed) -> None:
    observed.take(START, call("start"))
    observed.telemetry.close()

    assert ["interrupted"] * 2 == [(span.attributes or {})["error.type"] for span in observed.spans]


@pytest.mark.parametrize("has_content", [False, True])
async def test_no_key_passes_the_wall(has_content: bool) -> None:
    """Whatever holds it, also if it became known after the span had ended; a text of an error with content alone."""
    observed = Observed(has_content=has_content)
    REDACTOR.forget()
    try:
        observed.take(START, call("start", toolName=f"x-{KEY}"), call("end", result={"content": KEY}))
        await ask(observed, refusing)
        other = observed.provider.get_tracer("other").start_span(f"other {KEY}", attributes={"a": [KEY], "b": KEY})
        assert isinstance(other, Span)
        other.record_exception(ValueError(f"of {KEY}"))
        other.set_status(Status(StatusCode.ERROR, f"of {KEY}"))
        other.end()
        observed.take(SETTLED)
        REDACTOR.learn(KEY)
        observed.export.close(10)
        spans = observed.exporter.get_finished_spans()
    finally:
        REDACTOR.forget()

    texts = "".join(span.to_json() for span in spans)
    assert 4 == len(spans)
    assert KEY not in texts
    assert has_content == ("of [redacted]" in texts)
    assert has_content == ("gen_ai.tool.call.arguments" in texts)


async def test_a_defect_is_none_of_the_run(caplog: pytest.LogCaptureFixture) -> None:
    """Of a sampler, for example: the request is made, and the record passed on."""

    class Failing(Sampler):
        def should_sample(self, *_: object, **_more: object) -> SamplingResult:
            raise ValueError("no")

        def get_description(self) -> str:
            return "fails"

    observed = Observed(sampler=Failing())
    passed: list[object] = []
    answered: list[MessageBuilder] = []
    observed.telemetry.before(passed.append)(START)
    await ask(observed, answered.append)

    assert [START] == passed
    assert 1 == len(answered)
    expected = [f"telemetry has failed at {place}" for place in ("agent_start", "a request")]
    assert expected == [each.getMessage() for each in caplog.records]
    observed.export.close(10)


def test_the_end_waits_for_no_part_that_hangs() -> None:
    gate, ended = threading.Event(), threading.Event()

    def hangs() -> None:
        gate.wait()
        ended.set()

    made = Observed()
    made.export._replace(parts=(hangs, made.provider.shutdown)).close(0.01)
    try:
        assert not ended.is_set()
    finally:
        gate.set()
        assert ended.wait(60)
