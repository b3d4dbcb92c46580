"""Responses that are too long for the memory of a host, and are not read to their end, or kept nowhere.

The process is one of pipes in memory: a real one can't be stopped within a response. R-HST-03.
"""

from pathlib import Path
from typing import Final

import pytest
import trio.testing
from tests.rpc.host.piped_agent import CONNECTION, MIB, Hosted, Process, hosted

from pinnace_rpc.host import routing

COMMAND: Final = b'{"id":"c","type":"bash","command":"seq 1000000"}'
READ: Final = b'{"id":"r","type":"get_messages"}'


async def end(had: Hosted, process: Process) -> None:
    """End a process that another one follows."""
    await process.writing.aclose()
    await had.agent.process_ended(-9, "")
    had.agent.will_be_replaced()


async def test_a_command_of_which_the_response_is_cut_is_answered_as_unknown(tmp_path: Path) -> None:
    async with hosted(tmp_path) as had:
        process = await had.begin()
        await had.send(COMMAND)
        await process.answer("bash", await process.asked("bash"), "x" * 2 * MIB, is_cut=True)
        await end(had, process)
        (state, answer), is_quiet = had.known(COMMAND), had.agent.is_quiet()

    assert ("answered", "outcome_unknown", 1) == (state, answer["errorCode"], had.connection.answers)
    assert is_quiet


async def test_a_read_of_which_the_response_is_cut_is_asked_again(tmp_path: Path) -> None:
    async with hosted(tmp_path) as had:
        process = await had.begin()
        await had.send(READ)
        await process.answer("get_messages", await process.asked("get_messages"), "x" * 2 * MIB, is_cut=True)
        await end(had, process)
        second = await had.begin()
        await second.answer("get_messages", await second.asked("get_messages"), "")
        await trio.testing.wait_all_tasks_blocked()
        answers, still_open = had.connection.answers, had.agent.router.count(CONNECTION)

    assert (1, 0) == (answers, still_open)


@pytest.mark.parametrize("line", [COMMAND, READ])
async def test_a_response_that_is_kept_nowhere_is_answered_as_unknown(tmp_path: Path, line: bytes) -> None:
    """Again and again, which the slots of reads end if one that is answered is not free."""
    name = routing.read_command(line).name
    async with hosted(tmp_path) as had:
        process = await had.begin()
        for count in range(1, 3):
            await had.send(line.replace(b'"id":"', b'"id":"again-' if count > 1 else b'"id":"'))
            await process.answer(name, await process.asked(name), "x" * 4 * MIB)
            await trio.testing.wait_all_tasks_blocked()
            assert count == had.connection.answers
        still_open = had.agent.router.count(CONNECTION)
        are_free = [await had.agent.commands.reads.take() for _ in range(32)]
        state, _ = had.known(line)

    assert 0 == still_open
    assert all(are_free)
    assert state == ("answered" if line == COMMAND else "new")
