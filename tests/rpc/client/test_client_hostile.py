"""Agents that die, lie, flood and cling: the client tells what happened, and leaves nothing behind."""

import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
import trio
import trio.testing
from tests.rpc.client.conftest import on_trio_and_asyncio

from pinnace_rpc.client import (
    AgentExited,
    Client,
    ClientClosed,
    CommandFailed,
    ProtocolError,
)
from pinnace_rpc.client.connection import lifetime, process

StandIn = Callable[..., Client]
# A fault shows as a hang; only then this is waited for.
PATIENCE_S = 60.0


@on_trio_and_asyncio
async def test_its_death_is_reported_to_everyone_who_waits_and_who_asks_later(stand_in: StandIn) -> None:
    told: list[AgentExited] = []

    async def wait(client: Client) -> None:
        with pytest.raises(AgentExited) as caught:
            await client.request("unanswered")
        told.append(caught.value)

    async def listen(client: Client) -> None:
        with pytest.raises(AgentExited) as caught:
            async for _ in client.events():
                pass
        told.append(caught.value)

    with anyio.fail_after(PATIENCE_S):
        async with stand_in() as client:
            async with anyio.create_task_group() as nursery:
                nursery.start_soon(wait, client)
                nursery.start_soon(listen, client)
                with pytest.raises(AgentExited) as caught:
                    await client.request("die", code=7, complaint="no such moon\n")
                told.append(caught.value)
            with pytest.raises(AgentExited) as caught:
                await client.get_session_stats()
            told.append(caught.value)

    assert [7] * 4 == [each.exit_code for each in told]
    assert ["no such moon\n"] * 4 == [each.stderr_tail for each in told]
    assert "exited with code 7" in str(told[0])


@on_trio_and_asyncio
async def test_a_signal_that_ended_it_is_named(stand_in: StandIn) -> None:
    async with stand_in() as client:
        with pytest.raises(AgentExited, match="SIGSEGV") as caught:
            await client.request("die", signal=signal.SIGSEGV)

    assert -signal.SIGSEGV == caught.value.exit_code


@on_trio_and_asyncio
async def test_what_it_wrote_before_its_death_arrives_and_a_cut_record_is_quoted(stand_in: StandIn) -> None:
    async with stand_in() as client:
        events = client.events()
        with pytest.raises(AgentExited, match="half a rec") as caught:
            await client.request("die", last_words='{"type":"whole"}\n{"type":"half a rec')
        assert "whole" == dict(await anext(events))["type"]

    assert caught.value.cut_record is not None


@on_trio_and_asyncio
async def test_much_that_it_wrote_before_its_death_arrives_before_that_is_reported(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifetime, "DRAIN_S", PATIENCE_S)
    async with stand_in() as client:
        events = client.events()
        with pytest.raises(AgentExited):
            await client.request("die", last_words='{"type":"one of many"}\n' * 50_000)
        seen = 0
        with pytest.raises(AgentExited):
            async for _ in events:
                seen += 1

    assert 50_000 == seen


async def test_what_a_slow_reader_has_left_in_the_pipe_arrives(stand_in: StandIn) -> None:
    """Reading pauses after a mebibyte; the rest fits into the pipe, so the agent is gone before it is read."""
    words = "".join(f'{{"type":"one of many","number":{number},"text":"{"x" * 10_000}"}}\n' for number in range(106))
    with trio.fail_after(PATIENCE_S):
        async with stand_in() as client:
            events = client.events()
            # So that the mebibyte is full before the last read.
            await client.request("flood", count=4, size=10_000)

            async def ask() -> None:
                with suppress(AgentExited):  # on a busy machine, before it is cancelled
                    await client.request("die", last_words=words)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
            while client._open.link._loss is None:
                # Not by asking: whoever waits for the agent ends the pause.
                await trio.testing.wait_all_tasks_blocked(0.01)
            seen: list[object] = []
            with pytest.raises(AgentExited):
                async for event in events:
                    seen.append(dict(event)["number"])

    assert [*range(4), *range(106)] == seen


@on_trio_and_asyncio
async def test_an_agent_with_much_to_say_at_its_end_leaves_in_order_also_when_cancelled(stand_in: StandIn) -> None:
    with anyio.CancelScope() as scope:
        async with stand_in("--farewell") as client:
            await client.request("anything")
            scope.cancel()
            await anyio.lowlevel.checkpoint()

    assert 0 == client.exit_code


