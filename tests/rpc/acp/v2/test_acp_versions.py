"""The version of a connection, which `initialize` chooses, and what belongs to one version alone."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.acp.conftest import StartAcp
from tests.rpc.acp.v2.conftest import INFO, begun, opened, turn

from pinnace_fuzz.acp.agent import AcpAgent, Message


def _initialize(agent: AcpAgent, identity: str, **params: Any) -> Message:  # Any: JSON
    line = {"jsonrpc": "2.0", "id": identity, "method": "initialize", "params": params}
    agent.write(json.dumps(line).encode() + b"\n")
    return agent.response(identity)


@pytest.mark.parametrize(("asked", "chosen"), [(2, 2), (3, 2), (65535, 2)])
def test_the_newest_version_that_the_client_has_is_chosen(acp2: StartAcp, asked: int, chosen: int) -> None:
    result = _initialize(acp2(), "i", protocolVersion=asked, info=INFO)["result"]

    assert (result["protocolVersion"], result["info"]["name"]) == (chosen, "pinnace")


def test_the_judge_of_another_version_reads_the_answer_by_the_version_that_it_names(acp: StartAcp) -> None:
    agent = acp()
    result = _initialize(agent, "i", protocolVersion=65535, clientCapabilities={})["result"]

    assert (result["protocolVersion"], agent.breaches) == (2, [])


def test_a_version_below_all_is_refused_and_the_client_may_try_again(acp2: StartAcp) -> None:
    """The error names what was asked for and what there is; nothing else has happened."""
    agent = acp2()
    error = _initialize(agent, "a", protocolVersion=0, info=INFO)["error"]

    assert (error["code"], error["data"]) == (-32022, {"requested": 0, "supported": [1, 2]})
    assert begun(agent)["protocolVersion"] == 2


def test_what_a_client_says_of_itself_is_required_unless_it_is_newer(acp2: StartAcp) -> None:
    agent = acp2()
    missing = _initialize(agent, "a", protocolVersion=2)["error"]
    malformed = _initialize(agent, "b", protocolVersion=2, info={"name": 7, "version": "1"})["error"]

    assert (missing["code"], missing["message"]) == (-32602, "params.info: must be an object")
    assert (malformed["code"], malformed["message"]) == (-32602, "params.info.name: must be a string")
    assert _initialize(agent, "c", protocolVersion=3)["result"]["protocolVersion"] == 2


def test_initialize_may_be_repeated_before_any_other_request(acp2: StartAcp) -> None:
    """For the version that was chosen; the later one counts."""
    agent = acp2()
    begun(agent)
    lower = _initialize(agent, "a", protocolVersion=1)["error"]
    methods = begun(agent, auth={"terminal": {}})["authMethods"]
    agent.call("session/list")
    late = _initialize(agent, "b", protocolVersion=2, info=INFO)["error"]

    assert lower["code"] == late["code"] == -32600
    assert {"agent", "terminal"} == {each["type"] for each in methods}


def test_each_version_has_its_own_methods(acp2: StartAcp) -> None:
    agent = acp2()
    begun(agent)
    for method in ("session/load", "session/set_mode", "authenticate", "logout"):
        agent.write(b'{"jsonrpc":"2.0","id":"%s","method":"%s","params":{}}\n' % ((method.encode(),) * 2))
        assert agent.response(method)["error"]["code"] == -32601, method


def test_capabilities_are_objects_and_methods_to_log_in_bring_both_methods(acp2: StartAcp) -> None:
    result = begun(acp2())

    assert result["capabilities"] == {
        "session": {
            "prompt": {"image": {}, "embeddedContext": {}},
            "mcp": {"stdio": {}, "http": {}, "acp": {}},
            "additionalDirectories": {},
            "systemPrompt": {"mode": {"override": {}}},
            "delete": {},
            "fork": {},
            "title": {},
            "status": {},
            "archive": {},
        },
        "auth": {"status": {}},
        "providers": {},
    }
    assert [(each["type"], each["methodId"]) for each in result["authMethods"]] == [("agent", "api-key")]


def test_lines_that_are_no_request_are_refused_and_the_next_one_is_read(acp2: StartAcp) -> None:
    """The protocol has no batches: an array gets one error without an id. A request has an id that is not null."""
    agent = acp2()
    cases: list[tuple[bytes, int, object]] = [
        (b'{"jsonrpc":"2.0","id":"x","method":"session/list","params":{}}', -32600, "x"),
        (b'[{"jsonrpc":"2.0","id":"y","method":"session/list","params":{}}]', -32600, None),
        (b"[]", -32600, None),
        (b"{", -32700, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"initialize","params":{"protocolVersion":2}}', -32600, None),
    ]
    for line, code, identity in cases:
        before = len(agent.messages)
        agent.write(line + b"\n")
        error = agent.until(lambda message: "error" in message, before)
        assert (error["error"]["code"], error["id"]) == (code, identity), line
    agent.write(b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"x"}}\n')
    assert begun(agent)["protocolVersion"] == 2


def test_after_a_logout_nothing_runs_until_the_next_login(acp2: StartAcp, work: Path) -> None:
    agent = acp2(script=[{"text": "one"}])
    begun(agent)
    session = agent.call("session/new", cwd=str(work))["sessionId"]
    agent.call("auth/logout")
    prompt: dict[str, Any] = {"sessionId": session, "prompt": [{"type": "text", "text": "Go"}]}
    errors = [agent.error("session/new", cwd=str(work)), agent.error("session/prompt", prompt)]
    wrong = agent.error("auth/login", methodId="login")
    agent.call("auth/login", methodId="api-key")

    assert [-32000, -32000] == [each["code"] for each in errors]
    assert (wrong["code"], wrong["data"]["path"]) == (-32602, "params.methodId")
    assert agent.call("session/prompt", prompt)["messageId"]


def test_copies_titles_and_states_are_as_in_version_1(acp2: StartAcp, work: Path) -> None:
    """A copy is not shown until it is opened, and what an open session does goes on."""
    agent = acp2(script=[{"text": "red"}, {"text": "round"}])
    session = opened(agent, work)
    turn(agent, session, "COLOUR")
    copy = agent.call("session/fork", sessionId=session, cwd=str(work))
    shown = [each["sessionUpdate"] for each in agent.updates(copy["sessionId"])]
    turn(agent, copy["sessionId"], "SHAPE")
    titles = [agent.call("session/set_title", sessionId=session, title=" two\nsails ")]
    states = [agent.call("session/status", sessionId=session)]
    agent.call("session/close", sessionId=session)
    titles.append(agent.call("session/set_title", sessionId=session, title="masts"))
    states.append(agent.call("session/status", sessionId=session))
    listed = {each["sessionId"]: each["title"] for each in agent.call("session/list")["sessions"]}
    unknown = [agent.error("session/fork", sessionId="none", cwd=str(work))]
    unknown += [agent.error(f"session/{each}", sessionId="none", title="x") for each in ("set_title", "status")]
    keys = [agent.call("auth/status")]
    agent.call("auth/logout")
    keys.append(agent.call("auth/status"))

    assert copy["configOptions"]
    assert "user_message" not in shown
    assert [{"title": "two sails"}, {"title": "masts"}] == titles
    assert [{"status": "open"}, {"status": "saved"}] == states
    assert {session: "masts", copy["sessionId"]: "COLOUR"} == listed
    assert [-32002] * 3 == [each["code"] for each in unknown]
    assert ["authenticated", "unauthenticated"] == [each["state"] for each in keys]
    assert [{"label": "fake (models.json)", "active": True}] == keys[0]["accounts"]
