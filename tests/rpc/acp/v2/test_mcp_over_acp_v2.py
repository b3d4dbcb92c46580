"""MCP servers that the editor serves over its own connection, in version 2."""

from pathlib import Path

from tests.rpc.acp.conftest import StartAcp
from tests.rpc.acp.test_mcp_over_acp import DONE, SERVER, Editor, call
from tests.rpc.acp.v2.conftest import begun, idle, text, transcript

from pinnace_fuzz.acp.agent import AcpAgent


def opened(agent: AcpAgent, work: Path) -> str:
    assert begun(agent)["capabilities"]["session"]["mcp"]["acp"] == {}
    session: str = agent.call("session/new", cwd=str(work), mcpServers=[SERVER])["sessionId"]
    return session


def test_a_tool_of_the_editor_is_called_over_its_connection(acp2: StartAcp, work: Path) -> None:
    """With a result and with an error of the server."""
    editor = Editor()
    agent = acp2(script=[call("mcp__tools__echo", "hello"), call("mcp__tools__echo", "fail"), DONE], answer=editor)
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("Go"))
    assert idle(agent)["stopReason"] == "end_turn"

    first, second = (each for each in transcript(agent.updates()) if each["of"] == "call")
    assert (first["status"], "echo: hello" in str(first["content"])) == ("completed", True)
    assert (second["status"], "no such thing" in str(second["content"])) == ("failed", True)
    assert {each["serverId"] for each in editor.seen} == {SERVER["serverId"]}


def test_a_call_that_is_cancelled_is_withdrawn_and_the_work_ends(acp2: StartAcp, work: Path) -> None:
    agent = acp2(script=[call("mcp__tools__echo", "wait"), DONE], answer=Editor())
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("Go"))
    asked = agent.until(lambda message: (message.get("params") or {}).get("method") == "tools/call")
    agent.notify("session/cancel", sessionId=session)

    assert idle(agent)["stopReason"] == "cancelled"
    withdrawn = agent.until(lambda message: message.get("method") == "$/cancel_request")
    assert withdrawn["params"]["requestId"] == asked["id"]
