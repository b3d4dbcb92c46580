"""The tools for files on another machine: all goes through the operations, nothing to the local disk.

Locally every path is a link that leads to itself, so whoever looks at one gets ELOOP. `/far` is the other machine's.
"""

import errno
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from pinnace_agent.tools.base import Tool, ToolContext, ToolError
from pinnace_agent.tools.change_queue import ChangeQueue
from pinnace_agent.tools.edit import EditTool
from pinnace_agent.tools.images.header import ImageType
from pinnace_agent.tools.ls import LsTool
from pinnace_agent.tools.read import ReadTool
from pinnace_agent.tools.validation import validate_arguments
from pinnace_agent.tools.write import WriteTool

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


def failure(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class RemoteMachine:
    """Another machine in memory: the operations of read, write, edit and ls, without the optional ones."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self.files = dict(files or {})
        self.folders = {"/"}
        self.calls: list[str] = []
        self.failures: dict[str, Exception] = {}
        """What an operation raises, by its name."""
        self.between: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
        """Awaited in each operation: the way to the machine and back."""
        for path in self.files:
            self._add_folders(os.path.dirname(path))

    async def _begin(self, name: str) -> None:
        self.calls.append(name)
        await self.between()
        if name in self.failures:
            raise self.failures[name]

    def _add_folders(self, path: str) -> None:
        while path not in self.folders:
            self.folders.add(path)
            path = os.path.dirname(path)

    def _check(self, path: str) -> None:
        if path in self.folders:
            raise failure(errno.EISDIR)
        if path not in self.files:
            raise failure(errno.ENOENT)

    async def access(self, path: str) -> None:
        await self._begin("access")
        self._check(path)

    async def read_file(self, path: str) -> bytes:
        await self._begin("read_file")
        self._check(path)
        return self.files[path]

    async def make_folder(self, path: str) -> None:
        await self._begin("make_folder")
        self._add_folders(path)

    async def write_file(self, path: str, data: bytes) -> None:
        await self._begin("write_file")
        if os.path.dirname(path) not in self.folders:
            raise failure(errno.ENOENT)
        self.files[path] = data

    async def is_folder(self, path: str) -> bool:
        await self._begin("is_folder")
        if path not in self.folders and path not in self.files:
            raise failure(errno.ENOENT)
        return path in self.folders

    async def entry_names(self, path: str) -> list[str]:
        await self._begin("entry_names")
        below = path.rstrip("/") + "/"
        names = {
            each[len(below) :].partition("/")[0] for each in [*self.files, *self.folders] if each.startswith(below)
        }
        return sorted(names - {""}, reverse=True)

    async def are_folders(self, path: str, names: Sequence[str]) -> list[bool | None]:
        await self._begin("are_folders")
        return [os.path.join(path, name) in self.folders for name in names]


def context(cwd: str = "/far") -> ToolContext:
    return ToolContext(cwd, "c1", lambda _: None, {})


async def text_of(tool: Tool, ctx: ToolContext | None = None, **arguments: object) -> str:
    result = await tool.execute(validate_arguments(tool, arguments), ctx or context())
    block = result.content[0]
    assert block["type"] == "text"
    return block["text"]


async def refusal(tool: Tool, ctx: ToolContext | None = None, **arguments: object) -> str:
    with pytest.raises(ToolError) as caught:
        await text_of(tool, ctx, **arguments)
    return str(caught.value)


class StreamingMachine(RemoteMachine):
    """One that can send a file piece by piece, and does it byte by byte."""

    async def read_stream(self, path: str, take: Callable[[bytes], None]) -> None:
        await self._begin("read_stream")
        self._check(path)
        for byte in self.files[path]:
            await trio.lowlevel.checkpoint()
            take(bytes([byte]))


class KnowingMachine(RemoteMachine):
    """One that knows what is in a file without its content."""

    async def detect_image_type(self, path: str) -> ImageType | None:
        await self._begin("detect_image_type")
        return "image/gif" if path.endswith(".gif") else None


class LinkingMachine(RemoteMachine):
    """One whose `/far/link` is `/far/f`, and that says so."""

    async def real_path(self, path: str) -> str:
        await self._begin("real_path")
        return path.replace("link", "f")

    async def access(self, path: str) -> None:
        await super().access(path.replace("link", "f"))

    async def read_file(self, path: str) -> bytes:
        return await super().read_file(path.replace("link", "f"))

    async def write_file(self, path: str, data: bytes) -> None:
        await super().write_file(path.replace("link", "f"), data)


@pytest.fixture
def loops(tmp_path: Path) -> str:
    """A folder of this machine in which `f` can't be looked at."""
    (tmp_path / "f").symlink_to("f")
    with pytest.raises(OSError, match="symbolic links"):
        os.stat(tmp_path / "f")
    return str(tmp_path)


@pytest.mark.parametrize("machine_type", [RemoteMachine, StreamingMachine])
async def test_a_text_is_read_there(machine_type: type[RemoteMachine], loops: str) -> None:
    machine = machine_type({f"{loops}/f": b"1\n2\n\xff\n"})
    read = ReadTool(machine)

    assert await text_of(read, context(loops), path="f") == "1\n2\n\ufffd\n"
    assert await text_of(read, context(loops), path="f", offset=2, limit=1) == (
        "2\n\n[2 more lines in file. Use offset=3 to continue.]"
    )
    assert await refusal(read, context(loops), path="f", offset=9) == "Offset 9 is beyond end of file (4 lines total)"


async def test_a_file_is_streamed_where_that_can_be() -> None:
    machine = StreamingMachine({"/far/f": b"text"})
    await text_of(ReadTool(machine), path="f")

    assert machine.calls == ["access", "read_stream"]


@pytest.mark.parametrize("machine_type", [RemoteMachine, StreamingMachine])
async def test_an_image_is_known_by_its_content(machine_type: type[RemoteMachine]) -> None:
    read = ReadTool(machine_type({"/far/f": PNG}))

    assert (await text_of(read, path="f")).startswith("Read image file [image/png]")


async def test_the_machine_may_say_what_is_an_image() -> None:
    read = ReadTool(KnowingMachine({"/far/x.gif": b"whatever", "/far/y.png": PNG}))

    assert (await text_of(read, path="x.gif")).startswith("Read image file [image/gif]")
    assert (await text_of(read, path="y.png")).startswith("[Binary file: PNG image, ")


async def test_a_large_file_that_comes_as_a_whole_is_shown_as_any_other() -> None:
    read = ReadTool(RemoteMachine({"/far/f": b"0123456789abcde\n" * 100_000}))

    assert await text_of(read, path="f", offset=99_999, limit=1) == (
        "0123456789abcde\n\n[2 more lines in file. Use offset=100000 to continue.]"
    )


async def test_other_spellings_are_tried_there() -> None:
    read = ReadTool(RemoteMachine({"/far/it\u2019s": b"found"}))

    assert await text_of(read, path="it's") == "found"


async def test_a_missing_remote_file_is_reported_like_a_local_one() -> None:
    machine = RemoteMachine({"/far/d/f": b""})

    expected = "ENOENT: no such file or directory, access '/far/gone'"
    assert await refusal(ReadTool(machine), path="gone") == expected
    assert await refusal(ReadTool(machine), path="d") == "EISDIR: illegal operation on a directory, read"
    text = "Could not edit file: gone. Error code: ENOENT."
    assert await refusal(EditTool(operations=machine), path="gone", edits=[{"oldText": "a", "newText": "b"}]) == text
    assert await refusal(LsTool(machine), path="gone") == "Path not found: /far/gone"
    assert await refusal(LsTool(machine), path="d/f") == "Not a directory: /far/d/f"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (failure(errno.EHOSTUNREACH), "EHOSTUNREACH: no route to host, {operation}"),
        (OSError("the line is dead"), "EIO: the line is dead, {operation}"),
        (ToolError("All expected."), "All expected."),
    ],
)
@pytest.mark.parametrize(
    ("tool", "hook", "operation"),
    [
        ("read", "access", "access '/far/f'"),
        ("read", "read_file", "read '/far/f'"),
        ("write", "make_folder", "mkdir '/far'"),
        ("write", "write_file", "open '/far/f'"),
        ("edit", "read_file", "open '/far/f'"),
        ("edit", "write_file", "open '/far/f'"),
    ],
)
async def test_a_machine_that_fails_is_reported(
    tool: str, hook: str, operation: str, error: Exception, expected: str
) -> None:
    machine = RemoteMachine({"/far/f": b"old"})
    machine.failures[hook] = error
    edits = [{"oldText": "old", "newText": "new"}]
    tools: dict[str, tuple[Tool, dict[str, Any]]] = {
        "read": (ReadTool(machine), {}),
        "write": (WriteTool(operations=machine), {"content": "new"}),
        "edit": (EditTool(operations=machine), {"edits": edits}),
    }
    used, arguments = tools[tool]

    assert await refusal(used, path="f", **arguments) == expected.format(operation=operation)
    assert machine.files == {"/far/f": b"old"}


