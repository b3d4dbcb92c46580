"""Conversations that are longer than the model's window, over real pipes and a server that has one.

The server counts what it is sent, reports that as usage, and refuses what is over its window, as real ones do. What is
held: R-CMP-01, R-CMP-02, R-CMP-03, C-14; that a summary's request obeys the window too; and that a session file holds
the context as it was.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from pinnace_agent.compaction.prompts import SYSTEM_PROMPT
from pinnace_fuzz.harness.adapters import pi_models
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.model_server.ledger import Ledger
from pinnace_fuzz.harness.model_server.short_form import read_response
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Response
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_spec.rules import errors

WINDOW: Final = 32_000
CHARS_PER_TOKEN: Final = 4
TURNS: Final = 200
# Every so many turns the model calls a tool, whose output is long.
TOOL_EVERY: Final = 9
CALL: Final = {"name": "bash", "args": {"command": "seq 1 1500"}}
# A turn of this many characters and its answer: some dozen fill what the default reserve leaves of the window.
PROMPT_CHARS: Final = 900
ANSWER_CHARS: Final = 1_200
SUMMARY_MARK: Final = "You write summaries"
OF_A_TURN: Final = "beginning of one turn"
SETTLED: Final = {"type": "agent_settled"}
SETTLED_TIMEOUT_S: Final = 60.0


class WindowLedger(Ledger):
    """Answers what the script does not, as a model with a window does."""

    def __init__(self, window: int, answer_chars: int = ANSWER_CHARS, tool_every: int | None = TOOL_EVERY) -> None:
        super().__init__()
        self.window = window
        self._answer_chars = answer_chars
        self._tool_every = tool_every
        self.read: list[str] = []
        """The requests for summaries that were answered."""
        self.counts: list[int] = []
        """What each request came to, in tokens."""
        self.asked_output: list[int] = []
        """How long each answer was allowed to be."""
        self.refused: list[int] = []
        """The numbers of the requests that were over the window."""
        self.summaries: list[int] = []
        """The numbers of the requests for summaries."""
        self.histories: list[str] = []
        """Those that are not of the beginning of a turn."""

    def _take(self, text: str) -> Response | None:
        number, tokens = len(self.counts), tokens_of(text)
        self.counts.append(tokens)
        self.asked_output.append(json.loads(text)["max_completion_tokens"])
        is_summary = is_summary_request(text)
        if is_summary:
            self.summaries.append(number)
            if OF_A_TURN not in text:
                self.histories.append(text)
        if scripted := super()._take(text):
            return scripted
        if tokens > self.window:
            self.refused.append(number)
            return read_response(refusal(tokens, self.window), number)
        usage = {"input": tokens, "output": self._answer_chars // CHARS_PER_TOKEN}
        if is_summary:
            self.read.append(text)
            words = f"Summary number {len(self.histories)}. " + "What was done, and why. " * 60
            return read_response({"text": words, "usage": usage}, number)
        if self._tool_every and number % self._tool_every == 0:
            return read_response({"tool_calls": [CALL], "usage": usage}, number)
        return read_response({"text": [filler(f"Answer {number}", self._answer_chars)], "usage": usage}, number)


class WindowLlm(FakeLlm):
    """A scripted LLM that answers all else as a model with a window does."""

    def __init__(self, window: int = WINDOW, **answers: Any) -> None:
        super().__init__()
        self.ledger = WindowLedger(window, **answers)
        self._ledger = self.ledger


@pytest.fixture
def window_llm() -> Iterator[Callable[..., WindowLlm]]:
    """Makes LLMs with windows that end with the test."""
    with ExitStack() as stack:
        yield lambda *args, **more: stack.enter_context(WindowLlm(*args, **more))


def filler(name: str, chars: int) -> str:
    return f"{name}: " + "words of no importance, ".ljust(25) * (chars // 25)


def refusal(tokens: int, window: int) -> Record:
    message = f"This model's maximum context length is {window} tokens. However, your messages are {tokens} tokens."
    return {"error": {"status": 400, "body": {"error": {"message": message, "code": "context_length_exceeded"}}}}


def tokens_of(text: str) -> int:
    """Count what a request really holds: every character of it that the model reads, with the names around it."""
    body = json.loads(text)
    read = json.dumps([body["messages"], body.get("tools", [])], ensure_ascii=False)
    return -(-len(read) // CHARS_PER_TOKEN)


def is_summary_request(text: str) -> bool:
    return json.dumps(SYSTEM_PROMPT, ensure_ascii=False)[1:-1] in text


def models(llm: FakeLlm, window: int = WINDOW) -> dict[str, Any]:
    models: dict[str, Any] = pi_models(llm.base_url)
    models["providers"]["fake"]["models"][0]["contextWindow"] = window
    return models


def say(pi: HomedAgent, text: str) -> list[Record]:
    """Say something, wait until all is done, and return the records of that."""
    mark = pi.mark()
    response = pi.request({"type": "prompt", "message": text})
    assert response["success"], response
    pi.wait(SETTLED, SETTLED_TIMEOUT_S, since=mark)
    return [each.record for each in pi.records[mark:]]


def of_type(records: list[Record], kind: str) -> list[Record]:
    return [record for record in records if record["type"] == kind]


def stops(records: list[Record]) -> list[str]:
    """Return how each answer ended."""
    messages = [record["message"] for record in of_type(records, "message_end")]
    return [message["stopReason"] for message in messages if message["role"] == "assistant"]


def messages_of(pi: HomedAgent) -> list[Record]:
    messages: list[Record] = pi.request({"type": "get_messages"})["data"]["messages"]
    return messages


def test_two_hundred_turns_under_a_small_window_work_to_the_end(
    agent: AgentStarter, window_llm: Callable[..., WindowLlm]
) -> None:
    """R-CMP-01: compactions make room by themselves, no request is over the window, and the file holds it all."""
    llm = window_llm()
    pi = agent(llm, models=models(llm), has_session=True)
    records = [record for turn in range(TURNS) for record in say(pi, filler(f"Turn {turn}", PROMPT_CHARS))]
    ends = of_type(records, "compaction_end")

    assert {"stop", "toolUse"} == set(stops(records))
    assert TURNS == stops(records).count("stop")
    assert len(ends) > 5
    assert [] == [end for end in ends if end["result"] is None]
    assert [] == llm.ledger.refused
    assert max(llm.ledger.counts) <= WINDOW
    assert max(map(sum, zip(llm.ledger.counts, llm.ledger.asked_output, strict=True))) <= WINDOW
    for number, request in enumerate(llm.ledger.histories[1:], 1):
        assert f"Summary number {number}." in request

    before = messages_of(pi)
    texts = [message["content"][0]["text"] for message in before if message["role"] == "user"]
    assert f"Turn {TURNS - 1}:" == texts[-1].partition(" words")[0]
    pi.close_stdin()
    assert 0 == pi.wait_exit()
    again = agent((), "--continue", again=pi)
    assert before == messages_of(again)
    assert ["stop"] == stops(say(again, "And on."))[-1:]
    assert [] == llm.ledger.refused


@pytest.mark.parametrize(
    ("window", "turns", "prompt_chars", "answer_chars", "most_compactions"),
    [
        (4_096, 40, 300, 400, 15),
        (4_096, 20, 1_000, 1_000, 20),
        (8_192, 68, 900, 1_200, 20),
        (200_000, 78, 9_000, 12_000, 2),
    ],
)
def test_what_a_compaction_takes_away_was_summarised(
    agent: AgentStarter,
    window_llm: Callable[..., WindowLlm],
    window: int,
    turns: int,
    prompt_chars: int,
    answer_chars: int,
    most_compactions: int,
) -> None:
    """R-CMP-08: by default settings, of every size of window; no prompt is refused for what was before it."""
    llm = window_llm(window, answer_chars=answer_chars, tool_every=None)
    described = models(llm, window)
    described["providers"]["fake"]["models"][0]["maxTokens"] = 32_000
    pi = agent(llm, models=described, has_session=True)
    texts = [filler(f"Turn {turn}", prompt_chars) for turn in range(turns)]
    records = [record for text in texts for record in say(pi, text)]
    ends = of_type(records, "compaction_end")

    assert [] == llm.ledger.refused
    assert ["stop"] * turns == stops(records)
    assert [] == [end for end in ends if end["result"] is None]
    assert 1 < len(ends) <= most_compactions
    # No answer was cut short for the margin's sake.
    assert min(llm.ledger.asked_output) >= window // 16
    assert all(text.startswith("Answer") for text in answers_of(records))
    texts += answers_of(records)
    held = json.dumps(messages_of(pi))
    gone = [text for text in texts if json.dumps(text)[1:-1] not in held]
    assert len(gone) > turns
    read = "".join(llm.ledger.read)
    assert [] == [text[:20] for text in gone if json.dumps(text)[1:-1] not in read]
    if window == 200_000:
        assert len(ends) == len(llm.ledger.summaries), "one request each"


def answers_of(records: list[Record]) -> list[str]:
    messages = [record["message"] for record in of_type(records, "message_end")]
    return [message["content"][0]["text"] for message in messages if message["role"] == "assistant"]


def test_a_message_longer_than_the_window_ends_in_an_error_and_no_loop(
    agent: AgentStarter, window_llm: Callable[..., WindowLlm]
) -> None:
    """R-CMP-02, C-14: there is nothing else to take away, and the user is told so."""
    llm = window_llm()
    pi = agent(llm, models=models(llm), has_session=True)
    records = say(pi, filler("Too much", 2 * WINDOW * CHARS_PER_TOKEN))
    ends = of_type(records, "compaction_end")

    assert ["error"] == stops(records)
    assert ["overflow"] == [end["reason"] for end in ends]
    assert "Context overflow recovery failed: Nothing to compact (session too small)" == ends[0]["errorMessage"]
    assert [0] == llm.ledger.refused
    assert 1 == len(llm.requests)


def test_a_message_longer_than_the_window_after_others_ends_in_an_error_and_no_loop(
    agent: AgentStarter, window_llm: Callable[..., WindowLlm]
) -> None:
    """R-CMP-02, C-14: what is before it is compacted once; then the user is told that it was not enough."""
    llm = window_llm()
    pi = agent(llm, models=models(llm), has_session=True)
    for turn in range(3):
        say(pi, filler(f"Turn {turn}", PROMPT_CHARS))
    records = say(pi, filler("Too much", 2 * WINDOW * CHARS_PER_TOKEN))
    ends = of_type(records, "compaction_end")

    assert ["error", "error"] == stops(records)
    assert [None, errors.OVERFLOW_AGAIN] == [end.get("errorMessage") for end in ends]
    assert [True, False] == [end["willRetry"] for end in ends]
    assert not set(llm.ledger.summaries) & set(llm.ledger.refused)


def test_after_a_message_longer_than_the_window_the_session_goes_on(
    agent: AgentStarter, window_llm: Callable[..., WindowLlm]
) -> None:
    """R-CMP-01, R-CMP-02, R-CMP-08: it is not the newest any more; all of it is summarised, in pieces."""
    llm = window_llm()
    pi = agent(llm, models=models(llm), has_session=True)
    numbers = [f"{number:06}" for number in range(2 * WINDOW * CHARS_PER_TOKEN // 7)]
    say(pi, "First.")
    say(pi, f"Begin {' '.join(numbers)} end")
    del llm.ledger.read[:]
    records = say(pi, "A short question.")
    ends = of_type(records, "compaction_end")

    assert ["error", "stop"] == stops(records)
    assert [None] == [end.get("errorMessage") for end in ends]
    first, *_, last = histories = llm.ledger.read
    assert len(histories) > 2
    assert "[User]: Begin 000000 000001 " in first
    assert " end\\n" in last
    assert numbers == [number for each in histories for number in re.findall(r"(?<= )\d{6}(?= )", each)]
    assert "A short question." not in last
    assert ["stop"] == stops(say(pi, "Another one."))
    assert not set(llm.ledger.summaries) & set(llm.ledger.refused)


def test_an_overflow_after_its_recovery_is_reported_and_the_session_goes_on(
    agent: AgentStarter, window_llm: Callable[..., WindowLlm]
) -> None:
    """C-14: one compaction, one more try, then the published text; a shorter prompt is answered."""
    llm = window_llm()
    pi = agent(llm, models=models(llm), has_session=True)
    for turn in range(3):
        say(pi, filler(f"Turn {turn}", PROMPT_CHARS))
    llm.add(refusal(WINDOW + 1, WINDOW))
    llm.add({"text": "What was.", "match": SUMMARY_MARK, "repeat": -1})
    llm.add(refusal(WINDOW + 1, WINDOW))
    records = say(pi, "Longer than the server likes.")
    ends = of_type(records, "compaction_end")

    assert ["error", "error"] == stops(records)
    assert [None, errors.OVERFLOW_AGAIN] == [end.get("errorMessage") for end in ends]
    assert [True, False] == [end["willRetry"] for end in ends]
    assert ["stop"] == stops(say(pi, "Short."))


@pytest.mark.parametrize("told_window", [WINDOW, 8 * WINDOW], ids=["as it is", "told too large"])
def test_what_overflows_is_compacted_by_requests_that_fit(
    agent: AgentStarter, window_llm: Callable[..., WindowLlm], told_window: int
) -> None:
    """R-CMP-01, R-CMP-02: a history longer than the window, which the first refusal names where it was told wrong."""
    llm = window_llm()
    pi = agent(llm, models=models(llm, told_window), settings={"compaction": {"enabled": False}}, has_session=True)
    answers = [stops(say(pi, filler(f"Turn {turn}", WINDOW))) for turn in range(8)]  # each a quarter of it
    assert ["error"] == answers[-1]
    pi.request({"type": "set_auto_compaction", "enabled": True})
    records = say(pi, filler("Turn 5", 500))
    ends = of_type(records, "compaction_end")

    assert "stop" == stops(records)[-1]
    assert [None] == [end.get("errorMessage") for end in ends]
    assert not set(llm.ledger.summaries) & set(llm.ledger.refused)


TO_THE_BEGINNING: Final = """
def extension(pi):
    @pi.command("back")
    async def back(ctx, args):
        first = ctx.session_manager.get_entries()[0]
        await ctx.navigate_tree(first["id"], summarize=True, custom_instructions="the ROSES")
        ctx.ui.notify("back")
"""


def test_a_branch_that_no_request_can_hold_is_summarised_whole(
    agent: AgentStarter, window_llm: Callable[..., WindowLlm], tmp_path: Path
) -> None:
    """R-CMP-08: as a compaction is."""
    llm = window_llm(8_192, answer_chars=1_600, tool_every=None)
    (tmp_path / "back.py").write_text(TO_THE_BEGINNING)
    described = models(llm, 8_192)
    pi = agent(llm, "-e", str(tmp_path / "back.py"), models=described, settings={"compaction": {"enabled": False}})
    texts = [filler(f"Turn {turn}", 1_600) for turn in range(8)]
    records = [record for text in texts for record in say(pi, text)]
    pi.request({"type": "prompt", "message": "/back"})
    pi.wait({"type": "extension_ui_request", "method": "notify", "message": "back"})

    read = llm.ledger.read
    assert len(read) > 1
    assert [] == llm.ledger.refused
    for text in [*texts, *answers_of(records)]:
        assert sum(json.dumps(text)[1:-1] in each for each in read) == 1
    assert all("the ROSES" in each for each in read)
    summary = messages_of(pi)[-1]["summary"]
    assert summary.startswith(f"Summary number {len(llm.ledger.histories)}.")
