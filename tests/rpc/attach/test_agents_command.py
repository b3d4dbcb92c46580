"""`pinnace agents`: what the host lists, as a table and as JSON, and what it is asked about one agent."""

import json
import subprocess
import sys
import time

import pytest
from tests.rpc.attach.conftest import TIMEOUT_S, Host

from pinnace_rpc.attach.asking import NoAnswer, answers
from pinnace_rpc.cli.commands.agents import table
from pinnace_rpc.host.protocol import AgentAction, Answer, ListAgents, Refused

ROW = {
    "name": "bot",
    "state": "running",
    "clients": 2,
    "cwd": "/work",
    "sessionId": "019a8f2e-1c2b",
    "needsInput": False,
}


def agents(host: Host, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "pinnace_rpc", "agents", *words]
    return subprocess.Popen(command, env=host.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_agents_are_listed_and_watched_as_json(host: Host) -> None:
    listing = agents(host, "--json", "--watch")
    connection = host.accept_request()
    assert connection.asked == ListAgents(True)
    assert listing.stdout is not None
    for rows in ([ROW], []):
        connection.control(Answer({"type": "agents", "agents": rows}))
        assert json.loads(listing.stdout.readline()) == {"agents": rows}
    connection.close()

    _, err = listing.communicate(timeout=TIMEOUT_S)
    assert (listing.returncode, err) == (1, "pinnace: the host has ended\n")


@pytest.mark.parametrize("action", ["stop", "restart", "remove"])
def test_an_agent_is_acted_on(host: Host, action: str) -> None:
    running = agents(host, action, "bot")
    connection = host.accept_request()
    assert isinstance(connection.asked, AgentAction)
    assert (connection.asked.action, connection.asked.agent) == (action, "bot")
    if action == "stop":
        connection.control(Refused(1, "there is no agent bot"))
    else:
        connection.control(Answer({"type": "done"}))

    out, err = running.communicate(timeout=TIMEOUT_S)
    expected = (1, "", "pinnace: there is no agent bot\n") if action == "stop" else (0, "", "")
    assert (running.returncode, out, err) == expected


def test_a_host_that_ends_without_an_answer_is_reported(host: Host) -> None:
    running = agents(host, "restart", "bot")
    host.accept_request().close()
    out, err = running.communicate(timeout=TIMEOUT_S)
    assert (running.returncode, out, err) == (1, "", "pinnace: the host has ended without an answer\n")


def test_a_host_that_does_not_answer_is_waited_for_a_limited_time(host: Host) -> None:
    with pytest.raises(NoAnswer, match=r"has not answered within 0\.01 seconds"):
        next(answers(host.environment, ListAgents(True), within_s=0.01))


def test_a_table_has_the_columns_that_are_known() -> None:
    other = {"name": "x", "state": "failed", "error": "no\x1b model", "lastActivity": (time.time() - 7300) * 1000}

    assert table([{**ROW, "needsInput": True}, other]).splitlines() == [
        "NAME  STATE        CLIENTS  ACTIVE   SESSION   FOLDER",
        "bot   needs input  2                 019a8f2e  /work",
        "x     failed                2 h ago",
        "x: 'no\\x1b model'",
    ]
    assert table([]) == "no agents"