async def test_a_note_on_a_failure_is_reported_as_well() -> None:
    machine = RemoteMachine({"/far/f": b"old"})
    error = failure(errno.EIO)
    error.add_note("Half of it may be there")
    machine.failures["write_file"] = error

    expected = "EIO: i/o error, open '/far/f'. Half of it may be there"
    assert await refusal(WriteTool(operations=machine), path="f", content="") == expected


async def test_a_file_is_written_there_with_its_folders(loops: str) -> None:
    machine = RemoteMachine()
    assert await text_of(WriteTool(operations=machine), context(loops), path="f/g/h", content="é") == (
        "Successfully wrote to f/g/h"
    )

    assert machine.files == {f"{loops}/f/g/h": "é".encode()}
    assert machine.calls == ["make_folder", "write_file"]
    assert ["f"] == os.listdir(loops)


async def test_a_file_is_edited_there(loops: str) -> None:
    machine = RemoteMachine({f"{loops}/f": b"\xef\xbb\xbfone\r\ntwo\xff\r\n"})
    edits = [{"oldText": "one\n", "newText": "ONE\nmore\n"}]
    await text_of(EditTool(operations=machine), context(loops), path="f", edits=edits)

    assert machine.files == {f"{loops}/f": b"\xef\xbb\xbfONE\r\nmore\r\ntwo\xff\r\n"}
    assert machine.calls == ["access", "read_file", "write_file"]


