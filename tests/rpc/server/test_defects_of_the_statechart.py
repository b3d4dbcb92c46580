"""A defect of the statechart ends the process in order: all is answered, closed and saved, and the exit code is 70.

An action of a real process is replaced by one that does its work and then raises, so that the state is half of the next
one when the step fails.
"""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.reading import record_faults, worded
from pinnace_fuzz.trials.workbench import LEFT_BEHIND_TIMEOUT_S, AgentStarter, HomedAgent

ENVIRONMENT = {"PYTHONPATH": PYTHONPATH}
EXIT_DEFECT = 70
TEXT = "Internal error: injected"
BOMB = {"id": "bomb", "type": "clear_queue"}
STREAMING = {"type": "message_update"}
ENDLESS = {"chunks": [{"text": "half an answer"}, {"hang": True}]}


def command(action: str) -> tuple[str, ...]:
    """The agent with an action that fails when it has done its work."""
    code = f"""
import sys
from pinnace_rpc.cli.main import main
from pinnace_statechart.actions import ACTIONS
whole = ACTIONS[{action!r}]
def failing(context):
    whole(context)
    raise RuntimeError("injected")
ACTIONS[{action!r}] = failing
sys.exit(main())
"""
    return (sys.executable, "-P", "-c", code)


Start = Callable[..., HomedAgent]
Starter = Callable[[str], Start]


@pytest.fixture
def failing_at(tmp_path: Path, llm: object) -> Iterator[Starter]:
    """Makes starters of agents that fail at an action."""
    with ExitStack() as stack:
        numbers = count()

        def starter(action: str) -> Start:
            root = tmp_path / f"{action}-{next(numbers)}"
            start = stack.enter_context(AgentStarter(command(action), root, ENVIRONMENT, is_specified=True))
            return partial(start, is_checked=False)  # the exit code is not that of an agent that keeps the contract

        yield starter


@pytest.fixture
def failing(failing_at: Starter) -> Start:
    """Starts agents that fail at `clear_queue`."""
    return failing_at("accept_cleared")


def ended(pi: HomedAgent) -> list[Record]:
    """Wait for the end, check it, and return everything that was written."""
    assert EXIT_DEFECT == pi.wait_exit()
    records = [each.record for each in pi.records]
    [finding] = worded(pi.judged())
    assert finding.startswith("I-CRASH")
    assert {} == pi.journal.unanswered()
    assert [] == pi.process.left_behind(LEFT_BEHIND_TIMEOUT_S)
    assert "Traceback" in pi.stderr_text
    assert 1 == pi.stderr_text.count("the statechart failed at")
    return records


def outcome(pi: HomedAgent, command_id: str) -> tuple[bool, str | None, str | None]:
    response = pi.response(command_id)
    assert response is not None, command_id
    return response["success"], response.get("errorCode"), response.get("error")


def kinds(records: list[Record]) -> list[str]:
    return [record["command"] if record["type"] == "response" else record["type"] for record in records]


FAILED = (False, "internal_error", TEXT)


def test_an_idle_agent_answers_the_command_and_exits(failing: Start) -> None:
    pi = failing()
    pi.send_many([BOMB, {"id": "next", "type": "get_state"}])
    records = ended(pi)

    assert [FAILED, FAILED] == [outcome(pi, "bomb"), outcome(pi, "next")]
    assert ["clear_queue", "get_state"] == kinds(records)


def test_a_run_a_shell_and_queued_messages_are_closed_answered_and_saved(
    failing: Start, gates: Callable[[], ShellGate]
) -> None:
    gate = gates()
    pi = failing([ENDLESS], has_session=True)
    pi.ask("prompt", message="the prompt")
    pi.wait(STREAMING)
    pi.send({"id": "shell", "type": "bash", "command": f"trap '' TERM; {gate.reading}"})
    gate.wait_reached()
    pi.ask("steer", message="steer it")
    pi.ask("follow_up", message="follow it up")
    pi.send_many([{"id": "abort", "type": "abort"}, BOMB, {"id": "late", "type": "prompt", "message": "late"}])
    records = ended(pi)

    assert [FAILED] * 4 == [outcome(pi, name) for name in ("shell", "abort", "bomb", "late")]
    [end] = [each["message"] for each in records if each["type"] == "message_end" and _is_answer(each)]
    assert ("error", TEXT) == (end["stopReason"], end["errorMessage"])
    assert "half an answer" in json.dumps(end)
    assert 1 == kinds(records).count("agent_settled")
    updates = [each for each in records if each["type"] == "queue_update"]
    assert (["steer it"], ["follow it up"]) == (updates[-1]["steering"], updates[-1]["followUp"])

    again = failing((), "--continue", again=pi)
    entries = again.ask("get_entries")["entries"]
    texts = json.dumps(entries)
    assert "the prompt" in texts
    assert "half an answer" in texts
    queued = [each["data"]["text"] for each in entries if each.get("customType") == "pinnace.queue"]
    assert ["steer it", "follow it up"] == queued
    assert 2 == again.ask("get_state")["pendingMessageCount"]
    assert "late" not in texts


