"""A branch as a session of its own: a valid chain that gives a model the same context."""

import itertools
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.session.branch_copy import copy_path, fork_messages, fork_point
from pinnace_agent.session.context import build_context
from pinnace_agent.session.tree import EntryTree
from pinnace_spec.records.entries import Entry
from pinnace_spec.session_format import validate_session
from pinnace_spec.wire.json_text import encode_record

NOW = "2026-11-21T00:00:00.000Z"
TIME = "2026-01-02T03:04:05.678Z"
HEADER = encode_record({"type": "session", "version": 3, "id": "s", "timestamp": TIME, "cwd": "/"})


def entry(entry_type: str, entry_id: str, parent_id: str | None, **fields: object) -> Entry:
    return {"type": entry_type, "id": entry_id, "parentId": parent_id, "timestamp": TIME, **fields}


def user(entry_id: str, parent_id: str | None, content: object = "said") -> Entry:
    return entry("message", entry_id, parent_id, message={"role": "user", "content": content, "timestamp": 1})


def label(entry_id: str, parent_id: str | None, target_id: str, text: str = "x", timestamp: str = TIME) -> Entry:
    return {**entry("label", entry_id, parent_id, targetId=target_id, label=text), "timestamp": timestamp}


def compaction(entry_id: str, parent_id: str | None, first_kept: str) -> Entry:
    return entry("compaction", entry_id, parent_id, summary=entry_id, firstKeptEntryId=first_kept, tokensBefore=1)


def edit(entry_id: str, parent_id: str | None, target_id: str, replacement: object) -> Entry:
    return entry("context_edit", entry_id, parent_id, targetId=target_id, replacement=replacement)


def text_block(text: object) -> dict[str, object]:
    return {"type": "text", "text": text}


def new_ids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"new{next(numbers)}"


def copied(tree: EntryTree, leaf: int | None = None) -> list[Entry]:
    return copy_path(tree, tree.leaf if leaf is None else leaf, new_ids(), NOW)


def links(entries: Sequence[Entry]) -> list[tuple[object, object]]:
    return [(each["id"], each["parentId"]) for each in entries]


def branch(tree: EntryTree) -> list[Entry]:
    return [tree.entries[place] for place in tree.path(tree.leaf)]


# A file of another program with labels between what belongs together.
LABELLED = (
    entry("thinking_level_change", "t", None, thinkingLevel="off"),
    user("u1", "t"),
    label("l1", "u1", "u1", "one", "2026-01-01T00:00:00.000Z"),
    user("u2", "l1"),
    label("l2", "u2", "gone", "away"),
    user("u3", "l2"),
    label("l3", "u3", "u3", "two", "2026-01-02T00:00:00.000Z"),
    user("u4", "l3"),
)


def test_a_branch_that_needs_no_change_is_copied_as_the_same_objects() -> None:
    tree = EntryTree([user("u1", None), user("u2", "u1"), user("other", "u1"), user("u3", "u2")])

    result = copied(tree)

    assert [id(tree.entries[place]) for place in (0, 1, 3)] == [id(each) for each in result]


def test_a_copy_ends_at_the_leaf_that_is_asked_for() -> None:
    tree = EntryTree([user("u1", None), user("u2", "u1"), user("u3", "u2")])

    assert [("u1", None), ("u2", "u1")] == links(copied(tree, 1))


def test_of_no_leaf_nothing_is_copied() -> None:
    assert [] == copy_path(EntryTree([user("u1", None), label("l", "u1", "u1")]), None, new_ids(), NOW)


def test_what_hangs_from_a_label_hangs_from_what_is_before_it() -> None:
    result = copied(EntryTree(LABELLED))

    assert [("t", None), ("u1", "t"), ("u2", "u1"), ("u3", "u2"), ("u4", "u3")] == links(result)[:5]


def test_labels_before_the_cut_are_made_anew_at_the_end_with_their_times() -> None:
    result = copied(EntryTree(LABELLED))

    assert [
        label("new1", "u4", "u1", "one", "2026-01-01T00:00:00.000Z"),
        label("new2", "new1", "u3", "two", "2026-01-02T00:00:00.000Z"),
    ] == result[5:]