@on_trio_and_asyncio
async def test_a_last_record_without_an_end_of_line_counts(stand_in: StandIn) -> None:
    async with stand_in() as client:
        events = client.events()
        with pytest.raises(AgentExited) as caught:
            await client.request("die", last_words='{"type":"last"}')
        assert "last" == dict(await anext(events))["type"]

    assert caught.value.cut_record is None


@on_trio_and_asyncio
async def test_an_agent_that_never_answers_can_be_given_up(stand_in: StandIn) -> None:
    async with stand_in() as client:
        with anyio.move_on_after(0.05) as scope:
            await client.request("unanswered")
        assert scope.cancelled_caught
        assert {} == await client.request("anything")


@on_trio_and_asyncio
async def test_an_answer_that_comes_twice_is_an_event_the_second_time(stand_in: StandIn) -> None:
    async with stand_in() as client:
        events = client.events()
        assert {"number": 1} == await client.request("twice")
        second = await anext(events)

    assert ("response", {"number": 2}) == (second["type"], dict(second)["data"])


@on_trio_and_asyncio
async def test_a_refusal_without_an_id_goes_to_the_command_of_that_name(stand_in: StandIn) -> None:
    refusal = {"type": "response", "command": "say", "success": False, "error": "Unknown command: say"}
    with anyio.fail_after(PATIENCE_S):
        async with stand_in() as client:
            with pytest.raises(CommandFailed, match="Unknown command: say") as caught:
                await client.request("say", records=[refusal], alone=True)

    assert caught.value.error_code is None


@on_trio_and_asyncio
async def test_an_answer_without_the_data_that_it_promises_is_an_error(stand_in: StandIn) -> None:
    async with stand_in() as client:
        with pytest.raises(ProtocolError, match="get_state was answered without its data"):
            await client.get_state()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Segmentation fault\n", "not JSON .*'Segmentation fault'"),
        ('["a list"]\n', "not a JSON object"),
        ('{"no": "type"}\n', "without a type"),
        ('{"type": NaN}\n', "not JSON"),
        ('{"type":"\udcff"}\n', "UTF-8"),
        ("[" * 600 + "\n", "not JSON"),
    ],
)
@on_trio_and_asyncio
async def test_what_is_no_record_ends_the_conversation_for_everyone(stand_in: StandIn, text: str, problem: str) -> None:
    with anyio.fail_after(PATIENCE_S):
        async with stand_in() as client:
            events = client.events()
            with pytest.raises(ProtocolError, match=problem):
                await client.request("say_bytes", text=text)
            with pytest.raises(ProtocolError, match=problem):
                await client.get_session_stats()
            with pytest.raises(ProtocolError, match=problem):
                await anext(events)


@on_trio_and_asyncio
async def test_what_is_no_record_can_be_tolerated(stand_in: StandIn) -> None:
    told: list[ProtocolError] = []
    async with stand_in("--banner", on_malformed=told.append) as client:
        assert {} == await client.request("anything")

    assert ["'> start'"] == [each.beginning for each in told]


async def test_what_gets_no_records_may_exit_and_leaves_the_client(stand_in: StandIn) -> None:
    def leave(_: ProtocolError) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit, match="3"):
        async with stand_in("--banner", on_malformed=leave) as client:
            await client.request("unanswered")


@on_trio_and_asyncio
async def test_blank_lines_carriage_returns_and_separators_inside_of_texts_are_no_ends(stand_in: StandIn) -> None:
    text = '\n\r\n{"type":"odd","text":"a\u2028b\u2029c\x85d"}\r\n'
    async with stand_in() as client:
        events = client.events()
        await client.request("say_bytes", text=text)

        assert {"type": "odd", "text": "a\u2028b\u2029c\x85d"} == dict(await anext(events))


@on_trio_and_asyncio
async def test_a_record_may_be_huge_and_deep(stand_in: StandIn) -> None:
    async with stand_in() as client:
        events = client.events()
        await client.request("flood", count=1, size=20_000_000)
        await client.request("nest", depth=5_000)

        assert 20_000_000 == len(str(dict(await anext(events))["text"]))
        assert "deep" == dict(await anext(events))["type"]


