"""The tests of the tools inside a real sandbox: an option of a run, by an environment variable.

    PINNACE_TEST_SANDBOX=workspace-write .venv/bin/python -m pytest tests/agent/{tools,shell,search}

Then the commands, searches and file calls of these tests, whose folders lie in the working folder of the sandbox, are
performed in it, as in an agent that was started with `--sandbox`. Without the variable nothing is different.
`EXCEPTIONS` are the tests that can't hold inside, each with the reason: they have to fail, so that the table can't grow
old, but for those that would wait for what never comes.
"""

import os
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

import pytest
import trio

from pinnace_agent.config.sandbox_settings import SandboxMode
from pinnace_agent.sandbox.file_helper import FileHelpers
from pinnace_agent.sandbox.policy import SandboxPolicy
from pinnace_agent.sandbox.sandbox import places_of, set_up
from pinnace_agent.shell.child_processes import CHILDREN, Child
from pinnace_agent.tools.local.file_calls import FILE_CALLS

VARIABLE: Final = "PINNACE_TEST_SANDBOX"

NUMBERS: Final = "processes have other numbers inside, and the test waits for those that it reads there"
ENDS: Final = "what a command leaves running ends with it, and the output says so"
SIGNALS: Final = "a signal that ends a program is the exit code 128 + n"
STARTED_INSIDE: Final = "a program is started by a shell of the sandbox, whose words are then the output"
UNSEEN: Final = "processes of the machine do not exist inside, so that there is nothing to refuse"
COVERED: Final = "what must not appear in a repository is covered, so that it is there inside"
READS_ALONE: Final = "a search can't write, and the program of the test does"

_PROCESS_FILES: Final = "tools/test_tool_process_files.py::test_a_"
EXCEPTIONS: Final[Mapping[str, str]] = {
    "tools/test_tool_bash.py::test_a_timeout_after_the_shells_exit_includes_its_exit_code": NUMBERS,
    "tools/test_tool_find.py::test_an_abort_leaves_no_process": NUMBERS,
    "tools/test_tool_find.py::test_everything_but_the_repository_itself_is_found": COVERED,
    "tools/test_tool_grep.py::test_an_abort_leaves_no_process": NUMBERS,
    "search/test_search_in_python.py::test_an_endless_line_takes_bounded_memory_and_an_abort": NUMBERS,
    "shell/test_shell_process.py::test_a_command_leads_a_session_of_its_own": NUMBERS,
    "shell/test_shell_process.py::test_a_descendant_that_holds_the_pipe_does_not_hold_the_result": ENDS,
    "tools/test_tool_grep.py::test_a_failure_is_what_was_said_or_the_code[kill -9": SIGNALS,
    "tools/test_tool_grep.py::test_a_program_that_can_not_be_run_is_reported": STARTED_INSIDE,
    "shell/test_shell_process.py::test_a_shell_that_can_not_be_executed_is_refused": STARTED_INSIDE,
    "tools/test_tool_grep.py::test_enough_matches_end_the_program": READS_ALONE,
    **{
        f"{_PROCESS_FILES}file_that_shows_the_agent_is_not_opened[{name}-{tool}]": UNSEEN
        for name in ("environ", "cmdline", "mem", "maps", "auxv", "task/{thread}/environ")
        for tool in ("read", "write", "edit", "grep")
    },
    **{
        f"{_PROCESS_FILES}folder_that_shows_the_agent_is_not_looked_into[{name}-{tool}]": UNSEEN
        for name in ("fd", "task/{thread}", ".")
        for tool in ("ls", "grep", "find")
    },
    f"{_PROCESS_FILES}new_file_there_is_not_made": UNSEEN,
}
"""Beginnings of the names of tests, behind `tests/agent/`, and why they can't hold."""


@pytest.fixture(scope="session", autouse=True)
def sandbox_around_the_tools(tmp_path_factory: pytest.TempPathFactory) -> Generator[None, None, None]:
    """Has the tools of this process work in the sandbox that the variable names."""
    if not (wanted := os.environ.get(VARIABLE)):
        yield
        return
    with _sandbox(cast(SandboxMode, wanted), tmp_path_factory.getbasetemp()):
        yield


def mark_exceptions(items: Sequence[pytest.Item]) -> None:
    """Expect the tests to fail that can't hold in the sandbox, if there is one."""
    if not os.environ.get(VARIABLE):
        return
    for item in items:
        name = item.nodeid.removeprefix("tests/agent/")
        if reason := next((why for begin, why in EXCEPTIONS.items() if name.startswith(begin)), None):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True, run=reason != NUMBERS))


@contextmanager
def _sandbox(mode: SandboxMode, folder: Path) -> Generator[None, None, None]:
    sandbox = set_up(SandboxPolicy(mode, mechanism="bubblewrap"), places_of(os.environ, str(folder)), os.environ)
    before, tempfile.tempdir = tempfile.tempdir, tempfile.mkdtemp(dir=folder)
    CHILDREN.confinement = sandbox.confinement
    helpers = FileHelpers(_start, mode, view=sandbox.view)
    FILE_CALLS.use(helpers)
    try:
        yield
    finally:
        FILE_CALLS.use(None)
        trio.run(helpers.aclose)
        CHILDREN.confinement = None
        tempfile.tempdir = before
        sandbox.close()


async def _start(arguments: list[str], *, stdin: int, stdout: int, stderr: int) -> Child:
    return await CHILDREN.start(arguments, stdin=stdin, stdout=stdout, stderr=stderr, env={}, cwd="/")
