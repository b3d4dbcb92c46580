"""A message that a client sends again with the same `messageId` is delivered at most once, in the life of a session."""

import os
import resource
import signal
from pathlib import Path

import pytest

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

HANGING = {"chunks": [{"text": "one"}, {"hang": True}]}
HANDLING = """
from pathlib import Path

def extension(pi):
    @pi.command("count")
    def count(ctx, args):
        with Path(__file__).with_name("calls").open("a") as calls:
            calls.write("1")
"""
SETTLED = {"type": "agent_settled"}


def answer(pi: HomedAgent, name: str, message_id: str) -> Record:
    response = pi.request({"type": name, "message": message_id, "messageId": message_id})
    assert response["success"], response
    return dict(response["data"])


def user_texts(pi: HomedAgent) -> list[str]:
    messages = pi.request({"type": "get_messages"})["data"]["messages"]
    return [message["content"][0]["text"] for message in messages if message["role"] == "user"]


def test_a_repeated_message_is_answered_and_not_delivered_again(agent: AgentStarter) -> None:
    """R-QUE-14: whatever became of it."""
    pi = agent([HANGING, {"text": "more", "repeat": -1}], has_session=True)
    answer(pi, "prompt", "P")
    pi.wait({"type": "message_update"})
    for name in ("steer", "follow_up"):
        answer(pi, name, name)
        assert {"disposition": "duplicate", "state": "queued"} == answer(pi, name, name)
        assert {"disposition": "duplicate", "state": "queued"} == answer(pi, "prompt", name)
    pi.request({"type": "abort", "queue": "clear"})
    assert {"disposition": "duplicate", "state": "returned"} == answer(pi, "steer", "steer")
    [entry] = [each for each in pi.ask("get_entries")["entries"] if each.get("messageId") == "P"]
    delivered = {"disposition": "duplicate", "state": "delivered", "entryId": entry["id"]}
    assert [delivered] * 3 == [answer(pi, name, "P") for name in ("prompt", "steer", "follow_up")]

    assert ["P"] == user_texts(pi)


@pytest.mark.parametrize("flags", [(), ("--no-session",)])
def test_without_an_id_equal_messages_are_different_ones(agent: AgentStarter, flags: tuple[str, ...]) -> None:
    pi = agent([{"text": "more", "repeat": -1}], *flags)
    for _ in range(2):
        pi.request({"type": "prompt", "message": "P"})
        pi.wait(SETTLED)

    assert ["P", "P"] == user_texts(pi)


@pytest.mark.parametrize("first_asked", ["", *"PFRG"])
def test_a_message_that_a_crash_left_is_known_by_the_next_process(agent: AgentStarter, first_asked: str) -> None:
    """R-QUE-14: a client that had no response sends everything again, whichever first. Also to a process that has
    opened the session while the former one had it, and before it had that."""
    first = agent([{"text": "zero"}, HANGING], has_session=True, is_checked=False)
    first.say("Z")
    pi = agent((), "--continue", again=first) if first_asked else None
    if pi is not None:
        pi.ask("get_state")
    answer(first, "prompt", "P")
    first.wait({"type": "message_update"})
    answer(first, "follow_up", "F")
    answer(first, "steer", "R")
    first.request({"type": "clear_queue"})
    answer(first, "follow_up", "G")
    os.kill(first.process.pid, signal.SIGKILL)
    first.wait_exit()

    if pi is None:
        pi = agent((), "--continue", again=first)
    pi.llm.add({"text": "more", "repeat": -1})
    known = {each: answer(pi, "prompt", each)["state"] for each in f"{first_asked}PFRG"}
    assert {"P": "delivered", "F": "returned", "R": "returned", "G": "queued"} == known
    state = pi.ask("get_state")
    assert (1, True, False) == (state["pendingMessageCount"], state["queuePaused"], state["isStreaming"])
    assert "P" == state["interrupted"]["text"]  # whose run no repetition starts again
    pi.request({"type": "abort", "queue": "continue"})
    pi.wait(SETTLED)

    assert ["Z", "P", "G"] == user_texts(pi)
    assert "delivered" == answer(pi, "prompt", "G")["state"]


