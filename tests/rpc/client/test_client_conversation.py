"""The async clients with our own agent: commands, runs, streams, events, in every profile."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.rpc.client.conftest import on_trio_and_asyncio

from pinnace_rpc.client import ClientClosed, CommandFailed, RunFailed
from pinnace_spec.profiles.profiles import PROFILES

Prepare = Callable[..., Any]

CALL = {"tool_calls": [{"name": "bash", "args": {"command": "echo from the tool"}}]}


@pytest.mark.parametrize("protocol", PROFILES)
@on_trio_and_asyncio
async def test_a_run_waits_for_the_end_and_reports_what_came_of_it(prepare: Prepare, protocol: str) -> None:
    async with prepare([CALL, {"text": ["do", "ne"]}], "--protocol", protocol).client() as client:
        run = await client.run("go")

        assert ("done", "stop", False, None) == (run.text, run.stop_reason, run.is_aborted, run.error)
        assert ["user", "assistant", "toolResult", "assistant"] == [message["role"] for message in run.messages]
        state = await client.get_state()
        assert not state["isStreaming"]


@pytest.mark.parametrize("protocol", PROFILES)
@on_trio_and_asyncio
async def test_the_text_comes_piece_by_piece(prepare: Prepare, protocol: str) -> None:
    prepared = prepare([{"text": ["one ", "two"], "gate_each": "g"}], "--protocol", protocol)
    async with prepared.client() as client, client.stream_text("go") as pieces:
        prepared.llm.release("g.0")
        assert await anext(pieces) == "one "
        prepared.llm.release("g.1", "g.2", "g.3")
        rest = [piece async for piece in pieces]

        assert "two" == "".join(rest)
        assert "one two" == pieces.result.text


@on_trio_and_asyncio
async def test_a_run_includes_retries(prepare: Prepare) -> None:
    script = [{"error": {"status": 503}}, {"text": "at last"}]
    async with prepare(script, settings={"retry": {"baseDelayMs": 1}}).client() as client:
        run = await client.run("go")

    assert ("at last", None) == (run.text, run.error)


@pytest.mark.parametrize("protocol", PROFILES)
@on_trio_and_asyncio
async def test_a_run_includes_a_text_that_was_queued_meanwhile(prepare: Prepare, protocol: str) -> None:
    prepared = prepare([{"text": ["first", {"gate": "g"}]}, {"text": "second"}], "--protocol", protocol)
    async with prepared.client() as client, anyio.create_task_group() as nursery:
        events = client.events()

        async def queue() -> None:
            async for event in events:
                if event["type"] == "message_update":
                    break
            await client.follow_up("and then?")
            prepared.llm.release("g")

        nursery.start_soon(queue)
        run = await client.run("go")

        assert "second" == run.text


@on_trio_and_asyncio
async def test_a_run_that_fails_raises_with_what_there_is_of_it(prepare: Prepare) -> None:
    async with prepare([{"error": {"status": 401, "body": "wrong key"}, "repeat": 2}]).client() as client:
        with pytest.raises(RunFailed, match="wrong key") as caught:
            await client.run("go")
        assert "error" == caught.value.run.stop_reason
        unchecked = await client.run("again", check=False)

    assert unchecked.error is not None


@on_trio_and_asyncio
async def test_a_refused_prompt_raises_the_agents_words_and_its_code(prepare: Prepare) -> None:
    prepared = prepare([{"text": ["x", {"gate": "g"}]}])
    async with prepared.client() as client:
        await client.prompt("go")
        with pytest.raises(CommandFailed, match="already processing") as caught:
            await client.run("too soon")
        assert ("prompt", "busy") == (caught.value.command, caught.value.error_code)
        # The refusal has aborted nothing.
        assert (await client.get_state())["isStreaming"]


@on_trio_and_asyncio
async def test_a_run_that_was_refused_is_not_the_end_of_the_next_one(prepare: Prepare) -> None:
    async with prepare([{"text": "fine"}]).client() as client:
        with pytest.raises(CommandFailed):
            await client.run("")

        assert "fine" == (await client.run("go")).text


@on_trio_and_asyncio
async def test_cancelling_a_run_aborts_it(prepare: Prepare) -> None:
    prepared = prepare([{"text": ["x", {"gate": "never"}, "y"]}, {"text": "next"}])
    async with prepared.client() as client:
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(client.run, "go")
            await anyio.to_thread.run_sync(prepared.llm.wait_reached, "never")
            nursery.cancel_scope.cancel()

        assert not (await client.get_state())["isStreaming"]
        assert "next" == (await client.run("again")).text


@on_trio_and_asyncio
async def test_leaving_a_stream_early_aborts_the_run(prepare: Prepare) -> None:
    prepared = prepare([{"text": ["x", {"gate": "never"}, "y"]}])
    async with prepared.client() as client:
        async with client.stream_text("go") as pieces:
            assert "x" == await anext(pieces)

        assert not (await client.get_state())["isStreaming"]


@on_trio_and_asyncio
async def test_an_aborted_run_says_so_and_has_not_failed(prepare: Prepare) -> None:
    prepared = prepare([{"text": ["x", {"gate": "never"}, "y"]}])
    async with prepared.client() as client, anyio.create_task_group() as nursery:

        async def abort() -> None:
            await anyio.to_thread.run_sync(prepared.llm.wait_reached, "never")
            await client.abort()

        nursery.start_soon(abort)
        run = await client.run("go")

        assert (True, None) == (run.is_aborted, run.error)


@on_trio_and_asyncio
async def test_each_reader_gets_every_event_from_when_it_subscribed(prepare: Prepare) -> None:
    async with prepare([{"text": "one"}, {"text": "two"}]).client() as client:
        first = client.events()
        await client.run("go")
        second = client.events()
        await client.run("go on")
    seen = [[event["type"] async for event in events].count("agent_start") for events in (first, second)]

    assert [2, 1] == seen


@on_trio_and_asyncio
async def test_the_events_end_when_the_client_is_left(prepare: Prepare) -> None:
    async with prepare().client() as client:
        events = client.events()

    assert [] == [event async for event in events]
    with pytest.raises(ClientClosed):
        await client.get_state()


@on_trio_and_asyncio
async def test_commands_return_their_data(prepare: Prepare, tmp_path: Path) -> None:
    async with prepare([{"text": "answer"}], "--name", "first").client() as client:
        assert "pinnace" == (await client.hello())["name"]
        assert "first" == (await client.get_state()).get("sessionName")
        assert "hi\n" == (await client.bash("echo hi"))["output"]
        assert "m2" == (await client.set_model("fake", "m2"))["id"]
        await client.set_thinking_level("high")
        level = await client.cycle_thinking_level()
        assert level is not None
        assert level["level"] in (await client.get_available_thinking_levels())["levels"]
        assert {"m1", "m2"} <= {model["id"] for model in (await client.get_available_models())["models"]}
        await client.run("question")
        assert {"text": "answer"} == await client.get_last_assistant_text()
        assert "question" in [message["text"] for message in (await client.get_fork_messages())["messages"]]
        assert 1 == (await client.get_session_stats())["userMessages"]
        assert {"steering": [], "followUp": []} == await client.clear_queue()
        assert (await client.get_tree())["tree"]
        assert {"cancelled": False} == {"cancelled": (await client.new_session())["cancelled"]}


@on_trio_and_asyncio
async def test_a_command_without_a_method_can_be_sent(prepare: Prepare) -> None:
    async with prepare().client() as client:
        assert await client.request("get_branch_messages") == {"messages": []}
        with pytest.raises(CommandFailed, match="Unknown command: dance"):
            await client.request("dance", wildly=True)


@on_trio_and_asyncio
async def test_the_tree_of_a_long_session_can_be_read(prepare: Prepare) -> None:
    """It is nested deeper than any parser with recursion goes."""
    async with prepare(has_session=True).client() as client:
        for number in range(600):
            await client.set_thinking_level("high" if number % 2 else "off")
            await client.set_session_name(str(number))
        tree = (await client.get_tree())["tree"]
    depth = 0
    while tree:
        depth, tree = depth + 1, tree[0]["children"]

    assert depth >= 600
