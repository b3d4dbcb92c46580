"""Spans and metrics of real agents, as a collector gets them over OTLP/HTTP.

One agent does what has spans: a request that is retried, calls of a tool that is built in, of an extension's and of an
MCP server's, a compaction, a run that fails. The tests read what it exported.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.rpc.conftest import COMMAND, ENVIRONMENT
from tests.rpc.sandbox.test_sandboxed_tools import mechanisms
from tests.rpc.telemetry.collector import SOON, Collector, Span, collecting
from tests.waiting import wait_until

from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SERVER = Path(__file__).parents[1] / "mcp" / "hostile_server.py"
EXTENSION = '''
def extension(pi):
    @pi.tool()
    async def traced(ctx) -> str:
        """Print the trace."""
        return (await pi.exec("printenv", "TRACEPARENT")).stdout
'''
LATER: Scripted = {"error": {"status": 503, "body": {"error": {"message": "later: the words of the failure"}}}}
REFUSED: Scripted = {"error": {"status": 400, "body": {"error": {"message": "no: the words of the failure"}}}}
COMMAND_LINE = "echo $TRACEPARENT [$OTEL_EXPORTER_OTLP_HEADERS]; : the words of the call"
PROGRAMS: Final[Sequence[Mapping[str, object]]] = (
    {"name": "bash", "args": {"command": COMMAND_LINE}, "id": "c1"},
    {"name": "traced", "args": {}, "id": "c2"},
)
CALLS: Scripted = {
    "tool_calls": [
        *PROGRAMS,
        {"name": "mcp__other__bad", "args": {}, "id": "c3"},
        {"name": "read", "args": {"path": "no-such-file"}, "id": "c4"},
    ],
    "usage": {"input": 100, "output": 20, "cacheRead": 30, "cacheWrite": 40, "reasoning": 7},
}
SCRIPT = (LATER, CALLS, {"text": "the words of the answer"}, {"text": "the words of the summary"}, REFUSED)
CONTENT = ("prompt", "answer", "summary", "call", "failure")
INVOCATIONS = "gen_ai.invoke_agent.duration"
KEY = "collector-key-5Bq9Lx2"


class Exported(NamedTuple):
    """An agent that has ended, and what it exported."""

    agent: HomedAgent
    collector: Collector
    spans: list[Span]

    def one(self, name: str) -> Span:
        [found] = [span for span in self.spans if span.name == name]
        return found

    def all(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def result(self, call_id: str) -> str:
        ends = [each["message"] for each in self.agent.found({"type": "message_end"})]
        [message] = [each for each in ends if each.get("toolCallId") == call_id]
        return str(message["content"][0]["text"])


def exported_by(starter: AgentStarter, folder: Path, collector: Collector, **variables: str) -> Exported:
    """Have the agent do everything, and end it."""
    extension = folder / "traced.py"
    extension.write_text(EXTENSION)
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "OTEL_EXPORTER_OTLP_HEADERS": f"x-token={KEY}",
        "TRACEPARENT": f"00-{TRACE}-{PARENT}-01",
        **SOON,
        **variables,
    }
    server = {"command": sys.executable, "args": ["-S", str(SERVER), "returns-meta"]}
    agent = starter(
        SCRIPT,
        "--extension",
        str(extension),
        settings={"compaction": {"keepRecentTokens": 1}, "retry": {"enabled": True, "baseDelayMs": 1}},
        files={"mcp.json": {"mcpServers": {"other": server}}},
        env=environment,
    )
    agent.say("the words of the prompt")
    agent.ask("compact")
    agent.say("and more")
    wait_until(lambda: [span.name for span in collector.spans].count("invoke_agent pinnace") == 2)
    if variables.get("OTEL_METRICS_EXPORTER") != "none":
        wait_until(lambda: sum(count for _, count, _ in collector.metrics.get(INVOCATIONS, ())) == 2)
    agent.check_end()
    return Exported(agent, collector, collector.spans)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    """What is exported by default."""
    folder = tmp_path_factory.mktemp("exported")
    with collecting() as collector, AgentStarter(COMMAND, folder, ENVIRONMENT, is_specified=True) as starter:
        yield exported_by(starter, folder, collector, OTEL_RESOURCE_ATTRIBUTES="deployment=test")


def test_spans_form_one_trace_in_that_of_the_environment(exported: Exported) -> None:
    """Runs and a manual compaction belong to the span that started the agent; requests and calls to what asks."""
    first, second = exported.all("invoke_agent pinnace")
    compaction = exported.one("compact")
    parents = {
        first.id: ["chat m1", "chat m1", *(f"execute_tool {name}" for name in TOOLS), "chat m1"],
        compaction.id: ["chat m1"],
        second.id: ["chat m1"],
    }

    assert {TRACE} == {span.trace for span in exported.spans}
    assert [PARENT] * 3 == [first.parent, compaction.parent, second.parent]
    assert parents == {
        parent: [span.name for span in exported.spans if span.parent == parent and "mcp" not in span.name.split()[0]]
        for parent in parents
    }
    assert all(span.start <= span.end for span in exported.spans)


TOOLS = ("bash", "traced", "mcp__other__bad", "read")


def test_a_request_says_what_was_asked_and_what_it_used(exported: Exported) -> None:
    refused, called, answered, summarised, _ = exported.all("chat m1")
    session = called.attributes["gen_ai.conversation.id"]
    model = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "fake", "gen_ai.request.model": "m1"}

    assert {3} == {span.kind for span in (refused, called, answered, summarised)}  # CLIENT
    for span in (refused, called, answered, summarised):
        assert model.items() <= span.attributes.items()
        assert "127.0.0.1" == span.attributes["server.address"]
        assert exported.agent.llm.base_url.startswith(f"http://127.0.0.1:{span.attributes['server.port']}")
        assert session == span.attributes["gen_ai.conversation.id"]
    used = {
        "gen_ai.usage.input_tokens": 170,
        "gen_ai.usage.cache_read.input_tokens": 30,
        "gen_ai.usage.cache_creation.input_tokens": 40,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.reasoning.output_tokens": 7,
        "gen_ai.response.finish_reasons": ["tool_call"],
    }
    assert used.items() <= called.attributes.items()
    assert ["stop"] == answered.attributes["gen_ai.response.finish_reasons"]
    assert answered.attributes["gen_ai.response.time_to_first_chunk"] >= 0
    assert not called.is_error


def test_a_retry_is_a_request_of_its_own(exported: Exported) -> None:
    refused, called, answered, *_ = exported.all("chat m1")

    assert refused.is_error
    assert "503" == refused.attributes["error.type"]
    assert [None, 1, None] == [span.attributes.get("pinnace.retry.attempt") for span in (refused, called, answered)]


def test_an_invocation_says_how_it_has_ended(exported: Exported) -> None:
    first, second = exported.all("invoke_agent pinnace")
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "pinnace", "gen_ai.request.model": "m1"}

    assert agent.items() <= first.attributes.items()
    assert 1 == first.kind  # INTERNAL
    assert (170 + 10, 20 + 5) == tuple(first.attributes[f"gen_ai.usage.{each}_tokens"] for each in ("input", "output"))
    assert ["completed", "error"] == [span.attributes["pinnace.outcome"] for span in (first, second)]
    assert ["400"] == [span.attributes["error.type"] for span in (first, second) if span.is_error]
    assert first.attributes["gen_ai.conversation.id"] == second.attributes["gen_ai.conversation.id"]


def test_a_call_says_its_tool_and_whether_it_failed(exported: Exported) -> None:
    calls = [exported.one(f"execute_tool {name}") for name in TOOLS]

    assert {"execute_tool"} == {span.attributes["gen_ai.operation.name"] for span in calls}
    assert list(TOOLS) == [span.attributes["gen_ai.tool.name"] for span in calls]
    assert ["c1", "c2", "c3", "c4"] == [span.attributes["gen_ai.tool.call.id"] for span in calls]
    assert [False, False, False, True] == [span.is_error for span in calls]
    assert "tool_error" == calls[-1].attributes["error.type"]


def test_programs_of_a_call_get_its_trace(exported: Exported) -> None:
    """Of the shell, and of an extension; each its own, also where calls run at the same time."""
    bash, traced = (exported.one(f"execute_tool {name}") for name in ("bash", "traced"))

    assert f"00-{TRACE}-{bash.id}-01" == exported.result("c1").split()[0]
    assert f"00-{TRACE}-{traced.id}-01" == exported.result("c2").strip()


@mechanisms
def test_programs_of_a_call_get_its_trace_in_a_sandbox(mechanism: str, tmp_path: Path) -> None:
    extension = tmp_path / "traced.py"
    extension.write_text(EXTENSION)
    script: tuple[Scripted, ...] = ({"tool_calls": [*PROGRAMS]}, {"text": "done"})
    with collecting() as collector, AgentStarter(COMMAND, tmp_path, ENVIRONMENT, is_specified=True) as starter:
        agent = starter(
            script,
            *("--extension", str(extension), "--sandbox", "workspace-write"),
            settings={"sandbox": {"mechanism": mechanism}},
            env={
                "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
                "OTEL_EXPORTER_OTLP_HEADERS": f"x-token={KEY}",
                "OTEL_METRICS_EXPORTER": "none",
                "TRACEPARENT": f"00-{TRACE}-{PARENT}-01",
                **SOON,
            },
        )
        agent.say("go")
        wait_until(lambda: "invoke_agent pinnace" in [span.name for span in collector.spans])
        agent.check_end()
        found = Exported(agent, collector, collector.spans)

    bash, traced = (found.one(f"execute_tool {name}") for name in ("bash", "traced"))
    assert [f"00-{TRACE}-{bash.id}-01", "[]"] == found.result("c1").split()
    assert f"00-{TRACE}-{traced.id}-01" == found.result("c2").strip()


def test_a_call_of_an_mcp_server_carries_its_trace(exported: Exported) -> None:
    """In `_meta`, as the span of the request that the library of the protocol makes in the span of the call."""
    call = exported.one("execute_tool mcp__other__bad")
    _, trace, span, _ = json.loads(exported.result("c3"))["traceparent"].split("-")
    [request] = [each for each in exported.spans if each.id == span]

    assert TRACE == trace
    assert call.id == request.parent


def test_a_compaction_has_a_span_with_its_requests(exported: Exported) -> None:
    compaction = exported.one("compact")

    assert "manual" == compaction.attributes["pinnace.compaction.reason"]
    assert "completed" == compaction.attributes["pinnace.outcome"]


def test_metrics_count_tokens_and_durations(exported: Exported) -> None:
    metrics = exported.collector.metrics
    tokens = metrics["gen_ai.client.token.usage"]
    durations = metrics["gen_ai.client.operation.duration"]

    def total(kind: str) -> float:
        return sum(amount for labels, _, amount in tokens if labels["gen_ai.token.type"] == kind)

    assert (170 + 10 + 10, 20 + 5 + 5) == (total("input"), total("output"))
    assert {("fake", "m1")} == {(each["gen_ai.provider.name"], each["gen_ai.request.model"]) for each, *_ in durations}
    assert {None: 3, "503": 1, "400": 1} == {each.get("error.type"): count for each, count, _ in durations}
    assert set(TOOLS) == {labels["gen_ai.tool.name"] for labels, *_ in metrics["gen_ai.execute_tool.duration"]}
    assert 2 == sum(count for _, count, _ in metrics[INVOCATIONS])
    assert 2 == sum(count for _, count, _ in metrics["gen_ai.client.operation.time_to_first_chunk"])


def test_the_resource_is_the_program_with_the_attributes_of_the_environment(exported: Exported) -> None:
    about = exported.spans[0].resource

    assert {"service.name": "pinnace", "deployment": "test"}.items() <= about.items()
    assert about["service.version"] == exported.spans[0].attributes.get(
        "gen_ai.agent.version", about["service.version"]
    )


def test_nothing_that_was_said_is_exported(exported: Exported) -> None:
    """Neither prompts nor outputs, arguments, results or texts of errors, which may quote them."""
    assert exported.collector.holds("chat m1")
    assert [] == [words for words in CONTENT if exported.collector.holds(f"the words of the {words}")]
    assert not exported.collector.holds(f"00-{TRACE}")
    assert {""} == {span.status_text for span in exported.spans}


def test_the_key_of_the_collector_is_sent_to_it_alone(exported: Exported) -> None:
    """No program of a call gets it."""
    assert {KEY} == {headers["x-token"] for headers in exported.collector.headers}
    assert "[]" == exported.result("c1").split()[1]


def test_content_is_exported_where_the_variable_says_so_but_no_key(tmp_path: Path) -> None:
    with collecting() as collector, AgentStarter(COMMAND, tmp_path, ENVIRONMENT, is_specified=True) as starter:
        exported = exported_by(
            starter,
            tmp_path,
            collector,
            OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="SPAN_ONLY",
            OTEL_METRICS_EXPORTER="none",
            NOTE=KEY,
            FAKE_API_KEY="unused",
        )
    _, called, answered, *_ = exported.all("chat m1")
    bash = exported.one("execute_tool bash")

    def parts(span: Span, name: str) -> list[dict[str, object]]:
        return [part for message in json.loads(span.attributes[name]) for part in message["parts"]]

    assert {"type": "text", "content": "the words of the prompt"} in parts(called, "gen_ai.input.messages")
    assert {"type": "text", "content": "the words of the answer"} in parts(answered, "gen_ai.output.messages")
    assert ["tool_call"] * 4 == [part["type"] for part in parts(called, "gen_ai.output.messages")]
    assert ["user", "assistant", *["tool"] * 4] == [
        message["role"] for message in json.loads(answered.attributes["gen_ai.input.messages"])
    ]
    assert {"command": COMMAND_LINE} == json.loads(bash.attributes["gen_ai.tool.call.arguments"])
    assert bash.id in bash.attributes["gen_ai.tool.call.result"]
    assert "bash" in {tool["name"] for tool in json.loads(called.attributes["gen_ai.tool.definitions"])}
    assert called.attributes["gen_ai.system_instructions"]
    assert [] == [words for words in CONTENT if not collector.holds(f"the words of the {words}")]
    assert not collector.holds(KEY)
    assert {} == collector.metrics
