"""The client with the original agent, release 1.5.2: nothing in it is only for our own."""

from collections.abc import Callable
from typing import Any

import pytest
import trio

from pinnace_rpc.client import CommandFailed

pytestmark = [pytest.mark.peer, pytest.mark.slow]

Prepare = Callable[..., Any]
CALL = {"tool_calls": [{"name": "bash", "args": {"command": "echo from the tool"}}]}


@pytest.fixture
def original(prepare: Prepare, original_pi: list[str]) -> Prepare:
    """Prepares clients of the original agent."""
    return lambda script=(), *flags, **options: prepare(script, *flags, command=original_pi, **options)


async def test_a_run_a_stream_and_reads(original: Prepare) -> None:
    async with original([CALL, {"text": ["do", "ne"]}, {"text": ["a", "b"]}]).client() as client:
        run = await client.run("go")
        assert ("done", "stop", False) == (run.text, run.stop_reason, run.is_aborted)
        # It tells its system prompt as a message of its own.
        roles = [message["role"] for message in run.messages]
        assert ["user", "assistant", "toolResult", "assistant"] == roles[-4:]
        async with client.stream_text("again") as pieces:
            assert "ab" == "".join([piece async for piece in pieces])

        state = await client.get_state()
        assert (False, 7) == (state["isStreaming"], state["messageCount"])
        assert {"text": "ab"} == await client.get_last_assistant_text()
        assert "hi\n" == (await client.bash("echo hi"))["output"]
        assert {"steering": [], "followUp": []} == await client.clear_queue()
        assert "m2" == (await client.set_model("fake", "m2"))["id"]
        assert (await client.get_available_thinking_levels())["levels"]
        assert 6 <= (await client.get_session_stats())["totalMessages"]
        assert not (await client.new_session())["cancelled"]


async def test_a_command_that_only_we_have_is_refused_by_name(original: Prepare) -> None:
    async with original().client() as client:
        with pytest.raises(CommandFailed, match="Unknown command: hello"):
            await client.hello()


async def test_cancelling_a_run_aborts_it(original: Prepare) -> None:
    prepared = original([{"text": ["x", {"gate": "never"}, "y"]}, {"text": "next"}])
    async with prepared.client() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.run, "go")
            await trio.to_thread.run_sync(prepared.llm.wait_reached, "never")
            nursery.cancel_scope.cancel()

        assert "next" == (await client.run("again")).text


async def test_a_run_includes_a_text_that_was_queued_meanwhile(original: Prepare) -> None:
    prepared = original([{"text": ["first", {"gate": "g"}]}, {"text": "second"}])
    async with prepared.client() as client, trio.open_nursery() as nursery:

        async def queue() -> None:
            await trio.to_thread.run_sync(prepared.llm.wait_reached, "g")
            await client.follow_up("and then?")
            prepared.llm.release("g")

        nursery.start_soon(queue)
        assert "second" == (await client.run("go")).text


async def test_a_run_includes_retries(original: Prepare) -> None:
    script = [{"error": {"status": 503}}, {"text": "at last"}]
    async with original(script, settings={"retry": {"baseDelayMs": 1}}).client() as client:
        assert "at last" == (await client.run("go")).text


def test_the_blocking_client_speaks_to_it(original: Prepare) -> None:
    with original([{"text": "one"}]).blocking() as client:
        assert "one" == client.run("go").text
