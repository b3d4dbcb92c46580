"""The file tools in a helper inside a sandbox: same results, the kernel's decision, abort, crash and races."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from pinnace_agent.files.tool_calls import CallRefused, FileCall
from pinnace_agent.sandbox.file_helper import FileHelpers
from pinnace_agent.shell.child_processes import CHILDREN, Child
from pinnace_agent.tools import builtin_tools
from pinnace_agent.tools.base import ToolContext, ToolError
from pinnace_agent.tools.local.file_calls import FILE_CALLS

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap (bwrap)")


class Starter:
    """Starts helpers behind a command, and keeps them."""

    def __init__(self, *prefix: str) -> None:
        self.prefix = prefix
        self.started: list[Child] = []
        self._calls: list[int] = []

    async def __call__(self, arguments: list[str], *, stdin: int, stdout: int, stderr: int) -> Child:
        child = await CHILDREN.start([*self.prefix, *arguments], stdin=stdin, stdout=stdout, stderr=stderr)
        self.started.append(child)
        self._calls.append(os.dup(stdin))
        return child

    async def has_call(self) -> None:
        """Wait until the first helper, which is stopped, has been sent a call."""
        await trio.lowlevel.wait_readable(self._calls[0])

    def close(self) -> None:
        """Forget the calls."""
        for each in self._calls:
            os.close(each)


def mounts(project: Path) -> Starter:
    """Return a sandbox in which everything but a project is read-only."""
    folder = str(project)
    return Starter(
        "bwrap", "--die-with-parent", "--ro-bind", "/", "/", "--bind", folder, folder, "--proc", "/proc", "--"
    )


@asynccontextmanager
async def used(starter: Starter) -> AsyncGenerator[FileHelpers, None]:
    """Have the tools of this process work in a sandbox."""
    helpers = FileHelpers(starter, "workspace-write")
    FILE_CALLS.use(helpers)
    try:
        yield helpers
    finally:
        FILE_CALLS.use(None)
        await helpers.aclose()
        starter.close()


def stop(child: Child) -> None:
    """Stop a process, and wait until it has stopped: until then its read may still take what is written."""
    os.kill(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)


async def outcome(tool: str, cwd: Path, **arguments: object) -> str:
    """Return the text of a call's result."""
    context = ToolContext(str(cwd), "c1", lambda _: None, {})
    try:
        result = await builtin_tools()[tool].execute(arguments, context)
    except ToolError as error:
        return f"failed: {error}"
    return "".join(str(block.get("text")) for block in result.content)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project/folder").mkdir(parents=True)
    (tmp_path / "project/file").write_text("old\n")
    (tmp_path / "outside").mkdir()
    return tmp_path / "project"


async def test_tools_give_the_same_results_in_a_helper(project: Path) -> None:
    """Each kind of call, and each kind of failure."""

    async def results() -> list[str]:
        (project / "file").write_text("old\n")
        shutil.rmtree(project / "new", ignore_errors=True)
        (project / "pipe").unlink(missing_ok=True)
        os.mkfifo(project / "pipe")
        (project / os.fsdecode(b"odd\xff")).write_text("odd")
        edits = [{"oldText": "old", "newText": "new"}]
        texts = [
            await outcome("read", project, path="file"),
            await outcome("read", project, path="missing"),
            await outcome("read", project, path="folder"),
            await outcome("read", project, path="pipe"),
            await outcome("read", project, path="/proc/self/environ"),
            await outcome("edit", project, path="file", edits=edits),
            await outcome("edit", project, path="file", edits=edits),
            await outcome("edit", project, path="pipe", edits=edits),
            await outcome("write", project, path="new/folder/file", content="new"),
            await outcome("write", project, path="folder", content="new"),
            await outcome("write", project, path="file/below", content="new"),
            await outcome("ls", project),
            await outcome("ls", project, path="missing"),
        ]
        return [re.sub("/proc/[0-9]+/", "/proc/N/", text) for text in texts]

    expected = await results()
    async with used(Starter()):
        assert expected == await results()


