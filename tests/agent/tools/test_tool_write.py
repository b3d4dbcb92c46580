"""The write tool."""

import os
from pathlib import Path

import pytest
import trio
import trio.testing

from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult
from pinnace_agent.tools.change_queue import ChangeQueue
from pinnace_agent.tools.validation import validate_arguments
from pinnace_agent.tools.write import WriteTool


async def write(
    folder: Path, path: str, content: str, *, tool: WriteTool | None = None, context: ToolContext | None = None
) -> ToolResult:
    tool = tool or WriteTool()
    context = context or ToolContext(str(folder), "c1", lambda _: None, {})
    return await tool.execute(validate_arguments(tool, {"path": path, "content": content}), context)


async def test_a_file_is_made_with_the_folders_above_it(tmp_path: Path) -> None:
    result = await write(tmp_path, "a/b/c.txt", "line1\nline2\n")

    assert result == ToolResult([{"type": "text", "text": "Successfully wrote to a/b/c.txt"}], {"created": True})
    assert (tmp_path / "a/b/c.txt").read_bytes() == b"line1\nline2\n"


@pytest.mark.parametrize("there", ["file", "link", "link to nothing"])
async def test_a_result_says_that_something_was_there(there: str, tmp_path: Path) -> None:
    """R-TOL-09."""
    (tmp_path / "real").touch()
    if there == "file":
        (tmp_path / "f").touch()
    else:
        (tmp_path / "f").symlink_to("real" if there == "link" else "nowhere")

    assert {"created": False} == (await write(tmp_path, "f", "x")).details


@pytest.mark.parametrize("content", ["", "\ufeffx\r\ny\r", "é\0", "no end"])
async def test_the_content_is_written_as_it_is(content: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("something longer that was there")
    await write(tmp_path, "f", content)

    assert (tmp_path / "f").read_bytes() == content.encode()


async def test_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^EISDIR: illegal operation on a directory, open '"):
        await write(tmp_path, ".", "x")


async def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "f").touch()

    with pytest.raises(ToolError, match=r"^(ENOTDIR|EEXIST): "):
        await write(tmp_path, "f/x", "x")


async def test_two_writes_of_one_turn_leave_the_second(tmp_path: Path) -> None:
    for _ in range(10):
        contexts = [ToolContext(str(tmp_path), str(index), lambda _: None, {}) for index in range(2)]

        async def step(context: ToolContext) -> None:
            await write(tmp_path, "f", context.call_id, context=context)

        async with trio.open_nursery() as nursery:
            for context in contexts:
                nursery.start_soon(step, context)

        assert (tmp_path / "f").read_text() == "1"


async def test_a_write_that_waits_can_be_cancelled(tmp_path: Path) -> None:
    queue = ChangeQueue()
    scope = trio.CancelScope()

    async def waiting() -> None:
        with scope:
            await write(tmp_path, "f", "x", tool=WriteTool(queue))

    async with trio.open_nursery() as nursery, queue.hold(str(tmp_path / "f"), 0):
        nursery.start_soon(waiting)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()

    assert scope.cancelled_caught
    assert os.listdir(tmp_path) == []
