"""Compactions with a model on a real loopback connection: what it is sent, and what becomes of its answers.

Source: R-CMP-01, R-CMP-03, R-RTY-01.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from pinnace_agent.compaction.compaction import CompactionResult, compact
from pinnace_agent.compaction.prompts import DIVIDED, SYSTEM_PROMPT
from pinnace_agent.compaction.summarize import CompactionFailed, Writer, sum_of_usages
from pinnace_agent.config.credentials.credentials import Credentials
from pinnace_agent.config.settings import CompactionSettings
from pinnace_agent.llm.failures import provider_words
from pinnace_agent.llm.offline.provider import offline_model
from pinnace_agent.llm.transport.client import close_clients
from pinnace_agent.session.context import build_context
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.model_server.ledger import ReceivedRequest
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import Model, zero_usage
from pinnace_spec.rules.errors import EMPTY_ANSWER, ErrorCode
from pinnace_statechart.state import RetryPolicy

KEY = "sk-0123456789abcdef"
SETTINGS = CompactionSettings(reserve_tokens=1_000, keep_recent_tokens=100)
AT_ONCE = RetryPolicy(True, 3, 0.0, 60.0)
OVERFLOW = {"error": {"status": 400, "body": {"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}}}
BUSY = {"error": {"status": 503, "body": {"error": {"message": "no"}}}}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def writer_at(
    llm: FakeLlm, *, window: int = 128_000, most: int = 4_000, thinks: bool = False, retry: RetryPolicy = AT_ONCE
) -> Writer:
    model: Model = {
        "id": "m1",
        "name": "Model one",
        "api": "openai-completions",
        "provider": "local",
        "baseUrl": llm.base_url,
        "reasoning": thinks,
        "input": ["text"],
        "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": window,
        "maxTokens": most,
    }
    return Writer(model, Credentials(KEY, {"X-Team": "blue"}), "off", "s1", retry)


def entry(index: int, **fields: object) -> Entry:
    return {"id": f"e{index}", "parentId": None, "timestamp": "2026-01-01T00:00:00.000Z", **fields}


def user(index: int, text: str) -> Entry:
    return entry(index, type="message", message={"role": "user", "content": text, "timestamp": index})


def answered(index: int, text: str, *calls: tuple[str, Mapping[str, object]], total: int = 0) -> Entry:
    content: list[object] = [{"type": "text", "text": text}]
    content += [{"type": "toolCall", "id": f"c{index}", "name": name, "arguments": args} for name, args in calls]
    message = {"role": "assistant", "content": content, "api": "a", "provider": "local", "model": "m1"}
    usage = {**zero_usage(), "totalTokens": total}
    return entry(index, type="message", message={**message, "usage": usage, "stopReason": "stop", "timestamp": index})


def found(index: int, text: str) -> Entry:
    message = {"role": "toolResult", "toolCallId": f"c{index - 1}", "toolName": "read", "isError": False}
    content = [{"type": "text", "text": text}]
    return entry(index, type="message", message={**message, "content": content, "timestamp": index})


WORDS = "word " * 100  # 125 tokens
TWO_TURNS = [
    user(0, f"first {WORDS}"),
    answered(1, WORDS),
    user(2, f"second {WORDS}"),
    answered(3, "brief", total=15),
]
# Only the answer is kept of the second turn.
SPLIT = [user(0, "first"), answered(1, "one"), user(2, "second"), answered(3, "two", ("read", {"path": "a.py"})),
         found(4, "x = 1"), answered(5, WORDS)]  # fmt: skip


async def run(
    writer: Writer,
    path: Sequence[Entry] = TWO_TURNS,
    *,
    instructions: str | None = None,
    has_overflowed: bool = False,
    settings: CompactionSettings = SETTINGS,
) -> CompactionResult:
    messages = build_context(path).messages
    try:
        return await compact(path, messages, writer, settings, instructions=instructions, has_overflowed=has_overflowed)
    finally:
        with trio.CancelScope(shield=True):
            await close_clients()


async def failure_of(llm: FakeLlm, path: Sequence[Entry] = TWO_TURNS, **more: bool) -> tuple[str, ErrorCode]:
    with pytest.raises(CompactionFailed) as failed:
        await run(writer_at(llm, **more), path)  # type: ignore[arg-type]
    return failed.value.text, failed.value.code


def prompt_of(request: ReceivedRequest) -> str:
    messages = cast("list[dict[str, list[dict[str, str]]]]", request.body["messages"])
    return messages[-1]["content"][0]["text"]


# What works


async def test_the_older_part_becomes_a_summary_and_the_rest_is_kept() -> None:
    with FakeLlm([{"text": " SUMMARY\n", "usage": {"input": 10, "output": 5}}]) as llm:
        result = await run(writer_at(llm))
        (request,) = llm.requests

    assert result == {
        "summary": "SUMMARY",
        "firstKeptEntryId": "e2",
        "tokensBefore": 15,
        "estimatedTokensAfter": 2 + 127 + 2,
        "details": {"readFiles": [], "modifiedFiles": []},
        "usage": result.get("usage"),
    }
    assert result.get("usage", zero_usage())["totalTokens"] == 15
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-team"] == "blue"
    assert request.body["max_completion_tokens"] == 800
    assert "tools" not in request.body
    assert prompt_of(request).startswith("<conversation>\n[User]: first word")
    assert "second" not in prompt_of(request)
    assert SYSTEM_PROMPT in json.dumps(request.body["messages"])


async def test_a_former_summary_goes_along_without_its_files_which_come_back() -> None:
    old = "OLD\n\n<read-files>\nold.py\n</read-files>"
    details = {"readFiles": ["old.py"], "modifiedFiles": []}
    compaction = entry(4, type="compaction", summary=old, firstKeptEntryId="e2", tokensBefore=1, details=details)
    path = [*TWO_TURNS, compaction, answered(5, WORDS, ("write", {"path": "new.py"})), user(6, WORDS)]
    with FakeLlm([{"text": "NEW"}]) as llm:
        result = await run(writer_at(llm), path, instructions="the tests")
        (request,) = llm.requests

    assert "\n<previous-summary>\nOLD\n</previous-summary>\n" in prompt_of(request)
    assert prompt_of(request).startswith("<conversation>\n[User]: second")
    assert prompt_of(request).endswith("Additional focus: the tests")
    files = "<read-files>\nold.py\n</read-files>\n\n<modified-files>\nnew.py\n</modified-files>"
    assert result["summary"] == f"NEW\n\n{files}"
    assert result["details"] == {"readFiles": ["old.py"], "modifiedFiles": ["new.py"]}


async def test_a_turn_that_is_divided_gets_a_summary_of_its_beginning_after_the_other() -> None:
    with FakeLlm([{"text": "HISTORY", "hold": "one"}, {"text": "PREFIX"}]) as llm:
        async with trio.open_nursery() as nursery:
            results: list[CompactionResult] = []

            async def work() -> None:
                results.append(await run(writer_at(llm), SPLIT, instructions="the tests"))

            nursery.start_soon(work)
            await trio.to_thread.run_sync(llm.wait_reached, "one")
            assert len(llm.requests) == 1, "some servers have a single slot"
            llm.release("one")
        history, prefix = llm.requests

    (result,) = results
    assert "HISTORY\n\n---\n\n**" in result["summary"]
    assert "**\n\nPREFIX\n\n<read-files>\na.py\n</read-files>" in result["summary"]
    assert result["firstKeptEntryId"] == "e5"
    assert result.get("usage", zero_usage())["totalTokens"] == 30
    assert (history.body["max_completion_tokens"], prefix.body["max_completion_tokens"]) == (800, 500)
    assert prompt_of(history).startswith("<conversation>\n[User]: first\n\n[Assistant]: one\n</conversation>")
    assert "[User]: second" in prompt_of(prefix)
    assert "[Tool result]: x = 1" in prompt_of(prefix)
    assert "<previous-summary>" not in prompt_of(prefix)
    assert all(prompt_of(each).endswith("Additional focus: the tests") for each in (history, prefix))


@pytest.mark.parametrize(("previous", "above"), [(None, "There is no earlier history."), ("OLD", "OLD")])
async def test_without_a_history_the_summary_before_stays_above_that_of_the_turn(
    previous: str | None, above: str
) -> None:
    path: list[Entry] = SPLIT[2:]
    if previous is not None:
        compaction = entry(9, type="compaction", summary=previous, firstKeptEntryId="none", tokensBefore=1)
        path = [*SPLIT[:2], compaction, *path]
    with FakeLlm([{"text": "PREFIX"}]) as llm:
        result = await run(writer_at(llm), path)
        (request,) = llm.requests

    assert result["summary"].startswith(f"{above}\n\n---\n\n**")
    assert "## Original Request" in prompt_of(request)


async def test_a_model_that_thinks_may_write_more_than_the_settings_allow() -> None:
    with FakeLlm([{"reasoning": "hm", "text": "S"}]) as llm:
        result = await run(writer_at(llm, thinks=True))
        (request,) = llm.requests

    assert request.body["max_completion_tokens"] == 4_000
    assert result["summary"] == "S"


async def test_after_an_overflow_at_most_half_is_kept_whatever_window_is_reported() -> None:
    roomy = CompactionSettings()
    with FakeLlm([{"text": "S"}]) as llm:
        with pytest.raises(CompactionFailed):
            await run(writer_at(llm), TWO_TURNS[:3], settings=roomy)
        result = await run(writer_at(llm), TWO_TURNS[:3], settings=roomy, has_overflowed=True)

    assert result["firstKeptEntryId"] == "e1"


# What is tried again


async def test_what_is_transient_is_tried_again_and_costs_are_added() -> None:
    lost = {"chunks": [{"text": "a"}, {"usage": {"input": 7, "output": 0}}, {"disconnect": "fin"}]}
    with FakeLlm([BUSY, lost, {"text": "S", "usage": {"input": 10, "output": 5}}]) as llm:
        result = await run(writer_at(llm))
        assert len(llm.requests) == 3

    assert result.get("usage", zero_usage())["totalTokens"] == 22


async def test_it_is_given_up_after_as_many_attempts_as_the_policy_allows() -> None:
    with FakeLlm([{**BUSY, "repeat": -1}]) as llm:
        text, code = await failure_of(llm)
        assert len(llm.requests) == 4

    words, line = text.split("\n")
    assert (words, code) == ('Summarization failed: 503: {"message":"no"}', ErrorCode.COMPACTION_FAILED)
    assert ", attempt 4 of 4. " in line


async def test_nothing_is_tried_again_when_the_policy_is_off() -> None:
    with FakeLlm([BUSY]) as llm:
        with pytest.raises(CompactionFailed):
            await run(writer_at(llm, retry=RetryPolicy(False, 3, 0.0)))
        assert len(llm.requests) == 1


async def test_the_wait_before_another_attempt_is_the_policys(autojump_clock: MockClock, tmp_path: Path) -> None:
    error = {"match": "conversation", "error": {"status": 503, "message": "no"}}
    script = {"delay_ms": 0, "turns": [error, error, error, {"match": "conversation", "text": "S"}]}
    (tmp_path / "script.json").write_text(json.dumps(script))
    writer = Writer(offline_model(str(tmp_path / "script.json")), Credentials(), retry=RetryPolicy(True, 3, 2.0, 5.0))
    begin_s = trio.current_time()

    result = await run(writer)

    assert result["summary"] == "S"
    assert round(trio.current_time() - begin_s, 3) == 2 + 4 + 5


async def test_the_wait_is_the_servers_if_that_is_longer() -> None:
    busy = {"error": {"status": 429, "headers": {"retry-after-ms": "150"}, "body": {"error": {"message": "no"}}}}
    begin_s = trio.current_time()
    with FakeLlm([busy, {"text": "S"}]) as llm:
        await run(writer_at(llm))

    assert trio.current_time() - begin_s >= 0.15


async def test_what_is_final_is_not_tried_again() -> None:
    with FakeLlm([{"error": {"status": 400, "body": {"error": {"message": "no summary for you"}}}}]) as llm:
        text, code = await failure_of(llm)

    assert provider_words(text) == 'Summarization failed: 400: {"message":"no summary for you"}'
    assert ", attempt 1, not tried again. " in text
    assert code is ErrorCode.COMPACTION_FAILED


async def test_a_request_that_is_too_long_after_all_is_halved_and_the_rest_follows() -> None:
    path = [*(user(index, f"{index} {WORDS}") for index in range(40))]
    with FakeLlm([OVERFLOW, OVERFLOW, *({"text": f"S{number}"} for number in range(20))]) as llm:
        result = await run(writer_at(llm), path)
        prompts = [prompt_of(each) for each in llm.requests]

    sizes = [len(prompt) for prompt in prompts]
    assert sizes[1] < sizes[0] * 0.6
    assert sizes[2] < sizes[1] * 0.7, "the wording of requests stays"
    assert prompts[0].startswith(f"<conversation>\n[User]: 0 {WORDS}".strip())
    answered = prompts[2:]
    assert len(answered) > 3
    assert result["summary"] == f"S{len(answered) - 1}"
    for number in range(39):
        assert sum(f"[User]: {number} {WORDS}".strip() in prompt for prompt in answered) == 1
    for number, prompt in enumerate(answered[1:]):
        assert f"<previous-summary>\nS{number}\n</previous-summary>" in prompt
    assert ["the next part follows" in prompt for prompt in answered] == [True] * (len(answered) - 1) + [False]


async def test_what_the_provider_left_out_of_a_request_is_sent_again_in_pieces() -> None:
    """It has answered, and its count is more than the window."""
    path = [*(user(index, f"{index} {WORDS}") for index in range(40))]
    silent = {"text": "of a part", "usage": {"input": 16_001, "output": 5}}
    with FakeLlm([silent, {"text": "S0"}, {"text": "S1"}, {"text": "S2"}]) as llm:
        result = await run(writer_at(llm, window=16_000), path)
        prompts = [prompt_of(each) for each in llm.requests]

    assert result["summary"].startswith("S")
    assert len(prompts) > 2
    assert all(any(f"[User]: {number} {WORDS}".strip() in prompt for prompt in prompts[1:]) for number in range(39))
    assert not any("of a part" in prompt for prompt in prompts)


async def test_what_can_not_be_halved_any_more_fails_with_the_error_of_the_provider() -> None:
    with FakeLlm([{**OVERFLOW, "repeat": -1}]) as llm:
        text, _ = await failure_of(llm)
        assert len(llm.requests) < 8

    assert text.startswith('Summarization failed: 400: {"message":"prompt is too long')


# What fails


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ({"text": " ", "finish": "length"}, "the model wrote nothing"),
        ({"tool_calls": [{"name": "bash"}]}, "the model called a tool instead of writing a summary"),
        ({"text": "S", "tool_calls": [{"name": "bash"}]}, "the model called a tool instead of writing a summary"),
        ({"text": " \n", "repeat": -1}, EMPTY_ANSWER),
        ({"reasoning": "only thoughts"}, "the model wrote nothing"),
        ({"text": "x", "finish": "content_filter"}, "Provider finish_reason: content_filter"),
    ],
)
async def test_an_answer_that_is_no_summary_is_a_failure(response: Mapping[str, object], reason: str) -> None:
    with FakeLlm([response]) as llm:
        text, code = await failure_of(llm)

    assert (provider_words(text), code) == (f"Summarization failed: {reason}", ErrorCode.COMPACTION_FAILED)


async def test_a_summary_that_reached_its_limit_counts_and_is_marked() -> None:
    with FakeLlm([{"text": "most of it", "finish": "length"}]) as llm:
        result = await run(writer_at(llm))

    assert result["summary"] == "most of it\n\n[This summary ends here because it reached its limit of 800 tokens.]"


async def test_a_failure_names_which_of_the_two_summaries_it_was() -> None:
    with FakeLlm([{"text": "HISTORY"}, {"text": "", "finish": "length"}]) as llm:
        text, _ = await failure_of(llm, SPLIT)

    assert text == "Turn prefix summarization failed: the model wrote nothing"


async def test_nothing_to_compact_has_its_own_code_and_sends_no_request() -> None:
    compaction = entry(4, type="compaction", summary="S", firstKeptEntryId="e2", tokensBefore=1)
    with FakeLlm() as llm:
        done = await failure_of(llm, [*TWO_TURNS, compaction])
        small = await failure_of(llm, TWO_TURNS[2:])
        assert llm.requests == []

    assert done == ("Already compacted", ErrorCode.ALREADY_COMPACTED)
    assert small == ("Nothing to compact (session too small)", ErrorCode.NOTHING_TO_COMPACT)


async def test_without_credentials_no_request_is_sent() -> None:
    with FakeLlm() as llm:
        writer = writer_at(llm)._replace(credentials=Credentials(problem="No API key found for local."))
        with pytest.raises(CompactionFailed) as failed:
            await run(writer, [])

    assert (failed.value.text, failed.value.code) == ("No API key found for local.", ErrorCode.NO_API_KEY)


async def test_an_unsupported_api_is_reported() -> None:
    with FakeLlm() as llm:
        writer = writer_at(llm)
        with pytest.raises(CompactionFailed) as failed:
            await run(writer._replace(model={**writer.model, "api": "carrier-pigeon"}))

    assert failed.value.code is ErrorCode.NO_MODEL
    assert "carrier-pigeon" in failed.value.text


# Cancelling


@pytest.mark.parametrize("response", [{"text": "S", "hold": "gate"}, {"text": ["S", {"gate": "gate"}, "T"]}])
async def test_cancelling_ends_the_request(response: Mapping[str, object]) -> None:
    with FakeLlm([response]) as llm:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, writer_at(llm))
            await trio.to_thread.run_sync(llm.wait_reached, "gate")
            nursery.cancel_scope.cancel()
        await trio.to_thread.run_sync(llm.wait_disconnects, 1)
        llm.release("gate")
        assert len(llm.requests) == 1


async def test_cancelling_ends_the_wait_for_the_next_attempt() -> None:
    with FakeLlm([BUSY]) as llm:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, writer_at(llm, retry=RetryPolicy(True, 3, 3600.0, 3600.0)))
            await trio.to_thread.run_sync(llm.wait_requests, 1)
            nursery.cancel_scope.cancel()
        assert len(llm.requests) == 1


# In pieces

LONG: list[Entry] = [*(user(index, f"{index} {WORDS * 8}") for index in range(20))]  # 20,000 tokens


def in_pieces(llm: FakeLlm) -> Writer:
    return writer_at(llm, window=8_192)


async def test_what_no_request_can_hold_is_summarised_in_pieces() -> None:
    answers = [{"text": f"S{number}", "usage": {"input": 10, "output": 1}} for number in range(9)]
    with FakeLlm(answers) as llm:
        result = await run(in_pieces(llm), LONG, instructions="the tests")
        prompts = [prompt_of(each) for each in llm.requests]
        caps = [each.body["max_completion_tokens"] for each in llm.requests]

    assert 4 <= len(prompts) <= 7
    assert max(map(len, prompts)) < 1.7 * min(map(len, prompts)), "none is much shorter than the others"
    assert result["summary"] == f"S{len(prompts) - 1}"
    assert result.get("usage", zero_usage())["totalTokens"] == 11 * len(prompts)
    assert result.get("usage", zero_usage())["cost"]["total"] == pytest.approx(12e-6 * len(prompts))
    assert all(prompt.endswith("Additional focus: the tests") for prompt in prompts)
    assert caps == [800] * len(prompts)


async def test_one_text_that_no_request_can_hold_is_summarised_in_pieces() -> None:
    text = "".join(f"{number:06}, " for number in range(10_000))
    with FakeLlm([{"text": "S", "repeat": -1}]) as llm:
        await run(in_pieces(llm), [user(0, text), user(1, WORDS)])
        sections = [prompt_of(each).split("<conversation>\n")[1].split("\n</conversation>")[0] for each in llm.requests]

    assert len(sections) == 4
    assert sections[0].startswith("[User]: 000000, 000001")
    assert all(section.startswith("[User, continued]: ") for section in sections[1:])
    assert all(section.endswith(DIVIDED) for section in sections[:-1])
    parts = (section.partition(": ")[2].removesuffix(DIVIDED) for section in sections)
    assert "".join(parts) == text


@pytest.mark.parametrize("tokens", [1_000, 3_000, 40_000])
async def test_a_former_summary_is_carried_through_however_long_it_is(tokens: int) -> None:
    former = "".join(f"{number:06}, " for number in range(tokens // 2))
    compaction = entry(99, type="compaction", summary=former, firstKeptEntryId="none", tokensBefore=1)
    with FakeLlm([{"text": "S", "repeat": -1}]) as llm:
        await run(in_pieces(llm), [compaction, *LONG])
        prompts = [prompt_of(each) for each in llm.requests]

    numbers = [number for prompt in prompts for number in re.findall(r"\b(\d{6}), ", prompt)]
    assert numbers == [f"{number:06}" for number in range(tokens // 2)]
    assert (f"<previous-summary>\n{former}" in prompts[0]) == (tokens == 1_000)


async def test_a_divided_turn_is_summarised_in_pieces_of_its_own() -> None:
    calls: list[Entry] = []
    for number in range(1, 41, 2):
        calls += [answered(number, f"{number} {WORDS * 2}", ("read", {})), found(number + 1, f"R{number} {WORDS * 3}")]
    path = [user(0, "first"), answered(80, "one"), user(81, "second"), *calls, answered(90, WORDS)]
    with FakeLlm([{"text": f"S{number}"} for number in range(20)]) as llm:
        result = await run(in_pieces(llm), path)
        history, *prefix = [prompt_of(each) for each in llm.requests]

    assert "[User]: first" in history
    assert len(prefix) > 2
    assert all("## Original Request" in prompt for prompt in prefix)
    assert "<previous-summary>" not in prefix[0]
    assert all(f"<previous-summary>\nS{number}\n" in prompt for number, prompt in enumerate(prefix[1:], 1))
    assert result["summary"].startswith("S0\n\n---\n\n")
    assert result["summary"].endswith(f"S{len(prefix)}")
    assert all(any(f"R{number} {WORDS}" in prompt for prompt in prefix) for number in range(1, 41, 2))


async def test_a_piece_that_fails_fails_all_of_it() -> None:
    refusal = {"error": {"status": 400, "body": {"error": {"message": "no more"}}}}
    with FakeLlm([{"text": "S0"}, {"text": "S1"}, refusal]) as llm:
        with pytest.raises(CompactionFailed) as failed:
            await run(in_pieces(llm), LONG)
        assert len(llm.requests) == 3

    assert provider_words(failed.value.text) == 'Summarization failed: 400: {"message":"no more"}'


async def test_each_piece_is_tried_again_by_the_policy() -> None:
    script: list[Mapping[str, object]] = [
        BUSY,
        BUSY,
        {"text": "S0"},
        BUSY,
        BUSY,
        BUSY,
        {"text": "S1"},
        {"text": "S2", "repeat": -1},
    ]
    with FakeLlm(script) as llm:
        result = await run(in_pieces(llm), LONG)
        prompts = [prompt_of(each) for each in llm.requests]

    assert result["summary"] == "S2"
    assert prompts[0] == prompts[1] == prompts[2]
    assert prompts[3] == prompts[4] == prompts[5] == prompts[6]


@pytest.mark.parametrize(
    "response", [{"text": "S", "hold": "gate"}, {"text": ["S", {"gate": "gate"}, "T"]}], ids=["before", "within"]
)
async def test_cancelling_ends_a_later_piece_too(response: Mapping[str, object]) -> None:
    with FakeLlm([{"text": "S0"}, response]) as llm:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, in_pieces(llm), LONG)
            await trio.to_thread.run_sync(llm.wait_reached, "gate")
            nursery.cancel_scope.cancel()
        await trio.to_thread.run_sync(llm.wait_disconnects, 1)
        llm.release("gate")
        assert len(llm.requests) == 2


async def test_instructions_that_fill_the_window_are_an_error_that_names_them() -> None:
    with FakeLlm() as llm:
        with pytest.raises(CompactionFailed) as failed:
            await run(in_pieces(llm), LONG, instructions="look " * 8_000)
        assert llm.requests == []

    assert "the instructions and the summary so far leave no room for the conversation" in failed.value.text
    assert "the context window of m1 (8192 tokens)" in failed.value.text


async def test_what_an_extension_wrote_as_files_stays_in_its_summary() -> None:
    """They would not come back: the files of an extension's compaction are its own."""
    former = "OLD\n\n<read-files>\nold.py\n</read-files>"
    made = entry(4, type="compaction", summary=former, firstKeptEntryId="e2", tokensBefore=1, fromHook=True)
    path = [*TWO_TURNS, made, answered(5, WORDS), user(6, WORDS)]
    with FakeLlm([{"text": "NEW"}]) as llm:
        await run(writer_at(llm), path)
        (request,) = llm.requests

    assert f"<previous-summary>\n{former}\n</previous-summary>" in prompt_of(request)


def test_usages_add_up_field_by_field() -> None:
    one, other = zero_usage(), zero_usage()
    one |= {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4, "totalTokens": 10, "reasoning": 2}
    other |= {"input": 10, "output": 20, "cacheRead": 30, "cacheWrite": 40, "totalTokens": 100, "cacheWrite1h": 5}
    other["cost"] = {"input": 0.5, "output": 0.25, "cacheRead": 0, "cacheWrite": 0, "total": 0.75}

    assert sum_of_usages(one, other) == {
        "input": 11,
        "output": 22,
        "cacheRead": 33,
        "cacheWrite": 44,
        "totalTokens": 110,
        "cost": {"input": 0.5, "output": 0.25, "cacheRead": 0, "cacheWrite": 0, "total": 0.75},
        "reasoning": 2,
        "cacheWrite1h": 5,
    }
    assert sum_of_usages(zero_usage(), zero_usage()) == zero_usage()
