"""What clients and extensions see of servers: states, prompts, hints, servers of extensions, filters of tools."""

import itertools
import sys
from pathlib import Path
from typing import Any

from tests.agent.mcp.web_server import TOOL, Exchange, web_server
from tests.rpc.mcp.conftest import HERE, Start, hostile
from tests.rpc.mcp.test_hostile_servers import declared, prompt

from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

FAILING = {"command": "/nowhere/program"}


def states(pi: HomedAgent) -> list[tuple[str, str, int]]:
    """Return the servers of `get_state`, which are those of the last records before its answer (R-MCP-01)."""
    response = pi.request({"type": "get_state"})
    servers = response["data"].get("mcpServers", [])
    before = itertools.takewhile(lambda each: each is not response, pi.found({}))
    told = [each for each in before if each["type"] == "mcp_status"]
    last = {each["name"]: {**each} for each in told if each["state"] != "closed"}
    for each in servers:
        assert {"type": "mcp_status", **each} == last[each["name"]]
    return [(each["name"], each["state"], each["tools"]) for each in servers]


def mark_of(pi: HomedAgent, name: str, state: str) -> dict[str, Any]:
    return dict(pi.wait({"type": "mcp_status", "name": name, "state": state}, since=0))


def test_the_state_of_each_server_is_in_the_state_and_in_a_record_at_each_change(with_servers: Start) -> None:
    """R-MCP-01."""
    off = {"command": "x", "enabled": False}
    pi = with_servers({"good": hostile("none"), "bad": FAILING, "off": off}, [{"text": "fine"}])
    assert mark_of(pi, "good", "connected") == {
        "type": "mcp_status",
        "name": "good",
        "state": "connected",
        "source": "user",
        "transport": "stdio",
        "tools": 2,
    }
    assert "ENOENT" in mark_of(pi, "bad", "failed")["error"]
    assert states(pi) == [("good", "connected", 2), ("bad", "failed", 0), ("off", "disabled", 0)]
    assert pi.ask("hello")["mcp"] == {"installed": True, "servers": 3}
    assert "extensionsAtWork" not in pi.ask("get_state")
    assert pi.request({"type": "new_session"})["success"]
    pi.check_end()


def test_without_servers_there_is_nothing_of_them(agent: AgentStarter) -> None:
    pi = agent()
    assert pi.ask("hello")["mcp"]["servers"] == 0
    assert "mcpServers" not in pi.ask("get_state")
    pi.check_end()


def test_older_generations_see_no_servers(with_servers: Start) -> None:
    pi = with_servers({"bad": FAILING}, (), "--protocol", "seed")
    pi.wait({"type": "extension_ui_request", "method": "notify"})
    assert "mcpServers" not in pi.ask("get_state")
    assert not pi.found({"type": "mcp_status"})
    pi.check_end()


EXTENSION = """
def extension(pi):
    pi.register_mcp_server("early", {config})
    pi.register_mcp_server("mine", {config})

    @pi.command("more")
    def more(ctx, args):
        pi.register_mcp_server("late", {config})

    @pi.command("less")
    def less(ctx, args):
        pi.unregister_mcp_server("early")
        servers = ", ".join(each["name"] for each in pi.get_mcp_servers())
        hints = [each.annotations for each in pi.get_all_tools() if each.name == "mcp__late__echo"]
        ctx.ui.notify(f"{{servers}} {{hints}}", "info")
"""


def test_extensions_add_and_remove_servers(agent: AgentStarter, tmp_path: Path) -> None:
    """Also where no file names a server; those of the user's file take precedence."""
    adds = tmp_path / "adds.py"
    adds.write_text(EXTENSION.format(config=dict(hostile("changes"))))
    for given in ({"mcp.json": {"mcpServers": {"mine": FAILING}}}, {}):
        pi = agent([{"text": "fine"}], "-e", str(adds), files=given)
        mark_of(pi, "early", "connected")
        mark_of(pi, "mine", "failed" if "mcp.json" in given else "connected")
        assert pi.request({"type": "prompt", "message": "/more"})["success"]
        assert mark_of(pi, "late", "connected")["source"] == "extension"
        mark = pi.mark()
        assert pi.request({"type": "prompt", "message": "/less"})["success"]
        mark_of(pi, "early", "closed")
        said = pi.wait({"type": "extension_ui_request", "method": "notify", "notifyType": "info"}, since=mark)[
            "message"
        ]
        assert said == "mine, late [{'readOnlyHint': True}]"
        names = [name for name, _, _ in states(pi)]
        assert sorted(names) == ["late", "mine"]
        prompt(pi, "go")
        tools = [each["function"]["name"] for each in pi.llm.requests[-1].body["tools"]]
        assert "mcp__late__echo" in tools
        assert "mcp__early__echo" not in tools
        pi.check_end()