async def test_large_files_pass_whole(project: Path) -> None:
    data = os.urandom(3_000_000)
    async with used(Starter()) as helpers:
        path = str(project / "large")
        await helpers.perform(FileCall("replace", path, data=data), lambda _: None)
        pieces: list[bytes] = []
        await helpers.perform(FileCall("stream", path), pieces.append)

        assert data == b"".join(pieces) == (project / "large").read_bytes()
        assert data == await helpers.perform(FileCall("content", path), pieces.append)


@needs_bubblewrap
async def test_the_kernel_decides_where_files_are_written(project: Path) -> None:
    outside = project.parent / "outside"
    (outside / "kept").write_text("old")
    (project / "link").symlink_to(outside)
    note = "The sandbox (workspace-write) does not allow writing here"
    async with used(mounts(project)):
        for path in (
            str(outside / "new"),
            "link/new",
            "../outside/new",
            str(outside / "kept"),
            "link/kept",
            "../x/new",
        ):
            text = await outcome("write", project, path=path, content="new")
            assert "EROFS: read-only file system" in text, text
            assert text.endswith(note), text
        edits = [{"oldText": "old", "newText": "new"}]
        text = await outcome("edit", project, path="link/kept", edits=edits)
        assert f"failed: Could not edit file: link/kept. Error code: EROFS. {note}." == text
        assert "Successfully wrote" in await outcome("write", project, path="new", content="new")

    assert ["kept"] == os.listdir(outside)
    assert "old" == (outside / "kept").read_text()


@needs_bubblewrap
async def test_nothing_is_written_outside_while_a_link_is_swapped(project: Path) -> None:
    """Another process makes a folder of the project a link to one outside and back, as fast as it can."""
    outside = project.parent / "outside"
    (outside / "f").write_text("kept")
    (project / "inside").mkdir()
    swap = (
        "import os, sys, time; os.chdir(sys.argv[1]); print(flush=True)\n"
        "while True:\n"  # a pause, or the folder is never free for the other side
        "    for target in ('inside', sys.argv[2]):\n"
        "        os.symlink(target, 'next'); os.rename('next', 'way'); time.sleep(0.0001)"
    )
    with running([sys.executable, "-I", "-S", "-c", swap, str(project), str(outside)]):
        written = refused = 0
        async with used(mounts(project)) as helpers:
            while written < 10 or refused < 10:
                try:
                    await helpers.perform(FileCall("replace", str(project / "way/f"), data=b"new"), lambda _: None)
                    written += 1
                except OSError:
                    refused += 1

    assert "kept" == (outside / "f").read_text()
    assert ["f"] == os.listdir(outside)


async def test_a_cancelled_read_leaves_a_hanging_helper_behind(project: Path) -> None:
    starter = Starter()
    async with used(starter) as helpers:
        assert await outcome("read", project, path="file") == "old\n"
        stop(starter.started[0])
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(outcome_of, nursery, project)
                await starter.has_call()
                scope.cancel()

        assert scope.cancelled_caught
        assert await outcome("read", project, path="file") == "old\n"
        assert len(starter.started) == 2
        del helpers


async def outcome_of(_: trio.Nursery, project: Path) -> None:
    await outcome("read", project, path="file")


async def test_a_cancelled_write_is_awaited(project: Path) -> None:
    """The lock of the file is held until it is known that nothing is written any more."""
    starter = Starter()
    async with used(starter) as helpers:
        await outcome("read", project, path="file")
        stop(starter.started[0])
        ended = trio.Event()

        async def write() -> None:
            with trio.CancelScope() as scope:
                nursery.start_soon(cancel_and_resume, starter, scope, ended)
                await helpers.perform(FileCall("replace", str(project / "file"), data=b"new"), lambda _: None)
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)

    assert "new" == (project / "file").read_text()


async def cancel_and_resume(starter: Starter, scope: trio.CancelScope, ended: trio.Event) -> None:
    await starter.has_call()
    scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    assert not ended.is_set()
    os.kill(starter.started[0].pid, signal.SIGCONT)


