"""Everything that a compaction takes away was in a request for a summary that a model has answered.

Of any conversation, window and settings, with a model that counts in its own way and refuses what is longer than its
window, as real ones do. Rule R-CMP-08.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import pytest
import trio
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.agent.samples import sample_model

from pinnace_agent.compaction.compaction import CompactionResult, compact
from pinnace_agent.compaction.fitting import size
from pinnace_agent.compaction.prompts import DIVIDED
from pinnace_agent.compaction.serialisation import paragraphs, without_tags
from pinnace_agent.compaction.summarize import CompactionFailed, Writer
from pinnace_agent.config.credentials.credentials import Credentials
from pinnace_agent.config.settings import CompactionSettings
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.cost import RequestTokens, usage_of
from pinnace_agent.llm.output_cap import output_cap
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.session.context import build_context
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import Message, Model, zero_usage
from pinnace_statechart.state import RetryPolicy

OVERHEAD_TOKENS: Final = 700
"""Of the system prompt and the tools, in each count of a conversation."""
SECTION: Final = re.compile(
    r"<conversation>\n(.*)\n</conversation>(?:\n\n<previous-summary>\n(.*)\n</previous-summary>)?", re.DOTALL
)
CONTINUED: Final = re.compile(r"\[[A-Za-z ]+, continued\]: ")


class Given(NamedTuple):
    """A request for a summary that a model has answered."""

    conversation: str
    previous: str
    text: str
    answer: str


class CountingModel:
    """A model with a window, as its server is: it counts what it reads, and refuses what is too long for it."""

    def __init__(self, window: int, count: Callable[[str], int], answer: Callable[[int, int], str]) -> None:
        """Prepare; `answer` gets the number of the request and the most tokens that it may have."""
        self.window = window
        self.count = count
        self.given: list[Given] = []
        self.refused = 0
        self._answer = answer

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        (message,) = request.messages
        assert message["role"] == "user"
        assert not isinstance(message["content"], str)
        text = "".join(block["text"] for block in message["content"] if block["type"] == "text")
        tokens, cap = self.count(request.system_prompt + text), output_cap(request)
        assert cap is not None
        await trio.lowlevel.checkpoint()
        if tokens + cap > self.window:
            self.refused += 1
            return builder.fail(f"400: maximum context length is {self.window} tokens, requested {tokens + cap}")
        answer = self._answer(len(self.given), cap)
        section = SECTION.match(text)
        assert section is not None
        self.given.append(Given(section[1], section[2] or "", text, answer))
        builder.start()
        builder.text_delta("text", answer)
        builder.usage = usage_of(request.model, RequestTokens(input=tokens, output=1))
        return builder.finish("stop")


class Conversation(NamedTuple):
    path: list[Entry]
    messages: Sequence[Message]


def bytes_by(bytes_per_token: float) -> Callable[[str], int]:
    return lambda text: int(size(text) / bytes_per_token) + 1


def conversation_of(
    turns: Sequence[tuple[str, str, str]], window: int, count: Callable[[str], int] | None, summary: str | None = None
) -> Conversation:
    """Build a session in which each turn has a prompt, a call with its result, and an answer.

    Args:
        turns: The prompt, the result and the answer of each.
        window: Of the model: it has not answered what was longer.
        count: How it counts; None: it does not.
        summary: Of an earlier compaction, before all that.
    """
    path: list[Entry] = []
    total = OVERHEAD_TOKENS + (count(summary) if count and summary else 0)

    def add(**message: object) -> None:
        number = len(path)
        entry: Entry = {"id": f"e{number}", "parentId": None, "timestamp": "2026-01-01T00:00:00.000Z"}
        path.append({**entry, "type": "message", "message": {"timestamp": 10_000 + number, **message}})

    def answer(text: str, *calls: object, stop: str) -> None:
        usage = usage_of(model_of(window), RequestTokens(input=total)) if count and total <= window else zero_usage()
        content = [{"type": "text", "text": text}, *calls]
        add(role="assistant", content=content, api="a", provider="p", model="m", usage=usage, stopReason=stop)

    if summary is not None:
        compaction: Entry = {"type": "compaction", "id": "c", "summary": summary, "firstKeptEntryId": "e1"}
        path.append({**compaction, "timestamp": "1970-01-01T00:00:01.000Z", "tokensBefore": 9})
    for prompt, result, text in turns:
        add(role="user", content=prompt)
        total += count(prompt) if count else 0
        if result:
            call_id = f"call{len(path)}"
            answer("", {"type": "toolCall", "id": call_id, "name": "read", "arguments": {}}, stop="toolUse")
            content = [{"type": "text", "text": result}]
            add(role="toolResult", toolCallId=call_id, toolName="read", content=content, isError=False)
            total += count(result) if count else 0
        answer(text, stop="stop")
        total += count(text) if count else 0
    return Conversation(path, build_context(path).messages)


def model_of(window: int, *, most: int = 16_384, thinks: bool = False) -> Model:
    cost = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0}
    return sample_model(reasoning=thinks, cost=cost, contextWindow=window, maxTokens=most)


def compacted(
    server: CountingModel,
    model: Model,
    conversation: Conversation,
    chosen: CompactionSettings,
    instructions: str | None = None,
) -> CompactionResult:
    writer = Writer(model, Credentials("key", {}), retry=RetryPolicy(True, 2, 0.0, 1.0), provider=server)
    path, messages = conversation
    return trio.run(lambda: compact(path, messages, writer, chosen, instructions=instructions))


def rejoined(requests: Sequence[Given]) -> str:
    """Return the conversations of requests as one, with what was divided put together again."""
    whole = ""
    for request in requests:
        if whole.endswith(DIVIDED):
            continued = CONTINUED.match(request.conversation)
            assert continued is not None
            whole = whole.removesuffix(DIVIDED) + request.conversation[continued.end() :]
        else:
            whole += ("\n\n" if whole else "") + request.conversation
    assert not whole.endswith(DIVIDED)
    return whole


def taken_away(conversation: Conversation, result: CompactionResult) -> list[Message]:
    """Return the messages that the context has no more, the earlier summary not among them."""
    entry: Entry = {"type": "compaction", "id": "new", **result}
    kept = build_context([*conversation.path, entry]).messages
    return [each for each in conversation.messages if each["role"] != "compactionSummary" and each not in kept]


# The property

UNITS: Final = ("a", "字", "é", "😀", "word ", "line of code;\n", "QUJDRA", "</conversation>", "\ud800")
LENGTHS: Final = st.one_of(st.integers(0, 60), st.floats(0, 0.2), st.floats(0, 2.5))
"""In characters, or as a part of a window at four characters a token."""
TEXT: Final = st.tuples(st.sampled_from(UNITS), LENGTHS)
TURNS: Final = st.lists(st.tuples(TEXT, st.one_of(st.none(), TEXT), TEXT), min_size=1, max_size=8)
MOST_CHARS: Final = 100_000
"""For the time of this test; longer conversations of larger windows have tests of their own."""
WINDOWS: Final = st.one_of(
    st.sampled_from([2_048, 4_096, 8_192]), st.integers(2_000, 20_000), st.sampled_from([32_768, 200_000, 1_000_000])
)


def filled(text: tuple[str, int | float], window: int, name: str) -> str:
    unit, length = text
    chars = min(int(length * window * 4), MOST_CHARS) if isinstance(length, float) else length
    return f"{name}:" + unit * (chars // len(unit)) + f":{name}"


class Case(NamedTuple):
    """A conversation, a model and settings."""

    turns: list[tuple[tuple[str, float], tuple[str, float] | None, tuple[str, float]]]
    window: int
    bytes_per_token: float
    counts: bool
    previous: tuple[str, float] | None
    settings: CompactionSettings
    most: int
    thinks: bool
    instructions: str | None
    summary_share: float
    """Of what an answer may take, how much it does."""
    told_too_large: int
    """How much larger than its real window the model's configured one is."""


