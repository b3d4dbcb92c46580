"""Clients by others hold with us, unchanged: over `pinnace --mode rpc`, and over `pinnace attach` in its place."""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.host.attached import short_folder, started
from tests.source_tree import PYTHONPATH, REPOSITORY

from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.harness.driver import Agent
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted

pytestmark = [pytest.mark.peer]

PINNACE = (sys.executable, "-P", "-m", "pinnace_rpc")
PYTHON = REPOSITORY / ".tools" / "clients" / "bin" / "python"
ACP = REPOSITORY / ".tools" / "pi-acp-0.0.34" / "node_modules" / "pi-acp" / "dist" / "index.js"
NODE = REPOSITORY / ".tools" / "node22" / "bin" / "node"
TIMEOUT_S = 60.0
# A client that ends at a record which it does not know; this is the protocol of its time.
PROTOCOLS = {"picable": "seed", "pi-py-sdk": "pi"}


class Surroundings:
    """A home whose model answers, and a program that is pi to clients."""

    def __init__(self, root: Path, runtime: Path, words: list[str], model: FakeLlm) -> None:
        env = {"PYTHONPATH": PYTHONPATH, "XDG_RUNTIME_DIR": str(runtime)}
        settings = {"defaultProvider": "fake", "defaultModel": "m1", "quietStartup": True}
        home = prepare_pi_home(root, model.base_url, path_first=NODE.parent, env=env, settings=settings)
        self.env, self.work = dict(home.env), home.work
        self.program = root / "pi"
        self.program.write_text(f'#!/bin/sh\nexec {shlex.join([*PINNACE, *words])} "$@"\n')
        self.program.chmod(0o755)


@pytest.fixture(params=["rpc", "attach"])
def surroundings(
    request: pytest.FixtureRequest, tmp_path: Path, llm: Callable[[Iterable[Scripted]], FakeLlm]
) -> Iterator[Surroundings]:
    is_attach = request.param == "attach"
    with short_folder() as runtime, ExitStack() as stack:
        model = llm([{"text": ["one ", "two"]}])
        found = Surroundings(tmp_path, runtime, ["attach"] if is_attach else [], model)
        if is_attach:
            stack.enter_context(started(runtime, found.env))
        yield found


@pytest.mark.parametrize("name", ["picable", "pi-py-sdk"])
def test_a_client_in_python_has_a_run(surroundings: Surroundings, name: str) -> None:
    if not PYTHON.exists():
        pytest.skip("the clients are not there: scripts/peers installs them")
    script = Path(__file__).with_name("foreign_client.py")
    env = {**surroundings.env, "PINNACE_PROTOCOL": PROTOCOLS[name]}
    ran = subprocess.run(
        [PYTHON, "-P", script, name, surroundings.program],
        cwd=surroundings.work,
        env=env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    got: dict[str, Any] = json.loads(ran.stdout)
    assert (got["text"], got["model"], got["kinds"][0]) == ("one two", "m1", "agent_start")
    assert "agent_end" in got["kinds"][-2:]


def test_the_acp_adapter_has_a_run(surroundings: Surroundings) -> None:
    if not ACP.exists():
        pytest.skip("pi-acp is not there: scripts/peers installs it")
    env = {**surroundings.env, "PI_ACP_PI_COMMAND": str(surroundings.program)}
    with Agent([str(NODE), str(ACP)], cwd=surroundings.work, env=env) as acp:

        def ask(number: int, method: str, **params: object) -> dict[str, Any]:
            acp.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            result: dict[str, Any] = acp.wait({"id": number, "result": {}}, since=0)["result"]
            return result

        ask(1, "initialize", protocolVersion=1, clientCapabilities={})
        session = ask(2, "session/new", cwd=str(surroundings.work), mcpServers=[])["sessionId"]
        prompt = [{"type": "text", "text": "go"}]
        assert ask(3, "session/prompt", sessionId=session, prompt=prompt)["stopReason"] == "end_turn"
        chunk = {"method": "session/update", "params": {"update": {"sessionUpdate": "agent_message_chunk"}}}
        texts = [each["params"]["update"]["content"]["text"] for each in acp.found(chunk)]
        assert "one two" in "".join(texts)
        acp.close_stdin()
