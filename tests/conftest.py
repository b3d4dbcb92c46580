"""What every test shares: hypothesis profiles, the seed of this run, and the peer programs.

HYPOTHESIS_PROFILE chooses the profile: `dev` (default), `ci`, `long`.
"""

import compileall
import gc
import os
import random
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from tests.campaigns import TURNS, campaigns, has_turn, is_whole_campaign
from tests.forked_agents import VARIABLE as FRESH
from tests.forked_agents import Forks
from tests.source_tree import PYTHONPATH

from pinnace_agent.redaction.redactor import REDACTOR
from pinnace_agent.shell.child_processes import ChildProcesses
from pinnace_fuzz.harness.coverage import VARIABLE
from pinnace_spec import coverage
from pinnace_spec.generate.source import load

if TYPE_CHECKING:
    from tests.browser import Browser, Recorder

# What a collection makes stays: looking for garbage in it takes a fifth of its time. `pytest_collection_finish` goes on
# with that.
gc.disable()

REACHED = pytest.StashKey[str]()
TOOLS = Path(__file__).parent.parent / ".tools"

# No deadline anywhere: the machine is shared, and how long one example took says nothing about the code.
# too_slow is about the machine too. print_blob: a failure can be repeated from the printed report alone.
_COMMON = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
PROFILES = {
    "dev": settings(_COMMON, max_examples=50),
    "ci": settings(_COMMON, max_examples=50),
    "long": settings(_COMMON, max_examples=2_000),
}
for _name, _profile in PROFILES.items():
    settings.register_profile(_name, _profile)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
settings.load_profile(PROFILE)
WITH_FIXTURES = settings(suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture])
"""For a property that shares fixtures of one test among its examples: a list of its own replaces the profile's."""


@pytest.fixture(autouse=True)
def _no_known_keys() -> Iterator[None]:
    """Let a test in this process know no key of the test before."""
    yield
    REDACTOR.forget()


@pytest.fixture(autouse=True)
def _nothing_where_nothing_is() -> Iterator[None]:
    """Fail a test that writes where the others expect that nothing is."""
    yield
    assert not os.path.lexists("/nonexistent")


@pytest.fixture(autouse=True)
def _no_handler_of_a_former_run() -> Iterator[None]:
    """Take away the handler of SIGCHLD that a test's commands have left.

    A later run of trio that starts no command closes its wakeup descriptor before it stops Python from writing to it:
    a child that exits just then would be reported on stderr, as a failure of that test.
    """
    yield
    if isinstance(getattr(signal.getsignal(signal.SIGCHLD), "__self__", None), ChildProcesses):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


@pytest.fixture
def fresh_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each program of a test in a new interpreter: for tests of what a fork does not show (`forked_agents`)."""
    monkeypatch.setenv(FRESH, "1")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose a seed before hypothesis does, so that it can be printed while nothing has failed yet.

    Not for `dev`: with a seed hypothesis no longer starts with the examples that failed last time.
    """
    # A shell starts its background jobs with interrupts ignored, and a child inherits that: an agent under test would
    # never be interrupted. A handler is not inherited, so every child begins as one in the foreground does.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # As nohup does with the end of the terminal, for all processes of the run; an agent under test must end then.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN or not _is_first_process(config):
        signal.signal(signal.SIGHUP, lambda _signal, _frame: None)
    if PROFILE != "dev" and config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))

    if _is_first_process(config):
        _compile_sources()
    Forks().install()

    # Before xdist starts its processes, which inherit it. A folder that the caller names is his to keep.
    if _is_first_process(config) and VARIABLE not in os.environ:
        os.environ[VARIABLE] = tempfile.mkdtemp(prefix="reached-")
        config.add_cleanup(lambda: shutil.rmtree(os.environ.pop(VARIABLE), ignore_errors=True))


def _compile_sources() -> None:
    """Compile what the programs of tests import, so that none of them does it.

    Python before 3.12.8 leaves half of a module's bytecode behind where a file may not grow, and every later process
    fails to import that module. Tests limit the files of agents. PYTHONDONTWRITEBYTECODE makes no difference: agents
    have environments of their own.
    """
    for folder in PYTHONPATH.split(os.pathsep):
        compileall.compile_dir(folder, quiet=2)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files of which no test would run."""
    return True if config.option.markexpr == "not campaign" and is_whole_campaign(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark campaigns before `-m` chooses, and leave out what has no turn; begin with the files that hold slow tests.

    Else one process works on the last of them while the others are done.
    """
    for item in campaigns(items):
        item.add_marker("campaign")
    if TURNS > 1:
        seed = os.environ.get("PYTHONHASHSEED", "")
        waiting = {item for item in items if not has_turn(item, TURNS, seed)}
        config.hook.pytest_deselected(items=list(waiting))
        items[:] = [item for item in items if item not in waiting]
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep the garbage collector from visiting the modules and the 20,000 tests again and again: they all stay.

    It looks for garbage less often than Python's default, which took a fifth of what small tests cost.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


