"""Where branches are cut: by examples, and by what holds for every branch. Source: R-CMP-01."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.samples import sample_answer

from pinnace_agent.compaction.branch import span_of
from pinnace_agent.compaction.cut_point import Cut, NothingToDo, find_cut
from pinnace_agent.llm.message_size import message_chars
from pinnace_agent.session.context import build_context
from pinnace_agent.session.context_meter import estimate_tokens, sum_of_estimates
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import Message

# Each letter is an entry of 10 tokens; with a number behind it, of so many times 10. u user, a answer, c answer that
# calls (`c:2` twice), r result, f answer that failed, b shell, x shell kept from the model, p message of an extension,
# s summary of a branch, m change of model, l label, k compaction that keeps from the entry of that number on.
TOKENS = 10


def branch(*words: str) -> list[Entry]:
    """Write a branch: `branch("u", "c", "r", "a3", "k1")`."""
    entries: list[Entry] = []
    open_calls: list[str] = []
    for index, word in enumerate(words):
        kind, number = word[0], word[1:]
        size = 0 if kind in "ck" else TOKENS * 4 * int(number or 1)
        entry: dict[str, object] = {"id": f"e{index}", "parentId": f"e{index - 1}" if index else None}
        entry["timestamp"] = f"2026-01-01T00:{index // 60:02d}:{index % 60:02d}.000Z"
        text = f"{index}:".ljust(size, ".")
        match kind:
            case "u":
                entry |= message({"role": "user", "content": text, "timestamp": index})
            case "a" | "f" | "c":
                count = int(number.removeprefix(":") or 1) if kind == "c" else 0
                calls = [f"call_{index}_{call}" for call in range(count)]
                open_calls = open_calls if kind == "f" else calls.copy()
                content: list[object] = [{"type": "text", "text": text.ljust(TOKENS * 4 - 10 * count, ".")}]
                content += [{"type": "toolCall", "id": call, "name": "readread", "arguments": {}} for call in calls]
                entry |= answer(content, "error" if kind == "f" else "toolUse" if calls else "stop", index)
            case "r":
                call_id = open_calls.pop(0) if open_calls else "of no call"
                content = [{"type": "text", "text": text}]
                entry |= message(
                    {"role": "toolResult", "toolCallId": call_id, "toolName": "read", "content": content,
                     "isError": False, "timestamp": index}
                )  # fmt: skip
            case "b" | "x":
                shell = {"role": "bashExecution", "command": "", "output": text, "cancelled": False, "truncated": False}
                entry |= message({**shell, "timestamp": index, **({"excludeFromContext": True} if kind == "x" else {})})
            case "p":
                entry |= {"type": "custom_message", "customType": "t", "content": text, "display": True}
            case "s":
                entry |= {"type": "branch_summary", "fromId": "e0", "summary": text}
            case "m":
                entry |= {"type": "model_change", "provider": "p", "modelId": "m"}
            case "l":
                entry |= {"type": "label", "targetId": "e0", "label": "here"}
            case "k":
                kept = f"e{number}" if number else entry["id"]
                entry |= {"type": "compaction", "summary": f"S{index}", "firstKeptEntryId": kept, "tokensBefore": 1}
            case _:
                raise AssertionError(word)
        entries.append(entry)
    return entries


def message(fields: dict[str, object]) -> dict[str, object]:
    return {"type": "message", "message": fields}


def answer(content: list[object], stop: str, timestamp: int) -> dict[str, object]:
    return message({**sample_answer(*content, stopReason=stop, timestamp=timestamp)})


def places(path: Sequence[Entry], messages: Sequence[Message]) -> list[int]:
    """Tell from which entries messages come."""
    found = {id(entry["message"]): place for place, entry in enumerate(path) if "message" in entry}
    return [found[id(each)] for each in messages]


def cut_of(path: Sequence[Entry], keep: int) -> Cut:
    cut = find_cut(path, keep)
    assert isinstance(cut, Cut), cut
    return cut


def shown(words: str, keep: int) -> tuple[list[int], list[int], str]:
    """Cut, and return which entries go into the history and the prefix, and what is kept."""
    path = branch(*words.split())
    cut = cut_of(path, keep)
    return places(path, cut.history), places(path, cut.turn_prefix), cut.first_kept_entry_id


@pytest.mark.parametrize(
    ("words", "keep", "history", "prefix", "first_kept"),
    [
        ("u a u a", 20, [0, 1], [], "e2"),
        ("u a u a", 15, [0, 1], [], "e2"),
        ("u a u a", 10, [0, 1], [2], "e3"),
        ("u a u a u", 10, [0, 1, 2, 3], [], "e4"),
        ("u a u a", 0, [0, 1], [2], "e3"),
        # The budget is reached at a result: the cut is at what follows, or before the call if nothing does.
        ("u c r a", 15, [], [0, 1, 2], "e3"),
        ("u c r5", 15, [], [0], "e1"),
        ("u c:2 r5 r", 15, [], [0], "e1"),
        ("u c r9 f", 15, [], [0, 1, 2], "e3"),
        ("u a u c r c r a", 25, [0, 1], [2, 3, 4], "e5"),
        # A shell or a failed answer may stand between a call and its result: no cut is there, nor a turn's beginning.
        ("u a u c b r a", 25, [0, 1], [2, 3, 4, 5], "e6"),
        ("u a u c b r a", 40, [0, 1], [2], "e3"),
        ("u c f r9", 15, [], [0], "e1"),
        # Entries that add nothing stay with what follows them.
        ("u a m l u a", 20, [0, 1], [], "e2"),
        ("u a u m a", 10, [0, 1], [2], "e3"),
        # Anything in the user's place begins a turn.
        ("u a b a", 20, [0, 1], [], "e2"),
        # An answer that failed and what is kept from models are not summarised.
        ("u x f u a", 20, [0], [], "e3"),
        # What follows a compaction, and what it kept.
        ("u a u a k2 u a", 20, [2, 3], [], "e5"),
        ("u a u a k2 u a", 30, [], [2], "e3"),
        ("u a u a k u a u a", 20, [5, 6], [], "e7"),
        ("u a k0 m u a u a", 20, [0, 1, 4, 5], [], "e6"),
        # A turn whose beginning a compaction has taken: what is left of it is history.
        ("u a a k2 a a", 10, [2, 4], [], "e5"),
    ],
)
def test_a_branch_is_cut_where_the_budget_is_reached(
    words: str, keep: int, history: list[int], prefix: list[int], first_kept: str
) -> None:
    assert shown(words, keep) == (history, prefix, first_kept)


def test_messages_of_extensions_and_summaries_of_branches_begin_turns() -> None:
    for word in ("p", "s"):
        cut = cut_of(branch("u", "a", word, "a"), 20)

        assert (len(cut.history), cut.turn_prefix, cut.first_kept_entry_id) == (2, (), "e2")


def test_the_latest_summary_goes_along() -> None:
    cut = cut_of(branch(*"u a k1 u a k3 u a u a".split()), 20)

    assert cut.previous_summary == "S5"
    assert cut.compaction is not None
    assert cut.compaction["id"] == "e5"
    assert cut_of(branch("u", "a", "u"), 10).previous_summary is None


@pytest.mark.parametrize("words", ["u a k1", "u a k", "u a k1 m l", "u a k gone"])
def test_nothing_after_a_compaction_is_already_compacted(words: str) -> None:
    path = branch(*words.replace(" gone", "").split())
    if "gone" in words:
        path[2] = {**path[2], "firstKeptEntryId": "gone"}

    assert find_cut(path, 0) is NothingToDo.ALREADY_COMPACTED


@pytest.mark.parametrize(
    ("words", "keep"),
    [
        ("", 0),
        ("m", 0),
        ("u", 0),
        ("u a", 21),
        ("u a", 20),  # reached at the first message: nothing is before it
        ("r r", 0),
        ("c r", 10),
        ("f x u a", 20),
        ("u a k1 u", 1000),
    ],
)
def test_what_fits_the_budget_is_too_small(words: str, keep: int) -> None:
    assert find_cut(branch(*words.split()), keep) is NothingToDo.TOO_SMALL


def test_what_was_edited_counts_as_a_model_reads_it() -> None:
    path = branch(*"u a u9 u a".split())
    hidden: Entry = {**path[0], "id": "e5", "type": "context_edit", "targetId": "e2", "replacement": None}
    short: Entry = {**hidden, "id": "e6", "targetId": "e0", "replacement": {"content": "brief"}}
    nothing: Entry = {**hidden, "id": "e7", "targetId": "e0", "replacement": 7}

    cut = cut_of([*path, hidden, short, nothing], 20)

    assert [each.get("content") for each in cut.history[:1]] == ["brief"]
    assert len(cut.history) == 2
    assert cut.first_kept_entry_id == "e2"  # hidden, so it adds nothing, and stays with what follows


def test_an_entry_that_its_id_does_not_lead_to_is_no_cut() -> None:
    path = branch(*"u a u a u a".split())
    path[2] = {**path[2], "id": "e4"}

    assert cut_of(path, 40).first_kept_entry_id == "e3"


# What holds for every branch

WORDS = st.sampled_from("u u u3 a a2 c c:2 c:3 r r r5 r9 f b x p s m l".split())


@st.composite
def branches(draw: st.DrawFn) -> list[Entry]:
    """Draw a branch; a compaction keeps from any entry before it on, or nothing."""
    words: list[str] = []
    for word in draw(st.lists(st.one_of(WORDS, st.just("k")), max_size=40)):
        if word == "k" and words and draw(st.booleans()):
            words.append(f"k{draw(st.integers(0, len(words) - 1))}")
        else:
            words.append(word)
    return branch(*words)


KEEP = st.integers(0, 300)


def compacted(path: list[Entry], cut: Cut) -> list[Entry]:
    entry: Entry = {
        "type": "compaction",
        "id": f"e{len(path)}",
        "parentId": path[-1]["id"],
        "timestamp": "2026-01-02T00:00:00.000Z",
        "summary": "NEW",
        "firstKeptEntryId": cut.first_kept_entry_id,
        "tokensBefore": 1,
    }
    return [*path, entry]


def without_summary(messages: Sequence[Message]) -> list[Message]:
    return [each for each in messages if each["role"] != "compactionSummary"]


@given(branches(), KEEP)
def test_what_is_summarised_and_what_is_kept_is_the_whole_context(path: list[Entry], keep: int) -> None:
    cut = find_cut(path, keep)
    if not isinstance(cut, Cut):
        return

    context = without_summary(build_context(path).messages)
    gone = context[: len(context) - len(cut.kept)]
    assert list(cut.kept) == context[len(gone) :]
    assert list(cut.summarised) == [each for each in gone if message_chars(each)]
    assert cut.summarised


@given(branches(), KEEP)
def test_a_reader_of_the_compaction_finds_exactly_what_was_kept(path: list[Entry], keep: int) -> None:
    cut = find_cut(path, keep)
    if isinstance(cut, Cut):
        after = build_context(compacted(path, cut)).messages

        assert after[0]["role"] == "compactionSummary"
        assert after[1:] == list(cut.kept)


@given(branches(), KEEP)
def test_no_cut_comes_between_a_call_and_its_result(path: list[Entry], keep: int) -> None:
    cut = find_cut(path, keep)
    if not isinstance(cut, Cut):
        return

    def ids(messages: Sequence[Message]) -> tuple[set[str], set[str]]:
        called = {
            block["id"]
            for each in messages
            if each["role"] == "assistant"
            for block in each["content"]
            if block["type"] == "toolCall"
        }
        return called, {each["toolCallId"] for each in messages if each["role"] == "toolResult"}

    called_before, _ = ids(cut.summarised)
    _, answered_after = ids(cut.kept)
    assert not called_before & answered_after


@given(branches(), KEEP)
def test_what_is_kept_is_within_the_budget_and_one_message(path: list[Entry], keep: int) -> None:
    cut = find_cut(path, keep)
    if not isinstance(cut, Cut):
        return

    rest = cut.kept[1:]
    is_answer_with_results = rest[-1:] != () and rest[-1]["role"] == "toolResult" and not any(map(is_good, rest))
    # If nothing but results follow the message at which the budget is reached, the call stays with all of them.
    assert sum_of_estimates(rest) < max(keep, 1) or is_answer_with_results


def is_good(message: Message) -> bool:
    return message["role"] == "assistant" and message["stopReason"] != "error"


@given(branches(), KEEP)
def test_the_first_kept_message_begins_a_turn_or_the_prefix_does(path: list[Entry], keep: int) -> None:
    cut = find_cut(path, keep)
    if isinstance(cut, Cut) and cut.kept[0]["role"] != "assistant":
        assert cut.turn_prefix == ()


@given(branches(), KEEP, KEEP)
def test_after_a_compaction_there_is_nothing_to_do_however_often_it_is_asked(
    path: list[Entry], keep: int, other: int
) -> None:
    cut = find_cut(path, keep)
    if isinstance(cut, Cut):
        assert find_cut(compacted(path, cut), other) is NothingToDo.ALREADY_COMPACTED
    else:
        assert find_cut(path, keep) is cut


@given(branches(), KEEP)
def test_a_larger_budget_never_keeps_less(path: list[Entry], keep: int) -> None:
    smaller, larger = find_cut(path, keep), find_cut(path, keep + 50)
    if isinstance(larger, Cut):
        assert isinstance(smaller, Cut)
        assert len(larger.kept) >= len(smaller.kept)


@given(branches())
def test_the_span_is_what_the_context_shows(path: list[Entry]) -> None:
    assert list(span_of(path).messages.values()) == without_summary(build_context(path).messages)


def test_a_long_branch_is_cut_in_time_that_grows_with_it() -> None:
    """Twenty thousand entries; a look at every entry for every entry would take minutes."""
    path = branch(*(["u", "c", "r", "a"] * 5_000))

    cut = cut_of(path, 1_000)

    assert sum(map(estimate_tokens, cut.kept)) == 1_000
    assert cut.first_kept_entry_id == "e19900"