async def test_a_helper_that_was_killed_is_replaced(project: Path) -> None:
    starter = Starter()
    async with used(starter):
        await outcome("read", project, path="file")
        os.kill(starter.started[0].pid, signal.SIGKILL)
        await starter.started[0].exited()

        assert await outcome("read", project, path="file") == "old\n"


async def test_a_write_whose_helper_ends_says_that_the_file_may_have_changed(project: Path) -> None:
    starter = Starter()
    async with used(starter) as helpers:
        await outcome("read", project, path="file")
        helper = starter.started[0].pid
        stop(starter.started[0])

        async def write() -> None:
            with pytest.raises(CallRefused, match=r"has ended during the call: .*/file may have been changed"):
                await helpers.perform(FileCall("replace", str(project / "file"), data=b"new"), lambda _: None)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await starter.has_call()
            os.kill(helper, signal.SIGKILL)

        assert "Successfully wrote" in await outcome("write", project, path="file", content="new")


@pytest.mark.parametrize("prefix", [["missing-program"], ["/bin/sh", "-c", "echo no namespaces >&2; exit 1"]])
async def test_nothing_is_opened_where_the_sandbox_cannot_be_set_up(prefix: list[str], project: Path) -> None:
    async with used(Starter(*prefix)) as helpers:
        text = await outcome("write", project, path="file", content="new")
        assert text.startswith("failed: The file was not opened: the sandbox could not be set up ("), text
        with pytest.raises(CallRefused, match=r"no namespaces|No such file"):
            await helpers.perform(FileCall("exists", "/"), lambda _: None)

    assert "old\n" == (project / "file").read_text()


async def test_concurrent_calls_do_not_wait_for_one_that_hangs(project: Path) -> None:
    starter = Starter()
    async with used(starter):
        await outcome("read", project, path="file")
        stop(starter.started[0])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outcome_of, nursery, project)
            await starter.has_call()
            assert await outcome("read", project, path="file") == "old\n"
            nursery.cancel_scope.cancel()


class Client:
    """A client that has every file open in an editor."""

    def __init__(self) -> None:
        self.written: list[str] = []

    async def read(self, path: str) -> bytes | None:
        return b"old\n"

    async def begin_edit(self, path: str) -> bytes | None:
        return b"old\n"

    async def write(self, path: str, data: bytes, *, is_bound: bool) -> bool:
        self.written.append(os.path.basename(path))
        return True


@needs_bubblewrap
async def test_a_client_is_not_asked_for_what_the_sandbox_refuses(project: Path) -> None:
    (project.parent / "outside/hidden").write_text("secret")
    client = Client()
    folder = str(project.parent / "outside")
    starter = mounts(project)
    starter.prefix = (*starter.prefix[:-1], "--tmpfs", folder, "--remount-ro", folder, "--")

    async def text(tool: str, path: str, **more: object) -> str:
        context = ToolContext(str(project), "c1", lambda _: None, {}, client_files=client)
        try:
            return str((await builtin_tools()[tool].execute({"path": path, **more}, context)).content)
        except ToolError as error:
            return f"failed: {error}"

    edits = [{"oldText": "old", "newText": "new"}]
    async with used(starter):
        assert "ENOENT" in await text("read", "../outside/hidden")
        assert "EROFS" in await text("write", "../outside/new", content="new")
        assert "EROFS" in await text("edit", "../outside/new", edits=edits)
        # Neither may its content be guessed.
        assert "EROFS" in await text("edit", "../outside/hidden", edits=[{"oldText": "guess", "newText": "new"}])
        assert [] == client.written
        assert "Successfully" in await text("write", "file", content="new")
        assert "Successfully" in await text("edit", "file", edits=edits)
        assert ["file", "file"] == client.written


@contextmanager
def running(command: list[str]) -> Generator[None, None, None]:
    """Run a program that prints a line when it has begun."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()
