"""`--sandbox` in real agents: what is reported, what is refused, and what the user lets out. R-SBX-01, R-SBX-03."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.rpc.conftest import COMMAND, ENVIRONMENT

from pinnace_agent.sandbox.landlock import landlock_refusal
from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent


def _works() -> bool:
    program = shutil.which("bwrap")
    words = ["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--", "true"]
    return program is not None and subprocess.run([program, *words], capture_output=True, check=False).returncode == 0


needs_landlock = pytest.mark.skipif(landlock_refusal() is not None, reason=f"needs Landlock: {landlock_refusal()}")
needs_bubblewrap = pytest.mark.skipif(not _works(), reason="needs bubblewrap (scripts/peers), and user namespaces")
DONE = {"text": "done"}


def bash(call_id: str, **arguments: object) -> Record:
    return {"chunks": [{"tool": {"id": call_id, "name": "bash"}}, {"args": json.dumps(arguments)}]}


def result(pi: HomedAgent, call_id: str) -> str:
    ended = next(each for each in pi.found({"type": "tool_execution_end"}) if each["toolCallId"] == call_id)
    return str(ended["result"]["content"][0]["text"])


@needs_bubblewrap
@pytest.mark.parametrize("mode", ["workspace-write", "read-only"])
def test_hello_and_get_state_show_the_sandbox(agent: AgentStarter, mode: str) -> None:
    """R-SBX-01."""
    pi = agent([], "--sandbox", mode, "--sandbox-network", "on")
    shown = pi.ask("hello")["sandbox"]

    state = pi.ask("get_state")
    assert shown == state["sandbox"]
    assert (mode, "on", "bubblewrap") == (shown["mode"], shown["network"], shown["mechanism"])
    assert ([os.path.realpath(state["cwd"])] if mode == "workspace-write" else []) == shown["writable"]


def test_without_a_sandbox_nothing_is_shown(agent: AgentStarter) -> None:
    pi = agent([])

    assert "sandbox" not in pi.ask("hello")
    assert "sandbox" not in pi.ask("get_state")


@needs_bubblewrap
def test_commands_of_the_client_and_the_model_are_confined(agent: AgentStarter) -> None:
    command = "touch inside; touch ~/outside"
    pi = agent([bash("a", command=command), DONE], "--sandbox", "workspace-write")
    own = pi.ask("bash", command=command)
    pi.send({"type": "prompt", "message": "go"})
    pi.wait({"type": "agent_settled"})

    work = Path(pi.ask("get_state")["cwd"])
    assert (work / "inside").exists()
    assert not list(work.parent.rglob("outside"))
    assert own["exitCode"] == 0 or "outside" in own["output"]


@needs_bubblewrap
def test_an_approved_command_runs_outside_once(agent: AgentStarter, tmp_path: Path) -> None:
    """R-SBX-03."""
    target = tmp_path / "outside"
    command = f"echo x >> {shlex.quote(str(target))}"
    calls = [bash("a", command=command, outside=True, reason="to reach it"), bash("b", command=command), DONE]
    pi = agent(calls, "--sandbox", "workspace-write")
    pi.send({"type": "prompt", "message": "go"})
    asked = pi.wait({"type": "extension_ui_request", "method": "select"})
    assert asked["title"].startswith("Allow tool: bash\n(outside the sandbox)\n")
    assert command in asked["title"]
    assert "to reach it" in asked["title"]
    assert (["Allow once", "Deny"], "a") == (asked["options"], asked["toolCallId"])
    pi.send({"type": "extension_ui_response", "id": asked["id"], "value": "Allow once"})
    pi.wait({"type": "agent_settled"})

    assert "x\n" == target.read_text()


@needs_bubblewrap
def test_the_question_shows_all_that_would_run_outside(agent: AgentStarter, tmp_path: Path) -> None:
    """R-SBX-03: the settings may be a project's, and the shell may lie where commands can write."""
    target, prefix = tmp_path / "outside", f"touch {tmp_path}/of-the-prefix\n: next"
    script = [bash("a", command=f"touch {target}", outside=True, reason="x"), DONE]
    pi = agent(
        script, "--sandbox", "workspace-write", settings={"shellPath": "/bin/bash", "shellCommandPrefix": prefix}
    )
    pi.send({"type": "prompt", "message": "go"})
    asked = pi.wait({"type": "extension_ui_request", "method": "select"})
    pi.send({"type": "extension_ui_response", "id": asked["id"], "value": "Deny"})
    pi.wait({"type": "agent_settled"})

    notes = [each for each in asked["title"].splitlines() if each.startswith("(")]
    expected = ["(by the shell /bin/bash)", *(f"(after shellCommandPrefix: {line})" for line in prefix.split("\n"))]
    assert expected == notes[2:]
    assert not (tmp_path / "of-the-prefix").exists()