def test_an_extensions_server_is_reported_where_nothing_connects_it(agent: AgentStarter, tmp_path: Path) -> None:
    adds = tmp_path / "adds.py"
    adds.write_text(EXTENSION.format(config=FAILING))
    pi = agent((), "--no-mcp", "-e", str(adds))
    shown = pi.wait({"type": "extension_error", "event": "register_mcp_server"})
    assert "server early is not connected" in shown["error"]
    pi.check_end()


def test_prompts_are_prompts_and_a_changed_tool_is_asked_about_again(with_servers: Start) -> None:
    """R-SET-07: the hints of a server are shown, and decide nothing."""
    echo = {"tool_calls": [{"name": "mcp__hostile__echo", "args": {}}]}
    bad = {"tool_calls": [{"name": "mcp__hostile__bad", "args": {}}]}
    script = [echo, echo, bad, {"text": "fine"}, echo, {"text": "greeted"}]
    entry = {**hostile("changes"), "readOnlyTools": ["bad"]}
    pi = with_servers({"hostile": entry}, script, "--tool-approval", "ask", "--tools", "read")
    mark = pi.mark()
    assert pi.request({"type": "prompt", "message": "go"})["success"]
    asked = pi.wait({"type": "extension_ui_request", "method": "select"}, since=mark)
    assert "(its server says, and may be wrong: readOnlyHint true)" in asked["title"]
    pi.send({"type": "extension_ui_response", "id": asked["id"], "value": "Allow for this session"})
    pi.wait({"type": "agent_settled"}, since=mark)
    assert declared(pi) == ["echo", "bad"]
    while not (found := [each for each in pi.ask("get_commands")["commands"] if each["name"] == "mcp__hostile__greet"]):
        pass  # a server is asked for its prompts when its tools are there already
    (command,) = found
    assert (command["source"], command["path"], command["sourceInfo"]["path"]) == ("prompt", *["mcp:hostile"] * 2)
    while "Version 1." not in str(pi.ask("get_tools")):
        pass
    mark = pi.mark()
    assert pi.request({"type": "prompt", "message": "/mcp__hostile__greet Ada"})["success"]
    asked = pi.wait({"type": "extension_ui_request", "method": "select"}, since=mark)
    pi.send({"type": "extension_ui_response", "id": asked["id"], "value": "Deny"})
    pi.wait({"type": "agent_settled"}, since=mark)
    assert "Greet Ada." in str(pi.llm.requests[-2].body["messages"])
    ended = pi.found({"type": "tool_execution_end"})
    assert [each["isError"] for each in ended] == [False, False, False, True]
    assert ended[0]["result"]["details"]["outputSchemaError"] == "n: expected integer, got string"
    pi.check_end()


def test_models_are_offered_so_many_tools(with_servers: Start) -> None:
    settings = {"mcp": {"maxTools": 3}}
    pi = with_servers({"a": hostile("none"), "b": hostile("none")}, [{"text": "fine"}], settings=settings)
    prompt(pi, "go")
    assert sorted(name.partition("__")[2] for name in declared(pi)) == ["a__bad", "a__echo", "b__echo"]
    notice = pi.wait({"type": "extension_ui_request", "method": "notify", "notifyType": "warning"}, since=0)
    assert "b: 1 tools are not offered: mcp.maxTools is 3" in notice["message"]
    pi.check_end()


def test_wrong_settings_are_named_in_the_notice(with_servers: Start) -> None:
    pi = with_servers({"good": hostile("none")}, settings={"mcp": {"maxTools": "3"}})
    notice = pi.wait({"type": "extension_ui_request", "method": "notify", "notifyType": "warning"}, since=0)
    assert "settings.json: mcp.maxTools must be a positive whole number" in notice["message"]
    pi.check_end()


def test_lists_of_tools_filter_those_of_servers_if_they_name_one(with_servers: Start) -> None:
    """R-TOL-06."""
    for flags, names in (
        (("--tools", "read,mcp__hostile__b*"), ["bad"]),
        (("--tools", "read", "--exclude-tools", "mcp__hostile__echo"), ["bad"]),
    ):
        pi = with_servers({"hostile": hostile("none")}, [{"text": "fine"}], *flags)
        prompt(pi, "go")
        assert declared(pi) == names
        pi.check_end()