async def edit_all(machine: RemoteMachine, paths: list[str]) -> None:
    """Replace one line in each of these files, all at once."""
    tool = EditTool(ChangeQueue(), machine)
    contexts = [context() for _ in paths]

    async def edit(number: int) -> None:
        edits = [{"oldText": f"old {number}\n", "newText": f"new {number}\n"}]
        await text_of(tool, contexts[number], path=paths[number], edits=edits)

    async with trio.open_nursery() as nursery:
        for number in range(len(paths)):
            nursery.start_soon(edit, number)


async def test_edits_of_one_file_at_the_same_time_are_all_made() -> None:
    machine = RemoteMachine({"/far/f": b"".join(b"old %d\n" % number for number in range(5))})
    machine.between = trio.testing.wait_all_tasks_blocked  # a call that does not wait for the others is first
    await edit_all(machine, ["f", "./f", "/far/f", "../far/f", "@f"])

    assert machine.files["/far/f"] == b"".join(b"new %d\n" % number for number in range(5))


async def test_two_names_that_the_machine_knows_as_one_file_wait_for_each_other() -> None:
    machine = LinkingMachine({"/far/f": b"".join(b"old %d\n" % number for number in range(4))})
    machine.between = trio.testing.wait_all_tasks_blocked
    await edit_all(machine, ["f", "link", "f", "link"])

    assert machine.files == {"/far/f": b"".join(b"new %d\n" % number for number in range(4))}


async def test_different_files_do_not_wait_for_each_other() -> None:
    machine = RemoteMachine({"/far/a": b"old 0\n", "/far/b": b"old 1\n"})
    both = trio.Event()
    reading: set[int] = set()

    async def together() -> None:
        if machine.calls[-1] == "read_file":
            reading.add(len(reading))
            if len(reading) == 2:
                both.set()
            await both.wait()

    machine.between = together
    with trio.fail_after(30):
        await edit_all(machine, ["a", "b"])


async def test_a_cancelled_write_lets_the_next_one_go() -> None:
    machine = RemoteMachine()
    queue = ChangeQueue()
    machine.between = trio.sleep_forever
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: text_of(WriteTool(queue, machine), path="f", content="first"))
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    machine.between = trio.lowlevel.checkpoint
    with trio.fail_after(30):
        await text_of(WriteTool(queue, machine), path="f", content="second")

    assert scope.cancelled_caught
    assert machine.files == {"/far/f": b"second"}


async def test_a_folder_is_listed_there(loops: str) -> None:
    machine = RemoteMachine({f"{loops}/f/b": b"", f"{loops}/f/A/x": b"", f"{loops}/f/\udcff": b""})

    assert await text_of(LsTool(machine), context(loops), path="f") == "A/\nb\n\ufffd"
    assert machine.calls == ["is_folder", "entry_names", "are_folders"]
    assert await text_of(LsTool(machine), context(loops), path="f", limit=1) == (
        "A/\n\n[1 entries limit reached. Use limit=2 for more]"
    )


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        ("is_folder", "Path not found: /far"),
        ("entry_names", "Cannot read directory: EIO: i/o error, scandir '/far'"),
        ("are_folders", "Cannot read directory: EIO: i/o error, stat '/far'"),
    ],
)
async def test_a_folder_that_can_not_be_listed_is_reported(hook: str, expected: str) -> None:
    machine = RemoteMachine({"/far/f": b""})
    machine.failures[hook] = failure(errno.EIO)

    assert await refusal(LsTool(machine)) == expected
