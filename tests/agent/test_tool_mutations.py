"""Changes of one file wait for each other, in call order; a changed file is the old or the new one."""

import os
import stat
import threading
from pathlib import Path

import pytest
import trio
import trio.testing

from pinnace_agent.tools.file_replacement import encode_text, replace_file
from pinnace_agent.tools.mutation_queue import MutationQueue


async def test_calls_that_start_together_are_served_in_call_order(tmp_path: Path) -> None:
    queue = MutationQueue()
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
    queue = MutationQueue()
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
    queue = MutationQueue()
    both = [trio.Event(), trio.Event()]

    async def call(index: int) -> None:
        async with queue.hold(str(tmp_path / str(index)), index):
            both[index].set()
            await both[1 - index].wait()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, 0)
            nursery.start_soon(call, 1)


async def test_two_names_of_a_file_are_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder").symlink_to(tmp_path)
    queue = MutationQueue()
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
    queue = MutationQueue()
    with pytest.raises(ZeroDivisionError):
        async with queue.hold(str(tmp_path / "file"), 0):
            raise ZeroDivisionError

    with trio.fail_after(5):
        async with queue.hold(str(tmp_path / "file"), 1):
            pass


async def test_who_is_cancelled_while_waiting_holds_up_nobody(tmp_path: Path) -> None:
    queue = MutationQueue()
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
    queue = MutationQueue()

    with pytest.raises(OSError):
        async with queue.hold(str(tmp_path / "loop"), 0):
            pass


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    replace_file(str(tmp_path / "new"), b"x")
    (tmp_path / "other").touch()

    assert (tmp_path / "new").read_bytes() == b"x"
    assert os.stat(tmp_path / "new").st_mode == os.stat(tmp_path / "other").st_mode
    assert sorted(os.listdir(tmp_path)) == ["new", "other"]


def test_the_mode_of_a_file_stays(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("old")
    (tmp_path / "script").chmod(0o751)
    replace_file(str(tmp_path / "script"), b"new")

    assert stat.S_IMODE(os.stat(tmp_path / "script").st_mode) == 0o751


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    replace_file(str(tmp_path / "link"), b"new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_dangling_link_leads_to_the_new_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    replace_file(str(tmp_path / "link"), b"new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_hard_links_stay_one_file(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("a long old content")
    os.link(tmp_path / "one", tmp_path / "two")
    replace_file(str(tmp_path / "one"), b"new")

    assert (tmp_path / "two").read_bytes() == b"new"


def test_a_file_is_renamed_into_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with open(tmp_path / "file", "rb") as before:
        replace_file(str(tmp_path / "file"), b"new")

        assert before.read() == b"old", "a reader keeps the old file whole"


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = {b"a" * 200_000, b"b" * 300_000}
    path.write_bytes(b"a" * 200_000)
    seen: set[bytes] = set()
    is_done = threading.Event()

    def read() -> None:
        while not is_done.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(30):
        for content in sorted(contents):
            replace_file(str(path), content)
    is_done.set()
    reader.join()

    assert seen <= contents


def test_a_device_is_written_to_not_replaced() -> None:
    replace_file("/dev/null", b"gone")

    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o444)

    with pytest.raises(PermissionError):
        replace_file(str(tmp_path / "file"), b"new")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_in_a_folder_that_takes_no_other_is_written_in_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    tmp_path.chmod(0o555)
    try:
        replace_file(str(tmp_path / "file"), b"new")
        assert (tmp_path / "file").read_bytes() == b"new"
    finally:
        tmp_path.chmod(0o755)


def test_a_failure_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    with pytest.raises(OSError):
        replace_file(str(tmp_path / "folder"), b"x")
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize(
    ("text", "data"),
    [("é", b"\xc3\xa9"), ("a\ud800b", b"a\xef\xbf\xbdb"), ("\ud83d\ude00", "😀".encode())],
)
def test_half_a_character_is_replaced_and_two_halves_are_one(text: str, data: bytes) -> None:
    assert encode_text(text) == data
