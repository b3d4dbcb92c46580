"""Clients that others have written: the official SDKs for TypeScript and Python, and `acpx`."""

import json
import os
import re
import shlex
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from tests.rpc.conftest import COMMAND
from tests.source_tree import PYTHONPATH, REPOSITORY

from pinnace_fuzz.acp import schema

NODE = REPOSITORY / ".tools" / "node22" / "bin" / "node"
MODULES = REPOSITORY / ".tools" / "acp-clients" / "node_modules"
SDK = MODULES / "@agentclientprotocol" / "sdk"
AGENT = (*COMMAND, "--mode", "acp", "--provider", "offline")
TIMEOUT_S = 120

PYTHON = REPOSITORY / ".tools" / "clients" / "bin" / "python"

has_node_clients = pytest.mark.skipif(not MODULES.exists(), reason="no clients for node: scripts/peers installs them")
has_python_sdk = pytest.mark.skipif(
    not any(PYTHON.parents[1].glob("lib/python*/site-packages/acp")),
    reason="no SDK for Python: scripts/peers installs it",
)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    search = os.pathsep.join([str(NODE.parent), os.environ["PATH"]])
    return {"PATH": search, "HOME": str(tmp_path), "PYTHONPATH": PYTHONPATH, "PI_OFFLINE": "1"}


@has_node_clients
@pytest.mark.parametrize("version", schema.SCHEMAS)
def test_the_schema_is_the_published_one(version: int) -> None:
    published = SDK / "schema" / f"v{version}" / "schema.json"
    assert Path(schema.__file__).with_name(schema.SCHEMAS[version]).read_bytes() == published.read_bytes()