@pytest.mark.parametrize("name", ["prompt", "steer", "follow_up"])
@pytest.mark.parametrize("waits_behind", [(), ({"id": "N", "type": "new_session"},)])
def test_a_repetition_is_answered_as_a_message_that_is_not_accepted_yet(
    agent: AgentStarter, name: str, waits_behind: tuple[Record, ...]
) -> None:
    """R-QUE-14: an abort that comes behind both decides about both, and the message is said to be what it became."""
    pi = agent([{"text": "more", "repeat": -1}], has_session=True)
    message: Record = {"type": name, "message": "M", "messageId": "M"}
    same = [{"id": each, **message} for each in ("first", "second", "third")]
    pi.send_many([*waits_behind, *same, {"id": "A", "type": "abort", "queue": "clear"}])
    first, *others = [pi.wait_response(each) for each in ("first", "second", "third")]
    left = pi.wait_response("A")["data"]["cleared"]

    if first["success"]:
        states = [each["data"]["state"] for each in others]
        assert (["M"], ["returned"] * 2) == ([*left["steering"], *left["followUp"]], states) or states == ["queued"] * 2
    else:
        assert [first["error"]] * 2 == [each["error"] for each in others]
        assert "Aborted before it started" == first["error"]
    assert [] == user_texts(pi)


def test_a_repetition_of_a_message_that_an_extension_is_handling_is_not_handled_again(
    agent: AgentStarter, tmp_path: Path
) -> None:
    """R-QUE-14: neither meanwhile, nor when it is answered, nor by a process that follows one that was killed."""
    extension = tmp_path / "handling.py"
    extension.write_text(HANDLING)
    pi = agent([], "-e", str(extension), has_session=True, is_checked=False)
    message = {"type": "prompt", "message": "/count", "messageId": "M"}
    pi.send_many([{"id": "first", **message}, {"id": "second", **message}])

    assert [{"disposition": "handled"}] * 2 == [pi.wait_response(each)["data"] for each in ("first", "second")]
    handled = {"disposition": "duplicate", "state": "handled"}
    assert handled == pi.request(message)["data"]
    os.kill(pi.process.pid, signal.SIGKILL)
    pi.wait_exit()
    pi = agent([], "-e", str(extension), "--continue", again=pi)
    assert handled == pi.request(message)["data"]
    assert "1" == (tmp_path / "calls").read_text()


def test_a_command_that_is_not_in_the_session_is_executed_with_a_warning(agent: AgentStarter, tmp_path: Path) -> None:
    """R-QUE-14, R-WRN-01: the disk that fails holds it up as little as it hides that."""
    extension = tmp_path / "handling.py"
    extension.write_text(HANDLING)
    pi = agent([{"text": "one"}], "-e", str(extension), has_session=True, is_checked=False)
    pi.ask("prompt", message="one")
    pi.wait(SETTLED)
    size = Path(pi.ask("get_state")["sessionFile"]).stat().st_size
    resource.prlimit(pi.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    answered = pi.ask("prompt", message="/count", messageId="M")
    warned = [{**each, "type": "warning"} for each in pi.ask("get_state")["warnings"]]

    assert {"disposition": "handled"} == answered
    assert "1" == (tmp_path / "calls").read_text()
    assert warned == pi.found({"type": "warning"})
    (warning,) = warned
    assert "session" == warning["kind"]
    assert warning["text"].startswith("A message that an extension has taken may be given to it again after a crash: ")
    assert "File too large" in warning["text"]


def test_the_id_of_a_refused_message_may_be_used_again(agent: AgentStarter) -> None:
    """R-QUE-14: nothing has become of it."""
    pi = agent([{"text": "more", "repeat": -1}], has_session=True)
    pi.ask("prompt", message="one")
    pi.wait(SETTLED)
    refused = pi.request({"type": "prompt", "message": "/nothing", "messageId": "M", "images": "none"})
    assert not refused["success"]

    assert "started" == answer(pi, "prompt", "M")["disposition"]
