"""Requests that are open when stdin ends: each one that was read has exactly one answer before the process ends."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import WITH_FIXTURES
from tests.rpc.acp.conftest import StartAcp, opened, text

from pinnace_fuzz.acp.agent import AcpAgent, Message
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted

REQUESTS = (
    "new",
    "load",
    "resume",
    "list",
    "close",
    "delete",
    "mode",
    "option",
    "prompt",
    "steer",
    "authenticate",
    "?",
)


def answers(agent: AcpAgent, identity: object) -> list[Message]:
    return [message for message in agent.messages if "method" not in message and message.get("id") == identity]


def line(identity: int, kind: str, session: str, work: Path) -> Message:
    of_session: dict[str, Any] = {"sessionId": session}
    opens: dict[str, Any] = {"cwd": str(work), "mcpServers": []}
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "new": ("session/new", opens),
        "load": ("session/load", {**of_session, **opens}),
        "resume": ("session/resume", {**of_session, **opens}),
        "list": ("session/list", {}),
        "close": ("session/close", of_session),
        "delete": ("session/delete", {"sessionId": "unknown"}),
        "mode": ("session/set_mode", {**of_session, "modeId": "ask"}),
        "option": ("session/set_config_option", {**of_session, "configId": "mode", "value": "never"}),
        "prompt": ("session/prompt", {**of_session, "prompt": text("go")}),
        "steer": ("_session/steering", {**of_session, "prompt": text("aside")}),
        "authenticate": ("authenticate", {"methodId": "api-key"}),
        "?": ("session/fork", of_session),
    }
    method, params = calls[kind]
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


@pytest.fixture
def stored(acp: StartAcp, work: Path, llm: Callable[[Iterable[Scripted]], FakeLlm]) -> tuple[str, FakeLlm]:
    """A session that is stored, and its model's server, whose next answers never end."""
    server = llm([{"text": "one"}, {"chunks": [{"text": "half"}, {"hang": True}], "repeat": -1}])
    agent = acp(server=server)
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("a"))
    assert agent.end() == 0
    return session, server


def test_what_opens_or_reads_is_done_before_the_end(acp: StartAcp, work: Path, stored: tuple[str, FakeLlm]) -> None:
    """Also if it is in the last line, without its end, and is the first thing that starts an agent."""
    session, server = stored
    agent = acp(server=server)
    kinds = ("new", "load", "list", "new")
    agent.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}})
    lines = [line(number, kind, session, work) for number, kind in enumerate(kinds, 1)]
    agent.write(b"\n".join(json.dumps(each).encode() for each in lines))
    assert agent.end(is_whole=False) == 0
    found: list[list[Any]] = [[each.get("result") for each in answers(agent, number)] for number in range(5)]
    assert [len(each) for each in found] == [1] * 5
    _, new, loaded, listed, last = (each[0] for each in found)
    assert new["sessionId"] != last["sessionId"]
    assert loaded["modes"]
    assert [each["sessionId"] for each in listed["sessions"]] == [session]


@settings(WITH_FIXTURES, max_examples=5)
@given(st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=6), st.integers(0, 200))
def test_each_request_that_was_read_is_answered_once_whatever_follows(
    acp: StartAcp, work: Path, stored: tuple[str, FakeLlm], kinds: list[str], left: int
) -> None:
    session, server = stored
    lines = [line(number, kind, session, work) for number, kind in enumerate(kinds, 100)]
    torn = json.dumps(line(99, "list", session, work)).encode()
    with acp(server=server) as agent:
        agent.call("initialize", protocolVersion=1)
        agent.call("session/resume", sessionId=session, cwd=str(work), mcpServers=[])
        agent.write(b"".join(json.dumps(each).encode() + b"\n" for each in lines) + torn[: min(left, len(torn) - 1)])
        assert agent.end(is_whole=False) == 0
    found = {each["id"]: (each["method"], len(answers(agent, each["id"]))) for each in lines}
    assert found == {each["id"]: (each["method"], 1) for each in lines}
