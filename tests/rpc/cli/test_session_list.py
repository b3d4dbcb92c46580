"""`pinnace sessions`, run as a user does."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pinnace_agent.session.listing import SessionInfo
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_rpc.cli.commands import sessions as sessions_command
from pinnace_rpc.cli.commands.sessions import table
from pinnace_spec.rules.limits import MAX_FIRST_MESSAGE_CHARS

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


def info(session_id: str, first: str, *, name: str | None = None, ago_s: float = 0, cwd: str = "/work") -> SessionInfo:
    modified_ms = int((time.time() - ago_s) * 1000)
    return SessionInfo(Path("/s.jsonl"), session_id, cwd, name, None, "", modified_ms, 2, first)


def test_people_get_a_table_as_wide_as_the_terminal() -> None:
    """Ids are as short as they name one session; texts are on one line, without control sequences, and cut."""
    long = "word " * 100
    shown = table(
        [
            info("0198aaaa-1", "fix the\n\x1b[31mtests", ago_s=60),
            info("0198aaaa-2", long, ago_s=7200),
            info("other", "x", name="work"),
        ],
        60,
    ).splitlines()

    assert "LAST USED  MESSAGES  ID          NAME OR FIRST MESSAGE" == shown[0]
    assert "1 min ago  2         0198aaaa-1  fix the \ufffd[31mtests" == shown[1]
    assert shown[2].startswith("2 h ago    2         0198aaaa-2  word word")
    assert (60, "…") == (len(shown[2]), shown[2][-1])
    assert shown[3].endswith("other       work")
    assert "--session ID" in shown[-1]
    assert "/work" in table([info("a", "b")], 80, has_folders=True)
    assert "no sessions" in table([], 80)


def test_a_terminal_gets_the_table_and_a_pipe_or_the_option_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    printed = {}
    for is_terminal, words in [(True, []), (True, ["--json"]), (False, [])]:
        monkeypatch.setattr(sys.stdout, "isatty", lambda is_terminal=is_terminal: is_terminal)
        assert 0 == sessions_command.main(words)
        printed[is_terminal, *words] = capsys.readouterr().out

    assert ["no sessions of this folder; --all lists those of all folders\n", "", ""] == list(printed.values())


def test_json_has_the_beginning_of_a_long_first_message() -> None:
    shown = info("a", "x" * 10_000).record()["firstMessage"]

    assert "x" * (MAX_FIRST_MESSAGE_CHARS - 1) + "…" == shown
