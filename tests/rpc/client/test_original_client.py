"""The original's own client holds with us: its class, unchanged, starts pinnace through the shim and talks to it.

Once to `pinnace --mode rpc`, once to an agent of a host, by `pinnace attach` in its place; also where the connection to
the host is cut.
The client runs in node (`original_client.mjs`), told what to call by the test and telling what it got.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pytest
from tests.rpc.client.cutting_proxy import cutting_proxy
from tests.rpc.host.attached import environment_of, short_folder, started
from tests.source_tree import PYTHONPATH

from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.harness.driver import Agent
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.short_folders import make_short_folder
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import LEFT_BEHIND_TIMEOUT_S

pytestmark = [pytest.mark.peer]

PINNACE = (sys.executable, "-P", "-m", "pinnace_rpc")
# Far above what an end of the host takes.
TIMEOUT_S = 60.0
SCRIPT = Path(__file__).with_name("original_client.mjs")

TEXT_DELTA = {"event": {"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}}}


class OriginalClient:
    """The client, and the LLM behind its agent."""

    def __init__(self, node: Agent, llm: FakeLlm) -> None:
        self.node = node
        self.llm = llm
        self._calls = 0

    def begin(self, method: str, *args: object) -> int:
        """Call a method without waiting for its result; return the call's number."""
        self._calls += 1
        self.node.send({"call": self._calls, "method": method, "args": args})
        return self._calls

    def result(self, call: int) -> object:
        """Wait for the result of a call."""
        record = self.node.wait({"call": call}, since=0)
        assert "error" not in record, record
        return record["result"]

    def call(self, method: str, *args: object) -> object:
        """Call a method and wait for its result."""
        return self.result(self.begin(method, *args))

    def state(self) -> Record:
        """Ask for the state."""
        state = self.call("getState")
        assert isinstance(state, dict)
        return cast("Record", state)  # JSON has no other keys

    def events(self) -> list[Record]:
        """Return the events so far."""
        return [record["event"] for record in self.node.found({"event": {}})]

    def text(self) -> str:
        """Join the text deltas so far."""
        deltas = self.node.found(TEXT_DELTA)
        return "".join(record["event"]["assistantMessageEvent"]["delta"] for record in deltas)


