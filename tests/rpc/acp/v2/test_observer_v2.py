"""The observer of version 2 finds each fault, and nothing in a run without one."""

from typing import Any

import pytest
from tests.rpc.acp.v2.observer import Observer2

Update = dict[str, Any]
RUNNING: Update = {"sessionUpdate": "state_update", "state": "running"}
IDLE: Update = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
WAITS: Update = {"sessionUpdate": "state_update", "state": "requires_action"}
SAID: Update = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "a"}}
CALL: Update = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "ls", "status": "pending"}
DONE: Update = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}
TERMINAL: Update = {"sessionUpdate": "terminal_update", "terminalId": "t", "command": "ls"}
OUTPUT: Update = {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": ""}
EXITED: Update = {"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": {}}


def faults(*updates: Update, after: bool = False) -> list[str]:
    """Return the faults of a prompt's updates; `after`: the session is closed before them."""
    observer = Observer2()
    observer.sent({"id": 1, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}})
    found = [*observer.received({"id": 1, "result": {"messageId": "u"}})]
    if after:
        observer.sent({"id": 2, "method": "session/close", "params": {"sessionId": "s"}})
        found += observer.received({"id": 2, "result": {}})
    shown: Update = {"sessionUpdate": "user_message", "messageId": "u", "content": []}
    for update in (shown, *updates):
        found += observer.received({"method": "session/update", "params": {"sessionId": "s", "update": update}})
    return [fault.text for fault in found]


def test_a_run_without_a_fault_has_none() -> None:
    assert [] == faults(RUNNING, SAID, CALL, WAITS, RUNNING, TERMINAL, OUTPUT, EXITED, DONE, IDLE)


@pytest.mark.parametrize(
    ("updates", "said"),
    [
        ((RUNNING, RUNNING), "the state is sent twice"),
        ((WAITS,), "from idle to requires_action"),
        ((RUNNING, {"sessionUpdate": "state_update", "state": "idle"}), "work ends without a reason"),
        ((SAID,), "outside of work"),
        ((RUNNING, IDLE, SAID), "outside of work"),
        ((RUNNING, CALL, IDLE), "calls without an end"),
        ((RUNNING, CALL, DONE, CALL), "after its last status"),
        ((RUNNING, DONE), "a call without a title"),
        ((RUNNING, TERMINAL, IDLE), "terminals without an end"),
        ((RUNNING, TERMINAL, EXITED, OUTPUT), "after its end"),
        ((RUNNING, OUTPUT), "of an unknown terminal"),
    ],
)
def test_each_fault_is_found(updates: tuple[Update, ...], said: str) -> None:
    assert faults(*updates)[-1].startswith(said)


def test_responses_are_held_to_their_requests() -> None:
    """One for each request; a message that was accepted is shown; a session is resumed with its state."""
    observer = Observer2()
    observer.sent({"id": 1, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}})
    observer.sent({"id": 2, "method": "session/resume", "params": {"sessionId": "s"}})
    resumed = observer.received({"id": 2, "result": {}})
    observer.received({"id": 1, "result": {"messageId": "u"}})
    twice = observer.received({"id": 1, "result": {"messageId": "u"}})
    ended = [
        *observer.received({"method": "session/update", "params": {"sessionId": "s", "update": RUNNING}}),
        *observer.received({"method": "session/update", "params": {"sessionId": "s", "update": IDLE}}),
    ]
    observer.sent({"id": 3, "method": "session/list", "params": {}})

    said = [fault.text for fault in (*resumed, *twice, *ended, *observer.closed())]
    beginnings = ["a session was resumed without", "a response to no open", "messages that were accepted", "without a"]
    assert [True] * 4 == [text.startswith(begin) for text, begin in zip(said, beginnings, strict=True)]
    assert "after the session was closed" in faults(RUNNING, after=True)[0]
