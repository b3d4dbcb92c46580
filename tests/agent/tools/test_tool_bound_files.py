"""Calls that were approved for one file: that file is changed, or none, and then the call is asked about again."""

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from pinnace_agent.files.atomic_file import overwrite_file
from pinnace_agent.files.opener import place_of
from pinnace_agent.tools.base import ApprovalOutdated, Tool, ToolContext, ToolError
from pinnace_agent.tools.bash import BashTool
from pinnace_agent.tools.change_queue import real_path
from pinnace_agent.tools.edit import EditTool
from pinnace_agent.tools.local.files import LocalEdit, LocalWrite
from pinnace_agent.tools.operations import EditOperations, WriteOperations
from pinnace_agent.tools.paths import resolve_path
from pinnace_agent.tools.write import WriteTool

OLD, NEW = "old", "new"


class Step:
    """Puts a link in the place of a folder, once."""

    def __init__(self, folder: Path, target: Path) -> None:
        self.folder = folder
        self.target = target

    def take(self) -> None:
        self.folder.rename(self.folder.with_name("moved"))
        self.folder.symlink_to(self.target)


class LateWrite(LocalWrite):
    """Writes after a step of another process."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step

    async def write_file(self, path: str, data: bytes) -> None:
        self.step.take()
        await super().write_file(path, data)


class LateEdit(LocalEdit):
    """Likewise."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step

    async def write_file(self, path: str, data: bytes) -> None:
        self.step.take()
        await super().write_file(path, data)


async def run(
    name: str,
    folder: Path,
    path: str,
    bound_path: Path,
    operations: tuple[WriteOperations, EditOperations] | None = None,
) -> str:
    tool: Tool
    write, edit = operations or (LocalWrite(), LocalEdit())
    arguments: dict[str, object] = {"path": path}
    if name == "write":
        tool, arguments["content"] = WriteTool(operations=write), NEW
    else:
        tool, arguments["edits"] = EditTool(operations=edit), [{"oldText": OLD, "newText": NEW}]
    context = ToolContext(str(folder), "1", lambda _: None, {}, bound_path=str(bound_path))
    return str((await tool.execute(arguments, context)).content)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project/docs").mkdir(parents=True)
    (tmp_path / "project/docs/a.md").write_text(OLD)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/a.md").write_text(OLD)
    return tmp_path / "project"


both = pytest.mark.parametrize("name", ["write", "edit"])


@both
async def test_the_approved_file_is_changed(name: str, project: Path) -> None:
    await run(name, project, "docs/a.md", project / "docs/a.md")

    assert (project / "docs/a.md").read_text() == NEW


@both
async def test_the_approved_file_behind_a_link_is_changed_and_the_link_stays(name: str, project: Path) -> None:
    (project / "link.md").symlink_to("docs/a.md")
    await run(name, project, "link.md", project / "docs/a.md")

    assert (project / "link.md").is_symlink()
    assert (project / "docs/a.md").read_text() == NEW


async def test_folders_that_are_missing_are_made_below_the_approved_one(project: Path) -> None:
    await run("write", project, "x/y/z", project / "x/y/z")

    assert (project / "x/y/z").read_text() == NEW


@both
@pytest.mark.parametrize("what", ["file", "folder"])
async def test_a_link_put_there_after_the_approval_is_asked_about_again(name: str, what: str, project: Path) -> None:
    place = project / ("docs/a.md" if what == "file" else "docs")
    place.rename(project / "before")
    place.symlink_to(project.parent / ("home/a.md" if what == "file" else "home"))

    with pytest.raises(ApprovalOutdated):
        await run(name, project, "docs/a.md", project / "docs/a.md")
    assert (project.parent / "home/a.md").read_text() == OLD


@both
async def test_a_link_put_there_at_the_last_moment_is_not_followed(name: str, project: Path) -> None:
    step = Step(project / "docs", project.parent / "home")

    with pytest.raises(ApprovalOutdated):
        await run(name, project, "docs/a.md", project / "docs/a.md", (LateWrite(step), LateEdit(step)))
    assert [OLD, OLD] == [path.read_text() for path in (project.parent / "home/a.md", project / "moved/a.md")]
    assert ["a.md"] == os.listdir(project.parent / "home")


