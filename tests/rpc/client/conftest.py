"""Clients for tests: of our agent, of one that misbehaves, and a look at what they leave behind.

Async tests of the client as a whole are written with anyio, which httpx brings, and run twice
(`on_trio_and_asyncio`).
"""

import inspect
import os
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import anyio
import pytest
from tests.forked_agents import open_descriptors
from tests.source_tree import PYTHONPATH

from pinnace_fuzz.harness.adapters import HomeOptions, prepare_pi_home
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.process_tree import RUN_VARIABLE, await_end
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import LEFT_BEHIND_TIMEOUT_S
from pinnace_rpc.client import BlockingClient, Client

OURS = (sys.executable, "-P", "-m", "pinnace_rpc")
STAND_IN = (sys.executable, str(Path(__file__).with_name("stand_in.py")))
# An agent that leaves in order must have the time for it, also on a busy machine, or it is killed and seems not to.
EXIT_TIMEOUT_S = 30.0


def on_trio_and_asyncio(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test under either."""

    def run(backend: str, **fixtures: Any) -> None:
        anyio.run(partial(test, **fixtures), backend=backend)

    signature = inspect.signature(test)
    backend = inspect.Parameter("backend", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = signature.replace(parameters=[backend, *signature.parameters.values()])  # type: ignore[attr-defined]
    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    run.pytestmark = list(getattr(test, "pytestmark", []))  # type: ignore[attr-defined]
    parametrized: Callable[..., None] = pytest.mark.parametrize("backend", ["trio", "asyncio"])(run)
    return parametrized


class Prepared(NamedTuple):
    """How a client is made: what all kinds of clients take."""

    command: list[str]
    options: dict[str, Any]
    llm: FakeLlm

    def client(self, **more: Any) -> Client:
        return Client(self.command, **{"exit_timeout_s": EXIT_TIMEOUT_S, **self.options, **more})

    def blocking(self, **more: Any) -> BlockingClient:
        return BlockingClient(self.command, **{"exit_timeout_s": EXIT_TIMEOUT_S, **self.options, **more})


@pytest.fixture
def run_id() -> Iterator[str]:
    """Marks the processes of a test, all of which must be gone when it is over, and every descriptor with them."""
    descriptors = open_descriptors()
    identity = uuid.uuid4().hex
    yield identity
    assert [] == await_end(identity, LEFT_BEHIND_TIMEOUT_S)
    assert len(open_descriptors()) <= len(descriptors)


@pytest.fixture
def prepare(run_id: str, llm: Callable[[Iterable[Scripted]], FakeLlm], tmp_path: Path) -> Callable[..., Prepared]:
    """Prepares clients of real agents that talk to a scripted LLM, each in a home of its own."""
    numbers = iter(range(100))

    def make(
        script: Iterable[Scripted] = (), *flags: str, command: Iterable[str] = OURS, **options: Unpack[HomeOptions]
    ) -> Prepared:
        model = llm(script)
        options["env"] = {"PYTHONPATH": PYTHONPATH, RUN_VARIABLE: run_id, **options.get("env", {})}
        home = prepare_pi_home(tmp_path / f"home-{next(numbers)}", model.base_url, **options)
        return Prepared([*command, *home.arguments, *flags], {"cwd": home.work, "env": home.env}, model)

    return make


@pytest.fixture
def stand_in(run_id: str) -> Callable[..., Any]:
    """Makes clients of an agent that misbehaves."""

    def make(*flags: str, **options: Any) -> Client:
        options.setdefault("exit_timeout_s", EXIT_TIMEOUT_S)
        return Client([*STAND_IN, *flags], env={**os.environ, RUN_VARIABLE: run_id}, **options)

    return make


@pytest.fixture
def stand_in_command() -> list[str]:
    """The command of the agent that misbehaves."""
    return list(STAND_IN)


@pytest.fixture
def marked(run_id: str) -> dict[str, str]:
    """An environment by which the processes of this test are known."""
    return {**os.environ, RUN_VARIABLE: run_id}


@pytest.fixture
def our_environment(marked: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The same, in which Python finds this checkout, and a home without anything."""
    return {**marked, "PYTHONPATH": PYTHONPATH, "HOME": str(tmp_path)}
