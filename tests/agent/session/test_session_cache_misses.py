"""What a session has missed of a prompt cache: beside the original's count, and beside what a cache had been given.

Rule R-STA-11.
"""

import json
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agent.llm.prompt_cache import MINIMUM, PromptCache
from tests.agent.samples import answer_of, prices, served_model, text_block, tool_call, tool_result, user

from pinnace_agent.llm.anthropic.compat import compat_of
from pinnace_agent.llm.anthropic.request import http_request
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.session.cache_misses import NOISE_TOKENS, CacheMisses, RunningMisses
from pinnace_agent.session.store import reading
from pinnace_agent.session.tree import EntryTree
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import Message, Model, ThinkingLevel, ToolCall

LEVELS: Final[tuple[ThinkingLevel, ...]] = ("off", "low", "high")
PAUSES_S: Final = (1, 1, 20, 200, 400, 4000)
START_MS: Final = 1_800_000_000_000
TOOLS: Final = (ToolSpec("read", "Reads.", {"type": "object", "properties": {}}),)


def model(model_id: str) -> Model:
    return served_model(
        id=model_id,
        api="anthropic-messages",
        provider="anthropic",
        reasoning=True,
        contextWindow=200_000,
        maxTokens=64_000,
        cost=prices(3, 15, 0.3, 3.75),
    )


MODELS: Final = {name: model(name) for name in ("m1", "m2")}


def find(provider: str, model_id: str) -> Model | None:
    return MODELS.get(model_id) if provider == "anthropic" else None


def misses(entries: Iterable[Entry]) -> CacheMisses:
    return RunningMisses().of(EntryTree(entries), find)