def _is_answer(record: Record) -> bool:
    return bool(record["message"]["role"] == "assistant")


def test_a_running_tool_ends_with_an_error_and_its_process_is_killed(
    failing: Start, gates: Callable[[], ShellGate]
) -> None:
    gate = gates()
    call = {"name": "bash", "args": {"command": f"sleep 600 & {gate.reading}"}}
    pi = failing([{"tool_calls": [call]}])
    pi.ask("prompt", message="run it")
    gate.wait_reached()
    pi.send(BOMB)
    records = ended(pi)

    [end] = [each for each in records if each["type"] == "tool_execution_end"]
    assert end["isError"]
    assert TEXT in json.dumps(end)


def test_a_retry_that_waits_is_closed(failing: Start) -> None:
    pi = failing([{"error": {"status": 503}}], settings={"retry": {"baseDelayMs": 60_000}})
    pi.ask("prompt", message="ask")
    pi.wait({"type": "auto_retry_start"})
    pi.send(BOMB)
    records = ended(pi)

    [end] = [each for each in records if each["type"] == "auto_retry_end"]
    assert (False, TEXT) == (end["success"], end["finalError"])


def test_a_compaction_is_closed_and_its_command_is_answered(failing: Start) -> None:
    long = "word " * 2000
    pi = failing(
        [{"text": long}, {"text": long}, {"chunks": [{"hang": True}]}],
        settings={"compaction": {"keepRecentTokens": 100}},
    )
    pi.say("one", "two")
    pi.send({"id": "compact", "type": "compact"})
    pi.wait({"type": "compaction_start"})
    pi.send(BOMB)
    records = ended(pi)

    assert FAILED == outcome(pi, "compact")
    [end] = [each for each in records if each["type"] == "compaction_end"]
    assert (False, TEXT) == (end["aborted"], end["errorMessage"])


@pytest.mark.parametrize(
    "action", ["take_prompt", "start_preflight", "append_prompt", "accept_prompt", "deliver_prompt"]
)
def test_a_prompt_that_is_not_yet_answered_is_refused_and_leaves_nothing(failing_at: Starter, action: str) -> None:
    pi = failing_at(action)([{"text": "never"}], has_session=True)
    pi.send({"id": "p", "type": "prompt", "message": "a prompt"})
    ended(pi)

    assert FAILED == outcome(pi, "p")
    again = failing_at(action)((), "--continue", again=pi)
    assert [] == again.ask("get_messages")["messages"]


@pytest.mark.parametrize("action", ["end_message", "end_turn", "end_run", "end_job", "settle"])
def test_a_run_that_fails_at_its_end_is_closed_once(failing_at: Starter, action: str) -> None:
    pi = failing_at(action)([{"text": "an answer"}], has_session=True)
    pi.ask("prompt", message="a prompt")
    records = ended(pi)

    assert [1, 1, 1] == [kinds(records).count(kind) for kind in ("turn_end", "agent_end", "agent_settled")]
    again = failing_at("accept_cleared")((), "--continue", again=pi)
    assert "an answer" in json.dumps(again.ask("get_messages"))


def test_the_end_of_stdin_and_a_signal_change_nothing(failing_at: Starter) -> None:
    """The failing step is the one that they cause."""
    pi = failing_at("close_dialogs")()
    pi.ask("get_state")
    pi.close_stdin()
    ended(pi)
    pi = failing_at("close_dialogs")()
    pi.ask("get_state")
    pi.signal(signal.SIGTERM)
    ended(pi)


@pytest.mark.parametrize("mode", ["text", "json"])
@pytest.mark.parametrize("action", ["start_preflight", "end_message", "end_run"])
def test_a_question_of_the_command_line_ends_with_the_same_code(tmp_path: Path, action: str, mode: str) -> None:
    with OneShotStarter(command(action), tmp_path, ENVIRONMENT) as start:
        one_shot = start(["--mode", mode, "a prompt", "never sent"], [{"text": "an answer"}])
        printed = one_shot.end()

        assert EXIT_DEFECT == printed.code
        assert "the statechart failed at" in printed.err
        if mode == "text":
            assert "" == printed.out
        else:
            assert [] == record_faults(printed.events)
        assert len(one_shot.llm.requests) <= 1
        assert [] == one_shot.left_behind()
