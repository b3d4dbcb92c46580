"""The queues have an end: a message beyond it is refused, and nothing else changes (R-QUE-11)."""

from pinnace_agent.engine.status_records import refusal
from pinnace_fuzz.trials.workbench import AgentStarter
from pinnace_spec.rules import errors
from pinnace_spec.rules.limits import MAX_QUEUED_MESSAGES
from pinnace_spec.wire.json_text import encode_record
from pinnace_statechart import effects as fx
from pinnace_statechart.machine import Chart
from pinnace_statechart.state import ExtendedState
from pinnace_statechart.triggers import Command, InternalEvent

PROMPT = {"id": "p", "type": "prompt", "message": "go"}
FULL = fx.Refuse(0, "queue_full")


def in_a_run(chart: Chart) -> Chart:
    """Bring a chart to where the model works."""
    chart.step(Command("prompt", 1, "go"))
    for name in ("preflight_ok", "synced"):
        chart.step(InternalEvent(name, chart.state.job))
    return chart


def written_bytes(number: int) -> int:
    """Return how many bytes the queue updates of so many steers have in all."""
    chart = in_a_run(Chart())
    total = 0
    for ref in range(2, number + 2):
        for effect in chart.step(Command("steer", ref, f"steer {ref}", saved=True)):
            if isinstance(effect, fx.QueueUpdate):
                total += len(encode_record({"steering": effect.steering, "followUp": effect.follow_up}))
    return total


def test_what_steers_without_end_make_the_agent_write_does_not_grow_with_their_square() -> None:
    full = written_bytes(MAX_QUEUED_MESSAGES)

    assert written_bytes(12 * MAX_QUEUED_MESSAGES) == full
    assert full < 16 * 1024 * 1024


def test_both_queues_together_are_limited_and_a_message_that_is_not_queued_is_not() -> None:
    chart = in_a_run(Chart(ExtendedState(max_queued=2)))
    chart.step(Command("steer", 2, "a", saved=True))
    chart.step(Command("follow_up", 3, "b", saved=True))

    assert chart.step(Command("steer", 4, "c")) == (FULL._replace(ref=4),)
    assert chart.step(Command("prompt", 5, "d", behavior="steer")) == (FULL._replace(ref=5),)
    assert chart.step(Command("prompt", 6, "e")) == (fx.Refuse(6, "busy"),)
    assert refusal(FULL).code is errors.ErrorCode.QUEUE_FULL
    assert refusal(FULL).text == (
        "The queue is full: 1,000 messages wait. "
        "Send the message again when some have been delivered, or remove them with clear_queue."
    )


def test_a_message_beyond_the_limit_is_refused_and_the_others_are_delivered(agent: AgentStarter) -> None:
    """With the limit that `hello` says, while the model works."""
    pi = agent([{"text": "x", "hold": "g"}])
    limit = pi.request({"id": "h", "type": "hello"})["data"]["limits"]["queuedMessages"]
    pi.send(PROMPT)
    pi.llm.wait_reached("g")
    for n in range(limit):
        pi.send({"id": f"s{n}", "type": "follow_up", "message": f"{n}"})
    assert pi.wait_response(f"s{limit - 1}")["success"]

    refused = pi.request({"id": "more", "type": "steer", "message": "more"})

    assert (False, "queue_full") == (refused["success"], refused["errorCode"])
    assert limit == pi.request({"id": "st", "type": "get_state"})["data"]["pendingMessageCount"]
    cleared = pi.request({"id": "c", "type": "clear_queue"})
    assert [f"{n}" for n in range(limit)] == cleared["data"]["followUp"]
    assert pi.request({"id": "again", "type": "steer", "message": "more"})["success"]
