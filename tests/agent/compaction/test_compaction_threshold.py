"""When a compaction is due, and how full the context is. Source: R-CMP-01, R-CMP-04."""

import pytest
from tests.agent.samples import sample_answer, sample_model

from pinnace_agent.compaction.threshold import Budgets, budgets_for, context_usage, is_due, is_over, usage_of_context
from pinnace_agent.config.settings import CompactionSettings
from pinnace_agent.llm.message_size import last_count
from pinnace_agent.llm.output_cap import input_tokens
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.session.context import build_context
from pinnace_agent.session.context_meter import (
    BYTES_PER_TOKEN,
    context_tokens,
    estimate_tokens,
    sum_of_estimates,
    tokens_per_byte,
)
from pinnace_agent.session.conversation import Session
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Message,
    StopReason,
    UserMessage,
    zero_usage,
)

SETTINGS = CompactionSettings(reserve_tokens=1_000, keep_recent_tokens=100)
MODEL = sample_model()


def user(tokens: int = 10, timestamp: int = 0) -> UserMessage:
    return {"role": "user", "content": "x" * 4 * tokens, "timestamp": timestamp}


def answer(counted: int = 0, tokens: int = 0, timestamp: int = 0, stop: StopReason = "stop") -> AssistantMessage:
    usage = {**zero_usage(), "totalTokens": counted}
    content = {"type": "text", "text": "x" * 4 * tokens}
    return sample_answer(content, usage=usage, stopReason=stop, timestamp=timestamp)


def path_of(*messages: Message | str) -> list[Entry]:
    """Make a branch; a text is a compaction that keeps from the entry of that number on."""
    path: list[Entry] = []
    for index, message in enumerate(messages):
        base = {"id": f"e{index}", "parentId": None, "timestamp": f"1970-01-01T00:00:00.{index:03d}Z"}
        if isinstance(message, str):
            kept = {"type": "compaction", "summary": "S", "firstKeptEntryId": f"e{message}", "tokensBefore": 0}
            path.append({**base, **kept})
        else:
            timed: Message = {**message, "timestamp": index}  # type: ignore[assignment]
            path.append({**base, "type": "message", "message": timed})
    return path


def due(*messages: Message | str, settings: CompactionSettings = SETTINGS, passes_aborted: bool = False) -> bool:
    path = path_of(*messages)
    return is_due(path, build_context(path).messages, MODEL, settings, passes_aborted=passes_aborted)


# Estimates


def test_a_token_is_four_characters_rounded_up() -> None:
    messages: list[Message] = [
        {"role": "user", "content": "12345", "timestamp": 0},
        {"role": "user", "content": "", "timestamp": 0},
        {"role": "user", "content": [{"type": "image", "data": "", "mimeType": "image/png"}], "timestamp": 0},
        {"role": "user", "content": "😀😀😀😀", "timestamp": 0},
    ]

    assert [estimate_tokens(each) for each in messages] == [2, 0, 1200, 1]
    assert sum_of_estimates(messages) == 1203


def test_what_no_model_reads_has_no_tokens() -> None:
    """Content that other programs wrote as null, what the user kept back, and answers that failed."""
    null = {"role": "user", "content": None, "timestamp": 0}
    absent = {"role": "toolResult", "toolCallId": "", "toolName": "", "isError": False, "timestamp": 0}
    shell: BashExecutionMessage = {
        "role": "bashExecution",
        "command": "x" * 40,
        "output": "",
        "cancelled": False,
        "truncated": False,
        "timestamp": 0,
    }
    kept_back: BashExecutionMessage = {**shell, "excludeFromContext": True}
    failed = answer(tokens=10, stop="aborted")
    nothing: Message = {**failed, "content": None, "stopReason": "stop"}  # type: ignore[typeddict-item]

    assert estimate_tokens(null) == estimate_tokens(absent) == 0  # type: ignore[arg-type]
    assert (estimate_tokens(shell), estimate_tokens(kept_back)) == (10, 0)
    assert (estimate_tokens(failed), estimate_tokens(nothing)) == (0, 0)


def test_the_context_is_the_last_count_and_an_estimate_of_what_followed() -> None:
    assert context_tokens([user(), answer(500, 99), user(7), answer(0, 3)]) == 510
    assert context_tokens([user(10), answer(0, 3)]) == 13
    assert context_tokens([]) == 0


def test_a_count_without_a_total_is_the_sum_of_its_parts() -> None:
    counted = answer()
    counted["usage"] = {**zero_usage(), "input": 1, "output": 20, "cacheRead": 300, "cacheWrite": 4000}

    assert context_tokens([counted]) == 4321


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_the_count_of_an_answer_that_failed_is_passed_over(stop: StopReason) -> None:
    assert context_tokens([user(), answer(50), user(), answer(9_000, stop=stop)]) == 60


