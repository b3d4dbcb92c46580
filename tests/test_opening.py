"""Files that a repository, a session or a model can name are opened by the opener alone.

Every other place of the program that opens a file by a name is listed here, with the reason why that is right: who
named the file, or what was made sure of it before. A place that is not listed is a way around the opener; one that is
listed and gone is removed from the list.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = [ROOT / "agent" / "pinnace_agent", ROOT / "rpc" / "pinnace_rpc", ROOT / "rpc" / "pinnace"]
OPENER = ["agent/pinnace_agent/files/opener.py", "agent/pinnace_agent/files/regular_file.py"]
WHOLE_FILE = frozenset({"read_bytes", "read_text", "write_bytes", "write_text"})
# What has a method `open` and is no file: nurseries, and objects of ours.
NO_FILES = frozenset({"trio", "self._guard", "self._portal", "self.library", "PIL.Image"})

EXCEPTIONS = {
    "agent/pinnace_agent/session/": "Sessions, and the files beside them: named by the client, or found in the folder "
    "of sessions. Regular files alone are read (`library`, `listing`); what is written is never a link.",
    "agent/pinnace_agent/files/atomic_file.py": "Through the folder of the file, which is open (`FilePlace`), or a "
    "file that is new; what shows a process is refused before.",
    "agent/pinnace_agent/files/folders.py": "Folders, to flush them.",
    "agent/pinnace_agent/files/tool_calls.py": "Through the folder that the opener has opened (`FilePlace`).",
    "agent/pinnace_agent/sandbox/landlock_program.py": "Paths of rules, of which nothing is read; orders, by their "
    "descriptors; of /proc, about processes that this one has started.",
    "agent/pinnace_agent/sandbox/landlock_supervisor.py": "The folder to run in, of which nothing is read; the null "
    "device.",
    "agent/pinnace_agent/search/program.py": "A program of its own, which can be killed: what a walk finds without "
    "following links, or the one file that the tool has checked.",
    "agent/pinnace_agent/search/ignore_files.py": "In that program: regular files, whose patterns are shown nowhere.",
    "agent/pinnace_agent/extensions/loading/source_files.py": "Of extensions that may run, which are checked before.",
    "agent/pinnace_agent/extensions/loading/dependencies.py": "Of extensions that may run, which are checked before.",
    "agent/pinnace_agent/extensions/loading/manifests.py": "Of extensions that may run, as above.",
    "agent/pinnace_agent/packages/stores.py": "New files in a copy of a folder that this process has just made.",
    "agent/pinnace_agent/llm/offline/script.py": "A script that the user names, a regular file of a bounded size.",
    "agent/pinnace_agent/config/models/builtin.py": "Data of the package.",
    "agent/pinnace_agent/export/page.py": "Data of the package.",
    "agent/pinnace_agent/files/file_lock.py": "Folders that are locks.",
    "agent/pinnace_agent/mcp/extension.py": "The log of servers, in the agent folder.",
    "agent/pinnace_agent/shell/output.py": "A file that is new, in a folder that is the user's alone.",
    "agent/pinnace_agent/shell/descendants.py": "Of /proc, about processes that this one has started.",
    "agent/pinnace_agent/shell/process_table.py": "Of /proc, about processes that this one has started.",
    "agent/pinnace_agent/sandbox/layout.py": "Of /proc, and the beginnings of git's own files, shown nowhere.",
    "agent/pinnace_agent/sandbox/opened.py": "For the identity of what is there alone, without links; nothing is read.",
    "agent/pinnace_agent/sandbox/verification.py": "The root of a process, for the same.",
    "agent/pinnace_agent/sandbox/gate.py": "Two pipes in a folder that no command sees, made just before.",
    "agent/pinnace_agent/sandbox/witness.py": "Protected regular files, never a link, for digests, shown nowhere.",
    "agent/pinnace_agent/sandbox/private_folder.py": "Folders that are the user's alone; never a link.",
    "rpc/pinnace_rpc/cli/main.py": "The null device.",
    "rpc/pinnace_rpc/server/stdio.py": "The streams of this process, and the null device.",
    "rpc/pinnace_rpc/server/log_file.py": "The log file, which the user names.",
    "rpc/pinnace_rpc/cli/key_input.py": "The file of a key, which the user names on the command line.",
    "rpc/pinnace_rpc/print_mode/prompt_input.py": "Files that the user names, a pipe from a shell among them.",
    "rpc/pinnace_rpc/print_mode/mode.py": "The session that is open.",
    "rpc/pinnace_rpc/options/shown/man.py": "The page of the manual in the repository, for its developers.",
    "rpc/pinnace_rpc/options/shown/version.py": "Regular files of the git folder of this program's own checkout.",
    "rpc/pinnace_rpc/cli/commands/shim.py": "The file that the user wants made.",
    "rpc/pinnace_rpc/attach/finding.py": "The log of a host, in a folder that is the user's alone; never a link.",
    "rpc/pinnace_rpc/attach/pump.py": "The streams of this process.",
    "rpc/pinnace_rpc/host/table.py": "In the agent's own folder, which is the user's alone; never a link.",
    "rpc/pinnace_rpc/host/locations.py": "The host's lock, in a folder that is the user's alone; never a link.",
    "rpc/pinnace_rpc/host/agents/zygote_program.py": "Of /proc, about this process.",
    "rpc/pinnace_rpc/host/surroundings.py": "Of /proc, about the machine.",
    "rpc/pinnace_rpc/host/summary.py": "Of /proc, about processes of agents.",
    "rpc/pinnace_rpc/host/details.py": "In the agent's own folder, which is the user's alone; never a link.",
    "rpc/pinnace_rpc/host/journal.py": "In the agent's own folder, which is the user's alone; never a link.",
    "rpc/pinnace_rpc/batch/": "Files that the user names on the command line, and those of the folder of results.",
}
"""By file, or by folder (with a slash at its end)."""


def openings(source: str) -> Iterator[str]:
    """Return the calls that open a file by its name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and opens(node):
            yield ast.unparse(node.func)