@on_trio_and_asyncio
async def test_a_record_that_is_too_long_is_not_kept_and_reported(stand_in: StandIn) -> None:
    async with stand_in() as client:
        with pytest.raises(ProtocolError, match="longer than 67108864 bytes"):
            await client.request("flood", count=1, size=67_200_000)


@on_trio_and_asyncio
async def test_a_command_that_is_longer_than_a_record_may_be_is_not_sent(stand_in: StandIn) -> None:
    async with stand_in() as client:
        with pytest.raises(ValueError, match="the record has"):
            await client.prompt("x" * (64 * 1024 * 1024))
        assert {} == await client.request("anything")


@on_trio_and_asyncio
async def test_a_flood_of_stderr_is_read_and_its_end_is_kept(stand_in: StandIn) -> None:
    async with stand_in() as client:
        await client.request("flood_stderr", count=200_000)
        with pytest.raises(AgentExited) as caught:
            await client.request("die")

    assert caught.value.stderr_tail.endswith("line 199999\n")
    assert len(caught.value.stderr_tail) <= 64 * 1024


@on_trio_and_asyncio
async def test_an_agent_that_closes_its_stdout_is_ended(stand_in: StandIn) -> None:
    with anyio.fail_after(PATIENCE_S):
        async with stand_in() as client:
            with pytest.raises(AgentExited, match="SIGTERM"):
                await client.request("close_stdout")


@on_trio_and_asyncio
async def test_one_that_ignores_everything_is_killed_with_its_children(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "KILL_WAIT_S", PATIENCE_S)
    with anyio.fail_after(PATIENCE_S):
        async with stand_in("--stubborn", "--child", exit_timeout_s=0.1) as client:
            await client.request("anything")

    assert -signal.SIGKILL == client.exit_code


@on_trio_and_asyncio
async def test_a_child_of_one_that_leaves_in_order_is_killed_too(stand_in: StandIn) -> None:
    async with stand_in("--child") as client:
        await client.request("anything")

    assert 0 == client.exit_code


@on_trio_and_asyncio
async def test_one_that_reads_nothing_can_be_left_in_the_middle_of_a_record(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TERM_GRACE_S", PATIENCE_S)  # it ends when it has its turn
    with anyio.fail_after(PATIENCE_S):
        async with stand_in("--deaf", exit_timeout_s=0.1) as client:
            with anyio.move_on_after(0.1):
                await client.prompt("x" * 1_000_000)

    assert -signal.SIGTERM == client.exit_code


@on_trio_and_asyncio
async def test_a_cancelled_command_that_was_not_written_is_never_sent(stand_in: StandIn) -> None:
    async with stand_in() as client:
        for _ in range(20):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await client.request("die", code=1)

        assert {} == await client.request("anything")


@pytest.mark.parametrize("steps", range(0, 60, 3))
@on_trio_and_asyncio
async def test_being_cancelled_anywhere_leaves_nothing_behind(stand_in: StandIn, steps: int) -> None:
    """The fixture looks for processes and descriptors."""

    async def converse() -> None:
        async with stand_in("--child", exit_timeout_s=0.5) as client:
            events = client.events()
            await client.request("flood", count=20, size=50_000)
            for _ in range(5):
                await anext(events)
            await client.request("unanswered")

    with anyio.move_on_after(PATIENCE_S) as scope:
        async with anyio.create_task_group() as nursery:
            nursery.start_soon(converse)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            # Between the start of a process and its first answer only time passes.
            await anyio.sleep(steps / 200)
            nursery.cancel_scope.cancel()
    assert not scope.cancelled_caught


@on_trio_and_asyncio
async def test_what_is_raised_inside_comes_out_as_it_is(stand_in: StandIn) -> None:
    with pytest.raises(LookupError, match="mine"):
        async with stand_in():
            raise LookupError("mine")


@on_trio_and_asyncio
async def test_a_command_that_can_not_be_started_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with Client([str(tmp_path / "nothing")]):
            pass


def test_a_command_in_one_text_is_refused() -> None:
    with pytest.raises(TypeError, match="a list"):
        Client("pinnace --mode rpc")


@on_trio_and_asyncio
async def test_a_client_is_used_inside_of_its_block_only(stand_in: StandIn) -> None:
    client = stand_in()
    with pytest.raises(ClientClosed):
        await client.get_session_stats()
    async with client:
        pass
    with pytest.raises(ClientClosed):
        await client.run("too late")
    with pytest.raises(RuntimeError, match="make another"):
        await client.__aenter__()