def test_a_count_of_a_context_that_a_compaction_replaced_is_not_trusted_anywhere() -> None:
    summary: Message = {"role": "compactionSummary", "summary": "x" * 40, "tokensBefore": 9, "timestamp": 5}
    messages = [summary, user(10, 3), answer(9_000, 10, timestamp=4)]

    assert last_count(messages) is None
    assert context_tokens(messages) == 30
    assert input_tokens(LlmRequest(MODEL, "", messages, (), "off", None, {}, "")) == -(-120 // 3.5)
    assert context_tokens([*messages, user(1, 6), answer(50, timestamp=7)]) == 50


# How many tokens a byte is


def counting(tokens: int, text: str = "", timestamp: int = 0, **fields: object) -> AssistantMessage:
    """Return an answer whose provider has counted so many tokens before it."""
    message = answer(0, 0, timestamp)
    message["content"] = [{"type": "text", "text": text}]
    message["usage"] = {**zero_usage(), "input": tokens // 2, "cacheRead": tokens - tokens // 2, "output": 9_999}
    return {**message, **fields}  # type: ignore[typeddict-item]


def conversation(bytes_per_token: float, text: str = "x" * 40_000, overhead: int = 5_000) -> list[Message]:
    step = int(len(text.encode()) / bytes_per_token)
    first: list[Message] = [{"role": "user", "content": text, "timestamp": 0}, counting(overhead + step)]
    return [*first, *first[:1], counting(overhead + 2 * step)]


@pytest.mark.parametrize("bytes_per_token", [2, 3, 4, 4.5])
def test_what_two_counts_differ_by_is_of_the_messages_between_them(bytes_per_token: float) -> None:
    assert tokens_per_byte(conversation(bytes_per_token)) == pytest.approx(1 / bytes_per_token, rel=0.05)
    assert tokens_per_byte(conversation(bytes_per_token, "字" * 14_000)) == pytest.approx(1 / bytes_per_token, rel=0.05)


def test_without_two_counts_a_token_is_three_bytes() -> None:
    assert tokens_per_byte([]) == 1 / BYTES_PER_TOKEN
    assert tokens_per_byte([user(9_000), answer(50)]) == 1 / BYTES_PER_TOKEN, "a total alone is not of the input"
    assert tokens_per_byte(conversation(4)[:3]) == 1 / BYTES_PER_TOKEN


def test_a_short_conversation_hardly_changes_the_assumed_tokens() -> None:
    assert 1 / 4 < tokens_per_byte(conversation(4, "x" * 400)) < 1 / BYTES_PER_TOKEN


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_counts_that_can_not_be_trusted_are_passed_over(stop: StopReason) -> None:
    good = conversation(4)
    rate = tokens_per_byte(good)

    assert tokens_per_byte([*good, counting(90_000, stopReason=stop)]) == rate
    assert tokens_per_byte([counting(90_000, model="other"), *good]) == rate
    old = counting(90_000, timestamp=0)
    summary: Message = {"role": "compactionSummary", "summary": "S", "tokensBefore": 9, "timestamp": 1}
    later: list[Message] = [{**each, "timestamp": 2} for each in good]  # type: ignore[misc]
    assert tokens_per_byte([summary, old, *later]) == rate, "it is of a context that a compaction has replaced"


def test_counts_that_no_text_has_are_bounded() -> None:
    """Servers that count only what was new to them; messages that are short beside what a server puts around them."""
    assert tokens_per_byte(conversation(1_000)) == 1 / 5
    assert tokens_per_byte(conversation(0.01)) == 1
    shrinking = [*conversation(4), counting(10)]
    assert tokens_per_byte(shrinking) == 1 / 5


def test_what_a_server_may_not_count_is_no_text() -> None:
    """Thoughts of earlier answers, and pictures, which are not in a request for a summary."""
    good = conversation(4)
    thinking = counting(5_000 + 10_000)
    thinking["content"] = [{"type": "thinking", "thinking": "x" * 90_000}]

    assert tokens_per_byte([good[0], thinking, *good[2:]]) == tokens_per_byte(good)


# The threshold


@pytest.mark.parametrize(("tokens", "is_so"), [(9_000, False), (9_001, True), (0, False), (10**6, True)])
def test_a_context_is_over_when_it_leaves_less_than_the_reserve(tokens: int, is_so: bool) -> None:
    assert is_over(tokens, 10_000, SETTINGS) is is_so
    assert not is_over(tokens, 0, SETTINGS)


@pytest.mark.parametrize(
    ("window", "reserve", "keep", "budgets"),
    [
        (128_000, 16_384, 20_000, Budgets(16_384, 20_000)),
        (80_000, 16_384, 20_000, Budgets(16_384, 20_000)),
        (32_768, 16_384, 20_000, Budgets(16_384, 8_192)),
        (16_384, 16_384, 20_000, Budgets(5_461, 2_730)),
        (8_192, 16_384, 20_000, Budgets(2_730, 1_365)),
        (4_096, 16_384, 20_000, Budgets(1_365, 682)),
        (4_096, 16_384, 100, Budgets(1_365, 100)),
        (128_000, 127_900, 100, Budgets(127_900, 100)),
        (0, 16_384, 20_000, Budgets(16_384, 20_000)),
        (1, 16_384, 20_000, Budgets(0, 0)),
    ],
)
def test_a_small_window_gets_smaller_budgets(window: int, reserve: int, keep: int, budgets: Budgets) -> None:
    assert budgets_for(CompactionSettings(True, reserve, keep), window) == budgets


def test_a_compaction_is_due_when_the_last_count_is_over() -> None:
    assert due(user(), answer(9_001, 200), user(), answer(9_001, 100))
    assert not due(user(), answer(9_001, 200), user(), answer(9_000, 100))
    assert due(user(), answer(8_000, 200), user(1_001))


def test_a_compaction_is_due_by_size_without_a_count() -> None:
    assert due(user(5_000), answer(0, 4_001))
    assert not due(user(5_000), answer(0, 4_000))
    assert due(user(5_000), user(4_001)), "also before the first answer"
    assert due(user(5_000), answer(0, 4_001), answer(0, stop="error")), "also when the last answer failed"


def test_it_is_not_due_when_it_is_off_or_without_a_model() -> None:
    path = path_of(user(5_000), answer(9_500, 200), user())
    messages = build_context(path).messages

    assert is_due(path, messages, MODEL, SETTINGS)
    assert not is_due(path, messages, MODEL, CompactionSettings(False, 1_000, 100))
    assert not is_due(path, messages, None, SETTINGS)
    assert not is_due(path, messages, {**MODEL, "contextWindow": 0}, SETTINGS)


def test_it_is_not_due_when_everything_would_be_kept() -> None:
    assert not due(user(), answer(9_500))


def test_an_answer_that_was_aborted_is_no_reason_after_a_run_but_one_before_a_prompt() -> None:
    messages = (user(5_000), answer(9_500, 200), user(200), answer(stop="aborted"))

    assert due(*messages)
    assert not due(*messages, passes_aborted=True)


def test_it_is_not_due_again_until_an_answer_has_followed() -> None:
    before = (user(5_000), answer(9_500, 200), user(9_500), answer(9_500, 200))

    assert not due(*before, "2")
    assert not due(*before, "2", user(200))
    assert due(*before, "2", user(200), answer(0, 100)), "then by size, as the old counts are gone"
    assert not due(*before, "3", user(200), answer(0, 100))
    assert due(*before, "3", user(200), answer(9_500, 100))


# What is reported to clients


def test_the_usage_of_a_context_is_its_tokens_and_their_share_of_the_window() -> None:
    path = path_of(user(), answer(12_500))

    assert usage_of_context(reversed(path), context_tokens(build_context(path).messages), MODEL) == {
        "tokens": 12_500,
        "contextWindow": 10_000,
        "percent": 125.0,
    }
    assert usage_of_context([], 0, MODEL) == {"tokens": 0, "contextWindow": 10_000, "percent": 0.0}


def test_there_is_no_usage_without_a_model_or_a_window() -> None:
    assert usage_of_context([], 0, None) is None
    assert usage_of_context([], 0, {**MODEL, "contextWindow": 0}) is None


@pytest.mark.parametrize(
    ("after", "is_known"),
    [
        ((), False),
        ((user(),), False),
        ((user(), answer(50, stop="error")), False),
        ((user(), answer(50, stop="aborted")), False),
        ((user(), answer(0)), False),
        ((user(), answer(50)), True),
        ((user(), answer(50), user(), answer(9, stop="error")), True),
    ],
)
def test_after_a_compaction_the_usage_is_unknown_until_a_provider_has_counted(
    after: tuple[Message, ...], is_known: bool
) -> None:
    path = path_of(user(), answer(7_000), "0", *after)
    usage = usage_of_context(reversed(path), context_tokens(build_context(path).messages), MODEL)

    assert usage is not None
    assert (usage["tokens"] is not None, usage["percent"] is not None) == (is_known, is_known)
    if is_known:
        assert usage["tokens"] == context_tokens(build_context(path).messages)


def test_the_usage_of_a_session_is_that_of_its_branch() -> None:
    session = Session("/")
    assert context_usage(session) is None

    session.model = MODEL
    session.keep(user())
    session.keep(answer(500))

    assert context_usage(session) == {"tokens": 500, "contextWindow": 10_000, "percent": 5.0}
