"""`get_queue`, and `clear_queue` that is repeated: what waits and what was returned, whatever has ended the process."""

import os
import signal

import pytest

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

HANGING = {"chunks": [{"text": "one"}, {"hang": True}]}
IMAGE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
CLEAR: Record = {"id": "c", "type": "clear_queue"}


def streaming(agent: AgentStarter) -> HomedAgent:
    pi = agent([HANGING], has_session=True, is_checked=False)
    pi.request({"type": "prompt", "message": "go"})
    pi.wait({"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}})
    return pi


def killed(agent: AgentStarter, pi: HomedAgent) -> HomedAgent:
    """Kill the process and start the next one."""
    os.kill(pi.process.pid, signal.SIGKILL)
    pi.wait_exit()
    return agent([{"text": "more", "repeat": -1}], "--continue", again=pi)


def queued(pi: HomedAgent) -> list[str]:
    return [message["text"] for message in pi.ask("get_queue")["messages"]]


def test_the_list_has_the_queue_in_the_order_of_delivery(agent: AgentStarter) -> None:
    """R-QUE-16: and the next process has the same list, paused."""
    pi = streaming(agent)
    pi.ask("follow_up", message="F", messageId="f")
    pi.ask("steer", message="S", messageId="s", images=[IMAGE])
    pi.ask("follow_up", message="G", messageId="g")
    steer = {"messageId": "s", "kind": "steer", "text": "S", "imageCount": 1}
    rest = [{"messageId": each.lower(), "kind": "followUp", "text": each, "imageCount": 0} for each in "FG"]

    assert {"messages": [steer, *rest], "paused": False} == pi.ask("get_queue")
    assert {"messages": [steer, *rest], "paused": True, "returned": []} == killed(agent, pi).ask(
        "get_queue", returned=True
    )


def test_returned_messages_are_listed_after_a_crash(agent: AgentStarter) -> None:
    """R-QUE-16: with the command, by its name or its id, or without one."""
    pi = streaming(agent)
    pi.ask("follow_up", message="A", messageId="a")
    pi.request({**CLEAR, "by": "me"})
    pi.ask("steer", message="B", messageId="b")
    pi.request({"id": 7, "type": "clear_queue"})
    pi.ask("follow_up", message="C", messageId="c")
    pi.request({"id": "x", "type": "abort", "queue": "clear"})
    message = {"kind": "followUp", "imageCount": 0}
    expected = [
        {**message, "messageId": "a", "text": "A", "reason": "clear_queue", "by": "me"},
        {**message, "messageId": "b", "text": "B", "kind": "steer", "reason": "clear_queue", "by": "7"},
        {**message, "messageId": "c", "text": "C", "reason": "abort", "by": "x"},
    ]

    assert expected == pi.ask("get_queue", returned=True)["returned"]
    assert expected == killed(agent, pi).ask("get_queue", returned=True)["returned"]


@pytest.mark.parametrize("command", [{**CLEAR, "by": "me"}, CLEAR], ids=["by", "id"])
def test_a_repeated_clear_queue_returns_the_same_messages_again(agent: AgentStarter, command: Record) -> None:
    """R-QUE-17."""
    pi = streaming(agent)
    pi.ask("follow_up", message="F")
    pi.ask("steer", message="S")
    returned = pi.request(command)["data"]
    again = killed(agent, pi)

    assert {"steering": ["S"], "followUp": ["F"]} == returned == again.request(command)["data"]
    assert {"steering": [], "followUp": []} == again.request({**CLEAR, "id": "d"})["data"]


def test_a_repeated_clear_queue_is_known_to_a_process_that_has_opened_the_session_before(agent: AgentStarter) -> None:
    """R-QUE-17: while the former one had it."""
    pi = streaming(agent)
    pi.ask("follow_up", message="F")
    other = agent((), "--continue", again=pi)
    other.ask("get_state")
    command = {**CLEAR, "by": "me"}
    first = pi.request(command)["data"]
    pi.ask("follow_up", message="G")
    pi.kill()

    assert {"steering": [], "followUp": ["F"]} == first == other.request(command)["data"]
    assert ["G"] == queued(other)


def test_a_repeated_clear_queue_leaves_what_was_queued_since(agent: AgentStarter) -> None:
    """R-QUE-17: with its `by` it is the same command, however often it comes."""
    pi = streaming(agent)
    pi.ask("follow_up", message="F")
    command = {**CLEAR, "by": "me"}
    first = pi.request(command)["data"]
    pi.ask("follow_up", message="G")

    assert {"steering": [], "followUp": ["F"]} == first == pi.request({**command, "id": "d"})["data"]
    assert ["G"] == queued(pi)
    again = killed(agent, pi)
    assert first == again.request(command)["data"]
    assert ["G"] == queued(again)


def test_an_id_that_is_used_again_withdraws_what_is_queued(agent: AgentStarter) -> None:
    """R-QUE-17: clients count their commands from 1, so an id shows no repetition once anything has happened."""
    pi = streaming(agent)
    pi.ask("follow_up", message="F")
    pi.request({**CLEAR, "id": "7"})
    assert {"steering": [], "followUp": []} == pi.request({**CLEAR, "id": 7})["data"]  # in the same process
    pi.ask("follow_up", message="G")
    again = killed(agent, pi)

    assert {"steering": [], "followUp": ["G"]} == again.request({**CLEAR, "id": "7"})["data"]
    again.ask("prompt", message="new")
    again.wait({"type": "agent_settled"})
    third = killed(agent, again)
    assert {"steering": [], "followUp": []} == third.request({**CLEAR, "id": "7"})["data"]


def test_without_a_session_file_the_queue_is_listed_from_memory(agent: AgentStarter) -> None:
    pi = agent([HANGING])
    pi.request({"type": "prompt", "message": "go"})
    pi.request({"type": "follow_up", "message": "F"})
    pi.request({"type": "clear_queue", "by": "me"})

    assert {"messages": [], "paused": False, "returned": []} == pi.ask("get_queue", returned=True)
    assert {"steering": [], "followUp": []} == pi.request({"type": "clear_queue", "by": "me"})["data"]


def test_a_name_that_is_too_long_is_refused(agent: AgentStarter) -> None:
    pi = agent([])
    refused = pi.request({"type": "clear_queue", "by": "x" * 129})

    assert "Invalid clear_queue command: by must be a string of 1 to 128 characters" == refused["error"]