CASES: Final = st.builds(
    Case,
    turns=TURNS,
    window=WINDOWS,
    bytes_per_token=st.sampled_from([2.0, 3.0, 4.0, 4.8]),
    counts=st.booleans(),
    previous=st.one_of(st.none(), TEXT),
    settings=st.builds(
        CompactionSettings,
        st.just(True),
        st.one_of(st.just(16_384), st.integers(1, 40_000)),
        st.one_of(st.just(20_000), st.integers(1, 40_000)),
    ),
    most=st.sampled_from([0, 1_000, 16_384, 64_000]),
    thinks=st.booleans(),
    instructions=st.one_of(st.none(), st.just("the ROSES")),
    summary_share=st.sampled_from([0.0, 0.3, 1.0]),
    told_too_large=st.sampled_from([1, 1, 1, 2]),
)


@settings(max_examples=150)
@given(CASES)
def test_everything_that_is_taken_away_was_in_a_request_that_was_answered(case: Case) -> None:
    window = case.window
    texts = [
        (
            filled(prompt, window, f"P{number}"),
            filled(result, window, f"R{number}") if result else "",
            filled(answer, window, f"A{number}"),
        )
        for number, (prompt, result, answer) in enumerate(case.turns)
    ]
    count = bytes_by(case.bytes_per_token)
    earlier = None if case.previous is None else filled(case.previous, window, "S")
    conversation = conversation_of(texts, window, count if case.counts else None, earlier)

    def answer(number: int, cap: int) -> str:
        return f"SUMMARY-{number}." + "s" * max(0, int(case.summary_share * cap * case.bytes_per_token) - 20)

    # The configuration may claim more than there is, as long as that leaves room for the wording of requests.
    server = CountingModel(window // case.told_too_large if window >= 8_192 else window, count, answer)
    model = model_of(window, most=case.most, thinks=case.thinks)
    result, failure = None, ""
    try:
        result = compacted(server, model, conversation, case.settings, case.instructions)
    except CompactionFailed as failed:
        failure = failed.text
    if result is None:
        event(failure)
        if failure != "Nothing to compact (session too small)":
            # The wording of requests is most of the smallest windows: once one was refused, too little may be left for
            # the conversation. Then all of it stays as it is.
            assert window < 4_096
            assert server.refused
        else:
            assert server.given == []
        return
    event(f"{min(len(server.given), 5)} answered requests, {'some' if server.refused else 'none'} refused")
    gone = taken_away(conversation, result)
    assert gone
    whole = rejoined_of_parts(server.given)
    for paragraph in paragraphs(gone):
        assert paragraph in whole
    if earlier and is_of_turn(server.given[0]):
        assert earlier in result["summary"]
    elif earlier:
        assert without_tags(earlier) in whole + server.given[0].previous
    for before, after in itertools.pairwise(server.given):
        if is_of_turn(before) == is_of_turn(after):
            assert after.previous == before.answer
    assert all((case.instructions or "") in request.text for request in server.given)
    assert server.given[-1].answer in result["summary"]
    usage = result.get("usage")
    assert usage is not None
    assert usage["output"] == len(server.given)


def is_of_turn(request: Given) -> bool:
    return "## Original Request" in request.text


def rejoined_of_parts(requests: Sequence[Given]) -> str:
    """Rejoin the requests for the history, and those for the beginning of a turn."""
    parts = [[each for each in requests if is_of_turn(each) is which] for which in (False, True)]
    return "\n\n".join(rejoined(part) for part in parts if part)


# Windows that are too large for the property


@pytest.mark.parametrize("window", [128_000, 200_000, 1_000_000])
@pytest.mark.parametrize("thinks", [False, True])
def test_the_context_that_a_compaction_is_due_for_is_one_request_by_default(window: int, thinks: bool) -> None:
    """By the counts of the provider it fits."""
    words = "words of no importance, " * 200  # 1,200 tokens
    # The answer that brought the context over the threshold counted all but itself.
    count = (window - 16_384 - OVERHEAD_TOKENS + 2_400) // 4_076 + 1
    turns = [(f"P{turn:05}" + words, f"R{turn:05}" + words[:1_900], f"A{turn:05}" + words * 2) for turn in range(count)]
    conversation = conversation_of(turns, window, bytes_by(4))
    server = CountingModel(window, bytes_by(4), lambda number, cap: f"SUMMARY-{number}")
    result = compacted(server, model_of(window, most=64_000, thinks=thinks), conversation, CompactionSettings())

    assert window - 16_384 < result["tokensBefore"] < window - 12_000
    assert (len(server.given), server.refused) == (1 if not result["summary"].count("---") else 2, 0)
    gone = taken_away(conversation, result)
    assert len(gone) > len(conversation.messages) * 0.8
    assert "\n\n".join(paragraphs(gone)) == rejoined_of_parts(server.given)
