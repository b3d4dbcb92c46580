"""What is loaded when: before the first answer nothing that only later work needs, the HTTP client with a message.

Python tells every import on stderr (`-X importtime`), here the same pipe as stdout: what stands there before the first
answer was loaded before it. No time is judged.
"""

import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.trials.workbench import AgentStarter

COMMAND = [sys.executable, "-X", "importtime", "-P", "-m", "pinnace_rpc"]
# The time of a module itself is below zero where another thread imported meanwhile.
IMPORT = re.compile(rb"import time: +-?\d+ \| +\d+ \| +(\S+)")
# Only a process that is stuck takes so long; it is killed then, and its output ends.
TIMEOUT_S = 60.0

# Loaded for the first command of the client, by a module that `import_module` loads, which is not told.
LAST_WHEN_IDLE = "pinnace_agent.shell.truncation"
# Likewise: the module of the provider itself is not reported, but what it loads is.
LOADED_BY_A_REQUEST = {"httpx", "pinnace_agent.llm.openai_chat.stream"}
# Each takes milliseconds to load, or much memory.
FORBIDDEN = {
    "for commands that are wrong": "pydantic pydantic_core pinnace_spec.records.commands importlib.metadata email",
    "for requests to a model": "httpx httpcore h11 anyio certifi http jiter pinnace_agent.llm.openai_chat.provider",
    "for models that nobody asked for": "pinnace_agent.llm.offline.provider ruamel yaml",
    "for files that nobody has named": "xml PIL jinja2 sqlite3",
    "for exports": "pinnace_agent.export",
    "for templates and skills that are not there": "pinnace_agent.prompting.discovery "
    "pinnace_agent.prompting.frontmatter pinnace_agent.prompting.template_arguments pinnace_agent.prompting.skills",
    "for another way to run tasks": "asyncio multiprocessing concurrent",
    "for judging what is written": "pinnace_spec.records.outputs pinnace_spec.records.output_model "
    "pinnace_spec.records.events pinnace_spec.records.responses pinnace_spec.records.readings "
    "pinnace_spec.observers pinnace_spec.generate.__main__",
    "for tests": "pinnace_fuzz hypothesis pytest unittest jsonschema",
    "for people at a terminal": "rich pygments curses readline pydoc click",
    "for tools that nobody has called": "pinnace_agent.tools.read pinnace_agent.tools.bash pinnace_agent.tools.edit "
    "pinnace_agent.tools.operations pinnace_agent.engine.tool_calls",
}


class Loaded(NamedTuple):
    """The modules that an agent loaded, in order."""

    before: list[str]
    """Before its first answer."""
    idle: list[str]
    """After it, until a command of the client can run."""
    prompted: list[str]
    """After a prompt, until the provider was there or the output ended."""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """Start an agent that has a model, ask for its state, let it be idle, and send a prompt."""
    home = prepare_pi_home(tmp_path_factory.mktemp("imports"), "http://127.0.0.1:9", env={"PYTHONPATH": PYTHONPATH})
    result = Loaded([], [], [])
    modules = result.before
    with subprocess.Popen(
        [*COMMAND, *home.arguments],
        cwd=home.work,
        env=home.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = threading.Timer(TIMEOUT_S, process.kill)
        deadline.start()
        process.stdin.write(b'{"type":"get_state"}\n')
        process.stdin.flush()
        for line in process.stdout:
            if imported := IMPORT.match(line):
                modules.append(imported[1].decode())
            elif line.startswith(b"{"):
                if modules is result.prompted:
                    continue
                assert json.loads(line)["data"]["model"]["id"] == "m1"
                modules = result.idle
            if modules is result.idle and LAST_WHEN_IDLE in modules:
                modules = result.prompted
                process.stdin.write(b'{"type":"prompt","message":"go"}\n')
                process.stdin.flush()
            if LOADED_BY_A_REQUEST <= set(modules):
                break
        process.stdin.close()
        process.stdout.read()
        deadline.cancel()
    return result


def test_the_modules_are_seen(loaded: Loaded) -> None:
    assert {"trio", "orjson", "pinnace_rpc.server.serve", "pinnace_agent.engine.interpreter"} <= set(loaded.before)


@pytest.mark.parametrize("purpose", FORBIDDEN)
def test_before_the_first_answer_nothing_is_loaded(purpose: str, loaded: Loaded) -> None:
    roots = FORBIDDEN[purpose].split()

    assert [] == [name for name in loaded.before if any(name == root or name.startswith(f"{root}.") for root in roots)]


def test_an_idle_agent_has_loaded_no_http_client(loaded: Loaded) -> None:
    """It is a seventh of its memory."""
    assert LAST_WHEN_IDLE in loaded.idle
    assert {"httpx", "httpcore", "h11"}.isdisjoint(loaded.idle)


def test_the_first_prompt_loads_what_its_request_needs(loaded: Loaded) -> None:
    assert LOADED_BY_A_REQUEST <= set(loaded.prompted)
    # With which httpx would make a command line; they are installed here, for the tests.
    assert {"click.core", "rich.console", "pygments.lexers"}.isdisjoint(loaded.prompted)


def test_a_whole_run_with_a_tool_loads_nothing_that_validates_commands(agent: AgentStarter) -> None:
    """It holds 7 MiB, and would be loaded in the middle of the work."""
    call = {"name": "bash", "args": {"command": "echo x"}}
    pi = agent([{"tool_calls": [call]}, {"text": "done"}])
    pi.send({"type": "prompt", "message": "go"})
    pi.wait({"type": "agent_settled"})
    pi.request({"type": "set_thinking_level", "level": "low"})
    maps = Path(f"/proc/{pi.process.pid}/maps")

    assert "_pydantic_core" not in maps.read_text()
    pi.request({"type": "set_thinking_level", "level": "deep"})
    assert "_pydantic_core" in maps.read_text()


def test_an_extension_of_one_file_loads_nothing_that_reads_packages(tmp_path: Path) -> None:
    home = prepare_pi_home(tmp_path, "http://127.0.0.1:9", env={"PYTHONPATH": PYTHONPATH})
    (home.work / "one.py").write_text("def extension(pi):\n    pass\n")
    words = [*COMMAND, *home.arguments, "-e", "one.py"]
    asked = b'{"type":"get_state"}\n'
    started = subprocess.run(
        words, cwd=home.work, env=home.env, input=asked, capture_output=True, timeout=TIMEOUT_S, check=True
    )
    modules = {found[1].decode() for found in IMPORT.finditer(started.stderr)}

    assert "pinnace_agent.extensions.loading.loading" in modules
    assert {"pinnace_agent.packages.resolution", "pinnace_agent.prompting.discovery"}.isdisjoint(modules)
