"""The conversation with the process of a sub-agent, with a shell in its place."""

import os
import subprocess
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pinnace_agent.core.json_access import as_object
from pinnace_agent.shell.child_processes import children
from pinnace_rpc.subagents import process as process_module
from pinnace_rpc.subagents.mailbox import Mailbox
from pinnace_rpc.subagents.process import ChildGone, ChildProcess, Record, is_too_long
from pinnace_spec.wire.json_text import encode_record

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


COUNTING = """echo '{"type":"begun"}'; read -r _ <"$1"; wc -c >"$1" <&0"""


async def test_a_record_is_written_whole_whatever_the_process_takes_for_it(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """Half of one would spoil the next: where it is cancelled, none follows."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    opened = os.open(gate, os.O_RDWR)
    begun = trio.Event()
    pipe = subprocess.PIPE
    command = ["/bin/sh", "-c", COUNTING, "sh", str(gate)]
    child = await children().start(command, stdin=pipe, stdout=pipe, stderr=pipe)
    process = ChildProcess(child, lambda _: begun.set(), trio.lowlevel.checkpoint)
    record = {"type": "prompt", "message": "x" * (1 << 20)}
    cut = trio.CancelScope()

    async def send_again() -> None:
        with cut:
            await process.send(record)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.read)
        await begun.wait()
        nursery.start_soon(process.send, record)
        await wait_all_tasks_blocked()
        mock_clock.jump(3600)
        await wait_all_tasks_blocked()
        nursery.start_soon(send_again)
        await wait_all_tasks_blocked()
        cut.cancel()  # it waits for the first one, and has written nothing
        os.write(opened, b"\n")
        await process.send({"type": "abort"})
        await process.end()
    count = int(await trio.to_thread.run_sync(os.read, opened, 64))
    os.close(opened)

    assert len(encode_record(record)) + len(encode_record({"type": "abort"})) == count
    assert cut.cancelled_caught


async def test_behind_a_record_that_was_cut_none_is_written() -> None:
    pipe = subprocess.PIPE
    child = await children().start(["/bin/sleep", "60"], stdin=pipe, stdout=pipe, stderr=pipe)
    process = ChildProcess(child, lambda _: None, trio.lowlevel.checkpoint)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.send, {"type": "prompt", "message": "x" * (1 << 20)})
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    with pytest.raises(ChildGone), trio.fail_after(5):
        await process.send({"type": "abort"})
    child.kill()
    await child.reap(1)


@pytest.mark.parametrize("character", ["x", "\0", "\x85", "\u2028", "é", "\ud800", "🚢"])
@pytest.mark.parametrize("room", range(-8, 9, 4))
def test_what_is_not_too_long_fits_into_a_record(monkeypatch: pytest.MonkeyPatch, character: str, room: int) -> None:
    monkeypatch.setattr(process_module, "MAX_RECORD_BYTES", 8192)
    size = len(encode_record({"message": character})) - len(encode_record({"message": ""}))
    text = character * ((4096 - len(encode_record({"message": ""})) + room) // size)
    command = {"id": "parent-123456789", "type": "steer", "message": text, "messageId": "\0" * 128}

    assert (room < 0) <= (not is_too_long(text)) <= (len(encode_record(command)) <= 8192)
    assert is_too_long(text * 2)


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
