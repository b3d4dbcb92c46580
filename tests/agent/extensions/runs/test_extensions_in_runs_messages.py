"""What extensions put in the place of messages, and what they add at the end of a turn."""

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events import results as rs

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig
    from tests.agent.extensions.runs.conftest import InRuns


def block(text: str) -> list[Any]:
    return [{"type": "text", "text": text}]


def replaces(role: str, content: Any) -> Any:
    def handler(_ctx: object, event: ev.MessageEnd) -> object:
        return {"message": {**event.message, "content": content}} if event.message["role"] == role else None

    return handler


def ends(agent: Any, role: str) -> list[Any]:
    return [each["message"]["content"] for each in agent.of("message_end") if each["message"]["role"] == role]


async def test_an_answer_is_replaced_before_anyone_has_it(rig: "Rig", in_runs: "InRuns") -> None:
    rig.on("message_end", replaces("assistant", block("better")))
    seen: list[Any] = []
    rig.on("agent_end", lambda _ctx, event: seen.extend(event.messages))
    async with in_runs.agent(in_runs.says("good")) as agent:
        await agent.prompt("go")
        assert block("better") == agent.session.messages[-1].get("content")
        assert [block("better")] == ends(agent, "assistant")
        assert block("better") == agent.of("turn_end")[0]["message"]["content"]
        assert agent.session.tree.entries[-1]["message"] == agent.session.messages[-1]
    assert block("better") == seen[-1]["content"]


async def test_calls_that_are_taken_out_of_an_answer_are_not_made(rig: "Rig", in_runs: "InRuns") -> None:
    rig.on("message_end", replaces("assistant", block("no calls")))
    async with in_runs.agent(in_runs.calls('{"text":"a"}')) as agent:
        await agent.prompt("go")
        assert ([], []) == (agent.echo.executed, agent.of("tool_execution_start"))


async def test_fields_missing_in_a_result_stay_unchanged(rig: "Rig", in_runs: "InRuns") -> None:
    rig.on("message_end", lambda _ctx, event: _bare() if event.message["role"] == "assistant" else None)
    async with in_runs.agent(in_runs.says("good")) as agent:
        await agent.prompt("go")
        message: Any = agent.session.messages[-1]
    assert ("bare", "stop", "offline") == (message["content"][0]["text"], message["stopReason"], message["provider"])


def _bare() -> Any:
    return {"message": {"role": "assistant", "content": block("bare")}}


async def test_results_are_replaced_and_keep_their_calls(rig: "Rig", in_runs: "InRuns") -> None:

    def handler(_ctx: object, event: ev.MessageEnd) -> object:
        message: Any = event.message
        if message["role"] != "toolResult":
            return None
        return {"message": {**message, "content": block(f"not {message['content'][0]['text']}"), "toolCallId": "x"}}

    rig.on("message_end", handler)
    async with in_runs.agent(in_runs.calls('{"text":"a"}', '{"text":"b"}'), in_runs.says("end")) as agent:
        await agent.prompt("go")
        assert ["call-0", "call-1"] == [each["toolCallId"] for each in agent.results]
        assert [block("not said a"), block("not said b")] == [each["content"] for each in agent.results]
        shown: Any = [each["content"] for each in agent.requests[1].messages if each["role"] == "toolResult"]
        assert [block("not said a"), block("not said b")] == shown
        reported = {each["result"]["content"][0]["text"] for each in agent.of("tool_execution_end")}
        assert {"said a", "said b"} == reported