def test_the_context_behind_labels_is_whole() -> None:
    tree = EntryTree(LABELLED)

    assert build_context(branch(tree)) == build_context(copied(tree))
    assert [] == validate_session(HEADER + b"".join(map(encode_record, copied(tree))), is_closed=True)


def test_labels_set_behind_the_cut_and_on_other_branches_are_taken_along() -> None:
    tree = EntryTree(
        [user("u1", None), user("u2", "u1"), label("l1", "u2", "u1"), user("o", None), label("l2", "o", "u2")]
    )

    result = copied(tree, 1)

    assert [("u1", "x"), ("u2", "x")] == [(each["targetId"], each["label"]) for each in result[2:]]


def test_labels_that_were_cleared_or_are_of_what_is_not_copied_are_left_out() -> None:
    tree = EntryTree([user("u1", None), label("l1", "u1", "u1"), label("l2", "l1", "l1"), label("l3", "l2", "u1", "")])

    assert [("u1", None)] == links(copied(tree))


def test_a_label_without_a_time_has_the_present_one() -> None:
    bare = {name: value for name, value in label("l1", "u1", "u1").items() if name != "timestamp"}

    assert NOW == copied(EntryTree([user("u1", None), bare]))[-1]["timestamp"]


def test_what_is_kept_begins_behind_a_label_that_is_left_out() -> None:
    tree = EntryTree([*LABELLED, compaction("k", "u4", "l2"), user("u5", "k")])

    result = copied(tree)

    assert "u3" == result[5]["firstKeptEntryId"]
    assert build_context(branch(tree)) == build_context(result)


def test_nothing_is_kept_if_only_a_label_was() -> None:
    tree = EntryTree([user("u1", None), label("l1", "u1", "gone"), compaction("k", "l1", "l1"), user("u2", "k")])

    result = copied(tree)

    assert [("u1", None), ("k", "u1"), ("u2", "k")] == links(result)
    assert "k" == result[1]["firstKeptEntryId"]
    assert build_context(branch(tree)) == build_context(result)


@pytest.mark.parametrize("first_kept", ["gone", "k"])
def test_a_compaction_that_keeps_nothing_is_copied_as_it_is(first_kept: str) -> None:
    tree = EntryTree([user("u1", None), compaction("k", "u1", first_kept)])

    assert tree.entries == copied(tree)


def test_unknown_types_and_fields_are_copied() -> None:
    tree = EntryTree([entry("from the future", "f", None, deep={"kept": [1]}), {**user("u1", "l"), "extra": "kept"}])

    assert [tree.entries[0], {**tree.entries[1], "parentId": "f"}] == copied(tree)


def test_l3_an_orphan_names_what_it_hangs_from() -> None:
    assert [("u1", None), ("u2", "u1")] == links(copied(EntryTree([user("u1", "gone"), user("u2", "gone too")])))


def test_a_circle_becomes_a_chain() -> None:
    tree = EntryTree([user("a", "b"), user("b", "a")])

    assert [("a", None), ("b", "a")] == links(copied(tree))


def test_of_an_id_that_is_there_twice_the_last_entry_keeps_it() -> None:
    tree = EntryTree(
        [user("u", None, "first"), compaction("k", "u", "u"), user("u", "k", "second"), edit("e", "u", "u", None)]
    )

    result = copied(tree)

    assert [("new1", None), ("k", "new1"), ("u", "k"), ("e", "u")] == links(result)
    assert "new1" == result[1]["firstKeptEntryId"]
    assert build_context(branch(tree)) == build_context(result)


def test_edits_of_both_entries_of_an_id_stay_with_their_own() -> None:
    new = {"content": "new"}
    tree = EntryTree([user("u", None), edit("e", "u", "u", new), user("u", "e"), edit("f", "u", "u", None)])

    result = copied(tree)

    assert ["new1", "u"] == [each["targetId"] for each in result if each["type"] == "context_edit"]
    assert build_context(branch(tree)) == build_context(result)