@has_node_clients
def test_the_official_sdk_for_typescript_has_a_conversation_of_version_2(env: dict[str, str], tmp_path: Path) -> None:
    script = REPOSITORY / "tests" / "data" / "acp" / "sdk_client_v2.mjs"
    module = SDK / "dist" / "v2" / "stable" / "acp.js"
    command = [str(NODE), str(script), str(module), str(tmp_path), *AGENT, "--tool-approval", "ask"]
    done = subprocess.run(command, env=env, capture_output=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr.decode()
    seen = json.loads(done.stdout)
    assert (seen["version"], seen["code"]) == (2, 0)
    assert seen["text"].startswith("I call bash.`echo hello` is done. It said:\n\nhello")
    assert seen["output"].startswith("hello\n")
    assert seen["asked"][0] == ["Allow tool: bash", "command"]
    assert seen["users"] == [seen["first"], seen["second"]] * 2  # live, and replayed
    at = seen["states"].index("resumed")
    live, resumed = seen["states"][:at], seen["states"][at:]
    assert live[:4] == ["running", "requires_action", "running", "end_turn"]
    assert (live[-1], resumed) == ("cancelled", ["resumed", "idle"])
    assert [each["cwd"] for each in seen["listed"]["sessions"]] == [str(tmp_path)]


@has_node_clients
def test_the_official_sdk_for_typescript_has_a_conversation(env: dict[str, str], tmp_path: Path) -> None:
    script = REPOSITORY / "tests" / "data" / "acp" / "sdk_client.mjs"
    module = SDK / "dist" / "v1" / "stable" / "acp.js"
    command = [str(NODE), str(script), str(module), str(tmp_path), *AGENT]
    done = subprocess.run(command, env=env, capture_output=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr.decode()
    seen = json.loads(done.stdout)
    assert seen["text"].startswith("I call bash.`echo hello` is done. It said:\n\nhello")
    assert "completed" in seen["calls"].values()
    assert (seen["first"]["stopReason"], seen["second"]["stopReason"]) == ("end_turn", "cancelled")
    assert [each["cwd"] for each in seen["listed"]["sessions"]] == [str(tmp_path)]
    assert seen["code"] == 0


@has_python_sdk
def test_the_official_sdk_for_python_has_a_conversation(env: dict[str, str], tmp_path: Path) -> None:
    script = REPOSITORY / "tests" / "data" / "acp" / "sdk_client.py"
    command = [str(PYTHON), "-P", str(script), str(tmp_path), *AGENT]
    done = subprocess.run(command, env=env, capture_output=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr.decode()
    seen = json.loads(done.stdout)
    shown = "I call bash.`echo hello` is done. It said:\n\nhello"
    assert seen["text"] == shown * 2  # live, and when it is loaded
    assert (list(seen["calls"].values()), seen["asked"]) == (["completed"], 1)
    assert (seen["first"], seen["second"]) == ("end_turn", "cancelled")
    assert seen["listed"] == [str(tmp_path)]
    assert (seen["code"], seen["exit"]) == (-32002, 0)


def _acpx(
    env: dict[str, str], cwd: Path, *words: str, agent: tuple[str, ...] = AGENT
) -> "subprocess.CompletedProcess[bytes]":
    command = [str(NODE), str(MODULES / "acpx" / "dist" / "cli.js"), "--agent", shlex.join(agent), *words]
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, timeout=TIMEOUT_S, check=False)


@has_node_clients
def test_acpx_has_a_conversation(env: dict[str, str], tmp_path: Path) -> None:
    done = _acpx(env, tmp_path, "--format", "json", "--json-strict", "exec", "Please run `echo hello`")
    assert done.returncode == 0, done.stderr.decode()
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    results = [message["result"] for message in messages if "result" in message]
    assert results[-1]["stopReason"] == "end_turn"


@has_node_clients
@pytest.mark.parametrize(("flag", "code", "status"), [("--deny-all", 5, "failed"), ("--approve-all", 0, "completed")])
def test_acpx_decides_on_a_call(env: dict[str, str], tmp_path: Path, flag: str, code: int, status: str) -> None:
    words = [flag, "--format", "json", "--json-strict", "exec", "Please run `touch there`"]
    done = _acpx(env, tmp_path, *words, agent=(*AGENT, "--tool-approval", "ask"))
    assert done.returncode == code, done.stderr.decode()
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    updates = [each["params"]["update"] for each in messages if each.get("method") == "session/update"]
    assert [each["status"] for each in updates if "status" in each][-1] == status
    assert (tmp_path / "there").exists() == (code == 0)


@has_node_clients
@pytest.mark.slow
def test_acpx_keeps_a_session_and_sets_its_options(env: dict[str, str], tmp_path: Path) -> None:
    def acpx(*words: str, code: int = 0) -> str:
        done = _acpx(env, tmp_path, *words)
        # It looks for its own process in the background. On a busy machine it may not see it in time, and then never
        # touches it: it says that one may try again, or have that process end.
        for _ in range(10):
            if (owner := re.search(rb"owner pid (\d+): .* identity is unverified", done.stderr)) is None:
                break
            with suppress(ProcessLookupError):
                os.kill(int(owner[1]), signal.SIGTERM)
            done = _acpx(env, tmp_path, *words)
        assert done.returncode == code, done.stderr.decode()
        return (done.stdout + done.stderr).decode()

    acpx("sessions", "new", "--name", "s1")
    try:
        acpx("prompt", "-s", "s1", "hello there")
        history = acpx("sessions", "history", "s1").splitlines()
        assert [line.split("\t")[1] for line in history if "\t" in line] == ["user", "assistant"]
        assert acpx("set-mode", "read-only", "-s", "s1").startswith("mode set: read-only")
        assert acpx("set", "thought_level", "high", "-s", "s1").startswith("config set: thought_level=high")
        assert "params.configId: must be one of model, thought_level, mode" in acpx("set", "x", "y", "-s", "s1", code=1)
        (listed,) = acpx("sessions", "list", "--filter-cwd", str(tmp_path)).splitlines()
        assert listed.split("\t")[1:3] == ["hello there", str(tmp_path)]
    finally:
        acpx("sessions", "close", "s1")