Start = Callable[..., OriginalClient]


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The home of all tests, and the folder of the socket of its host, which the first attach starts."""
    root, folder = tmp_path_factory.mktemp("hosted"), str(make_short_folder("pinnace-"))  # short enough for a socket
    yield root, folder
    env = {"PYTHONPATH": PYTHONPATH, "XDG_RUNTIME_DIR": folder}
    home = prepare_pi_home(root, "http://127.0.0.1:9", env=env)
    # None runs where only tests of mode rpc were run.
    subprocess.run([*PINNACE, "host", "stop"], env=home.env, timeout=TIMEOUT_S, check=False)
    shutil.rmtree(folder)


@pytest.fixture(params=["rpc", "attach"])
def client(
    original_pi: list[str],
    llm: Callable[[Iterable[Scripted]], FakeLlm],
    tmp_path: Path,
    hosted: tuple[Path, str],
    request: pytest.FixtureRequest,
) -> Iterator[Start]:
    """Starts clients, each with an agent that is started by its `start`."""
    node, original = map(Path, original_pi)
    module = original.parents[1] / "modes" / "rpc" / "rpc-client.js"
    shims = tmp_path / "shims"
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    subprocess.run([*PINNACE, "shim", str(shims)], env=environment, check=True, capture_output=True)
    shim, root, runtime = shims / "cli.js", tmp_path / "home", str(tmp_path)
    if request.param == "attach":
        root, runtime = hosted
        before, program, after = shim.read_text().partition('"pinnace_rpc.cli.pi"]')
        assert program
        shim.write_text(f'{before}"pinnace_rpc", "attach"]{after}')
    with ExitStack() as stack:

        def start(script: Iterable[Scripted], protocol: str = "pi") -> OriginalClient:
            model = llm(script)
            env = {"PYTHONPATH": PYTHONPATH, "PINNACE_PROTOCOL": protocol, "XDG_RUNTIME_DIR": runtime}
            home = prepare_pi_home(root, model.base_url, path_first=node.parent, env=env)
            options = {"cliPath": str(shim), "provider": "fake", "model": "m1", "args": ["--no-session"]}
            argv = [str(node), str(SCRIPT), str(module), json.dumps(options)]
            started = OriginalClient(stack.enter_context(Agent(argv, cwd=home.work, env=home.env)), model)
            started.call("start")
            return started

        yield start


@pytest.mark.parametrize("protocol", ["pi", "1.5"])
def test_a_prompt_streams_its_events_until_the_agent_is_idle(client: Start, protocol: str) -> None:
    call = {"name": "bash", "args": {"command": "echo from the tool"}}
    pi = client([{"tool_calls": [call]}, {"text": ["one ", "two"], "gate_each": "g"}], protocol)
    assert pi.state()["model"]["id"] == "m1"

    collected = pi.begin("promptAndWait", "go")
    pi.llm.release("g.0")
    pi.node.wait(TEXT_DELTA)
    assert pi.text() == "one "
    assert pi.state()["isStreaming"]
    pi.llm.release("g.1", "g.2", "g.3")
    events = pi.result(collected)

    assert events == pi.events()
    kinds = [event["type"] for event in pi.events()]
    assert (kinds[0], kinds[-1]) == ("agent_start", "agent_settled")
    assert {"tool_execution_start", "tool_execution_end", "agent_end"} <= set(kinds)
    assert pi.text() == "one two"
    assert not pi.state()["isStreaming"]
    assert pi.call("getLastAssistantText") == "one two"


def test_a_steer_in_a_run_is_queued_and_sent_with_the_next_request(client: Start) -> None:
    pi = client([{"text": ["begin", {"gate": "g"}, "end"]}, {"text": "steered"}])
    idle = pi.begin("waitForIdle")
    assert pi.call("prompt", "go") == "started"
    pi.node.wait(TEXT_DELTA)

    assert pi.call("steer", "turn left") == "queued"
    pi.node.wait({"event": {"type": "queue_update", "steering": ["turn left"]}}, since=0)
    pi.llm.release("g")
    pi.result(idle)

    assert "turn left" not in pi.llm.requests[0].text
    assert "turn left" in pi.llm.requests[1].text
    assert pi.call("getLastAssistantText") == "steered"


def test_an_abort_in_mid_stream_ends_the_run_and_the_next_prompt_works(client: Start) -> None:
    pi = client([{"chunks": [{"text": "begin"}, {"hang": True}]}, {"text": "again"}])
    idle = pi.begin("waitForIdle")
    pi.call("prompt", "go")
    pi.node.wait(TEXT_DELTA)
    pi.call("abort")
    pi.result(idle)

    pi.llm.wait_disconnects(1)
    (end,) = [event for event in pi.events() if event["type"] == "agent_end"]
    assert end["messages"][-1]["stopReason"] == "aborted"
    pi.call("promptAndWait", "again")
    assert pi.call("getLastAssistantText") == "again"


def test_a_new_session_is_a_second_session(client: Start) -> None:
    pi = client([{"text": "first"}, {"text": "second"}])
    pi.call("promptAndWait", "remember the first")
    first = pi.state()

    answer = pi.call("newSession")

    assert isinstance(answer, dict)
    assert answer["cancelled"] is False
    second = pi.state()
    assert first["sessionId"] != second["sessionId"]
    assert first["messageCount"] > 0
    assert second["messageCount"] == 0
    assert pi.call("getMessages") == []
    pi.call("promptAndWait", "begin anew")
    assert "remember the first" not in pi.llm.requests[1].text


def test_an_error_of_ours_is_an_error_of_the_client(client: Start) -> None:
    pi = client([])
    refused = pi.node.wait({"call": pi.begin("setModel", "nobody", "nothing")})

    assert refused["error"] == "Model not found: nobody/nothing"


@pytest.mark.parametrize("is_running", [False, True])
def test_stop_leaves_no_process_behind(client: Start, is_running: bool) -> None:
    pi = client([{"tool_calls": [{"name": "bash", "args": {"command": "sleep 600"}}]}])
    pi.state()
    if is_running:
        pi.call("prompt", "go")
        pi.node.wait({"event": {"type": "tool_execution_start"}})
    assert pi.node.descendants() != []

    pi.call("stop")
    pi.node.close_stdin()

    assert pi.node.wait_exit() == 0
    assert pi.node.process.left_behind(LEFT_BEHIND_TIMEOUT_S) == []


def test_a_run_outlives_a_connection_that_is_cut(
    original_pi: list[str], llm: Callable[[Iterable[Scripted]], FakeLlm], tmp_path: Path
) -> None:
    """The client gets an error, as of an agent that has ended, and finds the run when it starts again."""
    node, original = map(Path, original_pi)
    module = original.parents[1] / "modes" / "rpc" / "rpc-client.js"
    shim = tmp_path / "cli.js"
    words = [*PINNACE, "attach", "main"]
    shim.write_text(
        f"const {{ spawn }} = require('node:child_process'); const [program, ...words] = {json.dumps(words)};\n"
        "const child = spawn(program, [...words, ...process.argv.slice(2)], { stdio: 'inherit' });\n"
        "child.on('exit', (code, signal) => process.exit(code ?? 1));\n"
        "process.on('SIGTERM', () => child.kill('SIGTERM'));\n"
    )
    model = llm([{"text": ["one ", {"gate": "g"}, "two"]}])
    with short_folder() as folder, started(folder, environment_of(folder)) as host:
        home = prepare_pi_home(tmp_path / "home", model.base_url, env={"PYTHONPATH": PYTHONPATH})
        options = {"cliPath": str(shim), "provider": "fake", "model": "m1", "args": ["--no-session"]}
        argv = [str(node), str(SCRIPT), str(module), json.dumps(options)]
        with (
            cutting_proxy(host.socket_path, folder / "proxy", home.agent_dir) as proxy,
            Agent(argv, cwd=home.work, env=home.env) as driven,
        ):
            pi = OriginalClient(driven, model)
            pi.call("start")
            pi.call("prompt", "go")
            pi.node.wait(TEXT_DELTA)
            proxy.cut()
            failed = pi.node.wait({"call": pi.begin("getState")})
            assert "Agent process" in failed["error"]

            pi.call("stop")
            pi.call("start")
            assert pi.state()["isStreaming"]
            idle = pi.begin("waitForIdle")
            pi.llm.release("g")
            pi.result(idle)
            assert pi.call("getLastAssistantText") == "one two"
            assert proxy.connections == 2
            pi.call("stop")
