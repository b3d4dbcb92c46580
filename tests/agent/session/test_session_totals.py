"""What a whole session has used, on every branch, whatever was compacted."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.session.store.entries import EntryList
from pinnace_agent.session.totals import FileTotals, RunningTotals, TokenTotals, file_totals, message_counts
from pinnace_agent.session.tree import EntryTree
from pinnace_agent.session.warming_totals import RunningWarming
from pinnace_spec.records.entries import Entry

NONE: TokenTotals = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
NOTHING: FileTotals = {"toolCalls": 0, "tokens": NONE, "cost": 0}
USAGE = {
    "input": 1,
    "output": 2,
    "cacheRead": 4,
    "cacheWrite": 8,
    "totalTokens": 999,
    "cost": {"input": 9, "total": 0.5},
}
TOKENS: TokenTotals = {"input": 1, "output": 2, "cacheRead": 4, "cacheWrite": 8, "total": 15}
ONCE: FileTotals = {"toolCalls": 0, "tokens": TOKENS, "cost": 0.5}


def message(role: object, **fields: object) -> Entry:
    return {"type": "message", "id": "m", "parentId": None, "message": {"role": role, **fields}}


def entry(entry_type: object, **fields: object) -> Entry:
    return {"type": entry_type, "id": "e", "parentId": None, **fields}


def test_an_empty_session_has_used_nothing() -> None:
    assert NOTHING == file_totals([])


@pytest.mark.parametrize(
    "spender",
    [
        message("assistant", usage=USAGE),
        message("toolResult", usage=USAGE),
        entry("usage", kind="cache_warm", usage=USAGE),
        entry("compaction", usage=USAGE),
        entry("branch_summary", usage=USAGE),
    ],
    ids=["assistant", "toolResult", "usage", "compaction", "branch_summary"],
)
def test_whatever_asked_a_model_counts(spender: Entry) -> None:
    assert ONCE == file_totals([spender])


def test_what_warming_has_used_is_also_counted_alone() -> None:
    """R-STA-12: of all branches, as the list grows and is cut, and read once."""
    warm, other = entry("usage", kind="cache_warm", usage=USAGE), entry("usage", kind="subagent", usage=USAGE)
    entries, running = EntryList([message("assistant", usage=USAGE), warm, other]), RunningWarming()
    assert {"requests": 1, "tokens": TOKENS, "cost": 0.5} == running.of(entries)
    assert (45, 1.5) == (RunningTotals().of(entries)["tokens"]["total"], RunningTotals().of(entries)["cost"])
    entries.append(warm)
    assert (2, 30, 1.0) == (
        running.of(entries)["requests"],
        running.of(entries)["tokens"]["total"],
        running.of(entries)["cost"],
    )
    for _ in range(3):
        entries.pop()
    assert {"requests": 0, "tokens": NONE, "cost": 0} == running.of(entries)


def test_all_branches_count_also_what_was_compacted() -> None:
    spent = [message("assistant", usage=USAGE), entry("compaction"), message("assistant", usage=USAGE)]

    totals = file_totals([*spent, {**spent[0], "id": "other", "parentId": "m"}])

    assert (3, 45, 1.5) == (totals["tokens"]["input"], totals["tokens"]["total"], totals["cost"])


@pytest.mark.parametrize(
    "other",
    [message("user", usage=USAGE), entry("custom", usage=USAGE), entry("message", usage=USAGE), entry(5, usage=USAGE)],
)
def test_nothing_else_counts(other: Entry) -> None:
    assert NOTHING == file_totals([other])


@pytest.mark.parametrize("odd", [None, "1", -1, math.nan, math.inf, [1], True, {"total": 1}])
def test_what_is_no_number_counts_as_nothing(odd: object) -> None:
    kinds = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), odd)

    assert ONCE == file_totals(
        [message("assistant", usage={**kinds, "cost": {"total": odd}}), entry("usage", usage=USAGE)]
    )


def test_numbers_that_are_whole_count_as_such() -> None:
    totals = file_totals([entry("usage", usage={"input": 5.0})])

    assert "5" == repr(totals["tokens"]["input"])


CALL: Entry = {"type": "toolCall", "id": "c", "name": "n", "arguments": {}}


def test_counts_are_those_of_all_entries_that_are_messages() -> None:
    """R-STA-08: of every role and branch, also unreadable ones; nothing else is a message."""
    entries: list[tuple[str, dict[str, object]]] = [
        ("message", {"message": {"role": "user", "content": [CALL]}}),
        ("message", {"message": {"role": "assistant", "content": [CALL, {"type": "text", "text": "t"}, CALL, 5]}}),
        ("message", {"message": {"role": "assistant", "content": None}}),
        ("message", {"message": {"role": "toolResult"}}),
        ("message", {"message": {"role": "bashExecution"}}),
        ("message", {"message": {"role": "of tomorrow"}}),
        ("custom_message", {"content": [CALL]}),
        ("message/of tomorrow", {}),
        ("compaction", {}),
    ]
    # Each is a branch of its own.
    branches = enumerate(entries)
    tree = EntryTree([{"type": kind, "id": str(place), "parentId": None, **rest} for place, (kind, rest) in branches])

    counts = message_counts(tree.kinds)

    assert counts == {"userMessages": 1, "assistantMessages": 2, "toolResults": 1, "totalMessages": 6}
    assert file_totals(tree.entries)["toolCalls"] == 2


junk: st.SearchStrategy[object] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "text", ["x"], {}])
)
any_usage = junk | st.fixed_dictionaries(
    {},
    optional={"input": junk, "output": junk, "cacheRead": junk, "cost": junk | st.fixed_dictionaries({"total": junk})},
)


@given(
    st.lists(st.builds(message, junk | st.just("assistant"), usage=any_usage) | st.builds(entry, junk, usage=any_usage))
)
def test_whatever_a_file_holds_the_total_is_the_sum(entries: list[Entry]) -> None:
    tokens = file_totals(entries)["tokens"]

    assert tokens["total"] == tokens["input"] + tokens["output"] + tokens["cacheRead"] + tokens["cacheWrite"]
    assert all(isinstance(count, int) and count >= 0 for count in tokens.values())


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3))))
def test_running_totals_are_those_of_the_list_as_it_is(changes: list[tuple[bool, int]]) -> None:
    """Entries come at the end, and the newest may be taken back."""
    running, entries = RunningTotals(), EntryList()
    for number, (grows, count) in enumerate(changes):
        if grows:
            usage = {"input": number, "output": 1, "cost": {"total": 0.5}}
            for each in range(count):
                entries.append({"type": "usage", "id": str(each), "usage": usage})
        elif entries:
            entries.pop()
        assert running.of(entries) == file_totals(entries)
