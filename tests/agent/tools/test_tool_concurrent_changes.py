"""Calls that change files at the same time end as if they had been made one after another, in call order."""

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from pinnace_agent.tools.base import Tool, ToolContext, ToolError
from pinnace_agent.tools.change_queue import ChangeQueue
from pinnace_agent.tools.edit import EditTool
from pinnace_agent.tools.local.files import LocalEdit, LocalWrite
from pinnace_agent.tools.validation import validate_arguments
from pinnace_agent.tools.write import WriteTool

LINES = 4
OLD = "".join(f"old {number}\n" for number in range(LINES))
NAMES = ("{file}", "./{file}", "{folder}/{file}", "link-{file}", "inside/{file}", "inside/link-{file}")


class Call(NamedTuple):
    """One call of a turn."""

    file: str
    name: str
    line: int | None
    """The line to edit, or None to write the whole file."""
    delays_s: tuple[float, ...]
    """How long its operations take."""
    is_broken: bool
    """Whether the disk refuses its writing."""
    cancelled_at_s: float | None


class SlowFiles(LocalEdit, LocalWrite):
    """Files of this machine on a disk that takes its time, and may refuse to be written to."""

    def __init__(self, call: Call) -> None:
        self._delays_s: Iterator[float] = iter(call.delays_s)
        self._is_broken = call.is_broken

    async def _wait(self) -> None:
        await trio.sleep(next(self._delays_s, 0))

    async def access(self, path: str) -> None:
        await self._wait()
        await super().access(path)

    async def read_file(self, path: str) -> bytes:
        await self._wait()
        return await super().read_file(path)

    async def make_folder(self, path: str) -> None:
        await self._wait()
        await super().make_folder(path)

    async def write_file(self, path: str, data: bytes) -> None:
        await self._wait()
        if self._is_broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        await super().write_file(path, data)


def after(content: str, number: int, call: Call) -> str:
    """Return what a call leaves of a content, if it is made alone."""
    if call.is_broken:
        return content
    if call.line is None:
        return f"written {number}\n{OLD}"
    return content.replace(f"old {call.line}\n", f"old {call.line}, edited {number}\n")


def arguments(number: int, call: Call, folder: Path) -> dict[str, object]:
    path = call.name.format(file=call.file, folder=folder)
    if call.line is None:
        return {"path": path, "content": f"written {number}\n{OLD}"}
    # Lines that were edited by an earlier call are not found: what a call gives depends on those before it.
    new = f"old {call.line}, edited {number}\n"
    return {"path": path, "edits": [{"oldText": f"old {call.line}\n", "newText": new}]}


async def make(calls: list[Call], folder: Path) -> None:
    queue = ChangeQueue()
    contexts = [ToolContext(str(folder), str(number), lambda _: None, {}) for number in range(len(calls))]

    async def run(number: int) -> None:
        call = calls[number]
        files = SlowFiles(call)
        tool: Tool = WriteTool(queue, files) if call.line is None else EditTool(queue, files)
        with trio.move_on_after(float("inf") if call.cancelled_at_s is None else call.cancelled_at_s):
            try:
                await tool.execute(validate_arguments(tool, arguments(number, call, folder)), contexts[number])
            except ToolError:
                assert call.is_broken or call.line is not None

    async with trio.open_nursery() as nursery:
        for number in range(len(calls)):
            nursery.start_soon(run, number)


delays_s = st.sampled_from([0.0, 0.0, 1.0, 2.5, 7.0])
calls_made = st.lists(
    st.builds(
        Call,
        file=st.sampled_from(["a", "a", "b"]),
        name=st.sampled_from(NAMES),
        line=st.none() | st.integers(0, LINES - 1),
        delays_s=st.tuples(delays_s, delays_s, delays_s),
        is_broken=st.sampled_from([False, False, False, True]),
        cancelled_at_s=st.none() | st.none() | delays_s,
    ),
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(calls_made)
def test_no_change_is_lost_and_none_is_made_twice(calls: list[Call]) -> None:
    with tempfile.TemporaryDirectory() as temp:
        folder = Path(temp)
        for file in ("a", "b"):
            (folder / file).write_text(OLD)
            (folder / f"link-{file}").symlink_to(file)
        (folder / "inside").symlink_to(".")
        trio.run(make, calls, folder, clock=trio.testing.MockClock(autojump_threshold=0))
        found = {file: (folder / file).read_text() for file in ("a", "b")}

    for file, content in found.items():
        # A call that was cancelled has happened or not.
        possible = {OLD}
        for number, call in enumerate(calls):
            if call.file == file:
                made = {after(each, number, call) for each in possible}
                possible = made if call.cancelled_at_s is None else made | possible
        assert content in possible


async def test_files_that_differ_are_changed_side_by_side(tmp_path: Path) -> None:
    is_held = {name: trio.Event() for name in ("a", "b")}

    class Meeting(LocalWrite):
        """Lets a file be written once both are about to be."""

        async def write_file(self, path: str, data: bytes) -> None:
            is_held[os.path.basename(path)].set()
            for event in is_held.values():
                await event.wait()
            await super().write_file(path, data)

    tool = WriteTool(ChangeQueue(), Meeting())

    async def write(name: str) -> None:
        await tool.execute({"path": name, "content": name}, ToolContext(str(tmp_path), name, lambda _: None, {}))

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, "a")
            nursery.start_soon(write, "b")

    assert ["a", "b"] == [(tmp_path / name).read_text() for name in ("a", "b")]
