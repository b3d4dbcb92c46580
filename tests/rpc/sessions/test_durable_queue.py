"""Queued messages survive the process: saved before they are accepted, restored paused, delivered or returned once."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_spec.session_format import validate_session

HANGING = {"chunks": [{"text": "one"}, {"hang": True}]}
SETTLED = {"type": "agent_settled"}


def kill(pi: HomedAgent) -> None:
    os.kill(pi.process.pid, signal.SIGKILL)
    pi.wait_exit()


def close(pi: HomedAgent) -> None:
    pi.close_stdin()
    pi.wait_exit()


def terminate(pi: HomedAgent) -> None:
    pi.signal(signal.SIGTERM)
    pi.wait_exit()


def left_queued(agent: AgentStarter, path: Path, former: HomedAgent) -> int:
    """Return how many messages the next agent that opens a session has in its queue."""
    state = agent((), "--session", str(path), again=former).request({"type": "get_state"})
    count: int = state["data"]["pendingMessageCount"]
    return count


def streaming(agent: AgentStarter, *flags: str) -> HomedAgent:
    pi = agent([HANGING], *flags, has_session=True, is_checked=False)
    pi.request({"type": "prompt", "message": "go"})
    pi.wait({"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}})
    return pi


def user_texts(pi: HomedAgent) -> list[str]:
    messages = pi.request({"type": "get_messages"})["data"]["messages"]
    return [message["content"][0]["text"] for message in messages if message["role"] == "user"]


def operations(path: Path) -> list[Record]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [row["data"] for row in rows if row.get("customType") == "pinnace.queue"]


def session_file(pi: HomedAgent) -> Path:
    [path] = pi.home.sessions.rglob("*.jsonl")
    return path


@pytest.mark.parametrize("ending", [kill, close, terminate], ids=lambda function: function.__name__)
def test_a_queue_survives_any_end_and_is_restored_paused(
    agent: AgentStarter, ending: Callable[[HomedAgent], None]
) -> None:
    """R-QUE-08, R-QUE-13: nothing is sent by itself, and the next message releases them in their order."""
    first = streaming(agent)
    image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    first.request({"type": "follow_up", "message": "F"})
    first.request({"type": "steer", "message": "S", "messageId": "mine", "images": [image]})
    ending(first)

    pi = agent([{"text": "more", "repeat": -1}], "--continue", again=first)
    state = pi.request({"id": "state", "type": "get_state"})["data"]
    assert (2, True, False) == (state["pendingMessageCount"], state["queuePaused"], state["isStreaming"])
    restored = pi.wait({"type": "queue_update"})
    assert (["S"], ["F"]) == (restored["steering"], restored["followUp"])
    assert 1 == len(pi.llm.requests)
    pi.request({"type": "prompt", "message": "again"})
    pi.wait(SETTLED)

    assert ["go", "again", "S", "F"] == user_texts(pi)
    assert [] == validate_session(session_file(pi).read_bytes())


def test_a_restored_queue_runs_without_a_further_message(agent: AgentStarter) -> None:
    first = streaming(agent)
    first.request({"type": "follow_up", "message": "F"})
    kill(first)

    pi = agent([{"text": "more", "repeat": -1}], "--continue", again=first)
    pi.request({"type": "abort", "queue": "continue"})
    pi.wait(SETTLED)

    assert ["go", "F"] == user_texts(pi)


def test_a_queue_of_a_session_that_can_only_be_read_waits_for_a_process_that_can_write(agent: AgentStarter) -> None:
    """R-QUE-13: its delivery could not be saved, and the next process would deliver it again."""
    first = streaming(agent)
    first.request({"type": "follow_up", "message": "F"})
    path = session_file(first)
    kill(first)
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"version":3', b'"version":99', 1))
    reader = agent(
        [{"text": "more", "repeat": -1}],
        "--session",
        str(path),
        "--on-restore",
        "continue",
        again=first,
        is_checked=False,
    )
    state = reader.request({"type": "get_state"})["data"]
    reader.request({"type": "abort", "queue": "continue"})
    close(reader)
    path.write_bytes(content)

    assert (0, False) == (state["pendingMessageCount"], state["isStreaming"])
    assert [] == reader.found({"type": "message_start"})
    assert 1 == left_queued(agent, path, first)


def test_a_process_that_is_started_so_continues_with_its_queue(agent: AgentStarter) -> None:
    """R-QUE-18: the first command meets the run, and a session that is switched to is paused all the same."""
    first = streaming(agent)
    first.request({"type": "follow_up", "message": "F"})
    path = session_file(first)
    kill(first)
    flags = ("--on-restore", "continue")
    other = agent((), *flags, again=first, has_session=True, is_checked=False)
    other.request({"type": "switch_session", "sessionPath": str(path)})
    assert other.request({"type": "get_state"})["data"]["queuePaused"]
    kill(other)

    other.llm.add(HANGING)
    pi = agent((), "--session", str(path), *flags, again=other, is_checked=False)
    state = pi.request({"type": "get_state"})["data"]
    assert (0, False, True) == (state["pendingMessageCount"], state["queuePaused"], state["isStreaming"])
    assert ["go", "F"] == user_texts(pi)


def test_the_state_shows_whether_the_queue_is_paused(agent: AgentStarter) -> None:
    """R-QUE-15: never with an empty queue, which a message would not have to release."""

    def is_paused() -> object:
        return pi.request({"type": "get_state"})["data"]["queuePaused"]

    pi = streaming(agent)
    pi.request({"type": "follow_up", "message": "F"})
    while_running = is_paused()
    pi.request({"type": "abort"})
    after_abort = is_paused()
    pi.request({"type": "clear_queue"})
    when_empty = is_paused()
    pi.request({"type": "abort"})

    assert (False, True, False, False) == (while_running, after_abort, when_empty, is_paused())


def test_an_accepted_message_is_on_the_disk_before_its_response(agent: AgentStarter) -> None:
    """R-QUE-12."""
    pi = streaming(agent)
    for name in ("steer", "follow_up"):
        pi.request({"type": name, "message": name, "messageId": f"id of {name}"})
        saved = operations(session_file(pi))[-1]
        assert ("add", name, f"id of {name}", name) == tuple(saved[key] for key in ("op", "kind", "messageId", "text"))
    pi.request({"type": "prompt", "message": "P", "streamingBehavior": "followUp"})
    assert "follow_up" == operations(session_file(pi))[-1]["kind"]


@pytest.mark.parametrize("room", [0, 20])
def test_a_message_that_cannot_be_saved_is_refused_and_leaves_nothing(agent: AgentStarter, room: int) -> None:
    """R-QUE-12: a full disk, which may take a part."""
    pi = streaming(agent)
    with full_disk(pi, room):
        refused = pi.request({"type": "steer", "message": "S"})

    assert (False, "session_not_saved") == (refused["success"], refused["errorCode"])
    assert 0 == pi.request({"type": "get_state"})["data"]["pendingMessageCount"]
    assert pi.request({"type": "steer", "message": "T"})["success"]
    kill(pi)
    again = agent((), "--continue", again=pi)
    assert 1 == again.request({"type": "get_state"})["data"]["pendingMessageCount"]


@contextmanager
def full_disk(pi: HomedAgent, room: int = 0) -> Generator[None]:
    _, hard = resource.prlimit(pi.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pi.process.pid, resource.RLIMIT_FSIZE, (session_file(pi).stat().st_size + room, hard))
    yield
    resource.prlimit(pi.process.pid, resource.RLIMIT_FSIZE, (hard, hard))


@pytest.mark.parametrize("name", ["clear_queue", "abort"])
def test_messages_whose_return_cannot_be_saved_stay_queued(agent: AgentStarter, name: str) -> None:
    """R-QUE-12: else they would be returned, and restored by the next process."""
    pi = streaming(agent)
    pi.request({"type": "follow_up", "message": "F"})
    pi.request({"type": "steer", "message": "S"})
    with full_disk(pi):
        answer = pi.request({"type": name, **({"queue": "clear"} if name == "abort" else {})})
        if name == "abort":
            assert {"steering": [], "followUp": []} == answer["data"]["cleared"]
            pi.wait({"type": "extension_error", "event": "session_save"})
        else:
            assert (False, "session_not_saved") == (answer["success"], answer["errorCode"])
        state = pi.request({"type": "get_state"})["data"]
        assert (2, True) == (state["pendingMessageCount"], state["queuePaused"])
    again = pi.request({"type": "clear_queue"})["data"]
    assert {"steering": ["S"], "followUp": ["F"]} == again
    path = session_file(pi)
    kill(pi)
    assert 0 == left_queued(agent, path, pi)


def test_a_replaced_session_keeps_the_messages_whose_return_cannot_be_saved(agent: AgentStarter) -> None:
    """R-QUE-12."""
    pi = streaming(agent)
    pi.request({"type": "follow_up", "message": "F"})
    path = session_file(pi)
    with full_disk(pi):
        data = pi.request({"type": "new_session"})["data"]
    assert {"steering": [], "followUp": []} == data["cleared"]
    assert 0 == pi.request({"type": "get_state"})["data"]["pendingMessageCount"]
    kill(pi)
    assert 1 == left_queued(agent, path, pi)


@pytest.mark.parametrize("name", ["clear_queue", "abort", "new_session"])
def test_what_was_delivered_or_returned_is_not_queued_again(agent: AgentStarter, name: str) -> None:
    """R-QUE-12: each message has one fate, whatever ends the process afterwards."""
    pi = agent([{"chunks": [{"text": "one"}, {"gate": "g"}]}, HANGING], has_session=True, is_checked=False)
    pi.request({"type": "prompt", "message": "go"})
    pi.llm.wait_reached("g")
    pi.request({"type": "steer", "message": "delivered"})
    pi.request({"type": "follow_up", "message": "returned"})
    path = session_file(pi)
    pi.llm.release("g")
    pi.llm.wait_requests(2)
    data = pi.request({"type": name, **({"queue": "clear"} if name == "abort" else {})})["data"]
    cleared = data if name == "clear_queue" else data["cleared"]
    assert {"steering": [], "followUp": ["returned"]} == cleared
    assert "remove" == operations(path)[-1]["op"]
    kill(pi)

    assert 0 == left_queued(agent, path, pi)


def test_a_copy_of_a_session_takes_no_queue_along(agent: AgentStarter) -> None:
    """R-QUE-13: the queue belongs to the session whose id it has."""
    first = streaming(agent)
    first.request({"type": "follow_up", "message": "F"})
    kill(first)

    copied = agent((), "--fork", str(session_file(first)), again=first)
    assert 0 == copied.request({"type": "get_state"})["data"]["pendingMessageCount"]


def test_a_session_that_is_switched_to_has_its_queue(agent: AgentStarter) -> None:
    """R-QUE-13."""
    first = streaming(agent)
    first.request({"type": "follow_up", "message": "F"})
    path = session_file(first)
    kill(first)

    pi = agent((), again=first, has_session=True, is_checked=False)
    pi.request({"type": "switch_session", "sessionPath": str(path)})
    pi.wait({"type": "queue_update", "followUp": ["F"]})
    assert 1 == pi.request({"type": "get_state"})["data"]["pendingMessageCount"]


@pytest.mark.parametrize("name", ["new_session", "clone"])
def test_a_message_behind_a_command_that_replaces_the_session_is_saved_in_the_new_one(
    agent: AgentStarter, name: str
) -> None:
    """R-QUE-12, R-QUE-13: its file has it, so the former session does not deliver it a second time."""
    pi = streaming(agent)
    former = session_file(pi)
    pi.llm.add(HANGING)
    pi.send_many([{"type": name}, {"id": "behind", "type": "follow_up", "message": "B"}])
    assert pi.wait({"type": "response", "id": "behind"}, since=0)["success"]
    state = pi.request({"type": "get_state"})["data"]
    kill(pi)

    assert [] == operations(former)
    assert ["add"] == [each["op"] for each in operations(Path(state["sessionFile"]))]
    assert 0 == left_queued(agent, former, pi)


def test_a_message_behind_a_switch_follows_the_queue_of_that_session(agent: AgentStarter) -> None:
    """R-QUE-12, R-QUE-13: each is delivered once, in the order in which they were accepted."""
    first = streaming(agent)
    first.request({"type": "follow_up", "message": "F"})
    path = session_file(first)
    kill(first)

    pi = agent([{"text": "more", "repeat": -1}], again=first, has_session=True, is_checked=False)
    pi.send_many(
        [{"type": "switch_session", "sessionPath": str(path)}, {"id": "b", "type": "follow_up", "message": "B"}]
    )
    assert pi.wait({"type": "response", "id": "b"}, since=0)["success"]
    pi.wait(SETTLED)
    assert ["go", "F", "B"] == user_texts(pi)
    kill(pi)
    assert 0 == left_queued(agent, path, pi)


def test_a_switch_to_the_same_session_returns_its_queue_alone(agent: AgentStarter) -> None:
    """R-QUE-12: what is returned is not restored, and what was sent behind the switch is queued once."""
    pi = streaming(agent)
    path = session_file(pi)
    pi.request({"type": "follow_up", "message": "F"})
    pi.llm.add(HANGING)
    pi.send_many(
        [
            {"id": "switch", "type": "switch_session", "sessionPath": str(path)},
            {"id": "b", "type": "follow_up", "message": "B"},
        ]
    )
    assert ["F"] == pi.wait({"type": "response", "id": "switch"}, since=0)["data"]["cleared"]["followUp"]
    assert pi.wait({"type": "response", "id": "b"}, since=0)["success"]
    pi.llm.wait_requests(2)
    assert ["go", "B"] == user_texts(pi)
    assert 0 == pi.request({"type": "get_state"})["data"]["pendingMessageCount"]
    kill(pi)
    assert 0 == left_queued(agent, path, pi)


def test_without_a_session_file_messages_are_queued_in_memory(agent: AgentStarter) -> None:
    pi = agent([HANGING])
    pi.request({"type": "prompt", "message": "go"})
    pi.request({"type": "follow_up", "message": "F"})

    assert {"steering": [], "followUp": ["F"]} == pi.request({"type": "clear_queue"})["data"]


def test_print_mode_leaves_a_queue_and_reports_it(agent: AgentStarter) -> None:
    """Nobody would see what becomes of it."""
    first = streaming(agent)
    first.request({"type": "follow_up", "message": "F"})
    kill(first)
    first.llm.add({"text": "good day"})
    model = ("--provider", "fake", "--model", "m1", "-p", "hello")
    words = [sys.executable, "-P", "-m", "pinnace_rpc", "--session", str(session_file(first)), *model]
    printed = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=True,
        cwd=first.home.work,
        env=first.home.env,
        stdin=subprocess.DEVNULL,
    )

    assert "good day\n" == printed.stdout
    assert "pinnace: 1 message is queued in this session" in printed.stderr
    pi = agent((), "--continue", again=first)
    assert 1 == pi.request({"type": "get_state"})["data"]["pendingMessageCount"]


@pytest.mark.parametrize("room", [0, 20])
def test_a_prompt_that_cannot_be_saved_is_not_known(agent: AgentStarter, room: int) -> None:
    """R-SES-05: the same message is accepted when there is space, also if a part of it was in the file."""
    pi = agent([{"text": "more", "repeat": -1}], has_session=True, is_checked=False)
    pi.request({"type": "prompt", "message": "go"})
    pi.wait(SETTLED)
    _, hard = resource.prlimit(pi.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pi.process.pid, resource.RLIMIT_FSIZE, (session_file(pi).stat().st_size + room, hard))
    prompt = {"type": "prompt", "message": "P", "messageId": "mine"}
    refused = pi.request(prompt)
    resource.prlimit(pi.process.pid, resource.RLIMIT_FSIZE, (hard, hard))

    assert (False, "session_not_saved") == (refused["success"], refused["errorCode"])
    assert "started" == pi.request(prompt)["data"]["disposition"]


def test_an_abort_that_returns_messages_does_not_wait_for_a_later_one_that_waits_for_it(agent: AgentStarter) -> None:
    """Commands that come together, while a prompt is checked and a restored queue is paused, are all answered."""
    first = streaming(agent)
    first.request({"type": "follow_up", "message": "F"})
    kill(first)

    pi = agent([{"text": "more", "repeat": -1}], "--continue", again=first, is_checked=False)
    commands = [
        {"id": "prompt", "type": "prompt", "message": "P"},
        {"id": "steer", "type": "steer", "message": "S"},
        {"id": "continue", "type": "abort", "queue": "continue"},
        {"id": "clear", "type": "abort", "queue": "clear"},
    ]
    pi.send_many(commands)
    for command in commands:  # in whichever order
        pi.wait({"type": "response", "id": command["id"]}, since=0)
    assert pi.request({"type": "prompt", "message": "again"})["success"]


def test_a_message_that_an_abort_returns_while_it_is_saved_is_shown_in_the_queue(agent: AgentStarter) -> None:
    """R-QUE-01: it is answered as queued, so it was, if only for a moment."""
    pi = streaming(agent)
    since = len(pi.records)
    pi.send_many([{"id": "new", "type": "steer", "message": "S"}, {"id": "clear", "type": "abort", "queue": "clear"}])
    answer = pi.wait({"type": "response", "id": "clear"}, since=0)

    assert ["S"] == answer["data"]["cleared"]["steering"]
    shown = [
        record.get("steering", record.get("data", {}).get("disposition"))
        for record in (each.record for each in pi.records[since:])
        if record["type"] == "queue_update" or record.get("id") == "new"
    ]
    assert [["S"], "queued", []] == shown


def test_a_message_behind_an_abort_that_returns_others_is_answered_and_so_is_the_abort(agent: AgentStarter) -> None:
    """They come together, while the run stops: the abort waits until the message is saved, and not the other way."""
    pi = streaming(agent)
    pi.request({"type": "steer", "message": "S"})
    pi.llm.add({"text": "more", "repeat": -1})
    pi.send_many(
        [{"id": "clear", "type": "abort", "queue": "clear"}, {"id": "new", "type": "follow_up", "message": "N"}]
    )

    assert ["S"] == pi.wait({"type": "response", "id": "clear"}, since=0)["data"]["cleared"]["steering"]
    assert pi.wait({"type": "response", "id": "new"}, since=0)["success"]
    pi.wait(SETTLED)
    assert ["go", "N"] == user_texts(pi)
