"""The system prompt that a client gives a session, in both versions: behind the agent's own, or in its place.

Rule R-ACP-99.
"""

from pathlib import Path
from typing import Any

import pytest
from tests.rpc.acp.conftest import text
from tests.rpc.acp.test_turns import MakeLlm
from tests.rpc.acp.v2.conftest import INFO

from pinnace_rpc.acp.translation.params import InvalidParams, Params
from pinnace_rpc.acp.translation.system_prompts import MAX_BYTES, read_system_prompt

OWN, USERS = "You are a coding agent", "Be brief."


def given(said: object, mode: str = "append", kind: str = "text") -> dict[str, Any]:
    return {"mode": mode, "content": [{"type": kind, "text": said}]}


@pytest.mark.parametrize("version", [1, 2])
def test_a_session_has_the_system_prompt_of_its_client(
    request: pytest.FixtureRequest, llm: MakeLlm, work: Path, version: int
) -> None:
    """With that of the user's file; so has a copy that is asked for with it. The name of a file is a text as any."""
    server = llm([{"text": "one"}, {"text": "two"}, {"text": "three"}])
    agent = request.getfixturevalue("acp" if version == 1 else "acp2")(server=server)
    (work.parent / "agent" / "APPEND_SYSTEM.md").write_text(USERS)
    (work / "named").write_text("of a file")
    described = agent.call("initialize", protocolVersion=version, info=INFO)
    offers = described["agentCapabilities"] if version == 1 else described["capabilities"]
    sessions = offers["sessionCapabilities" if version == 1 else "session"]
    opens: dict[str, Any] = {"cwd": str(work), "mcpServers": []}

    def ask(session: str) -> str:
        after = len(agent.messages)
        agent.call("session/prompt", sessionId=session, prompt=text("Go"))
        if version == 2:
            agent.update("state_update", after, state="idle")
        return session

    first = ask(agent.call("session/new", **opens, systemPrompt=given("Speak of sails."))["sessionId"])
    ask(agent.call("session/fork", **opens, sessionId=first, systemPrompt=given("Speak of masts."))["sessionId"])
    ask(agent.call("session/new", **opens, systemPrompt=given("named", "override"))["sessionId"])
    again = agent.error("session/resume", **opens, sessionId=first, systemPrompt=given("Speak of masts."))
    agent.call("session/resume", **opens, sessionId=first, systemPrompt=given("Speak of sails."))
    appended, copied, replaced = (str(each.body["messages"][0]["content"]) for each in server.wait_requests(3))

    assert {"mode": {"override": {}}} == sessions["systemPrompt"]
    assert [True] * 3 == [each in appended for each in (OWN, USERS, "Speak of sails.")]
    assert [True, True, True, False] == [each in copied for each in (OWN, USERS, "Speak of masts.", "sails")]
    assert [True, True, False, False] == [each in replaced for each in ("named", USERS, OWN, "of a file")]
    assert (-32602, "params.systemPrompt") == (again["code"], again["data"]["path"])
    assert 0 == agent.end()


@pytest.mark.parametrize(
    ("prompt", "path"),
    [
        ("text", "systemPrompt"),
        ({"content": []}, "systemPrompt.mode"),
        (given("x", "_of-tomorrow"), "systemPrompt.mode"),
        (given("x", kind="image"), "systemPrompt.content[0].type"),
        (given(1), "systemPrompt.content[0].text"),
        ({"mode": "append", "content": []}, "systemPrompt.content"),
        (given(" "), "systemPrompt.content"),
        (given("a\0b"), "systemPrompt.content"),
        (given("x" * (MAX_BYTES + 1)), "systemPrompt.content"),
    ],
)
def test_a_system_prompt_that_is_not_supported_is_refused_with_its_field(prompt: object, path: str) -> None:
    with pytest.raises(InvalidParams, match=f"^params.{path}: ".replace("[", "\\[")):
        read_system_prompt(Params({"systemPrompt": prompt}))
