"""No tool that works with files opens what shows a process: the agent's keys are in its environment and memory."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pinnace_agent.tools import builtin_tools
from pinnace_agent.tools.base import ToolContext, ToolError
from pinnace_agent.tools.grep import GrepTool
from pinnace_agent.tools.local.process_files import unsearched_globs
from pinnace_agent.tools.local.programs import LocalGrep

ARGUMENTS: dict[str, dict[str, object]] = {
    "read": {},
    "write": {"content": "new"},
    "edit": {"edits": [{"oldText": "old", "newText": "new"}]},
    "grep": {"pattern": "."},
    "find": {"pattern": "*"},
    "ls": {},
}
FILES = ["environ", "cmdline", "mem", "maps", "auxv", "task/{thread}/environ"]
FOLDERS = ["fd", "task/{thread}", "."]


async def outcome(tool: str, path: str, cwd: Path, **more: object) -> str:
    context = ToolContext(str(cwd), "c1", lambda _: None, {"PATH": os.environ["PATH"], "HOME": str(cwd)})
    try:
        result = await builtin_tools()[tool].execute({**ARGUMENTS[tool], "path": path, **more}, context)
    except ToolError as error:
        return f"failed: {error}"
    return "".join(str(block.get("text")) for block in result.content)


def named(name: str) -> list[str]:
    """Return what leads to a file of this process."""
    thread = os.listdir("/proc/self/task")[0]
    name = name.format(thread=thread)
    return [f"/proc/self/{name}", f"/proc/{os.getpid()}/{name}", f"/proc/thread-self/{name}".replace("task/", "../")]


@pytest.mark.parametrize("tool", ["read", "write", "edit", "grep"])
@pytest.mark.parametrize("name", FILES)
async def test_a_file_that_shows_the_agent_is_not_opened(name: str, tool: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(named(name)[0])
    for path in (*named(name), "link", f"file://{named(name)[0]}", f"/proc/self/root{named(name)[1]}"):
        text = await outcome(tool, path, tmp_path)
        assert "shows the environment, memory or open files of a process" in text, (path, text)


@pytest.mark.parametrize("tool", ["grep", "find", "ls"])
@pytest.mark.parametrize("name", FOLDERS)
async def test_a_folder_that_shows_the_agent_is_not_looked_into(name: str, tool: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(named(name)[0])
    for path in (*named(name)[:2], "link"):
        text = await outcome(tool, path, tmp_path)
        assert "shows the environment, memory or open files of a process" in text, (path, text)


async def test_a_new_file_there_is_not_made(tmp_path: Path) -> None:
    assert "shows the environment" in await outcome("write", "/proc/self/fd/999999", tmp_path)
    assert "shows the environment" in await outcome("write", f"/proc/{os.getpid()}/clear_refs", tmp_path)


@pytest.mark.parametrize("path", ["/proc/cpuinfo", "/proc/self/status", "/proc/mounts"])
async def test_what_the_kernel_says_of_the_system_is_read(path: str, tmp_path: Path) -> None:
    assert not (await outcome("read", path, tmp_path)).startswith("failed")


async def test_what_leads_out_of_proc_again_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("words")
    assert "words" == await outcome("read", f"/proc/self/root{tmp_path}/a", tmp_path)


def environ_of(found: str) -> list[str]:
    return [line for line in found.split("\n") if "environ" in line]


@pytest.mark.parametrize("finds_rg", [True, False])
@pytest.mark.parametrize("more", [{"glob": "environ"}, {"glob": "**/environ"}, {"glob": f"{os.getpid()}/environ"}])
async def test_a_search_of_all_of_proc_leaves_processes_out(
    more: Mapping[str, object], finds_rg: bool, tmp_path: Path
) -> None:
    context = ToolContext(str(tmp_path), "c1", lambda _: None, {"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    tool = GrepTool() if finds_rg else GrepTool(LocalGrep(lambda _env: None))
    result = await tool.execute({"pattern": "PATH", "path": "/proc", **more}, context)
    assert [] == environ_of(str(result.content))


@pytest.mark.parametrize("finds_rg", [True, False])
async def test_the_globs_of_a_search_of_everything_leave_processes_out(finds_rg: bool, tmp_path: Path) -> None:
    for name in ("proc/1/environ", "proc/1/task/2/environ", "proc/cpuinfo", "home/proc/1/notes"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mark")
    text = bytearray()
    grep = LocalGrep() if finds_rg else LocalGrep(lambda _env: None)
    globs = [f"--glob={glob}" for glob in unsearched_globs("/")]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    def take(chunk: bytes) -> bool:
        text.extend(chunk)
        return False

    await grep.search(
        ["--no-config", "--json", "--hidden", "--glob=**/environ", "--glob=*", *globs, "--", "mark", "."],
        cwd=str(tmp_path),
        env=env,
        take=take,
    )
    assert (False, True, True) == (b"environ" in text, b"cpuinfo" in text, b"notes" in text)


def test_a_search_elsewhere_has_no_further_globs(tmp_path: Path) -> None:
    assert [] == unsearched_globs(str(tmp_path))
    assert [] == unsearched_globs(os.path.dirname(sys.executable))