def _is_first_process(config: pytest.Config) -> bool:
    return not hasattr(config, "workerinput")


def _is_whole(session: pytest.Session) -> bool:
    """Whether everything was to run, and ran."""
    options = ("keyword", "markexpr", "lf", "deselect", "ignore", "ignore_glob", "collectonly")
    chosen = any(session.config.getoption(name, default=None) for name in options)
    roots = [session.config.rootpath / name for name in session.config.getini("testpaths")]
    asked = [Path(session.config.invocation_params.dir, name) for name in session.config.args]
    return not chosen and sorted(asked) == sorted(roots) and session.exitstatus == pytest.ExitCode.OK


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Merge what all processes have reached of the specification; a whole run must have reached everything."""
    if not _is_first_process(session.config):
        return
    seen = coverage.read([Path(os.environ[VARIABLE])])
    lines = coverage.table(seen, load())
    if _is_whole(session):
        session.config.stash[REACHED] = coverage.printed(lines)
        if not coverage.is_complete(lines):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    elif seen:
        counts = ", ".join(f"{line.kind} {line.reached}/{line.total}" for line in lines if line.reached)
        session.config.stash[REACHED] = f"reached of the specification by this part of the tests: {counts}\n"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if REACHED in config.stash:
        terminalreporter.write_line("")
        terminalreporter.write(config.stash[REACHED])


def pytest_report_header(config: pytest.Config) -> str:
    seed = config.getoption("--hypothesis-seed")
    return f"properties: HYPOTHESIS_PROFILE={PROFILE}" + (f" --hypothesis-seed={seed}" if seed else "")


def _peer(name: str, *parts: Path) -> list[str]:
    missing = [part for part in parts if not part.exists()]
    if missing:
        reason = f"{name} is not there: scripts/peers installs it"
        # A developer without it sees a skip; CI, which installs it, must never pass without it.
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return [str(part) for part in parts]


@pytest.fixture(scope="session")
def original_pi() -> list[str]:
    """The command of the original agent, release 1.5.2; its own arguments follow."""
    node = TOOLS / "node22" / "bin" / "node"
    return _peer("pi 1.5.2", node, TOOLS / "pi-1.5.2" / "package" / "dist" / "bundle" / "cli.js")


@pytest.fixture(scope="session")
def original_sdk() -> Path:
    """The module with what `@earendil-works/pi-coding-agent` 1.5.2 exports, and all that it needs."""
    module = TOOLS / "pi-1.5.2" / "package" / "dist" / "bundle" / "index.js"
    _peer("pi 1.5.2", module)
    return module


@pytest.fixture(scope="session")
def node_program() -> str:
    """A node that runs extensions in TypeScript."""
    return _peer("node 22", TOOLS / "node22" / "bin" / "node")[0]


@pytest.fixture(scope="session")
def mcp_conformance() -> list[str]:
    """The command of the conformance suite of the Model Context Protocol; its own arguments follow."""
    package = TOOLS / "mcp-peers" / "node_modules" / "@modelcontextprotocol" / "conformance"
    return _peer("the conformance suite", TOOLS / "node22" / "bin" / "node", package / "dist" / "index.js")


@pytest.fixture(scope="session")
def mcp_everything() -> list[str]:
    """The command of the server for everything of the Model Context Protocol."""
    package = TOOLS / "mcp-peers" / "node_modules" / "@modelcontextprotocol" / "server-everything"
    return [*_peer("server-everything", TOOLS / "node22" / "bin" / "node", package / "dist" / "index.js"), "stdio"]


@pytest.fixture(scope="session")
def mcp_python_servers() -> Path:
    """The folder with servers of the Model Context Protocol in Python."""
    folder = TOOLS / "mcp-servers" / "bin"
    _peer("mcp-server-time and mcp-server-git", folder / "mcp-server-time", folder / "mcp-server-git")
    return folder


@pytest.fixture(scope="session")
def spin() -> list[str]:
    """The command of the model checker; needs a C compiler, which scripts/peers installs beside it."""
    return _peer("spin", TOOLS / "bin" / "spin", TOOLS / "bin" / "cc")[:1]


@pytest.fixture(scope="session")
def search_tools_path() -> Path:
    """The folder with `rg` and `fd` under these names, to be put first on an agent's PATH."""
    _peer("ripgrep and fd", TOOLS / "bin" / "rg", TOOLS / "bin" / "fd")
    return TOOLS / "bin"


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser."""
    return _peer("Chromium", TOOLS / "bin" / "chromium")[0]


@pytest.fixture(scope="module")
def recorder() -> "Iterator[Recorder]":
    """Stands in for every server that a page may ask."""
    from tests.browser import Recorder

    with Recorder() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def browser(chromium: str, recorder: "Recorder", tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Browser]":
    """A browser of the module's own."""
    from tests.browser import Browser

    tab = Browser(chromium, tmp_path_factory.mktemp("browser"), f"http://127.0.0.1:{recorder.server_address[1]}")
    yield tab
    tab.close()
