"""What a request costs, and how long its answer may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.samples import prices, served_model, user

from pinnace_agent.llm.cost import RequestTokens, usage_of
from pinnace_agent.llm.output_cap import input_tokens, output_cap
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_spec.records.messages import AssistantMessage, Message, Model, StopReason

MODEL = served_model(cost=prices(3, 15, 0.3, 3.75), maxTokens=8_000)
TIERED: Model = {
    **MODEL,
    "cost": {
        **MODEL["cost"],
        "tiers": [
            {"inputTokensAbove": 1000, "input": 30, "output": 150, "cacheRead": 3, "cacheWrite": 37.5},
            {"inputTokensAbove": 200, "input": 6, "output": 30, "cacheRead": 0.6, "cacheWrite": 7.5},
        ],
    },
}
COUNTS = st.integers(0, 10**9)


def test_each_part_has_its_price_per_million_tokens() -> None:
    usage = usage_of(MODEL, RequestTokens(input=1_000_000, output=100_000, cache_read=10_000, cache_write=2_000))

    assert usage["cost"] == pytest.approx(
        {"input": 3, "output": 1.5, "cacheRead": 0.003, "cacheWrite": 0.0075, "total": 4.5105}
    )
    assert usage["totalTokens"] == 1_112_000


@given(st.builds(RequestTokens, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS))
def test_totals_are_the_sums_of_their_parts(tokens: RequestTokens) -> None:
    usage = usage_of(MODEL, tokens)
    cost = usage["cost"]

    assert cost["total"] == cost["input"] + cost["output"] + cost["cacheRead"] + cost["cacheWrite"]
    assert usage["totalTokens"] == usage["input"] + usage["output"] + usage["cacheRead"] + usage["cacheWrite"]


def test_nothing_costs_nothing_and_says_no_more() -> None:
    usage = usage_of(MODEL, RequestTokens())

    assert usage["cost"] == {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    assert "reasoning" not in usage
    assert "cacheWrite1h" not in usage


def test_thinking_is_counted_but_costs_nothing_of_its_own() -> None:
    with_thinking = usage_of(MODEL, RequestTokens(output=100, reasoning=60))

    assert with_thinking.get("reasoning") == 60
    assert with_thinking["cost"] == usage_of(MODEL, RequestTokens(output=100))["cost"]


def test_an_hour_in_the_cache_costs_twice_the_input() -> None:
    usage = usage_of(MODEL, RequestTokens(cache_write=1_000_000, cache_write_1h=400_000))

    assert usage["cost"]["cacheWrite"] == pytest.approx(0.6 * 3.75 + 0.4 * 6)
    assert usage.get("cacheWrite1h") == 400_000


@pytest.mark.parametrize(("tokens", "rate"), [(200, 3), (201, 6), (1000, 6), (1001, 30)])
def test_the_highest_tier_that_the_input_is_above_counts_for_everything(tokens: int, rate: float) -> None:
    parts = RequestTokens(input=tokens - 150, cache_read=100, cache_write=50, output=10)

    cost = usage_of(TIERED, parts)["cost"]
    assert cost["input"] == pytest.approx(rate * (tokens - 150) / 1e6)
    assert cost["output"] == pytest.approx(5 * rate * 10 / 1e6)


def test_a_total_that_the_provider_reports_is_taken() -> None:
    usage = usage_of(MODEL, RequestTokens(input=1_000_000), reported_total=0.01)

    assert (usage["cost"]["input"], usage["cost"]["total"]) == (3, 0.01)


# Room for the answer


def answer(counted: int, timestamp: int = 0, stop: StopReason = "stop", text: str = "") -> AssistantMessage:
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "api": "a",
        "provider": "p",
        "model": "m",
        "usage": usage_of(MODEL, RequestTokens(input=counted)),
        "stopReason": stop,
        "timestamp": timestamp,
    }


def request(*messages: Message, window: int = 100_000, most: int = 8_000, asked: int | None = None) -> LlmRequest:
    model: Model = {**MODEL, "contextWindow": window, "maxTokens": most}
    return LlmRequest(model, "", messages, (), "off", None, {}, "", asked)


def test_what_the_provider_counted_last_is_taken_and_only_the_rest_is_guessed() -> None:
    assert input_tokens(request(user("x" * 9_000), answer(500), user("x" * 35))) == 510


def test_without_a_count_everything_is_guessed_at_three_and_a_half_characters_a_token() -> None:
    tool = ToolSpec("name", "about", {"type": "object"})

    assert input_tokens(request(user("x" * 36))) == 11
    assert input_tokens(request(user("x" * 36))._replace(system_prompt="x" * 34)) == 20
    assert input_tokens(request(user("x" * 36))._replace(tools=[tool])) == -(-(36 + 4 + 5 + 17) // 3.5)


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_the_count_of_an_answer_that_failed_is_not_trusted(stop: StopReason) -> None:
    assert input_tokens(request(user("x" * 35), answer(500, stop=stop))) == 10


def test_a_count_of_nothing_is_not_trusted() -> None:
    assert input_tokens(request(user("x" * 35), answer(0))) == 10


def test_a_count_that_is_older_than_what_stands_before_it_is_not_trusted() -> None:
    """After a compaction the kept answers counted a context that is gone."""
    assert input_tokens(request(user("x" * 35, timestamp=9), answer(90_000, timestamp=5, text="x" * 35))) == 20


def test_every_kind_of_message_is_guessed() -> None:
    messages: list[Message] = [
        {"role": "user", "content": "x" * 7, "timestamp": 0},
        {"role": "user", "content": [{"type": "image", "data": "", "mimeType": "image/png"}], "timestamp": 0},
        {"role": "bashExecution", "command": "1234", "output": "567", "cancelled": False, "truncated": False,
         "timestamp": 0},
        {"role": "compactionSummary", "summary": "x" * 7, "tokensBefore": 0, "timestamp": 0},
        {"role": "branchSummary", "summary": "x" * 7, "fromId": "", "timestamp": 0},
        {"role": "custom", "customType": "", "content": "x" * 7, "display": True, "timestamp": 0},
        {**answer(0), "content": [
            {"type": "thinking", "thinking": "x" * 3},
            {"type": "toolCall", "id": "", "name": "read", "arguments": {"a": "b"}},
        ]},
        {"role": "toolResult", "toolCallId": "", "toolName": "", "content": [{"type": "text", "text": "x" * 20}],
         "isError": False, "timestamp": 0},
    ]  # fmt: skip

    assert input_tokens(request(*messages)) == (7 + 4800 + 7 + 7 + 7 + 7 + 3 + 4 + 10 + 20) / 3.5


@pytest.mark.parametrize(
    ("window", "most", "asked", "used", "cap"),
    [
        (100_000, 8_000, None, 1_000, 8_000),
        (100_000, 8_000, 500, 1_000, 500),
        (100_000, 90_000, None, 20_000, 100_000 - 20_000 - 4_096),
        (200_000, 190_000, None, 100_000, 200_000 - 100_000 - 15_000),
        (200_000, 190_000, None, 150_000, 32_768),  # 15 % would leave less than a good answer needs
        (200_000, 190_000, None, 190_000, 200_000 - 190_000 - 4_096),
        (32_768, 32_768, None, 20_000, 32_768 - 20_000 - 4_096),
        (8_192, 8_192, None, 4_000, 8_192 - 4_000 - 1_024),
        (4_000, 4_000, None, 3_000, 500),
        (4_096, 4_096, None, 1_000, 4_096 - 1_000 - 512),
        (4_096, 4_096, None, 4_000, 48),
        (4_096, 4_096, None, 4_096, 1),
        (100_000, 90_000, None, 97_000, 1_500),
        (0, 8_000, None, 1_000_000, 8_000),
        (0, 0, None, 1_000, None),
        (100_000, 0, None, 1_000, None),
        (100_000, 0, 700, 1_000, 700),
    ],
)
def test_an_answer_may_be_as_long_as_the_window_leaves_room_for(
    window: int, most: int, asked: int | None, used: int, cap: int | None
) -> None:
    assert output_cap(request(user(""), answer(used), window=window, most=most, asked=asked)) == cap


@pytest.mark.parametrize("window", [2_048, 4_096, 8_192, 16_384, 32_768, 200_000, 1_000_000])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9, 0.95])
def test_a_guess_never_leaves_an_answer_without_room_that_there_may_be(window: int, share: float) -> None:
    """A context that is not compacted yet, by four characters a token, may come to more by the guess of this module."""
    cap = output_cap(request(user("x" * int(4 * share * window)), window=window, most=window))

    assert cap is not None
    assert cap >= min(window // 16, (1 - share) * window // 2)


def test_a_request_that_its_caller_has_fitted_leaves_all_else_to_the_answer() -> None:
    fitted = request(user("x" * 350_000), asked=8_000)._replace(input_tokens=95_000)

    assert output_cap(fitted) == 5_000
    assert output_cap(fitted._replace(input_tokens=10_000)) == 8_000
    assert output_cap(fitted._replace(input_tokens=100_000)) == 1
