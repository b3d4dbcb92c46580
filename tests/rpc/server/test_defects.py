"""A defect of the program is answered, told and survived: R-RSP-01 holds for our faults too."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from pinnace_agent.config.configuration import load_configuration
from pinnace_agent.config.models.models import ModelRegistry
from pinnace_agent.config.models.selection import Selection
from pinnace_agent.config.settings import Settings
from pinnace_agent.core.jobs import Jobs
from pinnace_agent.engine.profile import AgentProfile
from pinnace_agent.llm.offline.provider import OFFLINE_MODEL
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.identity import new_session_id
from pinnace_agent.session.library import Library, header_line
from pinnace_agent.session.store.file import SessionFile
from pinnace_agent.session.store.reading import read_entries
from pinnace_agent.tools.base import ToolContext, ToolResult
from pinnace_agent.tools.bash import BashTool
from pinnace_fuzz.harness import coverage
from pinnace_fuzz.trials.reading import worded
from pinnace_rpc.server.outbox import Outbox
from pinnace_rpc.server.projection import PiProjection, make_projection
from pinnace_rpc.server.startup import PreparedAgent, compose
from pinnace_spec.observers import Checks, End, judge
from pinnace_spec.observers.trace_file import step_of
from pinnace_spec.profiles.generations import generation
from pinnace_spec.records.messages import Model


class BrokenRegistry(ModelRegistry):
    """A registry with a defect."""

    def available(self) -> list[Model]:
        raise RuntimeError("the registry is broken")


class Sink:
    def __init__(self) -> None:
        self.data = b""

    async def send_all(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        self.data += data


async def answers(*commands: dict[str, object]) -> list[dict[str, Any]]:
    """Return what an agent with a broken registry writes."""
    registry = load_configuration({"HOME": "/nonexistent"}, Path("/nonexistent")).registry
    registry.__class__ = BrokenRegistry
    profile = AgentProfile(registry, {}, str)
    prepared = PreparedAgent(profile, Session("/nonexistent"), Library(None), Selection(), Settings())
    outbox, sink = Outbox(make_projection("pi")), Sink()
    async with trio.open_nursery() as nursery:
        dispatcher = compose(prepared, outbox, Jobs(nursery)).dispatcher
        for command in commands:
            dispatcher.receive(json.dumps(command).encode())
        outbox.close()
        await outbox.pump(sink)
    records = [json.loads(line) for line in sink.data.splitlines()]
    coverage.note_records(records)
    return records


async def test_a_shell_command_that_can_not_begin_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has no descriptor left for the modules that its first command needs."""
    monkeypatch.setitem(sys.modules, "pinnace_agent.shell.output", None)
    registry = load_configuration({"HOME": "/nonexistent"}, Path("/nonexistent")).registry
    prepared = PreparedAgent(
        AgentProfile(registry, {}, str), Session("/nonexistent"), Library(None), Selection(), Settings()
    )
    outbox, sink = Outbox(make_projection("pi")), Sink()
    async with trio.open_nursery() as nursery:
        dispatcher = compose(prepared, outbox, Jobs(nursery)).dispatcher
        nursery.start_soon(outbox.pump, sink)
        dispatcher.receive(b'{"id":"b","type":"bash","command":"echo hi"}')
        with trio.fail_after(60):
            while b'"id":"b"' not in sink.data:
                await trio.lowlevel.checkpoint()
        dispatcher.receive(b'{"id":"n","type":"get_state"}')
        outbox.close()
    answer, state = (json.loads(line) for line in sink.data.splitlines())

    assert (False, "shell_unavailable") == (answer["success"], answer["errorCode"])
    assert "pinnace_agent.shell.output" in answer["error"]
    assert not state["data"]["isBashRunning"]


async def test_a_read_and_a_setting_that_fail_are_answered_and_the_next_command_is_too() -> None:
    records = await answers(
        {"id": "r", "type": "get_available_models"},
        {"id": "s", "type": "set_model", "provider": "a", "modelId": "b"},
        {"id": "n", "type": "get_state"},
    )

    assert [("r", False), ("s", False), ("n", True)] == [(record["id"], record["success"]) for record in records]
    for record in records[:2]:
        assert ("internal_error", "Internal error: the registry is broken") == (record["errorCode"], record["error"])


# Between a record and the wire.


class SpoiltTool(BashTool):
    """A tool of the agent with a defect: its results are no JSON."""

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """Return at once."""
        block: Any = {"type": "text", "text": "done"}
        details: Any = {"file": Path("x"), "kept": [1, {"deep": b""}], 3: float("nan")}
        details["self"] = details
        await trio.lowlevel.checkpoint()
        return ToolResult([block], details)


class WorkingTool(BashTool):
    """A tool that tells of its progress, and waits for nothing."""

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """Return at once."""
        ctx.on_update(ToolResult([{"type": "text", "text": "half"}]))
        await trio.lowlevel.checkpoint()
        return ToolResult([{"type": "text", "text": "done"}])


