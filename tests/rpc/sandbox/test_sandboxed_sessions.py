"""The sandbox follows the session: its folder is what commands write, and its file is shown to them and to `read`."""

import json
import os
from pathlib import Path

from tests.rpc.sandbox.test_sandboxed_tools import DONE, bash, calls, needs_bubblewrap, results, write
from tests.waiting import wait_until

from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent


def session_in(folder: Path, file: Path) -> str:
    """Write a session of a folder, and return its path."""
    header = {"type": "session", "version": 3, "id": file.stem, "timestamp": "2026-01-02T03:04:05.000Z"}
    file.write_text(json.dumps({**header, "cwd": str(folder)}) + "\n")
    return str(file)


def settled(pi: HomedAgent, text: str) -> list[str]:
    """Send a prompt, and return the results of its calls."""
    before = len(results(pi))
    pi.say(text)
    return results(pi)[before:]


@needs_bubblewrap
def test_the_sandbox_follows_a_session_into_its_folder_or_refuses_it(agent: AgentStarter, tmp_path: Path) -> None:
    """R-SBX-07."""
    elsewhere, linked = tmp_path / "elsewhere", tmp_path / "linked"
    for each in (elsewhere, linked):
        each.mkdir()
    (linked / ".git").symlink_to(elsewhere)
    command = f"touch here; touch {tmp_path}/agent-1/work/there; touch /etc/there"
    script = [bash(command), write(".pi/mcp.json"), DONE, bash("touch back"), DONE]
    pi = agent(script, "--sandbox", "workspace-write", has_session=True)
    state = pi.ask("get_state")
    home = Path(pi.home.env["HOME"])
    first = session_in(pi.home.work, tmp_path / "first.jsonl")
    refused = {
        session_in(home, tmp_path / "home.jsonl"): "is the home folder",
        session_in(linked, tmp_path / "linked.jsonl"): "is a link",
        session_in(pi.home.work, pi.home.work / "own.jsonl"): "it holds session files",
    }
    for path, text in refused.items():
        answer = pi.request({"type": "switch_session", "sessionPath": path})
        assert (False, "session_unavailable") == (answer["success"], answer["errorCode"]), answer
        assert "the sandbox (workspace-write) can't be enforced for a session in" in answer["error"]
        assert text in answer["error"]
        after = pi.ask("get_state")
        assert (state["sandbox"], state["sessionId"]) == (after["sandbox"], after["sessionId"])

    pi.ask("switch_session", sessionPath=session_in(elsewhere, tmp_path / "other.jsonl"))
    assert [str(elsewhere.resolve())] == pi.ask("get_state")["sandbox"]["writable"]
    _, project = settled(pi, "go")
    assert not (pi.home.work / "there").exists()
    assert f"only {elsewhere.resolve()}, /tmp can be written" in json.dumps(pi.llm.requests[-1].body)
    assert "EROFS" in project
    assert ["here"] == [name for name in os.listdir(elsewhere) if not name.startswith(".")]

    pi.ask("switch_session", sessionPath=first)
    settled(pi, "back")
    assert (pi.home.work / "back").exists()


@needs_bubblewrap
def test_the_current_session_file_is_read_and_no_other(agent: AgentStarter, tmp_path: Path) -> None:
    """R-SBX-04: the attempt A13 of docs/sandbox-attempts.md, for the tools."""
    root = tmp_path / "agent-1"
    (root / "sessions").mkdir(parents=True)
    path = session_in(root / "work", root / "sessions" / "own.jsonl")
    other = session_in(root / "work", root / "sessions" / "other.jsonl")
    script = [
        calls({"name": "read", "args": {"path": path}}),
        calls({"name": "read", "args": {"path": other}}),
        write(path),
        DONE,
    ]
    settings = {"sandbox": {"readable": [str(root)]}}
    flags = ("--sandbox", "workspace-write", "--session", path)
    pi = agent(script, *flags, has_session=True, settings=settings)
    own, others, written = settled(pi, "begin")

    assert "begin" in own
    assert "ENOENT" in others
    assert "does not allow writing here" in written


@needs_bubblewrap
def test_a_change_of_something_protected_is_reported_once_to_the_client(agent: AgentStarter) -> None:
    """R-SBX-08: as by `git config` of the user, which ends the mount that protects the file."""
    command = "touch ready; while [ ! -e end ]; do sleep 0.01; done"
    edit = [{"oldText": "[core]", "newText": "[user]"}]
    change = calls({"name": "edit", "args": {"path": ".git/config", "edits": edit}})
    pi = agent([change, bash(command), change, DONE], "--sandbox", "workspace-write")
    config = pi.home.work / ".git" / "config"
    for each in ("objects", "hooks"):
        (config.parent / each).mkdir(parents=True, exist_ok=True)
    (config.parent / "HEAD").write_text("ref: refs/heads/main\n")
    config.write_text("[core]\n")
    pi.ask("prompt", message="go")
    wait_until((pi.home.work / "ready").exists)
    (config.parent / "new").write_text("[core]\n")
    (config.parent / "new").replace(config)
    (pi.home.work / "end").touch()
    pi.wait({"type": "agent_settled"}, 60)

    (problem,) = pi.found({"type": "extension_error"})
    assert ("sandbox", str(pi.home.work)) == (problem["event"], problem["extensionPath"])
    assert f"{config.resolve()}: replaced while a command ran" in problem["error"]
    assert problem["error"] == pi.ask("get_state")["sandbox"]["problem"]
    assert ["EROFS" in text or "EBUSY" in text for text in (results(pi)[0], results(pi)[2])] == [True, True]
    assert "[core]\n" == config.read_text()
