"""What messages come to: message by message the same as all at once."""

from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.session.context_meter import ContextMeter, context_tokens
from pinnace_spec.records.messages import AssistantMessage, Message, StopReason


def user(timestamp: int, text: str) -> Message:
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": timestamp}


def answer(timestamp: int, text: str, tokens: int, stop_reason: StopReason) -> AssistantMessage:
    cost = {"input": 0.1, "output": 0.2, "cacheRead": 0, "cacheWrite": 0, "total": 0.3}
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}, {"type": "toolCall", "id": "c", "name": "ls", "arguments": {}}],
        "api": "openai-completions",
        "provider": "p",
        "model": "m",
        "usage": {
            "input": tokens,
            "output": 1,
            "cacheRead": 2,
            "cacheWrite": 3,
            "totalTokens": tokens,
            "cost": cost,  # type: ignore[typeddict-item]
        },
        "stopReason": stop_reason,
        "timestamp": timestamp,
    }


TIMES = st.integers(0, 4)  # clocks are set back
TEXTS = st.text("ab", max_size=9)
MESSAGES = st.lists(
    st.builds(user, TIMES, TEXTS)
    | st.builds(answer, TIMES, TEXTS, st.integers(0, 3), st.sampled_from(["stop", "error", "aborted", "toolUse"])),
    max_size=12,
)


@given(MESSAGES, st.lists(st.integers(0, 12), max_size=4), MESSAGES)
def test_a_context_is_as_large_however_often_it_was_measured(
    messages: list[Message], looks: list[int], more: list[Message]
) -> None:
    meter = ContextMeter()
    for place in sorted(looks):
        meter.read(messages[:place])
        assert meter.tokens() == context_tokens(messages[:place])
    meter.read(messages)

    assert meter.tokens() == context_tokens(messages)
    assert meter.tokens(*more) == context_tokens([*messages, *more])
    assert meter.tokens() == context_tokens(messages)


@given(MESSAGES)
def test_messages_are_counted_by_their_kind(messages: list[Message]) -> None:
    meter = ContextMeter()
    for end in range(len(messages) + 1):
        meter.read(messages[:end])
    answers = [each for each in messages if each["role"] == "assistant"]

    assert meter.counts() == {
        "userMessages": len(messages) - len(answers),
        "assistantMessages": len(answers),
        "toolCalls": len(answers),
        "toolResults": 0,
        "totalMessages": len(messages),
        "tokens": {
            "input": (read := sum(each["usage"]["input"] for each in answers)),
            "output": len(answers),
            "cacheRead": 2 * len(answers),
            "cacheWrite": 3 * len(answers),
            "total": read + 6 * len(answers),
        },
        "cost": sum(0.3 for _ in answers),
    }


def test_counts_that_were_returned_do_not_change_afterwards() -> None:
    meter = ContextMeter()
    meter.read([answer(1, "a", 5, "stop")])
    counts = meter.counts()
    meter.read([answer(1, "a", 5, "stop"), answer(2, "b", 6, "stop")])

    assert (counts["assistantMessages"], counts["tokens"]["input"]) == (1, 5)
