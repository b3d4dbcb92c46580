"""The tests of the tools inside a real sandbox: an option of a run, by an environment variable.

    PINNACE_TEST_SANDBOX=workspace-write .venv/bin/python -m pytest tests/agent/tools tests/agent/shell tests/agent/search

Then the commands, searches and file calls of these tests, whose folders lie in the working folder of the sandbox, are
performed in it, as in an agent that was started with `--sandbox`. Without the variable nothing is different.
`landlock:workspace-write` names the mechanism, too. `EXCEPTIONS` are the tests that can't hold inside, each with the
reason: they have to fail, so that the table can't grow old.
"""

import os
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

import pytest

from pinnace_agent.config.sandbox_settings import SandboxMode
from pinnace_agent.sandbox.file_helper import FileHelpers
from pinnace_agent.sandbox.policy import SandboxPolicy
from pinnace_agent.sandbox.sandbox import places_of, set_up
from pinnace_agent.shell.child_processes import CHILDREN, Child
from pinnace_agent.tools.local.file_calls import FILE_CALLS

VARIABLE: Final = "PINNACE_TEST_SANDBOX"

EXCEPTIONS: Final[Mapping[str, str]] = {}
"""Beginnings of the names of tests, behind `tests/agent/`, and why they can't hold."""


@pytest.fixture(scope="session", autouse=True)
def sandbox_around_the_tools(tmp_path_factory: pytest.TempPathFactory) -> Generator[None, None, None]:
    """Has the tools of this process work in the sandbox that the variable names."""
    if not (wanted := os.environ.get(VARIABLE)):
        yield
        return
    mechanism, _, mode = wanted.rpartition(":")
    with _sandbox(cast(SandboxMode, mode), mechanism or None, tmp_path_factory.getbasetemp()):
        yield


def mark_exceptions(items: Sequence[pytest.Item]) -> None:
    """Expect the tests to fail that can't hold in the sandbox, if there is one."""
    if not os.environ.get(VARIABLE):
        return
    for item in items:
        name = item.nodeid.removeprefix("tests/agent/")
        if reason := next((why for begin, why in EXCEPTIONS.items() if name.startswith(begin)), None):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@contextmanager
def _sandbox(mode: SandboxMode, mechanism: str | None, folder: Path) -> Generator[None, None, None]:
    policy = SandboxPolicy(mode, mechanism=mechanism)
    sandbox = set_up(policy, places_of(os.environ, str(folder)), os.environ)
    before, tempfile.tempdir = tempfile.tempdir, tempfile.mkdtemp(dir=folder)
    CHILDREN.confinement = sandbox.confinement
    FILE_CALLS.use(FileHelpers(_start, mode, view=sandbox.view, has_mounts=sandbox.mechanism == "bubblewrap"))
    try:
        yield
    finally:
        FILE_CALLS.use(None)
        CHILDREN.kill_all()
        CHILDREN.confinement = None
        tempfile.tempdir = before
        sandbox.close()


async def _start(arguments: list[str], *, stdin: int, stdout: int, stderr: int) -> Child:
    return await CHILDREN.start(arguments, stdin=stdin, stdout=stdout, stderr=stderr, env={}, cwd="/")
