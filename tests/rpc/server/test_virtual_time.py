"""Conversations in virtual time: any commands at any moments, the real agent but for its pipes, judged by its records.

The offline model streams, thinks and calls tools; the clock jumps from one happening to the next. What is held of every
script: records obey the grammar, each command is answered once, each text has one fate, and an abort ends what was
before it.
"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rpc.server.tracing_client import TracingClient
from trio.testing import MockClock

from pinnace_agent.config.configuration import load_configuration
from pinnace_agent.config.models.selection import Selection
from pinnace_agent.config.settings import Settings
from pinnace_agent.core.jobs import Jobs
from pinnace_agent.engine.profile import AgentProfile
from pinnace_agent.llm.offline.provider import OFFLINE_MODEL
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.library import Library
from pinnace_agent.tools.base import ToolContext, ToolResult, text_result
from pinnace_agent.tools.bash import BashTool
from pinnace_fuzz.trials.reading import worded
from pinnace_rpc.server.outbox import Outbox
from pinnace_rpc.server.projection import make_projection
from pinnace_rpc.server.startup import PreparedAgent, compose
from pinnace_spec.observers import Checks, End, Step, judge
from pinnace_spec.profiles.generations import generation
from pinnace_spec.records.outputs import validate_output
from pinnace_statechart.triggers import InternalEvent

TEXTS = ("count to 5", "run `wait`", "think", "fail with 503", "hello")


class WaitingTool(BashTool):
    """Stands in for the shell, whose real processes live in real time."""

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """Take a fifth of a second and tell of it."""
        ctx.on_update(text_result(""))
        await trio.sleep(0.2)
        return text_result("waited")


class Send(NamedTuple):
    """A command, some time after the one before."""

    delay_ms: int
    command: dict[str, Any]


def sends() -> st.SearchStrategy[Send]:
    texts = st.fixed_dictionaries({"message": st.sampled_from(TEXTS)})
    prompts = st.fixed_dictionaries(
        {
            "type": st.just("prompt"),
            "message": st.sampled_from(TEXTS),
            "streamingBehavior": st.sampled_from([None, "steer", "followUp"]),
        }
    )
    queued = st.sampled_from(["steer", "follow_up"]).flatmap(lambda name: texts.map(lambda t: {"type": name, **t}))
    aborts = st.sampled_from(["hold", "clear", "continue"]).map(lambda queue: {"type": "abort", "queue": queue})
    others = st.sampled_from(
        [
            {"type": "new_session"},
            {"type": "clear_queue"},
            {"type": "get_state"},
            {"type": "set_steering_mode", "mode": "all"},
            {"type": "set_follow_up_mode", "mode": "all"},
            {"type": "cycle_thinking_level"},
            {"type": "hello"},
            {"type": "compact"},
            {"type": "no such command"},
        ]
    )
    return st.builds(Send, st.sampled_from([0, 0, 1, 20, 90, 400]), st.one_of(prompts, queued, aborts, others))


async def play(script: list[Send]) -> tuple[list[dict[str, Any]], list[Step], End]:
    """Let an agent take a script, then end its input; return what it wrote, and the trace."""
    registry = load_configuration({"HOME": "/nonexistent"}, Path("/nonexistent")).registry
    profile = AgentProfile(registry, {"bash": WaitingTool()}, lambda _: "You rehearse.")
    session = Session("/nonexistent")
    session.model, session.thinking_level = OFFLINE_MODEL, "medium"
    outbox, client, done = Outbox(make_projection("1.5")), TracingClient(), trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.pump, client)
        async with trio.open_nursery() as jobs_nursery:
            prepared = PreparedAgent(profile, session, Library(None), Selection(), Settings())
            agent = compose(prepared, outbox, Jobs(jobs_nursery), done.set)
            for number, send in enumerate(script):
                await trio.sleep(send.delay_ms / 1000)
                command = {"id": str(number), **send.command}
                if "message" in command:
                    command["message"] = f"{command['message']} #{number}"
                line = json.dumps(command).encode()
                client.note("in", line)
                agent.dispatcher.receive(line)
            after = len(client.trace)
            agent.interpreter.submit(InternalEvent("stop_drain"))
            await done.wait()
            jobs_nursery.cancel_scope.cancel()
        outbox.close()
    return client.records, client.trace, End("exit", 0, after=after)


def find_problems(script: list[Send], records: list[dict[str, Any]], trace: list[Step], end: End) -> list[str]:
    """Say what is wrong with a transcript."""
    problems = worded(judge(trace, end, generation("1.5"), Checks(is_ours=True)))
    problems += [problem for record in records for problem in validate_output(record, "1.5")]
    answers = Counter(record["id"] for record in records if record["type"] == "response")
    problems += [f"{n} answered {answers[str(n)]} times" for n in range(len(script)) if answers[str(n)] != 1]
    return [*problems, *starts(script, records), *fates(script, records)]


def starts(script: list[Send], records: list[dict[str, Any]]) -> list[str]:
    """Check that after an abort was answered nothing starts for what was accepted before it (C-1, C-7)."""
    aborted, newest = -1, -1
    problems: list[str] = []
    for record in records:
        if record["type"] == "response" and record["success"]:
            number = int(record["id"])
            command = script[number].command
            if command["type"] == "abort":
                aborted = number if command["queue"] != "continue" else -1
            elif "message" in command:
                newest = max(newest, number)
        if record["type"] == "agent_start" and newest < aborted:
            problems.append(f"a run starts after abort {aborted}, though {newest} was the last text accepted")
    return problems


def fates(script: list[Send], records: list[dict[str, Any]]) -> list[str]:
    """Check that each accepted text was delivered once, or handed back once; and each refused one never."""
    told = Counter[str]()
    returned = Counter[str]()
    accepted: set[str] = set()
    queue: set[str] = set()
    for record in records:
        if record["type"] == "message_end" and record["message"]["role"] == "user":
            told[record["message"]["content"][0]["text"]] += 1
        if record["type"] == "queue_update":
            queue = {*record["steering"], *record["followUp"]}
        if record["type"] == "response" and record["success"]:
            send = script[int(record["id"])].command
            if "message" in send:
                accepted.add(f"{send['message']} #{record['id']}")
            data = record.get("data") or {}
            cleared = data.get("cleared") or (data if record["command"] == "clear_queue" else {})
            returned.update([*cleared.get("steering", ()), *cleared.get("followUp", ())])
    # A drain leaves what an abort holds, and reports it last.
    is_kept = bool(records) and records[-1]["type"] == "queue_update"
    if is_kept:
        returned.update(queue)
    problems = [f"the queue still shows {queue}"] if queue and not is_kept else []
    texts = {f"{s.command['message']} #{n}" for n, s in enumerate(script) if "message" in s.command}
    for text in texts:
        count = told[text] + returned[text]
        if count != (text in accepted):
            problems.append(f"{text}: accepted {text in accepted}, delivered {told[text]}, returned {returned[text]}")
    return problems


@settings(deadline=None)
@given(st.lists(sends(), max_size=12))
def test_any_script_keeps_every_promise(script: list[Send]) -> None:
    """I-EVT, I-RSP-1, I-QUE-2, over whatever commands at whatever moments."""
    records, trace, end = trio.run(play, script, clock=MockClock(autojump_threshold=0))

    assert [] == find_problems(script, records, trace, end)


def test_a_script_of_every_kind_runs_through_tools_and_queues() -> None:
    """The property above is not vacuous: this script streams, thinks, calls a tool, queues and aborts."""
    script = [
        Send(0, {"type": "prompt", "message": "run `wait`"}),
        Send(100, {"type": "steer", "message": "count to 5"}),
        Send(0, {"type": "follow_up", "message": "think"}),
        Send(3000, {"type": "prompt", "message": "count to 5"}),
        Send(40, {"type": "steer", "message": "hello"}),
        Send(0, {"type": "abort", "queue": "continue"}),
    ]
    records, trace, end = trio.run(play, script, clock=MockClock(autojump_threshold=0))
    kinds = Counter(record["type"] for record in records)

    assert [] == find_problems(script, records, trace, end)
    assert kinds["tool_execution_end"] == 1
    assert kinds["agent_start"] == 3
    assert [False, False] == [record["aborted"] for record in records if record["type"] == "agent_settled"]