def time_of(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def usage(input_: int, cache_read: int, cache_write: int, **more: int) -> dict[str, object]:
    cost = {"input": input_ * 3e-6, "output": 0, "cacheRead": cache_read * 3e-7, "cacheWrite": cache_write * 3.75e-6}
    total = input_ + cache_read + cache_write
    kinds = {"input": input_, "output": 0, "cacheRead": cache_read, "cacheWrite": cache_write, "totalTokens": total}
    return {**kinds, "cost": {**cost, "total": sum(cost.values())}, **more}


class Line:
    """Entries that follow each other, each the child of the one before unless it is told otherwise."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.now_ms = START_MS

    def add(self, entry_type: str, /, **fields: object) -> str:
        entry_id = f"e{len(self.entries)}"
        parent = self.entries[-1]["id"] if self.entries else None
        ids = {"id": entry_id, "parentId": parent, "timestamp": time_of(self.now_ms)}
        self.entries.append({"type": entry_type, **ids, **fields})
        return entry_id

    def say(self, message: Message, **fields: object) -> str:
        return self.add("message", message={**message, "timestamp": self.now_ms}, **fields)

    def answer(self, *counts: int, by: str = "m1", after_s: float = 1, parent: str | None = None, **more: int) -> str:
        """Add an answer whose request read and paid so much."""
        self.now_ms += int(after_s * 1000)
        named = {} if parent is None else {"parentId": parent}
        return self.say(answer_of(MODELS[by], usage=usage(*counts, **more)), **named)


def reasons(line: Line) -> list[tuple[str, int, int]]:
    found = misses(line.entries)
    assert sum(each["missCount"] for each in found["reasons"]) == found["missCount"]
    assert sum(each["missedTokens"] for each in found["reasons"]) == found["missedTokens"]
    return [(each["reason"], each["missCount"], each["missedTokens"]) for each in found["reasons"]]


def test_what_was_sent_before_and_read_is_no_miss() -> None:
    line = Line()
    line.answer(10, 0, 5000)
    line.answer(10, 5000, 2000)
    line.answer(10, 6000, 2000)  # ten tokens and those of the first write are within what a cache does not find

    assert reasons(line) == []


@pytest.mark.parametrize(
    ("after_s", "reason"), [(300, "unknown"), (301, "expired"), (3601, "expired")], ids=["kept", "short", "long"]
)
def test_a_pause_longer_than_the_cache_keeps_is_the_reason(after_s: float, reason: str) -> None:
    line = Line()
    line.answer(10, 0, 5000)
    line.answer(10, 0, 7000, after_s=after_s)

    assert reasons(line) == [(reason, 1, 5010)]


@pytest.mark.parametrize(("after_s", "reason"), [(3600, "unknown"), (3601, "expired")])
def test_what_was_written_for_an_hour_is_kept_for_an_hour(after_s: float, reason: str) -> None:
    line = Line()
    line.answer(10, 0, 5000, cacheWrite1h=5000)
    line.answer(10, 5000, 0)  # reading prolongs it, and writes nothing
    line.answer(10, 0, 7000, after_s=after_s)

    assert reasons(line) == [(reason, 1, 5010)]


def test_the_lifetime_is_that_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "m1", {**MODELS["m1"], "promptCache": {"short": 20}})
    line = Line()
    line.answer(10, 0, 5000)
    line.answer(10, 0, 7000, after_s=21)

    assert reasons(line) == [("expired", 1, 5010)]


def test_another_model_another_level_other_tools_and_an_edited_context_are_reasons() -> None:
    line = Line()
    line.answer(10, 0, 5000)
    line.answer(10, 0, 6000, by="m2", after_s=4000)
    line.add("thinking_level_change", thinkingLevel="high")
    line.answer(10, 1000, 6000, by="m2")
    removed = {"role": "system", "content": "", "toolsRemoved": [{"name": "read"}]}
    line.add("message", message=removed)
    line.answer(10, 2000, 6000, by="m2")
    line.add("context_edit", targetId="e0", replacement=None)
    line.answer(10, 3000, 6000, by="m2")
    line.add("message", message={"role": "system", "content": "another prompt"})
    line.answer(10, 0, 9000, by="m2")

    named = ["model", "thinking", "tools", "context"]
    assert reasons(line) == [*((reason, 1, 5010) for reason in named), ("unknown", 1, 9010)]


@pytest.mark.parametrize("kind", ["compaction", "branch_summary"])
def test_what_follows_a_summary_was_never_sent(kind: str) -> None:
    line = Line()
    line.answer(10, 0, 50_000)
    line.add(kind, summary="short")
    line.answer(10, 0, 6000)

    assert reasons(line) == []


def test_a_provider_without_a_cache_misses_nothing_and_one_that_only_reads_does() -> None:
    line = Line()
    line.answer(5000, 0, 0)
    line.answer(6000, 0, 0)
    assert reasons(line) == []

    line.answer(1000, 6000, 0)
    line.answer(8000, 0, 0)
    assert reasons(line) == [("unknown", 1, 7000)]


def test_a_failed_request_that_reported_nothing_hides_no_miss() -> None:
    line = Line()
    line.answer(10, 0, 5000)
    line.answer(0, 0, 0)
    line.answer(10, 0, 7000)

    assert reasons(line) == [("unknown", 1, 5010)]


def test_a_branch_has_sent_what_its_own_requests_had() -> None:
    """What another branch has sent is no part of it, and using the beginning of both keeps it."""
    line = Line()
    fork = line.answer(10, 0, 5000)
    line.answer(10, 5000, 50_000, after_s=200)
    line.answer(10, 5000, 3000, after_s=200, parent=fork)
    assert reasons(line) == []

    line.answer(10, 0, 9000, after_s=290, parent=fork)
    assert reasons(line) == [("unknown", 1, 5010)]


def test_the_dollars_are_those_above_reading() -> None:
    line = Line()
    line.answer(0, 0, 5000)
    line.answer(0, 1000, 6000)
    line.answer(0, 0, 8000)

    assert misses(line.entries)["missedCost"] == pytest.approx((4000 + 7000) * (3.75 - 0.3) / 1e6)


def test_without_a_price_a_miss_still_counts() -> None:
    line = Line()
    line.answer(10, 0, 5000)
    line.say(answer_of(served_model(provider="p", id="unknown"), usage={**usage(6000, 0, 0), "cost": None}))

    found = misses(line.entries)
    assert (found["missCount"], found["missedCost"]) == (1, 0)


def test_warming_is_a_request_that_used_the_cache() -> None:
    line = Line()
    line.answer(10, 0, 5000)
    line.now_ms += 270_000
    used = {"provider": "anthropic", "model": "m1", "usage": usage(0, 5010, 0)}
    line.add("usage", kind="cache_warm", **used)
    line.add("usage", kind="anything else", **used)
    line.answer(10, 0, 7000, after_s=270)

    assert reasons(line) == [("unknown", 1, 5010)]


# What a file may hold in the places that are read.
junk: st.SearchStrategy[object] = st.none() | st.integers(-2, 9000) | st.floats() | st.sampled_from(["", "x", [], {}])
odd_usage = junk | st.fixed_dictionaries({}, optional=dict.fromkeys(("input", "cacheRead", "cacheWrite", "cost"), junk))
odd_entry = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["message", "usage", "compaction", "assistant", 5]),
        "id": st.sampled_from(["a", "b", "c", 5]),
        "parentId": st.sampled_from(["a", "b", "c", None, 5]),
        "kind": st.just("cache_warm") | junk,
        "usage": odd_usage,
        "message": junk
        | st.fixed_dictionaries({"role": st.just("assistant")}, optional={"usage": odd_usage, "timestamp": junk}),
    },
)


@given(st.lists(odd_entry))
def test_whatever_a_file_holds_the_counts_are_numbers(entries: list[Entry]) -> None:
    found = misses(entries)

    assert found["missCount"] >= 0
    assert found["missedTokens"] >= NOISE_TOKENS * found["missCount"]
    assert 0 <= found["missedCost"] < float("inf")


SCRIPT: Final = """
const { computeCacheWaste } = await import(process.argv[1]);
let input = "";
for await (const piece of process.stdin) input += piece;
const { models, sessions } = JSON.parse(input);
const source = { getModel: (provider, id) => provider === "anthropic" ? models[id] : undefined };
console.log(JSON.stringify(sessions.map((entries) => computeCacheWaste(entries, source))));
"""


def lines_of(seed: int) -> Line:
    """Return requests that no cache would have answered so: every count is chosen by itself."""
    import random

    chance, line = random.Random(seed), Line()
    for _ in range(chance.randint(1, 12)):
        counts = [chance.choice((0, 0, 500, 2000, chance.randrange(20_000))) for _ in range(3)]
        match chance.randrange(8):
            case 0:
                line.add("compaction", summary="s", firstKeptEntryId="e0", tokensBefore=1)
            case 1:
                line.now_ms += 270_000
                used = {"provider": "anthropic", "model": "m1", "usage": usage(*counts)}
                line.add("usage", kind=chance.choice(("cache_warm", "other")), **used)
            case 2:
                line.say(user("more"))
            case _:
                line.answer(*counts, by=chance.choice(("m1", "m1", "m2")), after_s=chance.choice(PAUSES_S))
    return line


@pytest.mark.peer
def test_a_line_of_requests_misses_what_the_original_counts(original_pi: list[str]) -> None:
    """R-STA-11: in a session without branches, of 300 generated ones."""
    lines = [lines_of(seed) for seed in range(300)]
    statistics = Path(original_pi[1]).parents[1] / "core" / "cache-stats.js"
    asked = json.dumps({"models": MODELS, "sessions": [line.entries for line in lines]})
    script = [original_pi[0], "--input-type=module", "-e", SCRIPT, statistics.as_uri()]
    answered = subprocess.run(script, input=asked.encode(), stdout=subprocess.PIPE, check=True, timeout=60)

    counted = 0
    for line, theirs in zip(lines, json.loads(answered.stdout), strict=True):
        ours = misses(line.entries)
        assert (ours["missCount"], ours["missedTokens"]) == (theirs["missCount"], theirs["missedTokens"])
        assert ours["missedCost"] == pytest.approx(theirs["missedCost"])
        counted += ours["missCount"]
    assert counted > len(lines)


class Step(NamedTuple):
    """One thing that happens in a generated session."""

    kind: str
    size: int
    pause_s: int
    choice: int


steps = st.builds(
    Step,
    st.sampled_from(["say", "say", "say", "call", "call", "model", "thinking", "fork", "compact"]),
    st.integers(1, 6000),
    st.sampled_from(PAUSES_S),
    st.integers(0, 1000),
)


class Played:
    """A session that talks to a simulated cache, which reports what it read, as Anthropic does."""

    def __init__(self) -> None:
        self.line = Line()
        self.cache = PromptCache()
        self.leaf: str | None = None
        self.contexts: dict[str | None, list[Message]] = {None: []}  # by the id of an entry
        self.model, self.level = "m1", LEVELS[0]
        self.levels: dict[str | None, ThinkingLevel] = {None: self.level}
        self.given: list[list[str]] = []
        self.missed = self.counted = 0
        self.words = 0

    def play(self, step: Step) -> None:
        match step.kind:
            case "say" | "call":
                self.ask(step)
            case "model":
                self.model = ("m1", "m2")[step.choice % 2]
            case "thinking":
                if (level := LEVELS[step.choice % 3]) != self.level:
                    self.level = level
                    self.keep("thinking_level_change", thinkingLevel=level)
            case "fork":
                # Behind an answer, or from the beginning: the last request of the branch has sent what there is of it.
                places = [
                    each for each, context in self.contexts.items() if not context or context[-1]["role"] == "assistant"
                ]
                self.leaf = places[step.choice % len(places)]
                self.level = self.levels[self.leaf]  # that of the branch (R-SET-10)
            case _:
                self.keep("compaction", summary="s", firstKeptEntryId=self.leaf or "", tokensBefore=1)
                self.contexts[self.leaf] = [user(self.text(900))]

    def keep(self, kind: str, **fields: object) -> None:
        context = self.contexts[self.leaf]
        self.leaf = self.line.add(kind, parentId=self.leaf, **fields)
        self.contexts[self.leaf], self.levels[self.leaf] = context, self.level

    def say(self, message: Message) -> None:
        context = self.contexts[self.leaf]
        self.leaf = self.line.say(message, parentId=self.leaf)
        self.contexts[self.leaf], self.levels[self.leaf] = [*context, message], self.level

    def ask(self, step: Step) -> None:
        self.say(user(self.text(step.size)))
        if step.kind == "say":
            self.answer(step.pause_s)
            return
        call_id = f"toolu_{self.words}"
        self.answer(step.pause_s, tool_call(call_id))
        self.say(tool_result(call_id, self.text(step.size)))
        self.answer(1)

    def answer(self, pause_s: int, *calls: ToolCall) -> None:
        self.line.now_ms += pause_s * 1000
        served = MODELS[self.model]
        asked = LlmRequest(served, "Be brief.", self.contexts[self.leaf], TOOLS, self.level, "key", {}, "s")
        body = json.loads(http_request(asked, compat_of(served)).body)
        bill = self.cache.bill(body, self.line.now_ms / 1000)
        self.judge(body, bill.read)
        counts = usage(0, bill.read, bill.tokens - bill.read)
        content = [text_block(self.text(300)), *calls]
        self.say(answer_of(served, *content, usage=counts, stopReason="toolUse" if calls else "stop"))

    def judge(self, body: Mapping[str, Any], read: int) -> None:
        """Count what any cache had been given of a request, whoever for, and was not read."""
        from tests.agent.llm.prompt_cache import blocks_of

        blocks = blocks_of(body)
        texts = [text for text, _, _ in blocks]
        sizes = [sum(size for _, size, _ in blocks[: end + 1]) for end in range(len(blocks))]
        given = max((sizes[len(each) - 1] for each in self.given if texts[: len(each)] == each), default=0)
        if given - read > NOISE_TOKENS:
            self.missed += given - read
            self.counted += 1
        for end, (_, _, is_marked) in enumerate(blocks):
            if is_marked and sizes[end] >= MINIMUM:
                self.given.append(texts[: end + 1])

    def text(self, size: int) -> str:
        self.words += 1
        return f"{self.words}: " + "word " * (size * 4 // 5)


@given(st.lists(steps, max_size=12))
@settings(max_examples=40)
def test_what_is_counted_as_missed_is_what_a_cache_had_been_given(played: list[Step]) -> None:
    """R-STA-11: in sessions with calls, forks, compactions, pauses and changes of model and level."""
    session, running = Played(), RunningMisses()
    tree = EntryTree()
    for step in played:
        session.play(step)
        for entry in session.line.entries[len(tree.entries) :]:
            tree.add(entry)
        found = running.of(tree, find)
        assert (found["missCount"], found["missedTokens"]) == (session.counted, session.missed)
    assert running.of(tree, find) == misses(session.line.entries)
    assert "unknown" not in [each["reason"] for each in misses(session.line.entries)["reasons"]]


def test_what_was_read_from_a_long_file_counts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines stay undecoded."""
    line = lines_of(1)
    for seed in range(2, 20):
        for entry in lines_of(seed).entries:
            line.add(
                str(entry["type"]), **{name: entry[name] for name in entry if name not in ("type", "id", "parentId")}
            )
    head = {"type": "session", "version": 3, "id": "s", "timestamp": time_of(START_MS), "cwd": "/"}
    data = b"".join(json.dumps(each).encode() + b"\n" for each in (head, *line.entries))
    monkeypatch.setattr(reading, "LONG_FILE_BYTES", 0)
    read = reading.read_session(data)

    found = RunningMisses().of(EntryTree(read.entries, read.heads), find)

    assert found == misses(line.entries)
    assert found["missCount"] > 10
