"""The one writer: order, back-pressure, merging, and the end."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from pinnace_agent.engine.run_job import NO_MODEL
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_rpc.server.outbox import HIGH_WATER_BYTES, MERGE_BYTES, TURN_BYTES, TURN_PIECES, Outbox
from pinnace_rpc.server.projection import make_projection


class Reader:
    """Takes bytes only while `gate` is open."""

    def __init__(self) -> None:
        self.data = b""
        self.gate = trio.Event()

    async def send_all(self, data: bytes) -> None:
        await self.gate.wait()
        self.data += data

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.data.splitlines()]


class Silent:
    """A sink for a builder whose updates nobody needs."""

    def started(self, message: Mapping[str, object]) -> None: ...

    def update(self, event: Mapping[str, object], builder: MessageBuilder) -> None: ...

    async def room(self) -> None: ...


def a_builder() -> MessageBuilder:
    builder = MessageBuilder(NO_MODEL, Silent(), 0)
    builder.start()
    return builder


def delta(text: str, index: int = 0) -> dict[str, object]:
    return {"type": "text_delta", "contentIndex": index, "delta": text}


async def drain(outbox: Outbox, reader: Reader) -> list[dict[str, Any]]:
    reader.gate.set()
    outbox.close()
    with trio.fail_after(30):
        await outbox.pump(reader)
    return reader.records


async def test_records_come_out_in_the_order_in_which_they_were_put() -> None:
    outbox = Outbox(make_projection("1.5"))
    for number in range(100):
        outbox.put({"type": "queue_update", "number": number})

    assert list(range(100)) == [record["number"] for record in await drain(outbox, Reader())]


async def test_deltas_stay_single_while_the_reader_keeps_up() -> None:
    outbox, builder = Outbox(make_projection("1.5")), a_builder()
    for _ in range(20):
        outbox.update(delta("ab"), builder)

    assert 20 == len(await drain(outbox, Reader()))


async def test_deltas_of_one_block_merge_when_the_reader_is_behind_and_no_text_is_lost() -> None:
    outbox, builder = Outbox(make_projection("1.5")), a_builder()
    outbox.put({"type": "filler", "text": "x" * (MERGE_BYTES + 1)})
    pieces = [f"{number} " for number in range(1000)]
    for piece in pieces:
        outbox.update(delta(piece), builder)
    _, *updates = await drain(outbox, Reader())

    assert 1 == len(updates)
    assert "".join(pieces) == updates[0]["assistantMessageEvent"]["delta"]


async def test_only_neighbours_of_the_same_block_merge() -> None:
    """What came between two deltas stays between them."""
    outbox, builder = Outbox(make_projection("1.5")), a_builder()
    outbox.put({"type": "filler", "text": "x" * (MERGE_BYTES + 1)})
    outbox.update(delta("a"), builder)
    outbox.update(delta("b", 1), builder)
    outbox.update(delta("c"), builder)
    outbox.put({"type": "response"})
    outbox.update(delta("d"), builder)
    outbox.update(delta("e"), builder)
    _, *records = await drain(outbox, Reader())

    assert ["a", "b", "c", None, "de"] == [record.get("assistantMessageEvent", {}).get("delta") for record in records]


async def test_a_cumulative_record_replaces_its_unwritten_predecessor_only_when_the_reader_is_behind() -> None:
    outbox = Outbox(make_projection("1.5"))
    outbox.progress({"type": "tool_execution_update", "n": 1}, "a")
    outbox.progress({"type": "tool_execution_update", "n": 2}, "a")
    outbox.put({"type": "filler", "text": "x" * (MERGE_BYTES + 1)})
    for number in range(3, 9):
        outbox.progress({"type": "tool_execution_update", "n": number}, "a")
    outbox.progress({"type": "tool_execution_update", "n": 100}, "b")
    outbox.put({"type": "tool_execution_end"})
    records = await drain(outbox, Reader())

    assert [1, 2, None, 8, 100, None] == [record.get("n") for record in records]


async def test_a_producer_waits_in_room_until_the_reader_has_taken_enough() -> None:
    outbox, reader = Outbox(make_projection("1.5")), Reader()
    passed = trio.Event()

    async def produce() -> None:
        outbox.put({"type": "filler", "text": "x" * (HIGH_WATER_BYTES + 1)})
        await outbox.room()
        passed.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.pump, reader)
        nursery.start_soon(produce)
        await wait_all_tasks_blocked()
        assert not passed.is_set()
        reader.gate.set()
        with trio.fail_after(30):
            await passed.wait()
        outbox.close()


@pytest.mark.parametrize(("text", "pieces"), [("x", TURN_PIECES), ("x" * TURN_BYTES, 1)])
async def test_a_producer_that_never_waits_lets_the_writer_run_now_and_then(text: str, pieces: int) -> None:
    outbox, reader = Outbox(make_projection("1.5")), Reader()
    reader.gate.set()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.pump, reader)
        await wait_all_tasks_blocked()
        for _ in range(pieces - 1):
            outbox.put({"type": "filler", "text": text})
            await outbox.room()
        assert reader.data == b""
        # The writer needs two turns for a write, and the order of tasks in a turn is left open.
        for _ in range(4 * pieces):
            outbox.put({"type": "filler", "text": text})
            await outbox.room()
        assert reader.data != b""
        outbox.close()


async def test_a_producer_is_cancelled_in_room_also_when_there_is_room() -> None:
    outbox = Outbox(make_projection("1.5"))
    with trio.CancelScope() as scope:
        scope.cancel()
        await outbox.room()

    assert scope.cancelled_caught


async def test_putting_never_waits_and_nothing_is_written_after_the_end() -> None:
    """R-EOF-02."""
    outbox = Outbox(make_projection("1.5"))
    outbox.put({"type": "last"})
    outbox.close()
    outbox.put({"type": "too late"})

    assert ["last"] == [record["type"] for record in await drain(outbox, Reader())]


@pytest.mark.parametrize("profile", ["pi", "seed"])
async def test_a_merged_update_carries_the_message_as_it_is_after_its_last_delta(profile: Any) -> None:
    """I-EVT-4: the partial is the sum of the deltas so far."""
    outbox = Outbox(make_projection(profile))

    class Sink(Silent):
        def update(self, event: Mapping[str, object], builder: MessageBuilder) -> None:
            outbox.update(event, builder)

    filler = "x" * (MERGE_BYTES + 1)
    outbox.put({"type": "extension_error", "extensionPath": "path", "event": "event", "error": filler})
    builder = MessageBuilder(NO_MODEL, Sink(), 0)
    builder.start()
    for piece in ("a", "b", "c"):
        builder.text_delta(0, piece)
    builder.finish("stop")
    _, start, merged, end = await drain(outbox, Reader())

    assert "text_start" == start["assistantMessageEvent"]["type"]
    assert "abc" == merged["assistantMessageEvent"]["delta"]
    assert "abc" == merged["message"]["content"][0]["text"]
    assert merged["message"] == merged["assistantMessageEvent"]["partial"]
    assert "text_end" == end["assistantMessageEvent"]["type"]


class Pipe(Reader):
    """Takes what is written at once up to some size, and what the pump writes while `gate` is open."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def write_now(self, data: bytes) -> int:
        if not self.room:
            raise BlockingIOError
        taken = data[: self.room]
        self.data += taken
        self.room -= len(taken)
        return len(taken)


