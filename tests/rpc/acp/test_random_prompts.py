"""Random prompts, cancels, steered messages, loads and closes on two sessions: each prompt has its one right end."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rpc.acp.conftest import StartAcp, text

from pinnace_fuzz.acp.agent import AcpAgent, Message
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted

EXAMPLES: Final = settings.default.max_examples // 2 if settings.default else 25
SESSIONS: Final = 2
# The next request gets the next one, whichever session it is of, be it for a prompt, a steered message or a result.
ANSWERS: Final[Sequence[Mapping[str, Any]]] = [
    {"text": "fine"},
    {"reasoning": "hm", "text": ["in ", "pieces"]},
    {"tool_calls": [{"name": "write", "args": {"path": "new.txt", "content": "one\\n"}}]},
    {"tool_calls": [{"name": "read", "args": {"path": "missing"}}, {"name": "ls", "args": {}}]},
    {"text": "cut", "finish": "length"},
    {"error": {"status": 400, "message": "no"}},
    {"text": "late", "hold": True},
    {"chunks": [{"text": "half"}, {"gate": True}, {"text": "whole"}]},
]
MOVES: Final = st.tuples(
    st.sampled_from(["prompt", "prompt", "prompt", "cancel", "cancel_last", "steer", "load", "close", "release"]),
    st.integers(0, SESSIONS - 1),
)
OPTIONS: Final = ["allow_once", "reject_once"]


@dataclass
class Open:
    """A session, with its prompts and those of them that a cancel or a close may have met."""

    id: str
    prompts: list[int] = field(default_factory=list[int])
    cancelled: set[int] = field(default_factory=set[int])


def gated(answer: Mapping[str, Any], gate: str) -> Scripted:
    """Name the gate of an answer."""
    named = dict(answer)
    if "hold" in named:
        named["hold"] = gate
    if "chunks" in named:
        named["chunks"] = [{"gate": gate} if "gate" in piece else piece for piece in named["chunks"]]
    return named


def test_each_prompt_has_one_response_whatever_happens_around_it(
    acp: StartAcp, work: Path, llm: Callable[[Iterable[Scripted]], FakeLlm]
) -> None:
    """The observer of the connection holds the order of everything else."""
    server = llm([])
    choices = itertools.cycle(OPTIONS)

    def answer(request: Message) -> Mapping[str, object]:
        return {"outcome": {"outcome": "selected", "optionId": next(choices)}}

    agent = acp("--tool-approval", "ask", server=server, settings={"retry": {"enabled": False}}, answer=answer)
    agent.call("initialize", protocolVersion=1)

    @settings(max_examples=EXAMPLES)
    @given(st.lists(st.sampled_from(ANSWERS), max_size=8), st.lists(MOVES, min_size=3, max_size=12))
    def check(answers: list[Mapping[str, Any]], moves: list[tuple[str, int]]) -> None:
        server.forget()
        gates = [f"g{next(numbers)}" for _ in answers]
        for each, gate in zip(answers, gates, strict=True):
            server.add(gated(each, gate))
        server.add({"text": "more", "repeat": -1})
        sessions = [_opened(agent, work) for _ in range(SESSIONS)]
        for move, index in moves:
            _move(agent, server, move, sessions[index], work)
        server.release(*gates)
        failures = 0
        for session in sessions:
            for prompt in session.prompts:
                response = agent.response(prompt)
                if "error" in response:
                    failures += 1
                    assert response["error"]["code"] == -32603
                elif response["result"]["stopReason"] == "cancelled":
                    assert prompt in session.cancelled
                else:
                    assert response["result"]["stopReason"] in ("end_turn", "max_tokens")
        assert failures <= sum("error" in each for each in answers)
        server.forget()
        server.add({"text": "last", "repeat": -1})
        for session in sessions:
            assert agent.call("session/prompt", sessionId=session.id, prompt=text("Last"))["stopReason"] == "end_turn"
            agent.call("session/delete", sessionId=session.id)

    numbers = itertools.count()
    check()
    assert agent.end() == 0


def _opened(agent: AcpAgent, work: Path) -> Open:
    return Open(agent.call("session/new", cwd=str(work), mcpServers=[])["sessionId"])


def _move(agent: AcpAgent, server: FakeLlm, move: str, session: Open, work: Path) -> None:
    match move:
        case "prompt":
            prompt = text(f"Prompt {len(session.prompts)}")
            session.prompts.append(agent.request("session/prompt", sessionId=session.id, prompt=prompt))
        case "steer":
            agent.request("_session/steering", sessionId=session.id, prompt=text("Left"))
        case "cancel":
            session.cancelled.update(session.prompts)
            agent.notify("session/cancel", sessionId=session.id)
        case "cancel_last" if session.prompts:
            session.cancelled.add(session.prompts[-1])
            agent.notify("$/cancel_request", requestId=session.prompts[-1])
        case "load":
            agent.call("session/load", sessionId=session.id, cwd=str(work), mcpServers=[])
        case "close":
            session.cancelled.update(session.prompts)
            agent.call("session/close", sessionId=session.id)
            results = [agent.response(prompt).get("result", {}) for prompt in session.prompts]
            load = agent.request("session/load", sessionId=session.id, cwd=str(work), mcpServers=[])
            if "error" in agent.response(load):
                # It has no file: nothing has begun in it.
                assert agent.response(load)["error"]["code"] == -32002
                assert not any("entryId" in result.get("_meta", {}).get("pinnace", {}) for result in results)
                session.id = _opened(agent, work).id
        case _:
            server.release(*server.waiting)
