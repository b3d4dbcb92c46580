"""Changes of one file wait for each other, in call order."""

from pathlib import Path

import pytest
import trio
import trio.testing

from pinnace_agent.tools.base import ToolError
from pinnace_agent.tools.change_queue import ChangeQueue


async def test_calls_that_start_together_are_served_in_call_order(tmp_path: Path) -> None:
    queue = ChangeQueue()
    served: list[int] = []

    async def call(order: int) -> None:
        async with queue.hold(str(tmp_path / "file"), order):
            served.append(order)
            await trio.lowlevel.checkpoint()

    for _ in range(10):  # trio starts tasks in random order
        async with trio.open_nursery() as nursery:
            for order in (3, 1, 2, 0, 4):
                nursery.start_soon(call, order)

    assert served == [0, 1, 2, 3, 4] * 10


async def test_one_holds_a_file_at_a_time(tmp_path: Path) -> None:
    queue = ChangeQueue()
    holders = 0

    async def call(order: int) -> None:
        nonlocal holders
        async with queue.hold(str(tmp_path / "file"), order):
            holders += 1
            assert holders == 1
            await trio.testing.wait_all_tasks_blocked()
            holders -= 1

    async with trio.open_nursery() as nursery:
        for order in range(4):
            nursery.start_soon(call, order)


async def test_different_files_do_not_wait(tmp_path: Path) -> None:
    queue = ChangeQueue()
    both = [trio.Event(), trio.Event()]

    async def call(index: int) -> None:
        async with queue.hold(str(tmp_path / str(index)), index):
            both[index].set()
            await both[1 - index].wait()

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, 0)
            nursery.start_soon(call, 1)


async def test_two_names_of_a_file_are_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder").symlink_to(tmp_path)
    queue = ChangeQueue()
    second_has_it = trio.Event()

    async def second(name: str) -> None:
        async with queue.hold(str(tmp_path / name), 1):
            second_has_it.set()

    for name in ("link", "folder/file"):
        second_has_it = trio.Event()
        async with trio.open_nursery() as nursery:
            async with queue.hold(str(tmp_path / "file"), 0):
                nursery.start_soon(second, name)
                with trio.move_on_after(0.05):  # time enough to be wrong; never too short to be right
                    await second_has_it.wait()
                assert not second_has_it.is_set()
            await second_has_it.wait()


async def test_a_holder_that_fails_lets_the_next_one_in(tmp_path: Path) -> None:
    queue = ChangeQueue()
    with pytest.raises(ZeroDivisionError):
        async with queue.hold(str(tmp_path / "file"), 0):
            raise ZeroDivisionError

    with trio.fail_after(30):
        async with queue.hold(str(tmp_path / "file"), 1):
            pass


async def test_a_call_cancelled_while_waiting_does_not_delay_others(tmp_path: Path) -> None:
    queue = ChangeQueue()
    path = str(tmp_path / "file")
    served: list[int] = []

    async def call(order: int, scope: trio.CancelScope) -> None:
        with scope:
            async with queue.hold(path, order):
                served.append(order)

    scopes = [trio.CancelScope() for _ in range(3)]
    async with trio.open_nursery() as nursery, queue.hold(path, -1):
        for order in range(3):
            nursery.start_soon(call, order, scopes[order])
        scopes[0].cancel()
        await trio.testing.wait_all_tasks_blocked()
        scopes[1].cancel()

    assert served == [2]


async def test_a_path_that_can_not_be_resolved_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    queue = ChangeQueue()

    with pytest.raises(ToolError, match="ELOOP"):
        async with queue.hold(str(tmp_path / "loop"), 0):
            pass
