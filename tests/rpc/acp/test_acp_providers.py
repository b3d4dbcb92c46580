"""Providers that an editor sets: requests of sessions that are opened then go there, and no key is seen anywhere."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.rpc.acp.conftest import StartAcp, text

from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter

VARIABLE = "PINNACE_PROVIDER_ROUTES"


def test_requests_of_a_session_and_of_its_sub_agents_go_where_the_editor_has_set(
    acp: StartAcp, work: Path, llm: Callable[[Iterable[Scripted]], FakeLlm]
) -> None:
    """The headers are sent as they are, and are in no message, log, session or environment of a command."""
    script: list[Any] = [
        {"tool_calls": [{"name": "bash", "args": {"command": "env"}}]},
        {"tool_calls": [{"name": "subagent", "args": {"task": "count"}}]},
        {"tool_calls": [{"name": "bash", "args": {"command": "env"}}], "match": "Task: count"},
        {"text": "counted", "match": "Task: count"},
        {"text": "done"},
    ]
    server = llm(script)
    agent = acp("--tools", "bash,subagent", server=server)
    agent.call("initialize", protocolVersion=1)
    headers = {"x-gateway-key": "sekret-4711-of-the-gateway", "x-odd": "$HOME"}
    provider = {"providerId": "fake", "apiType": "openai", "baseUrl": f"{server.base_url}/gateway"}
    # In one write: a session that is asked for next has it.
    agent.request("providers/set", {**provider, "headers": headers})
    session = agent.call("session/new", cwd=str(work), mcpServers=[])["sessionId"]
    assert agent.call("session/prompt", sessionId=session, prompt=text("go"))["stopReason"] == "end_turn"
    assert agent.error("providers/disable", providerId="fake")["code"] == -32602
    assert agent.end() == 0

    assert ["/gateway/chat/completions"] * 5 == [each.path for each in server.requests]
    assert [headers] * 5 == [{name: each.headers[name] for name in headers} for each in server.requests]
    bodies = " ".join(each.text for each in server.requests)
    assert "PINNACE_SUBAGENT_DEPTH" in bodies
    written = [path.read_text(errors="replace") for path in work.parent.rglob("*") if path.is_file()]
    for shown in (bodies, str(agent.messages), str(agent.stderr), *written):
        assert VARIABLE not in shown
        assert "sekret-4711" not in shown


def test_a_reload_keeps_what_was_set(agent: AgentStarter) -> None:
    pi = agent([], env={VARIABLE: json.dumps({"groq": None}), "GROQ_API_KEY": "k", "XAI_API_KEY": "k"})
    pi.ask("reload")

    assert {"fake", "xai"} == {each["provider"] for each in pi.ask("get_available_models")["models"]}