async def test_user_messages_are_replaced_stored_ones_by_a_context_edit(rig: "Rig", in_runs: "InRuns") -> None:
    order: list[str] = []
    rig.on("message_start", lambda _ctx, event: order.append(f"start {event.message['role']}"))
    rig.on("message_end", lambda _ctx, event: order.append(f"end {event.message['role']}"))
    rig.on("message_end", replaces("user", block("what I mean")))

    async def first(request: Any, builder: Any) -> None:
        agent.send("steer", "more")
        await in_runs.says("one")(request, builder)  # type: ignore[misc]

    async with in_runs.agent(first, in_runs.says("two")) as agent:
        await agent.prompt("go")
        assert [block("what I mean")] * 2 == ends(agent, "user")
        shown = [each["content"] for each in agent.requests[1].messages if each["role"] == "user"]
        assert [block("what I mean")] * 2 == shown
        users: list[Any] = [entry.get("message") for entry in agent.session.tree.entries]
        kept = [each["content"][0]["text"] for each in users if each and each["role"] == "user"]
        assert ["go", "what I mean"] == kept
        assert 1 == sum(entry["type"] == "context_edit" for entry in agent.session.tree.entries)
    assert ["start user", "end user", "start assistant", "end assistant"] * 2 == order


async def test_an_abort_during_a_replacement_keeps_the_original_message(rig: "Rig", in_runs: "InRuns") -> None:
    async def hangs(_ctx: object, event: ev.MessageEnd) -> None:
        if event.message["role"] == "user":
            await trio.sleep_forever()

    rig.on("message_end", hangs)
    async with in_runs.agent() as agent:
        agent.send("prompt", "go")
        await agent.until("message_start")
        await trio.testing.wait_all_tasks_blocked()
        agent.send("abort")
        await agent.until("agent_settled")
        roles = [each["message"]["role"] for each in agent.of("message_start", "message_end")]
        assert ["user", "user", "assistant", "assistant"] == roles
        assert ["user", "assistant"] == [each["role"] for each in agent.session.messages]


async def test_a_message_of_another_role_is_refused(rig: "Rig", in_runs: "InRuns") -> None:
    rig.on("message_end", lambda _ctx, _event: {"message": {"role": "custom", "content": "x"}})
    async with in_runs.agent(in_runs.says("good")) as agent:
        await agent.prompt("go")
        assert ["user", "assistant"] == [each["role"] for each in agent.session.messages]
    assert 2 == len(rig.host.reported)


async def test_entries_of_a_turns_end_are_appended_and_the_next_request_has_them(rig: "Rig", in_runs: "InRuns") -> None:
    previews: list[int] = []
    note = {"type": "custom_message", "customType": "note", "content": "remember", "display": False}

    def adds(_ctx: object, event: ev.TurnEnd) -> object:
        return {"entries": [note, {"type": "custom", "customType": "mark", "data": 1}]} if event.tool_results else None

    rig.on("turn_end", adds)
    rig.on("turn_end", lambda _ctx, event: previews.append(len(event.context)))
    async with in_runs.agent(in_runs.calls('{"text":"a"}'), in_runs.says("end")) as agent:
        await agent.prompt("go")
        assert ["user", "assistant", "toolResult", "custom"] == [each["role"] for each in agent.requests[1].messages]
        assert ["custom_message", "custom"] == [each["entry"]["type"] for each in agent.of("entry_appended")]
        kinds = [record["type"] for record in agent.records]
        assert kinds.index("entry_appended") < kinds.index("turn_end")
    assert [4, 5] == previews


async def test_a_turn_before_an_abort_is_delivered_once(rig: "Rig", in_runs: "InRuns") -> None:
    seen: list[int] = []

    async def hangs(_ctx: object, event: ev.TurnEnd) -> None:
        seen.append(event.turn_index)
        await trio.sleep_forever()

    rig.on("turn_end", hangs)
    async with in_runs.agent(in_runs.says("good")) as agent:
        agent.send("prompt", "go")
        while not seen:
            await trio.testing.wait_all_tasks_blocked()
        agent.send("abort")
        await agent.until("agent_settled")
        assert 1 == len(agent.of("turn_end"))
        assert ["user", "assistant"] == [each["role"] for each in agent.session.messages]
    assert [0] == seen


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_request_to_continue_reaches_the_statechart(rig: "Rig", in_runs: "InRuns", wanted: bool) -> None:
    rig.on("turn_end", lambda _ctx, _event: rs.Boundary(continue_=wanted))
    async with in_runs.agent(in_runs.says("good")) as agent:
        await agent.prompt("go")
        assert wanted is agent.hooks.continues
