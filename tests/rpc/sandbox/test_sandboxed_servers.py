"""MCP servers of an agent in a sandbox: programs run inside, a project's servers over HTTP are refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.rpc.conftest import COMMAND, ENVIRONMENT
from tests.rpc.sandbox.test_sandboxed_tools import (
    DONE,
    calls,
    mechanisms,
    needs_bubblewrap,
    processes_named,
    results,
)
from tests.waiting import wait_until

from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

SERVER = str(Path(__file__).with_name("shell_server.py"))
NOWHERE = "http://127.0.0.1:9/mcp"


def server(*words: str, **fields: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-S", SERVER, *words], **fields}


def run(name: str, command: str) -> dict[str, Any]:
    return {"name": f"mcp__{name}__run", "args": {"command": command}}


def error_of(pi: HomedAgent, name: str, since: int = 0) -> str:
    """Return why a server has failed, as its record says."""
    return str(pi.wait({"type": "mcp_status", "name": name, "state": "failed"}, 60, since=since)["error"])


@needs_bubblewrap
def test_servers_run_inside_and_those_of_a_project_are_no_way_out(agent: AgentStarter, tmp_path: Path) -> None:
    """R-SBX-01, R-SBX-02, R-SBX-06."""
    outside = tmp_path / "outside"
    outside.mkdir()
    escapes = f"cat /proc/net/dev | wc -l; touch {outside}/inside; touch here; test -e {outside} || echo hidden"
    script = [calls(run("in", escapes)), calls(run("out", f"touch {outside}/free")), DONE]
    servers = {
        "in": server(),
        "out": server(sandbox=False),
        "away": {"url": NOWHERE},
        "off": server(sandbox=False, enabled=False),
    }
    variables = {"X": f"!touch {outside}/by-value; echo value"}
    project = {
        "named": server(env=variables),
        "own": {"url": NOWHERE},
        "off": {"enabled": True},
        "away": {"enabled": True},
    }
    # A bubblewrap that works, until it can't any more.
    broken = tmp_path / "broken"
    programs = tmp_path / "bin"
    programs.mkdir()
    refusal = "bwrap: No permissions to create new namespace"
    bwrap = f'#!/bin/sh\n[ -e {broken} ] && echo "{refusal}" >&2 && exit 1\nexec {shutil.which("bwrap")} "$@"\n'
    (programs / "bwrap").write_text(bwrap)
    (programs / "bwrap").chmod(0o755)
    pi = agent(
        script,
        *("--sandbox", "workspace-write", "--approve"),
        files={"mcp.json": {"mcpServers": servers}},
        path_first=programs,
    )
    pi.ask("get_state")  # it has started
    (pi.home.work / ".pi" / "mcp.json").write_text(json.dumps({"mcpServers": project}))
    pi.ask("reload")
    assert "the project's servers over HTTP are a way to it (--sandbox-network on)" in error_of(pi, "own")
    assert "a project can't enable a server that runs outside" in error_of(pi, "off")
    pi.wait({"type": "mcp_status", "name": "named", "state": "connected"}, 60, since=0)
    assert "sandbox" not in error_of(pi, "away")  # one of the user's, which may be reached
    pi.say("go")

    inside, free = results(pi)
    assert ["3", "hidden"] == [line for line in inside.splitlines() if "touch" not in line]
    assert f"touch: cannot touch '{outside}/inside'" in inside
    assert (pi.home.work / "here").exists()
    assert "" == free
    assert ["free"] == os.listdir(outside)

    broken.touch()
    mark = pi.mark()
    pi.ask("prompt", message="/mcp reconnect in")
    error = error_of(pi, "in", mark)
    assert error.startswith("the sandbox could not be set up (bubblewrap has ended with 1 before it ran the command)")
    assert error.endswith(refusal)


@needs_bubblewrap
def test_commands_for_values_run_no_program_that_commands_can_write(agent: AgentStarter, tmp_path: Path) -> None:
    """They run outside: an environment of the project may be first in PATH, with what a command has put there."""
    programs, ran = tmp_path / "agent-1" / "work" / "bin", tmp_path / "ran"
    programs.mkdir(parents=True)
    (programs / "my-key-program").write_text(f"#!/bin/sh\ntouch {ran}; echo key\n")
    (programs / "my-key-program").chmod(0o755)
    files = {"mcp.json": {"mcpServers": {"in": server(env={"X": "!my-key-program"})}}}
    pi = agent([], "--sandbox", "workspace-write", files=files, path_first=programs)

    assert "env.X: its command failed with status 127" in error_of(pi, "in")
    assert not ran.exists()


@mechanisms
def test_a_server_is_replaced_when_what_it_sees_is_out_of_date(
    agent: AgentStarter, tmp_path: Path, mechanism: str
) -> None:
    """A key that has come since its start, and a protected file that was replaced, so that its mount has ended."""
    look = "cut -d ' ' -f 22 /proc/$PPID/stat; cat keys; echo x >> .git/config"
    script = [calls(run("in", look)), DONE] * 4
    work = tmp_path / "agent-1" / "work"
    work.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    pi = agent(
        script,
        *("--sandbox", "workspace-write"),
        files={"mcp.json": {"mcpServers": {"in": server()}}},
        settings={"sandbox": {"mechanism": mechanism, "hide": [str(work / "keys")]}},
    )
    assert pi.ask("get_state")["sandbox"]["mechanism"] == mechanism
    said = []
    for step in ("first", "same", "key", "replaced"):
        if step == "key":
            (work / "keys").write_text("secret key")
        if step == "replaced":
            (work / ".git/new").write_text((work / ".git/config").read_text())
            (work / ".git/new").replace(work / ".git/config")
        mark = pi.mark()
        pi.say("go")
        pi.wait({"type": "agent_settled"}, since=mark)
        said.append(results(pi)[-1])

    assert [] == [each for each in said if "secret key" in each]
    assert "x" not in (work / ".git/config").read_text().split("\n")
    servers = [each.strip().split("\n")[0] for each in said]
    assert servers[0] == servers[1]
    assert len(set(servers)) == 3


@needs_bubblewrap
def test_a_server_ends_with_the_agent_that_is_killed(agent: AgentStarter, tmp_path: Path) -> None:
    """R-SBX-05: what it has started in a session of its own, too."""
    name = f"left-{tmp_path.name}-{os.getpid()}"
    leave = f"setsid sh -c ': {name}; sleep 600; :' > /dev/null 2>&1 & echo"
    servers = {"in": server(name)}
    pi = agent(
        [calls(run("in", leave)), DONE],
        *("--sandbox", "read-only"),
        files={"mcp.json": {"mcpServers": servers}},
        is_checked=False,
    )
    pi.say("go")
    wait_until(lambda: bool(processes_named(name)))
    os.kill(pi.process.pid, signal.SIGKILL)

    wait_until(lambda: not processes_named(name))


@needs_bubblewrap
def test_an_enforced_sandbox_keeps_the_servers_of_the_user_inside(agent: AgentStarter) -> None:
    """R-SBX-02."""
    pi = agent(
        [],
        settings={"sandbox": {"mode": "read-only", "enforced": True}},
        files={"mcp.json": {"mcpServers": {"out": server(sandbox=False)}}},
    )

    assert "sandbox.enforced of your settings keeps every program in the sandbox" in error_of(pi, "out")
    assert ["failed"] == [each["state"] for each in pi.ask("get_state")["mcpServers"]]


@needs_bubblewrap
def test_the_command_line_tries_servers_in_the_sandbox_of_the_settings(tmp_path: Path) -> None:
    """R-SBX-01."""
    home = tmp_path / "home"
    files = {"settings.json": {"sandbox": {"mode": "read-only"}}, "mcp.json": {"mcpServers": {"in": server()}}}
    for name, value in files.items():
        path = home / ".pi" / "agent" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    (home / "work").mkdir()
    env = {**os.environ, **ENVIRONMENT, "HOME": str(home)}
    env.pop("PI_CODING_AGENT_DIR", None)
    arguments = json.dumps({"command": "touch here; echo $PINNACE_SANDBOX"})
    words = [*COMMAND, "mcp", "test", "in", "--call", "run", arguments]
    done = subprocess.run(words, env=env, cwd=home / "work", capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stderr
    assert "read-only" in done.stdout
    assert "Read-only file system" in done.stdout
    assert "commands run in a sandbox (read-only" in done.stderr