def opens(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name):
        # With `closefd` it is a descriptor that is open already.
        return call.func.id == "open" and all(each.arg != "closefd" for each in call.keywords)
    if not isinstance(call.func, ast.Attribute):
        return False
    owner = ast.unparse(call.func.value)
    return call.func.attr in WHOLE_FILE or (call.func.attr == "open" and owner not in NO_FILES)


def exception_for(module: str) -> str | None:
    return next((each for each in EXCEPTIONS if module == each or (each[-1] == "/" and module.startswith(each))), None)


@cache
def opening_modules() -> dict[str, list[str]]:
    modules = {str(module.relative_to(ROOT)): module for package in PACKAGES for module in package.rglob("*.py")}
    found = {name: list(openings(module.read_text())) for name, module in modules.items() if name not in OPENER}
    return {name: calls for name, calls in found.items() if calls}


def test_files_are_opened_by_name_only_by_the_opener_and_where_a_reason_is_listed() -> None:
    assert {} == {name: calls for name, calls in opening_modules().items() if exception_for(name) is None}


def test_the_list_of_exceptions_has_none_that_is_gone() -> None:
    used = {exception_for(name) for name in opening_modules()}
    assert [] == sorted(each for each in EXCEPTIONS if each not in used)


@pytest.mark.parametrize(
    "call", ["open(a)", "os.open(a, 0)", "Path(a).read_text()", "a.open('rb')", "io.open(a)", "a.b.write_bytes(c)"]
)
def test_a_call_that_opens_by_name_is_recognised(call: str) -> None:
    assert 1 == len(list(openings(f"class C:\n    async def f(self):\n        with {call}: ...")))


@pytest.mark.parametrize(
    "call", ["trio.open_nursery()", "os.fdopen(a)", "open(a, closefd=False)", "trio.open()", "a()()"]
)
def test_what_opens_no_file_by_name_is_not_taken_for_it(call: str) -> None:
    assert [] == list(openings(call))