@needs_bubblewrap
@pytest.mark.parametrize("way", ["no", "never", "enforced"])
def test_without_an_approval_nothing_runs_outside(agent: AgentStarter, tmp_path: Path, way: str) -> None:
    """R-SBX-03."""
    target = tmp_path / "outside"
    settings: dict[str, object] = {
        "no": {},
        "never": {"escalation": "never"},
        "enforced": {"mode": "read-only", "enforced": True},
    }
    script = [bash("a", command=f"touch {target}", outside=True, reason="x"), DONE]
    pi = agent(script, "--sandbox", "workspace-write", settings={"sandbox": settings[way]})
    pi.send({"type": "prompt", "message": "go"})
    if way == "no":
        asked = pi.wait({"type": "extension_ui_request", "method": "select"})
        pi.send({"type": "extension_ui_response", "id": asked["id"], "value": "Deny"})
    pi.wait({"type": "agent_settled"})

    assert "was not run" in result(pi, "a")
    assert not target.exists()


def start(
    tmp_path: Path, *flags: str, settings: object = None, path: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Start an agent that is to refuse, or to end at once."""
    home = tmp_path / "home"
    (home / ".pi" / "agent").mkdir(parents=True)
    (home / "work").mkdir()
    if settings is not None:
        (home / ".pi" / "agent" / "settings.json").write_text(json.dumps(settings))
    env = {**os.environ, **ENVIRONMENT, "HOME": str(home)}
    env.pop("PI_CODING_AGENT_DIR", None)
    if path is not None:
        env["PATH"] = path
    words = [*COMMAND, "--provider", "offline", "--no-session", *flags]
    return subprocess.run(
        words, env=env, cwd=home / "work", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("codes", "expected"), [("plain", 1), ("detailed", 17)])
def test_a_sandbox_that_cannot_be_enforced_starts_nothing(tmp_path: Path, codes: str, expected: int) -> None:
    """R-SBX-01."""
    flags = ["-p", "hello", "--exit-codes", codes, "--sandbox", "workspace-write"]
    ended = start(tmp_path, *flags, path=str(tmp_path))

    assert (expected, "") == (ended.returncode, ended.stdout)
    assert "apt install bubblewrap" in ended.stderr


@needs_landlock
def test_read_only_is_enforced_by_landlock_where_bubblewrap_is_missing(tmp_path: Path) -> None:
    """R-SBX-01."""
    ended = start(tmp_path, "--mode", "rpc", "--sandbox", "read-only", path=str(tmp_path))

    assert 0 == ended.returncode, ended.stderr
    assert "commands run in a sandbox (read-only, landlock ABI" in ended.stderr


def test_a_network_without_a_sandbox_is_a_usage_error(tmp_path: Path) -> None:
    ended = start(tmp_path, "--mode", "rpc", "--sandbox-network", "off")

    assert 2 == ended.returncode
    assert "--sandbox-network needs a sandbox" in ended.stderr


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"mode": "workspace"}, "sandbox.mode: must be one of off, workspace-write, read-only"),
        ({"network": True}, "sandbox.network: must be on or off"),
        ({"writeable": []}, "sandbox.writeable: is not known; did you mean writable?"),
        ({"hide": ["relative"]}, "sandbox.hide: must be a list of absolute paths"),
        ({"enforced": True}, "sandbox.enforced: needs sandbox.mode"),
    ],
)
def test_settings_of_the_sandbox_that_are_not_understood_start_nothing(
    tmp_path: Path, settings: object, text: str
) -> None:
    ended = start(tmp_path, "--mode", "rpc", settings={"sandbox": settings})

    assert 2 == ended.returncode
    assert text in ended.stderr


@needs_bubblewrap
def test_the_settings_alone_turn_it_on_and_it_is_reported_on_stderr(tmp_path: Path) -> None:
    ended = start(tmp_path, "--mode", "rpc", settings={"sandbox": {"mode": "read-only"}})

    assert 0 == ended.returncode, ended.stderr
    assert "commands run in a sandbox (read-only, bubblewrap" in ended.stderr
    assert "no network" in ended.stderr


@needs_bubblewrap
def test_commands_do_not_get_keys_of_the_environment_and_it_is_reported(tmp_path: Path) -> None:
    keys = {
        "SOME_TOKEN": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "OTHER_TOKEN": "ghp_06C7e42F292c6912E7710c838347Ae17",
    }
    folder = tmp_path / "agent"
    folder.mkdir()
    (folder / "settings.json").write_text('{"sandbox": {"environment": ["OTHER_*"]}}')
    (tmp_path / "project").mkdir()
    command = {"type": "bash", "command": "echo some=${SOME_TOKEN:-none} ${#OTHER_TOKEN}"}
    with subprocess.Popen(
        [*COMMAND, "--mode", "rpc", "--provider", "offline", "--sandbox", "workspace-write"],
        env={**ENVIRONMENT, **keys, "HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(folder)},
        cwd=tmp_path / "project",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f'{json.dumps(command)}\n{{"type": "get_state"}}\n')
        process.stdin.flush()
        answers = (line for line in process.stdout if '"response"' in line)
        answer, state = sorted((next(answers), next(answers)), key=lambda line: "get_state" in line)
        _, errors = process.communicate()

    assert f"some=none {len(keys['OTHER_TOKEN'])}" in answer
    assert "hold keys (sandbox.environment): SOME_TOKEN\n" in errors
    assert json.loads(state)["data"]["sandbox"]["limits"][-1].endswith("(sandbox.environment): SOME_TOKEN")
