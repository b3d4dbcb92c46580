"""Calls that a server carries out as tasks, in both versions of the protocol that have them."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.mcp.conftest import HERE, Start
from tests.rpc.mcp.test_conversations import prompt, results

from pinnace_fuzz.trials.workbench import HomedAgent

VERSIONS = ("2025-11-25", "2026-07-28")
DONE = {"text": "done"}


def call(tool: str, **arguments: object) -> dict[str, Any]:
    return {"tool_calls": [{"name": f"mcp__tasks__{tool}", "args": arguments}]}


def entry(log: Path, version: str) -> Mapping[str, Any]:
    protocol = {"protocol": "auto"} if version == "2026-07-28" else {}
    return {
        "command": sys.executable,
        "args": ["-I", "-S", str(HERE / "task_server.py"), str(log), version],
        **protocol,
    }


def sent(log: Path, method: str) -> list[dict[str, Any]]:
    messages = [json.loads(line) for line in log.read_text().splitlines()]
    return [each["params"] for each in messages if each.get("method") == method]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.touch()
    return path


def started(with_servers: Start, log: Path, version: str, tool: str) -> HomedAgent:
    return with_servers({"tasks": entry(log, version)}, [call(tool), DONE])


def answered(pi: HomedAgent, *answers: str | None) -> None:
    """Answer dialogs in their order; None: by the first option."""
    mark = 0
    for answer in answers:
        asked = pi.wait({"type": "extension_ui_request"}, since=mark)
        mark = pi.mark()
        value = asked["options"][0] if answer is None else answer
        pi.send({"type": "extension_ui_response", "id": asked["id"], "value": value})


def test_the_result_of_a_task_is_that_of_its_call(with_servers: Start, log: Path, version: str) -> None:
    pi = started(with_servers, log, version, "plain")
    prompt(pi, "go")

    assert [("the result", False)] == results(pi)
    shown = [each["partialResult"]["content"][0]["text"] for each in pi.found({"type": "tool_execution_update"})]
    assert "begun" in shown
    (asked,) = sent(log, "tools/call")
    if version == "2025-11-25":
        assert {} == asked["task"]
        assert [{"taskId": "plain-0"}] == [{"taskId": each["taskId"]} for each in sent(log, "tasks/result")]
    else:
        assert "task" not in asked
        capabilities = asked["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        assert {"io.modelcontextprotocol/tasks": {}} == capabilities["extensions"]
        assert [] == sent(log, "tasks/result")


def test_a_notified_change_is_asked_for_at_once(with_servers: Start, log: Path, version: str) -> None:
    """R-MCP-11: by the pace that the server suggests, the task would outlast the run."""
    pi = with_servers({"tasks": entry(log, version)}, [call("notifies"), DONE], "--max-run-seconds", "30")
    prompt(pi, "go")

    assert [("the result", False)] == results(pi)
    listened = [each["notifications"] for each in sent(log, "subscriptions/listen")]
    assert ([{"taskIds": ["notifies-0"]}] if version == "2026-07-28" else []) == listened


def test_the_user_is_asked_once_and_the_answer_reaches_the_task(with_servers: Start, log: Path, version: str) -> None:
    pi = started(with_servers, log, version, "asks")
    assert pi.request({"type": "prompt", "message": "go"})["success"]
    answered(pi, "Answer", "the red one")
    pi.wait({"type": "agent_settled"})

    assert [("the result", False)] == results(pi)
    assert 2 == len(pi.found({"type": "extension_ui_request"}))
    if version == "2025-11-25":
        (answer,) = [json.loads(line) for line in log.read_text().splitlines() if '"question"' in line]
        assert {"action": "accept", "content": {"which": "the red one"}} == answer["result"]
    else:
        (update,) = sent(log, "tasks/update")
        assert {"first": {"action": "accept", "content": {"which": "the red one"}}} == update["inputResponses"]


@pytest.mark.parametrize(
    ("tool", "problem"),
    [
        ("fails", "no more sails"),
        ("is_cancelled", "the task was cancelled by the server: the wind fell"),
        ("is_odd", "the task has the state becalmed"),
    ],
)
def test_a_task_that_ends_without_a_result_fails_its_call(
    with_servers: Start, log: Path, version: str, tool: str, problem: str
) -> None:
    pi = started(with_servers, log, version, tool)
    prompt(pi, "go")
    ((text, is_error),) = results(pi)
    assert is_error
    assert problem in text


def test_a_completed_task_without_a_result_fails_its_call(with_servers: Start, log: Path) -> None:
    pi = started(with_servers, log, "2026-07-28", "is_empty")
    prompt(pi, "go")
    assert ("MCP tool tasks/is_empty: the task has the state completed, without what belongs to it", True) in results(
        pi
    )


def test_an_abort_ends_the_task(with_servers: Start, log: Path, version: str) -> None:
    pi = started(with_servers, log, version, "lasts")
    assert pi.request({"type": "prompt", "message": "go"})["success"]
    pi.wait({"type": "tool_execution_update"})
    assert pi.request({"type": "abort"})["success"]
    pi.wait({"type": "agent_settled"})
    pi.close_stdin()
    pi.wait_exit()

    assert ["lasts-0"] == [each["taskId"] for each in sent(log, "tasks/cancel")]


def test_a_server_that_dies_and_forgets_its_task_fails_the_call(with_servers: Start, log: Path, version: str) -> None:
    pi = started(with_servers, log, version, "dies")
    prompt(pi, "go")
    ((text, is_error),) = results(pi)
    assert is_error
    assert "may have taken effect" in text


@pytest.mark.peer
def test_the_tasks_of_the_server_for_everything(with_servers: Start, mcp_everything: list[str]) -> None:
    """Over stdio; its ambiguous query asks while it is asked for its result."""
    command, *arguments = mcp_everything
    query = {"name": "mcp__tasks__simulate_research_query", "args": {"topic": "python", "ambiguous": True}}
    servers = {"tasks": {"command": command, "args": arguments}}
    pi = with_servers(servers, [{"tool_calls": [query]}, DONE])
    assert pi.request({"type": "prompt", "message": "go"})["success"]
    answered(pi, "Answer", None)
    pi.wait({"type": "agent_settled"})

    ((text, is_error),) = results(pi)
    assert not is_error, text
    assert "python" in text
