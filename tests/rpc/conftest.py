"""Real agents and scripted LLMs for the tests of the program as a whole."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pinnace_fuzz.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.workbench import AgentStarter

REPOSITORY = Path(__file__).parents[2]
# Not what is installed: a fresh clone tests itself.
ROOTS = os.pathsep.join(str(REPOSITORY / name) for name in ("spec", "statechart", "agent", "rpc", "fuzz"))


@pytest.fixture
def llm() -> Iterator[Callable[[Iterable[Scripted]], FakeLlm]]:
    """Makes scripted LLMs that end with the test."""
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(FakeLlm(script))


@pytest.fixture
def agent(llm: object, tmp_path: Path) -> Iterator[AgentStarter]:
    """Starts agents that end with the test, each held to the contract of every run.

    Needs `llm` only for the order: agents end before what they talk to.
    """
    command = [sys.executable, "-m", "pinnace_rpc"]
    with AgentStarter(command, tmp_path, {"PYTHONPATH": ROOTS}) as starter:
        yield starter