async def test_a_missing_folder_that_is_a_link_by_then_is_asked_about_again(project: Path) -> None:
    (project / "new").symlink_to(project.parent / "home")

    with pytest.raises(ApprovalOutdated):
        await run("write", project, "new/b.md", project / "new/b.md")
    assert ["a.md"] == os.listdir(project.parent / "home")


@both
async def test_a_failure_of_the_approved_file_is_the_systems(name: str, project: Path) -> None:
    """It is asked about again only where that could change something."""
    with pytest.raises(ToolError, match=r"ENOTDIR|EEXIST"):
        await run(name, project, "docs/a.md/x", project / "docs/a.md/x")


@pytest.mark.parametrize("link", ["docs/link.md", "to-docs/a.md"])
def test_without_links_no_link_in_a_path_is_followed(link: str, project: Path) -> None:
    (project / "docs/link.md").symlink_to("a.md")
    (project / "to-docs").symlink_to("docs")

    with pytest.raises(OSError) as caught:
        overwrite_file(str(project / link), b"new", follows_links=False)
    assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)
    assert (project / "docs/a.md").read_text() == OLD
    assert (project / "docs/link.md").is_symlink()


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT])
def test_a_link_put_there_between_looking_and_opening_is_not_opened(flags: int, project: Path) -> None:
    with place_of(str(project / "docs/a.md")) as place:
        place.status()
        (project / "docs/a.md").unlink()
        (project / "docs/a.md").symlink_to(project.parent / "home/a.md")
        with pytest.raises(OSError, match="symbolic links"):
            os.close(place.open(flags))


async def test_a_command_runs_in_the_approved_folder_or_not_at_all(project: Path) -> None:
    (project.parent / "link").symlink_to("project")
    context = ToolContext(str(project.parent / "link"), "1", lambda _: None, {}, bound_path=str(project))
    await BashTool().execute({"command": "echo x > made"}, context)
    (project / "made").unlink()
    (project.parent / "link").unlink()
    (project.parent / "link").symlink_to("home")

    with pytest.raises(ApprovalOutdated):
        await BashTool().execute({"command": "echo x > made"}, context)
    assert (["a.md"], ["docs"]) == (os.listdir(project.parent / "home"), os.listdir(project))


@settings(max_examples=20)
@given(st.data())
def test_the_approved_file_is_the_only_one_that_changes_whatever_links_there_are(data: st.DataObject) -> None:
    """Any tree of links: what the gate has seen as the real path is what is written, before and after links change."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(os.path.realpath(name))
        (root / "a/b").mkdir(parents=True)
        (root / "c").mkdir()
        places = ["a", "a/b", "c", "a/1", "a/b/2", "c/3", "4", "missing", ".."]
        for link in data.draw(st.lists(st.sampled_from(["a/1", "a/b/2", "c/3", "4"]), unique=True)):
            (root / link).symlink_to(root / data.draw(st.sampled_from(places)))
        path = "/".join(data.draw(st.lists(st.sampled_from(["a", "b", "c", "1", "2", "3", "4", "f"]), min_size=1)))
        changed = data.draw(st.sampled_from([None, "a/1", "a/b/2", "c/3", "4"]))

        async def play() -> None:
            target = resolve_path(path, str(root))
            try:
                shown = await real_path(target)
            except OSError:
                return
            if changed is not None:
                (root / changed).unlink(missing_ok=True)
                (root / changed).symlink_to(root / data.draw(st.sampled_from(places)))
            before = files(root)
            context = ToolContext(str(root), "1", lambda _: None, {}, bound_path=shown)
            with suppress(ToolError, ApprovalOutdated):
                await WriteTool().execute({"path": path, "content": NEW}, context)
            assert files(root) - before <= {shown}

        trio.run(play)


def files(root: Path) -> set[str]:
    """Return the real path of every file below a folder."""
    return {os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names}


class Elsewhere:
    """Operations on another machine, which know of no links here."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def make_folder(self, path: str) -> None:
        self.paths.append(path)

    async def access(self, path: str) -> None:
        self.paths.append(path)

    async def read_file(self, path: str) -> bytes:
        self.paths.append(path)
        return b""

    async def write_file(self, path: str, data: bytes) -> None:
        self.paths.append(path)


@both
async def test_a_tool_that_can_not_be_held_to_a_file_refuses(name: str, project: Path) -> None:
    far = Elsewhere()

    with pytest.raises(ToolError, match="the tool's files are elsewhere"):
        await run(name, project, "docs/a.md", project / "docs/a.md", (far, far))
    assert far.paths == []