@pytest.mark.parametrize("room", [10**6, 0, 1, 60])
async def test_what_a_turn_puts_is_written_at_its_end_and_the_rest_by_the_pump(
    room: int, nursery: trio.Nursery
) -> None:
    outbox, pipe = Outbox(make_projection("1.5")), Pipe(room)
    nursery.start_soon(outbox.pump, pipe, pipe.write_now)
    await wait_all_tasks_blocked()

    with outbox.turn():
        for number in range(10):
            outbox.put({"type": "queue_update", "number": number})
        assert pipe.data == b""
    assert len(pipe.data) == room or (room == 10**6 and len(pipe.records) == 10)

    outbox.put({"type": "queue_update", "number": 10})
    pipe.gate.set()
    await wait_all_tasks_blocked()
    assert list(range(11)) == [record["number"] for record in pipe.records]
    assert outbox.written_bytes == len(pipe.data)
    outbox.close()


async def test_a_large_line_of_a_turn_is_left_to_the_pump_as_a_whole(nursery: trio.Nursery) -> None:
    outbox, pipe = Outbox(make_projection("1.5")), Pipe(10**9)
    nursery.start_soon(outbox.pump, pipe, pipe.write_now)
    await wait_all_tasks_blocked()

    with outbox.turn():
        outbox.put({"type": "response", "text": "x" * 2**20})

    assert pipe.data == b""
    pipe.gate.set()
    await wait_all_tasks_blocked()
    assert len(pipe.records) == 1
    outbox.close()


async def test_a_turn_writes_nothing_past_what_the_pump_is_writing(nursery: trio.Nursery) -> None:
    outbox, pipe = Outbox(make_projection("1.5")), Pipe(10**6)
    nursery.start_soon(outbox.pump, pipe, pipe.write_now)
    outbox.put({"type": "queue_update", "number": 0})
    await wait_all_tasks_blocked()  # the pump waits in send_all

    with outbox.turn():
        outbox.put({"type": "queue_update", "number": 1})

    assert pipe.data == b""
    pipe.gate.set()
    await wait_all_tasks_blocked()
    assert [0, 1] == [record["number"] for record in pipe.records]
    outbox.close()


async def test_a_turn_leaves_a_reader_that_is_gone_to_the_pump(nursery: trio.Nursery) -> None:
    outbox = Outbox(make_projection("1.5"))

    class Gone(Reader):
        async def send_all(self, data: bytes) -> None:
            raise trio.BrokenResourceError

        def write_now(self, data: bytes) -> int:
            raise BrokenPipeError

    gone = Gone()
    broken: list[bool] = []

    async def pump() -> None:
        try:
            await outbox.pump(gone, gone.write_now)
        except trio.BrokenResourceError:
            broken.append(True)

    nursery.start_soon(pump)
    await wait_all_tasks_blocked()
    with outbox.turn():
        outbox.put({"type": "queue_update", "number": 1})
    await wait_all_tasks_blocked()

    assert broken == [True]
