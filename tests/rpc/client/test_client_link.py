"""Records over two pipes: written whole and in order, or not at all."""

import json
from functools import partial

import trio
import trio.testing

from pinnace_rpc.client.connection.link import Link
from pinnace_rpc.client.records.events import Record
from pinnace_rpc.client.subscriptions import Hub


class SlowStdin(trio.abc.SendStream):
    """Takes a record only when it is let."""

    def __init__(self) -> None:
        self.taken: list[Record] = []
        self.gate = trio.Event()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.gate.wait()
        self.taken.append(json.loads(bytes(data)))

    async def wait_send_all_might_not_block(self) -> None:
        raise AssertionError("not asked for")

    async def aclose(self) -> None:
        pass


def make_link() -> Link:
    def ignore(_: Record) -> None:
        pass

    return Link(Hub(), ignore, None)


async def ask(link: Link, command: str) -> None:
    await link.answer(link.ask(command, {"absent": None, "present": 0}))


async def test_a_cancelled_command_is_written_whole_if_it_was_begun_and_not_at_all_if_not() -> None:
    link, stdin = make_link(), SlowStdin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.write, stdin)
        async with trio.open_nursery() as callers:
            for command in ("first", "second"):
                callers.start_soon(ask, link, command)
                await trio.testing.wait_all_tasks_blocked()
            callers.cancel_scope.cancel()
        nursery.start_soon(ask, link, "third")
        stdin.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert ["first", "third"] == [record["type"] for record in stdin.taken]


async def test_fields_without_a_value_are_left_out_and_every_command_has_an_id_of_its_own() -> None:
    link, stdin = make_link(), SlowStdin()
    stdin.gate.set()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.write, stdin)
        for command in ("first", "second"):
            nursery.start_soon(partial(ask, link, command))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert {"type", "id", "present"} == set(stdin.taken[0])
    assert 2 == len({record["id"] for record in stdin.taken})