class FaultyProjection(PiProjection):
    """Fails at the first record of a type, and at what stands for it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.left = 1 if kind == "response" else 2

    def line(self, record: Mapping[str, object]) -> bytes | None:
        self._fail(record["type"])
        return super().line(record)

    def update_line(self, event: Mapping[str, object], builder: Any) -> bytes:
        self._fail("message_update")
        return super().update_line(event, builder)

    def _fail(self, kind: object) -> None:
        if kind == self.kind and self.left:
            self.left -= 1
            raise RuntimeError(f"{kind} can't be written")


async def conversation(projection: PiProjection, tool: BashTool, session: Session) -> list[dict[str, Any]]:
    """Return what an agent writes that is asked twice: once to call the tool, and once more."""
    registry = load_configuration({"HOME": "/nonexistent"}, Path("/nonexistent")).registry
    profile = AgentProfile(registry, {"bash": tool}, lambda _: "You rehearse.")
    session.model = OFFLINE_MODEL

    def record_failed(problem: str) -> None:
        agent.interpreter.record_failed(problem)

    outbox, sink = Outbox(projection, on_defect=record_failed), Sink()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.pump, sink)
        async with trio.open_nursery() as jobs_nursery:
            agent = compose(
                PreparedAgent(profile, session, Library(None), Selection(), Settings()), outbox, Jobs(jobs_nursery)
            )
            for text in ("run `it`", "count to 2"):
                line = json.dumps({"id": text, "type": "prompt", "message": text}).encode()
                agent.dispatcher.receive(line)
                with trio.fail_after(30):
                    await agent.interpreter.idle.wait()
            agent.dispatcher.receive(b'{"id": "m", "type": "get_messages"}')
            jobs_nursery.cancel_scope.cancel()
        outbox.close()
    return [json.loads(line) for line in sink.data.splitlines()]


def open_brackets(records: list[dict[str, Any]]) -> dict[str, int]:
    kinds = [record["type"] for record in records]
    names = ("agent", "turn", "message", "tool_execution")
    return {name: kinds.count(f"{name}_start") - kinds.count(f"{name}_end") for name in names}


NOTHING_OPEN = {"agent": 0, "turn": 0, "message": 0, "tool_execution": 0}


@pytest.mark.parametrize(
    "kind",
    [
        "agent_start",
        "turn_start",
        "message_start",
        "message_update",
        "message_end",
        "tool_execution_start",
        "tool_execution_update",
        "tool_execution_end",
        "turn_end",
        "agent_end",
        "agent_settled",
    ],
)
async def test_a_record_that_can_not_be_written_leaves_no_bracket_open_and_ends_its_run(kind: str) -> None:
    projection = FaultyProjection(kind)
    records = await conversation(projection, WorkingTool(), Session("/nonexistent"))

    assert 0 == projection.left
    assert NOTHING_OPEN == open_brackets(records)
    trace = [step_of(number, "out", json.dumps(record).encode(), 0.0) for number, record in enumerate(records, 1)]
    end, checks = End("exit", 0, after=len(trace)), Checks(has_inputs=False, is_ours=True)
    assert [] == worded(judge(trace, end, generation("pi"), checks))
    errors = [record["error"] for record in records if record["type"] == "extension_error"]
    assert [f"The record {kind} can't be encoded: {kind} can't be written"] == errors
    assert 2 == sum(record["type"] == "agent_settled" for record in records)
    first = records[: next(i for i, record in enumerate(records) if record["type"] == "agent_settled")]
    if kind not in ("agent_end", "agent_settled"):
        assert "1 2" not in json.dumps(first)
        ended = json.dumps([record for record in first if record["type"] in ("message_end", "agent_end")])
        # Of a run whose answer and results are written already nothing is left to say it in.
        assert kind in ("tool_execution_end", "turn_end") or f"{kind} can't be written" in ended
    messages = records[-1]["data"]["messages"]
    assert "1 2" in json.dumps(messages[-1])
    assert "stop" == messages[-1]["stopReason"]


async def test_an_answer_that_can_not_be_written_is_refused_as_a_defect() -> None:
    records = await conversation(FaultyProjection("response"), WorkingTool(), Session("/nonexistent"))

    responses = [(record["id"], record["success"]) for record in records if record["type"] == "response"]
    assert [("run `it`", False), ("count to 2", True), ("m", True)] == responses
    assert NOTHING_OPEN == open_brackets(records)


@pytest.mark.parametrize("has_file", [False, True])
async def test_a_value_that_is_no_json_is_null_on_the_wire_and_in_the_file(tmp_path: Path, has_file: bool) -> None:
    path = tmp_path / "session.jsonl"
    session_id = new_session_id()
    file = SessionFile.fresh(path, header_line(session_id, "/nonexistent", 0, None)) if has_file else None
    session = Session("/nonexistent", session_id=session_id, file=file)
    records = await conversation(PiProjection(), SpoiltTool(), session)

    assert NOTHING_OPEN == open_brackets(records)
    [end] = [record for record in records if record["type"] == "tool_execution_end"]
    assert {"file": None, "kept": [1, {"deep": None}], "3": None, "self": None} == end["result"]["details"]
    assert 2 == sum(record["type"] == "agent_settled" for record in records)
    if has_file:
        entries, _ = read_entries(path.read_bytes())
        results = [entry["message"] for entry in entries if "toolResult" in json.dumps(entry)]
        assert end["result"]["details"] == results[0]["details"]  # type: ignore[index]
        assert records[-1]["success"]


async def test_a_report_that_can_not_be_written_either_is_not_reported() -> None:
    """Neither records nor their reports can be encoded as they are: each is repaired, and that is all."""

    class Useless(PiProjection):
        def line(self, record: Mapping[str, object]) -> bytes | None:
            raise RuntimeError("nothing can be written")

    def report(text: str) -> None:
        outbox.emit({"type": "extension_error", "error": text})

    outbox, sink = Outbox(Useless(), on_defect=report), Sink()
    for _ in range(2):
        outbox.emit({"type": "turn_start", "file": Path("x")})
    outbox.close()
    await outbox.pump(sink)

    records = [json.loads(line) for line in sink.data.splitlines()]
    assert ["turn_start", "extension_error"] * 2 == [record["type"] for record in records]
    assert None is records[0]["file"]
