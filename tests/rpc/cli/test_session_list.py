"""`pinnace sessions`, run as a user does."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

COMMAND = (sys.executable, "-P", "-m", "pinnace_rpc", "sessions")
TIMEOUT_S = 60.0


def sessions(pi: HomedAgent, *words: str, cwd: Path | None = None) -> list[Mapping[str, Any]]:
    """List the sessions that an agent's home has."""
    done = subprocess.run(
        [*COMMAND, *words],
        cwd=cwd or pi.home.work,
        env=dict(pi.home.env),
        capture_output=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert done.stderr == b""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_sessions_are_listed_newest_first(agent: AgentStarter) -> None:
    pi = agent([{"text": "one"}, {"text": "two"}], has_session=True)
    pi.request({"type": "prompt", "message": "first"})
    pi.wait({"type": "agent_settled"})
    pi.request({"type": "set_session_name", "name": "work"})
    older = pi.request({"type": "get_state"})["data"]
    pi.request({"type": "new_session"})
    pi.request({"type": "prompt", "message": "second"})
    pi.wait({"type": "agent_settled"})
    newer = pi.request({"type": "get_state"})["data"]

    listed = sessions(pi, "--session-dir", str(pi.home.sessions))

    assert [each["id"] for each in listed] == [newer["sessionId"], older["sessionId"]]
    assert [each["path"] for each in listed] == [newer["sessionFile"], older["sessionFile"]]
    assert [each["firstMessage"] for each in listed] == ["second", "first"]
    assert [each["messageCount"] for each in listed] == [2, 2]
    assert [each.get("name") for each in listed] == [None, "work"]


@pytest.mark.parametrize(("words", "count"), [((), 0), (("--all",), 1)])
def test_sessions_of_other_folders_are_listed_on_request(
    words: tuple[str, ...], count: int, agent: AgentStarter
) -> None:
    pi = agent([{"text": "one"}], has_session=True)
    pi.request({"type": "prompt", "message": "first"})
    pi.wait({"type": "agent_settled"})

    assert len(sessions(pi, *words, "--session-dir", str(pi.home.sessions), cwd=pi.home.temp)) == count
    assert sessions(pi, *words) == []
