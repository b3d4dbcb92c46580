"""The observer of version 1, by messages of a made-up agent: what it must not accuse of."""

import contextlib
from typing import Any

import pytest

from pinnace_fuzz.acp.observer import Observer
from pinnace_fuzz.acp.schema import NotOfTheSchema, check_result

CALL = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls", "status": "pending"}
END = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"}


def update(fields: dict[str, Any]) -> dict[str, Any]:
    return {"method": "session/update", "params": {"sessionId": "s", "update": fields}}


def response(identity: int, reason: str) -> dict[str, Any]:
    return {"id": identity, "result": {"stopReason": reason}}


def begun() -> Observer:
    """Return an observer of a session whose first prompt has an open call, and whose second one waits."""
    observer = Observer()
    observer.sent({"id": 1, "method": "session/new", "params": {}})
    observer.received({"id": 1, "result": {"sessionId": "s"}})
    for identity in (2, 3):
        observer.sent({"id": identity, "method": "session/prompt", "params": {"sessionId": "s"}})
    assert [] == observer.received(update(CALL))
    return observer


def test_a_prompt_that_is_cancelled_while_it_waits_has_no_calls() -> None:
    """R-ACP-17 is of the prompt that runs, whichever has its response first."""
    observer = begun()

    assert [] == observer.received(response(3, "cancelled"))
    assert [] == observer.received(update(END))
    assert [] == observer.received(response(2, "cancelled"))


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_the_calls_of_the_prompt_that_runs_have_ended_before_its_response(is_cancelled: bool) -> None:
    observer = begun()
    if is_cancelled:
        observer.received(response(3, "cancelled"))

    assert ["R-ACP-17"] == [each.rule for each in observer.received(response(2, "end_turn"))]


METHOD = {"type": "agent", "methodId": "key", "name": "A key"}


@pytest.mark.parametrize(
    ("result", "is_valid"),
    [
        ({"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "authMethods": [METHOD]}, True),
        ({"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "authMethods": [{"id": "key"}]}, False),
        ({"protocolVersion": 1, "authMethods": [METHOD]}, False),
        ({"protocolVersion": 1, "authMethods": [{"id": "key", "name": "A key"}]}, True),
        ({"protocolVersion": 65000, "authMethods": [METHOD]}, False),
    ],
)
def test_the_answer_to_initialize_has_the_form_of_the_version_that_it_chooses(
    result: dict[str, Any], is_valid: bool
) -> None:
    """An agent of two versions answers one that it does not know by its newest."""
    message = {"jsonrpc": "2.0", "id": 1, "result": result}

    with contextlib.nullcontext() if is_valid else pytest.raises(NotOfTheSchema):
        check_result(message, "initialize", "agent", 1)
