"""The conversation with the process of a sub-agent, with a shell in its place."""

import os
import subprocess
from pathlib import Path

import pytest
import trio

from pinnace_agent.core.json_access import as_object
from pinnace_agent.shell.child_processes import children
from pinnace_rpc.subagents.mailbox import Mailbox
from pinnace_rpc.subagents.process import ChildProcess, Record

# Each line comes when the one before was taken, and so by itself.
SCRIPT = """exec 3<>"$1"; echo '{"type":"begun"}'; read _ <&3; cat >/dev/null
for each in 1 2 3; do echo '{"type":"last"}'; read _ <&3; done"""


@pytest.mark.parametrize("is_full", [False, True])
async def test_all_that_comes_while_it_ends_is_taken(tmp_path: Path, is_full: bool) -> None:
    """Whether or not the client that is shown it has room."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    taken: list[object] = []
    begun, is_waiting = trio.Event(), trio.Event()
    opened = os.open(gate, os.O_RDWR)

    def take(record: Record) -> None:
        taken.append(record["type"])
        begun.set()
        os.write(opened, b"\n")

    async def room() -> None:
        is_waiting.set()
        if is_full:
            await trio.sleep_forever()

    pipe = subprocess.PIPE
    command = ["/bin/sh", "-c", SCRIPT, "sh", str(gate)]
    child = await children().start(command, stdin=pipe, stdout=pipe, stderr=pipe)
    process = ChildProcess(child, take, room)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.read)
        nursery.start_soon(process.read_stderr)
        await begun.wait()
        await is_waiting.wait()
        await process.end()
    os.close(opened)

    assert taken == ["begun", "last", "last", "last"]


SETTLING = """echo '{"type":"begun"}'; read -r _; echo '{"type":"agent_settled"}'; read -r _ <"$1"
printf '%s\\n' '{"type":"response","id":"parent-1","success":true,"data":{"disposition":"started"}}' \\
    '{"type":"message_end","messageId":"m"}' '{"type":"agent_settled"}'; cat >/dev/null"""


async def test_an_answer_is_taken_before_what_follows_from_it(tmp_path: Path) -> None:
    """R-SUB-10: one that has settled while a message was on its way works again, and then settles for good."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    mailbox = Mailbox()
    settled: list[bool] = []
    begun, held = trio.Event(), trio.Event()

    def take(record: Record) -> None:
        match record["type"]:
            case "begun":
                begun.set()
            case "message_end":
                mailbox.delivered(record["messageId"])
            case _:
                mailbox.settled(is_complete=True)
                settled.append(mailbox.close_if_over())
                held.set()

    def answer(record: Record) -> None:
        mailbox.answered("m", (as_object(record["data"]) or {})["disposition"])

    async def room() -> None:
        await trio.lowlevel.checkpoint()

    async def send() -> None:
        await process.ask("steer", answer, messageId="m")

    pipe = subprocess.PIPE
    child = await children().start(["/bin/sh", "-c", SETTLING, "sh", str(gate)], stdin=pipe, stdout=pipe, stderr=pipe)
    process = ChildProcess(child, take, room)
    opened = os.open(gate, os.O_RDWR)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.read)
        nursery.start_soon(process.read_stderr)
        await begun.wait()
        mailbox.take("m", "masts")
        mailbox.accept("m")
        nursery.start_soon(send)
        await held.wait()
        os.write(opened, b"\n")
        await process.until(mailbox.close_if_over)
        await process.end()
    os.close(opened)

    assert [False, True] == settled
    assert {"m": "delivered"} == mailbox.states()
