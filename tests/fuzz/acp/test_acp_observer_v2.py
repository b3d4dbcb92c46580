"""The observer of version 2 names each fault, and nothing in a run without one."""

from collections.abc import Iterable
from typing import Any

import pytest

from pinnace_fuzz.acp.observer_v2 import RULES, ObserverV2

Message = dict[str, Any]
RUNNING: Message = {"sessionUpdate": "state_update", "state": "running"}
IDLE: Message = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
WAITS: Message = {"sessionUpdate": "state_update", "state": "requires_action"}
USER: Message = {"sessionUpdate": "user_message", "messageId": "u", "content": []}
SAID: Message = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "a"}}
CALL: Message = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "ls", "status": "pending"}
DONE: Message = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}
CHUNK: Message = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": {}}
TERMINAL: Message = {"sessionUpdate": "terminal_update", "terminalId": "t", "command": "ls"}
OUTPUT: Message = {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": ""}
EXITED: Message = {"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {}}
CHILD: Message = {"sessionUpdate": "subagent_update", "sessionId": "k", "state": {"state": "running"}}
CHILD_IDLE: Message = {"sessionUpdate": "subagent_update", "sessionId": "k", "state": {"state": "idle"}}


def asked(identity: int, method: str, **params: object) -> Message:
    """Return a request of the client."""
    return {"id": identity, "method": method, "params": params}


def update(fields: Message, session: str = "s") -> Message:
    return {"method": "session/update", "params": {"sessionId": session, "update": fields}}


def answered(identity: int, **result: object) -> Message:
    return {"id": identity, "result": result}


NEW = (asked(0, "session/new"), answered(0, sessionId="s"))
PROMPT = (asked(1, "session/prompt", sessionId="s"), answered(1, messageId="u"), update(USER))
CLOSE = (asked(2, "session/close", sessionId="s"), answered(2))
RESUME = asked(3, "session/resume", sessionId="s")
FORM = {"id": 9, "method": "elicitation/create", "params": {"sessionId": "s", "mode": "form"}}


STATUS = (asked(4, "auth/status"), answered(4, state="authenticated", _meta={}))
CHANGED: Message = {"method": "auth/status_update", "params": {"state": "unauthenticated", "accounts": []}}
SERVES = (
    asked(0, "session/new", mcpServers=[{"type": "acp", "name": "t", "serverId": "t"}]),
    answered(0, sessionId="s"),
)


def inner(identity: int, server: str, request: str) -> Message:
    """Return a request for an MCP server of the client."""
    params = {"serverId": server, "requestId": request, "method": "tools/list"}
    return {"id": identity, "method": "mcp/message", "params": params}


def rules(messages: Iterable[Message]) -> list[str]:
    """Return the rules that a connection breaks: requests and responses by their ids, of client and agent."""
    observer = ObserverV2()
    found: list[str] = []
    for message in messages:
        is_sent = (
            "id" in message and "method" in message and message["method"] not in ("elicitation/create", "mcp/message")
        )
        if is_sent:
            observer.sent(message)
        else:
            found += [fault.rule for fault in observer.received(message)]
    return [*found, *(fault.rule for fault in observer.closed())]


def run(*updates: Message) -> list[Message]:
    """Return a prompt with its updates."""
    return [*NEW, *PROMPT, *map(update, updates)]


def test_a_run_without_a_fault_breaks_no_rule() -> None:
    assert [] == rules(run(RUNNING, SAID, CALL, WAITS, RUNNING, TERMINAL, OUTPUT, EXITED, DONE, IDLE))


def test_requests_for_a_server_of_the_client_break_no_rule() -> None:
    assert [] == rules([*SERVES, inner(7, "t", "r"), inner(8, "t", "s")])


def test_a_session_that_is_resumed_is_shown_from_anew() -> None:
    again = [update(each) for each in (USER, SAID, CALL, DONE, TERMINAL, OUTPUT, EXITED, IDLE)]
    first = run(RUNNING, SAID, CALL, TERMINAL, OUTPUT, EXITED, DONE, IDLE)

    assert [] == rules([*first, *CLOSE, RESUME, *again, answered(3)])
    assert [] == rules([asked(0, "initialize", capabilities={"elicitation": {"form": {}}}), answered(0), *NEW, FORM])


CASES = [
    (run(RUNNING, RUNNING), "R-ACP-105"),
    (run(WAITS), "R-ACP-105"),
    (run(RUNNING, {"sessionUpdate": "state_update", "state": "idle"}), "R-ACP-106"),
    (run(SAID), "R-ACP-107"),
    (run(RUNNING, IDLE, SAID), "R-ACP-107"),
    (run(RUNNING, CALL, IDLE), "R-ACP-108"),
    (run(RUNNING, TERMINAL, IDLE), "R-ACP-108"),
    (run(RUNNING, CALL, DONE, CALL), "R-ACP-109"),
    (run(RUNNING, TERMINAL, EXITED, OUTPUT), "R-ACP-109"),
    (run(RUNNING, DONE), "R-ACP-110"),
    (run(RUNNING, CALL, CHUNK), "R-ACP-110"),
    (run(RUNNING, OUTPUT), "R-ACP-110"),
    (run({**RUNNING, "background": []}, IDLE), "R-ACP-131"),
    ([*run(RUNNING, CHILD), update(RUNNING, "k"), update(IDLE)], "R-ACP-72"),
    ([*run(RUNNING, CHILD), update(RUNNING, "k"), update(CHILD_IDLE)], "R-ACP-72"),
    ([*run(RUNNING), update(RUNNING, "k"), update(CALL, "k"), update(CHILD)], "R-ACP-71"),
    ([*NEW, *PROMPT[:2], update(RUNNING), update(IDLE)], "R-ACP-102"),
    ([*run(RUNNING, IDLE), asked(5, "session/prompt", sessionId="s"), answered(5, messageId="u")], "R-ACP-103"),
    ([*NEW, PROMPT[0]], "R-ACP-29"),
    ([*NEW, *PROMPT, PROMPT[1]], "R-ACP-03"),
    ([update(RUNNING)], "R-ACP-10"),
    ([*SERVES, inner(7, "another", "r")], "R-ACP-88"),
    ([*SERVES, inner(7, "t", "r"), inner(8, "t", "r")], "R-ACP-88"),
    ([*STATUS, {**CHANGED, "params": STATUS[1]["result"]}], "R-ACP-98"),
    ([CHANGED, CHANGED], "R-ACP-98"),
    ([*NEW, FORM], "R-ACP-30"),
    ([*NEW, RESUME, answered(3)], "R-ACP-119"),
    ([*run(RUNNING), *CLOSE], "R-ACP-124"),
    ([*NEW, *CLOSE, update({"sessionUpdate": "session_info_update"})], "R-ACP-125"),
]


@pytest.mark.parametrize(("messages", "rule"), CASES)
def test_each_fault_is_named(messages: list[Message], rule: str) -> None:
    assert rule in rules(messages)


def test_each_rule_that_is_watched_is_found_broken() -> None:
    assert set(RULES) == {rule for _, rule in CASES}
