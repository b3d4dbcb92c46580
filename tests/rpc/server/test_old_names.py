"""The oldest generation's commands, answered in its own shape."""

from collections.abc import Mapping

import pytest

from pinnace_fuzz.trials.reading import kinds, user_texts
from pinnace_fuzz.trials.workbench import AgentStarter

SETTLED = {"type": "agent_settled"}
PROMPT = {"id": "p", "type": "prompt", "message": "go"}
# One white pixel.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg=="


def answered(command: str) -> Mapping[str, object]:
    """The whole answer that the oldest generation gives."""
    return {"id": "x", "type": "response", "command": command, "success": True}


def test_queue_message_steers_a_run(agent: AgentStarter) -> None:
    pi = agent([{"chunks": [{"text": "one"}, {"gate": "g"}]}, {"text": "two"}])
    pi.request(PROMPT)
    pi.llm.wait_reached("g")
    answer = pi.request({"id": "x", "type": "queue_message", "message": "S"})
    state = pi.request({"type": "get_state"})["data"]
    pi.llm.release("g")
    pi.wait(SETTLED)

    assert answered("queue_message") == answer
    assert (1, 1) == (state["queuedMessageCount"], state["pendingMessageCount"])
    assert ["go", "S"] == user_texts(pi.records)


def test_queue_message_while_idle_starts_a_run(agent: AgentStarter) -> None:
    """R-QUE-07: as steer does."""
    pi = agent([{"text": "one"}])
    answer = pi.request({"id": "x", "type": "queue_message", "message": "S"})
    pi.wait(SETTLED)

    assert answered("queue_message") == answer
    assert ["S"] == user_texts(pi.records)


def test_reset_starts_a_new_session(agent: AgentStarter) -> None:
    """Also in the middle of a run."""
    pi = agent([{"chunks": [{"text": "one"}, {"hang": True}]}])
    pi.request(PROMPT)
    pi.wait({"type": "message_update"})
    before = pi.request({"type": "get_state"})["data"]["sessionId"]
    answer = pi.request({"id": "x", "type": "reset"})
    state = pi.request({"type": "get_state"})["data"]

    assert answered("reset") == answer
    assert ["agent_end", "agent_settled", "reset:ok"] == kinds(pi.records, "agent_end", "agent_settled", "reset:ok")
    assert before != state["sessionId"]
    assert (0, False) == (state["messageCount"], state["isStreaming"])


@pytest.mark.parametrize("mode", ["all", "one-at-a-time"])
def test_set_queue_mode_sets_both_queues(agent: AgentStarter, mode: str) -> None:
    pi = agent()
    other = "all" if mode == "one-at-a-time" else "one-at-a-time"
    pi.request({"type": "set_steering_mode", "mode": other})
    pi.request({"type": "set_follow_up_mode", "mode": other})

    assert answered("set_queue_mode") == pi.request({"id": "x", "type": "set_queue_mode", "mode": mode})
    state = pi.request({"type": "get_state"})["data"]
    assert [mode] * 3 == [state[name] for name in ("queueMode", "steeringMode", "followUpMode")]


@pytest.mark.parametrize("command", ["prompt", "queue_message"])
def test_attachments_are_images_under_another_name(agent: AgentStarter, command: str) -> None:
    pi = agent([{"text": "seen"}])
    attachment = {
        "id": "img1",
        "type": "image",
        "fileName": "pixel.png",
        "mimeType": "image/png",
        "size": 70,
        "content": PNG,
        "extractedText": None,
        "preview": None,
    }
    pi.request({"id": "x", "type": command, "message": "look", "attachments": [attachment]})
    pi.wait(SETTLED)
    (end,) = pi.found({"type": "message_end", "message": {"role": "user"}})
    (sent,) = [message for message in pi.llm.requests[0].body["messages"] if message["role"] == "user"]

    assert [
        {"type": "text", "text": "look"},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
    ] == end["message"]["content"]
    assert f"data:image/png;base64,{PNG}" == sent["content"][1]["image_url"]["url"]
