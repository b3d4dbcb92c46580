"""Agents in the process of the tests, and a look at what they leave behind in it."""

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import anyio
import pytest
from tests.forked_agents import open_descriptors
from tests.source_tree import PYTHONPATH

from pinnace_fuzz.harness.adapters import HomeOptions, PreparedHome, prepare_pi_home
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.process_tree import RUN_VARIABLE, await_end
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import LEFT_BEHIND_TIMEOUT_S
from pinnace_rpc.embedded import Agent, open_agent


class Prepared(NamedTuple):
    """How an agent is opened."""

    home: PreparedHome
    flags: list[str]
    llm: FakeLlm

    def agent(self, *flags: str, **more: Any) -> Agent:
        return open_agent([*self.flags, *flags], **{"cwd": self.home.work, "env": self.home.env, **more})


@pytest.fixture(scope="session")
def first_agent(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Has a first agent start a command, with which the process reserves what it keeps."""

    async def run() -> None:
        async with open_agent(
            ["--no-session", "--provider", "offline"], cwd=folder, env={"HOME": str(folder)}
        ) as agent:
            await agent.bash("true")

    folder = tmp_path_factory.mktemp("first")
    anyio.run(run, backend="trio")


@pytest.fixture
def run_id(first_agent: None) -> Iterator[str]:
    """Marks the commands of a test, all of which must be gone when it is over, with every descriptor and thread."""
    descriptors = open_descriptors()
    identity = uuid.uuid4().hex
    yield identity
    assert [] == await_end(identity, LEFT_BEHIND_TIMEOUT_S)
    assert [] == [each for each in threading.enumerate() if each.name == "pinnace-agent"]
    give_up = time.monotonic() + LEFT_BEHIND_TIMEOUT_S
    while len(open_descriptors()) > len(descriptors) and time.monotonic() < give_up:
        time.sleep(0.01)  # those of threads of the library that have just ended
    assert len(open_descriptors()) <= len(descriptors)


@pytest.fixture
def prepare(run_id: str, llm: Callable[[Iterable[Scripted]], FakeLlm], tmp_path: Path) -> Callable[..., Prepared]:
    """Prepares agents that talk to a scripted LLM, each in a home of its own."""
    numbers = iter(range(100))

    def make(script: Iterable[Scripted] = (), *flags: str, **options: Unpack[HomeOptions]) -> Prepared:
        model = llm(script)
        options["env"] = {"PYTHONPATH": PYTHONPATH, RUN_VARIABLE: run_id, **options.get("env", {})}
        home = prepare_pi_home(tmp_path / f"home-{next(numbers)}", model.base_url, **options)
        words = list(home.arguments)
        at = words.index("--mode")
        del words[at : at + 2]
        return Prepared(home, [*words, *flags], model)

    return make


@pytest.fixture
def of_process() -> Iterator[None]:
    """Holds that what belongs to the process is after a test what it was before."""
    before = facts_of_process()
    yield
    assert before == facts_of_process()


def facts_of_process() -> dict[str, object]:
    """What an agent of its own process changes there, or could."""
    import gc
    import resource
    import signal
    import sys

    umask = os.umask(0o22)
    os.umask(umask)
    return {
        "cwd": os.getcwd(),
        "environment": {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"},
        "umask": umask,
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "wakeup": signal.set_wakeup_fd(signal.set_wakeup_fd(-1)),
        "streams": (sys.stdout, sys.stderr, sys.stdin),
        "places": [os.readlink(f"/proc/self/fd/{number}") for number in (0, 1, 2)],
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "collects": gc.isenabled(),
        "path": list(sys.path),
    }