def test_a_compaction_that_names_itself_does_so_under_its_new_id() -> None:
    tree = EntryTree([compaction("k", None, "k"), user("k", "k")])

    assert [("new1", None), ("k", "new1")] == links(copied(tree))
    assert "new1" == copied(tree)[0]["firstKeptEntryId"]


def test_l3_an_entry_that_names_no_parent_has_a_null_parent_in_the_copy() -> None:
    bare = {name: value for name, value in user("u", None).items() if name != "parentId"}

    assert [user("u", None)] == copied(EntryTree([bare]))


IDS = ("a", "b", "c", "d")
ids = st.sampled_from(IDS)
any_parent = st.sampled_from([*IDS, "gone", None, 5])
any_entry = st.one_of(
    st.builds(user, ids, any_parent, st.sampled_from(["one", "two"])),
    st.builds(label, ids, any_parent, ids, st.sampled_from(["x", ""])),
    st.builds(compaction, ids, any_parent, st.sampled_from([*IDS, "gone"])),
    st.builds(edit, ids, any_parent, ids, st.sampled_from([None, {"content": "new"}])),
    st.builds(lambda *base: entry("model_change", *base, provider="p", modelId="m"), ids, any_parent),
)


@given(st.lists(any_entry, min_size=1, max_size=12), st.data())
def test_whatever_the_graph_a_copy_is_a_valid_chain_with_the_same_context(
    entries: list[Entry], data: st.DataObject
) -> None:
    tree = EntryTree(entries)
    leaf = data.draw(st.integers(0, len(entries) - 1))

    result = copied(tree, leaf)

    own = [each["id"] for each in result]
    assert [None, *own][: len(own)] == [each["parentId"] for each in result]
    assert len(own) == len(set(own))
    assert build_context([tree.entries[place] for place in tree.path(leaf)]) == build_context(result)
    again = EntryTree(result)
    assert (result, 0) == (branch(again), again.orphans)


@given(st.lists(any_entry, min_size=1, max_size=12))
def test_the_copy_of_a_copy_is_the_same(entries: list[Entry]) -> None:
    once = copied(EntryTree(entries))
    labels = sum(each["type"] == "label" for each in once)
    bare = once[: len(once) - labels]

    assert [id(each) for each in bare] == [id(each) for each in copied(EntryTree(once))[: len(bare)]]


# Where forks may start.


def test_a_fork_ends_before_the_message_and_gives_its_text() -> None:
    tree = EntryTree([user("u1", None), user("u2", "u1", [text_block("one"), {"type": "image"}, text_block(" two")])])

    assert (0, "one two") == fork_point(tree, "u2")


def test_a_fork_before_the_first_message_takes_nothing_along() -> None:
    assert (None, "said") == fork_point(EntryTree([user("u1", None)]), "u1")


def test_a_fork_before_a_prompt_without_a_text_gives_none() -> None:
    assert (None, "") == fork_point(EntryTree([user("u1", None, [{"type": "image"}])]), "u1")


def test_a_fork_starts_only_at_messages_of_the_user() -> None:
    answer = entry("message", "a", None, message={"role": "assistant", "content": [text_block("x")], "timestamp": 1})
    note = entry("custom_message", "n", "a", customType="t", content="x", display=True)
    tree = EntryTree([answer, note, entry("message", "odd", "n", message="user")])

    assert [None] * 4 == [fork_point(tree, entry_id) for entry_id in ("a", "n", "odd", "gone")]


def test_fork_messages_are_those_with_a_text_on_all_branches_in_the_order_of_the_file() -> None:
    tree = EntryTree(
        [
            user("u1", None, "plain"),
            user("u2", "u1", [text_block("x"), {"type": "image"}, text_block("y")]),
            user("blank", "u2", "  "),
            user("image", "blank", [{"type": "image"}]),
            user("empty", "image", ""),
            user("null", "empty", None),
            user("odd", "null", [text_block(None), "text", 5]),
            user("other branch", "u1", [text_block("z")]),
        ]
    )

    assert [("u1", "plain"), ("u2", "xy"), ("blank", "  "), ("other branch", "z")] == fork_messages(tree)
