"""Real agents and scripted LLMs for the tests of the program as a whole."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.process_tree import is_alive
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter

ENVIRONMENT = {"PYTHONPATH": PYTHONPATH}
COMMAND = (sys.executable, "-P", "-m", "pinnace_rpc")
_LOADER = """exports.createJiti = () => ({
  import: (path) => new Function(require("node:fs").readFileSync(path, "utf8").replace("export default", "return"))(),
});
"""


def write_loader(modules: Path) -> Path:
    """Write what stands for the loader of TypeScript of the original: its extensions are one expression then.

    Args:
        modules: A new folder.

    Returns:
        The folder, for `NODE_PATH`.
    """
    folder = modules / "jiti"
    folder.mkdir(parents=True)
    (folder / "index.js").write_text(_LOADER)
    return modules


# Far above what any conversation here takes.
CONVERSATION_TIMEOUT_S = 60.0


def await_gone(pids: list[int]) -> list[int]:
    """Return those that still run after a while; zombies don't."""
    deadline_s = time.monotonic() + CONVERSATION_TIMEOUT_S
    while (left := [pid for pid in pids if is_alive(pid)]) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return left


@pytest.fixture
def llm() -> Iterator[Callable[[Iterable[Scripted]], FakeLlm]]:
    """Makes scripted LLMs that end with the test."""
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(FakeLlm(script))


@pytest.fixture
def agent(llm: object, tmp_path: Path) -> Iterator[AgentStarter]:
    """Starts agents that end with the test, each held to the contract of every run and each record to its model.

    Needs `llm` only for the order: agents end before what they talk to.
    """
    with AgentStarter(COMMAND, tmp_path, ENVIRONMENT, is_specified=True) as starter:
        yield starter


@pytest.fixture(scope="module")
def module_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentStarter]:
    """As `agent`, for agents that all tests of a module share, since none of them may change anything."""
    with AgentStarter(COMMAND, tmp_path_factory.mktemp("shared"), ENVIRONMENT, is_specified=True) as starter:
        yield starter


@pytest.fixture
def print_agent(tmp_path: Path) -> Iterator[OneShotStarter]:
    """Starts agents that are asked on their command line."""
    with OneShotStarter(COMMAND, tmp_path, ENVIRONMENT) as starter:
        yield starter


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[Callable[[], ShellGate]]:
    """Makes gates for shell commands."""
    with ExitStack() as stack:
        names = (f"gate-{number}" for number in range(100))
        yield lambda: stack.enter_context(ShellGate(tmp_path / next(names)))


@pytest.fixture
def converse(llm: Callable[[Iterable[Scripted]], FakeLlm], tmp_path: Path) -> Callable[..., list[bytes]]:
    """Writes bytes to an agent's stdin, ends it, and returns the lines of stdout, byte for byte.

    For what the driver's own reading of records would hide.
    """

    def run(data: bytes, *flags: str, script: Sequence[Scripted] = ()) -> list[bytes]:
        home = prepare_pi_home(tmp_path / "home", llm(script).base_url, env=ENVIRONMENT)
        done = subprocess.run(
            [*COMMAND, *home.arguments, *flags],
            input=data,
            env=home.env,
            cwd=home.work,
            capture_output=True,
            timeout=CONVERSATION_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        *lines, rest = done.stdout.split(b"\n")
        assert rest == b""
        return lines

    return run
