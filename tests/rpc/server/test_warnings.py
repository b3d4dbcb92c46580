"""What a client sees of warnings: records, and the state. Rules R-WRN-01 to R-WRN-03."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.conftest import COMMAND, ENVIRONMENT

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

FAILING = 'def extension(pi):\n    raise ValueError("the gate is broken")\n'


def loose(home: Path) -> None:
    """Let others read the keys, which is warned of at each start and reload."""
    keys = home / "auth.json"
    keys.write_text("{}")
    keys.chmod(0o644)


def bring(work: Path) -> None:
    (work / ".pi").mkdir(exist_ok=True)
    (work / ".pi" / "settings.json").write_text("{}")


def warnings(pi: HomedAgent) -> list[Mapping[str, Any]]:
    return list(pi.found({"type": "warning"}))


def test_warnings_of_the_start_follow_the_first_response(agent: AgentStarter) -> None:
    """R-WRN-01: so that a client which awaits its answer first gets that first; the state has them already."""
    first = agent()
    assert "warnings" not in first.ask("get_state")
    first.check_end()
    bring(first.home.work)
    loose(first.home.agent_dir)
    pi = agent([], again=first)
    state = pi.ask("get_state")
    pi.ask("get_state")
    assert [each["kind"] for each in state["warnings"]] == ["project_trust", "credentials"]
    trust, _keys = state["warnings"]
    assert (str(pi.home.work), True) == (trust["source"], "pinnace trust" in trust["remedy"])
    types = [each.record["type"] for each in pi.records]
    assert types == ["response", "warning", "warning", "response"]
    assert [{"type": "warning", **each} for each in state["warnings"]] == warnings(pi)
    for each in state["warnings"]:
        assert 1 == pi.stderr_text.count(each["text"])
    pi.check_end()


def test_older_generations_see_no_warnings(agent: AgentStarter) -> None:
    first = agent()
    first.check_end()
    bring(first.home.work)
    pi = agent([], "--protocol", "seed", again=first)
    assert "warnings" not in pi.ask("get_state")
    pi.ask("get_state")
    assert [] == warnings(pi)
    pi.check_end()
    assert "is not trusted" in pi.stderr_text


def test_a_reload_removes_the_warnings_that_hold_no_more(agent: AgentStarter) -> None:
    """R-WRN-02: and does not repeat the others."""
    first = agent()
    first.check_end()
    bring(first.home.work)
    loose(first.home.agent_dir)
    pi = agent([], again=first)
    assert ["project_trust", "credentials"] == [each["kind"] for each in pi.ask("get_state")["warnings"]]
    (first.home.agent_dir / "auth.json").chmod(0o600)
    (first.home.agent_dir / "skills" / "odd").mkdir(parents=True)
    (first.home.agent_dir / "skills" / "odd" / "SKILL.md").write_text("no description")
    assert pi.request({"type": "reload"})["success"]
    assert ["project_trust", "resources"] == [each["kind"] for each in pi.ask("get_state")["warnings"]]
    assert ["project_trust", "credentials", "resources"] == [each["kind"] for each in warnings(pi)]
    pi.check_end()


def test_the_state_lists_extensions_that_were_left_out_with_reasons(agent: AgentStarter) -> None:
    """R-WRN-03: broken ones of a process that keeps going, and those of another language."""
    first = agent(env={"PINNACE_NODE": "/nowhere/node"})
    first.check_end()
    folder = first.home.agent_dir / "extensions"
    folder.mkdir()
    (folder / "gate.py").write_text(FAILING)
    (folder / "other.ts").write_text("export default () => {}")
    pi = agent([], "--keep-going", again=first)
    state = pi.ask("get_state")
    reasons = {os.path.basename(each["path"]): each["reason"] for each in state["extensionsLeftOut"]}
    assert "the gate is broken" in reasons["gate.py"]
    assert "TypeScript" in reasons["other.ts"]
    assert {"extension"} == {each["kind"] for each in state["warnings"]}
    assert 1 == len([each for each in state["warnings"] if "the gate is broken" in each["text"]])
    # `extension_error` reports that one.
    assert ["TypeScript"] == [
        word for each in warnings(pi) for word in ("TypeScript", "broken") if word in each["text"]
    ]
    (folder / "gate.py").write_text("def extension(pi):\n    pass\n")
    (folder / "other.ts").unlink()
    assert pi.request({"type": "reload"})["success"]
    state = pi.ask("get_state")
    assert {"extensionsLeftOut", "warnings"}.isdisjoint(state), json.dumps(state)
    pi.check_end()


@pytest.mark.parametrize("flags", [("-p",), ("--mode", "json"), ("--mode", "json", "--protocol", "seed")])
def test_print_modes_say_on_stderr_which_servers_have_failed(flags: Sequence[str], print_agent: OneShotStarter) -> None:
    """Mode json has the records as well, in generations that know them; the exit code is that of the run."""
    servers: dict[str, object] = {"gone": {"command": "/nowhere/program"}, "odd": {"command": 7}}
    files: dict[str, object] = {"mcp.json": {"mcpServers": servers}}
    printed = print_agent([*flags, "hello"], [{"text": "fine"}], files=files).end()
    assert printed.code == 0, printed.err
    lines = [line for line in printed.err.splitlines() if "MCP" in line]
    assert ["gone" in line for line in lines].count(True) == 1
    assert [".servers.odd" in line or "odd" in line for line in lines].count(True) == 1
    assert all(("pinnace mcp test gone" if "gone" in line else "pinnace mcp list") in line for line in lines)
    assert "stale" not in printed.err
    texts = [each["text"] for each in printed.records if each["type"] == "warning"] if "json" in flags else []
    assert len(texts) == (2 if flags == ("--mode", "json") else 0)


def test_a_run_that_ends_before_servers_were_tried_says_so_and_nothing_else(tmp_path: Path) -> None:
    """It has no model. The library of the servers is still being loaded when the session is over."""
    servers = {"one": {"command": sys.executable}, "two": {"url": "http://127.0.0.1:9/mcp"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PI_CODING_AGENT_DIR": str(tmp_path), **ENVIRONMENT}
    done = subprocess.run([*COMMAND, "-p", "hello"], env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if "MCP" in line or "mcp" in line]
    text = "pinnace: warning: MCP server {0}: was not connected before the end. `pinnace mcp test {0}` has details."
    assert lines == [text.format("one"), text.format("two")]