def test_discovery_comes_first_where_the_user_wants_it_and_falls_back(with_servers: Start) -> None:
    pi = with_servers({each: {**hostile(each), "protocol": "auto"} for each in ("none", "knows-no-handshake")})
    mark_of(pi, "none", "connected")
    mark_of(pi, "knows-no-handshake", "connected")
    pi.check_end()


def test_a_tool_that_the_models_api_refuses_is_left_out_and_the_run_goes_on(with_servers: Start) -> None:
    """R-MCP-06: for the process, and until its server defines it anew; other refusals end the run."""
    text = "Invalid schema for function 'mcp__hostile__bad': array schema missing items"
    refused: Scripted = {"error": {"status": 400, "body": {"error": {"message": text}}}}
    other: Scripted = {"error": {"status": 400, "body": {"error": {"message": "mcp__other__tool: no"}}}}
    script = [refused, {"text": "fine"}, {"text": "again"}, {"text": "new"}, other]
    pi = with_servers({"hostile": hostile("none")}, script)
    prompt(pi, "go")
    assert [sorted(tools_of(each)) for each in pi.llm.requests] == [["bad", "echo"], ["echo"]]
    assert [each["message"]["role"] for each in pi.found({"type": "message_end"})] == ["user", "assistant"]
    assert pi.found({"type": "agent_end"})[-1]["messages"][-1]["stopReason"] == "stop"
    shown = pi.wait({"type": "extension_ui_request", "method": "notify", "notifyType": "warning"}, since=0)
    assert "The tool mcp__hostile__bad of the MCP server hostile is no longer offered" in shown["message"]
    assert text in shown["message"]
    pi.wait({"type": "mcp_status", "name": "hostile", "state": "connected", "tools": 1}, since=0)
    prompt(pi, "go")
    assert pi.request({"type": "new_session"})["success"]
    prompt(pi, "go")
    assert [tools_of(each) for each in pi.llm.requests[2:]] == [["echo"], ["echo"]]
    prompt(pi, "go")
    assert pi.found({"type": "agent_end"})[-1]["messages"][-1]["stopReason"] == "error"
    assert len(pi.llm.requests) == 5
    pi.check_end()


def tools_of(request: Any) -> list[str]:
    """Return the tools of the server in a request, as the server calls them."""
    names = [each["function"]["name"] for each in request.body["tools"]]
    return [name.removeprefix("mcp__hostile__") for name in names if name.startswith("mcp__")]


def test_a_tool_that_comes_later_is_offered_without_a_reconnection(with_servers: Start) -> None:
    """R-MCP-09: by a server of 2026-07-28, which reports changes to those alone that ask for them."""
    entry = {"command": sys.executable, "args": ["-P", str(HERE / "listening_server.py")], "protocol": "auto"}
    grow = {"tool_calls": [{"name": "mcp__growing__grow", "args": {}}]}
    pi = with_servers({"growing": entry}, [grow, {"text": "grown"}, {"text": "used"}])
    prompt(pi, "go")
    pi.wait({"type": "mcp_status", "name": "growing", "state": "connected", "tools": 2}, since=0)
    prompt(pi, "again")
    assert sorted(declared(pi)) == ["mcp__growing__grow", "mcp__growing__grown"]
    pi.check_end()


def test_a_list_that_counts_for_a_time_is_asked_for_again_with_a_request_to_the_model(with_servers: Start) -> None:
    """R-MCP-10: of a server that announces no changes."""
    discovery = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}

    def listed(exchange: Exchange) -> None:
        tools = [TOOL, {**TOOL, "name": "later"}][: exchange.owner.count("tools/list")]
        exchange.result({"tools": tools, "ttlMs": 1, "cacheScope": "private", "resultType": "complete"})

    with web_server() as web:
        web.instead |= {
            "server/discover": lambda each: each.result({**discovery, "ttlMs": 0, "cacheScope": "private"}),
            "tools/list": listed,
        }
        pi = with_servers({"web": {"url": web.url, "protocol": "auto"}}, [{"text": "one"}, {"text": "two"}])
        mark_of(pi, "web", "connected")
        before = web.count("tools/list")
        prompt(pi, "go")
        pi.wait({"type": "mcp_status", "name": "web", "state": "connected", "tools": 2}, since=0)
        prompt(pi, "again")
        assert before == 1
        assert sorted(declared(pi)) == ["mcp__web__echo", "mcp__web__later"]
        assert web.count("subscriptions/listen") == 0
        pi.check_end()
