"""What a model is shown of a branch: compacted, edited, and with the choices in force."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.samples import sample_answer

from pinnace_agent.session.branch import Branch
from pinnace_agent.session.context import BranchContext, ContextIndex, build_context, context_message
from pinnace_agent.session.store import message_repair
from pinnace_agent.session.store.entries import MESSAGE_KINDS, head_of
from pinnace_agent.session.store.reading import read_session
from pinnace_agent.session.tree import EntryTree
from pinnace_spec.records.entries import Entry
from pinnace_spec.records.messages import Message
from pinnace_spec.wire.json_text import encode_record

TIME = "2026-01-02T03:04:05.678Z"
TIME_MS = 1767323045678


def entry(entry_type: str, entry_id: str, **fields: object) -> Entry:
    return {"type": entry_type, "id": entry_id, "parentId": None, "timestamp": TIME, **fields}


def user(entry_id: str) -> Entry:
    """A prompt whose text is its entry's id."""
    content = [{"type": "text", "text": entry_id}]
    return entry("message", entry_id, message={"role": "user", "content": content, "timestamp": 1})


def answer(entry_id: str, provider: str = "p", model: str = "m") -> Entry:
    content = {"type": "text", "text": entry_id}
    return entry("message", entry_id, message=sample_answer(content, provider=provider, model=model, timestamp=1))


def result(entry_id: str) -> Entry:
    content = [{"type": "text", "text": entry_id}]
    about = {"role": "toolResult", "toolCallId": "c", "toolName": "t", "isError": False, "timestamp": 1}
    return entry("message", entry_id, message={**about, "content": content})


def shell(entry_id: str) -> Entry:
    about = {"role": "bashExecution", "cancelled": False, "truncated": False, "timestamp": 1}
    return entry("message", entry_id, message={**about, "command": entry_id, "output": ""})


def note(entry_id: str) -> Entry:
    return entry("custom_message", entry_id, customType="t", content=entry_id, display=True)


def compaction(entry_id: str, first_kept: str | None, **fields: object) -> Entry:
    kept = {} if first_kept is None else {"firstKeptEntryId": first_kept}
    return entry("compaction", entry_id, summary=entry_id, tokensBefore=9, **kept, **fields)


def edit(entry_id: str, target_id: str, replacement: object) -> Entry:
    return entry("context_edit", entry_id, targetId=target_id, replacement=replacement)


def words(message: Message) -> str:
    """Return what distinguishes the messages of these tests."""
    match message["role"]:
        case "bashExecution":
            return message["command"]
        case "branchSummary" | "compactionSummary":
            return message["summary"]
        case _:
            content = message["content"]
            if isinstance(content, str):
                return content
            return "".join(block["text"] if block["type"] == "text" else block["type"] for block in content)


def shown(*path: Entry) -> list[str]:
    return [words(message) for message in build_context(path).messages]


# Without a compaction.


def test_nothing_is_in_an_empty_branch() -> None:
    assert BranchContext([], None, None) == build_context([])


def test_every_message_of_the_branch_is_shown_in_its_order() -> None:
    assert ["u1", "a1", "r1", "sh", "n1", "u2"] == shown(
        user("u1"), answer("a1"), result("r1"), shell("sh"), note("n1"), user("u2")
    )


def test_a_whole_message_is_the_object_that_is_stored() -> None:
    path = [user("u1"), answer("a1"), result("r1"), shell("sh")]

    messages = build_context(path).messages

    assert [id(each["message"]) for each in path] == [id(message) for message in messages]


@pytest.mark.parametrize("entry_type", ["custom", "label", "session_info", "usage", "model_change", "from the future"])
def test_entries_that_are_no_messages_are_not_shown(entry_type: str) -> None:
    assert context_message(entry(entry_type, "x", content="x", summary="x", data={"role": "user"})) is None


@pytest.mark.parametrize("role", ["system", "from the future", None, 5, ["user"]])
def test_messages_of_roles_without_a_meaning_are_not_shown(role: object) -> None:
    assert context_message(entry("message", "x", message={"role": role, "content": "x", "timestamp": 1})) is None


@pytest.mark.parametrize("message", [None, "text", 5, ["role", "user"]])
def test_what_is_no_message_is_not_shown(message: object) -> None:
    assert context_message(entry("message", "x", message=message)) is None


def test_an_entry_of_no_type_is_not_shown() -> None:
    assert context_message({"id": "x", "message": {"role": "user", "content": "x", "timestamp": 1}}) is None


def test_an_extensions_message_has_the_time_of_its_entry() -> None:
    message = context_message(entry("custom_message", "x", customType="t", content="c", display=True, details={"d": 1}))

    expected = {"role": "custom", "customType": "t", "content": "c", "display": True, "details": {"d": 1}}
    assert {**expected, "timestamp": TIME_MS} == message


def test_a_branch_summary_is_shown_unless_it_is_empty() -> None:
    message = context_message(entry("branch_summary", "x", summary="what was left", fromId="f"))

    expected = {"role": "branchSummary", "summary": "what was left", "fromId": "f", "timestamp": TIME_MS}
    assert expected == message
    assert context_message(entry("branch_summary", "x", summary="", fromId="f")) is None
    assert context_message(entry("branch_summary", "x", summary=None, fromId="f")) is None


def test_a_compaction_is_shown_even_if_its_summary_is_empty() -> None:
    message = context_message(entry("compaction", "x", summary="", tokensBefore=7, firstKeptEntryId="f"))

    assert {"role": "compactionSummary", "summary": "", "tokensBefore": 7, "timestamp": TIME_MS} == message


# Compaction.

TURNS = (user("u1"), answer("a1"), user("u2"), answer("a2"))


def test_the_summary_precedes_what_was_kept_and_what_follows() -> None:
    assert ["k", "u2", "a2", "u3"] == shown(*TURNS, compaction("k", "u2"), user("u3"))


@pytest.mark.parametrize("first_kept", ["gone", "u3", None])
def test_a_compaction_that_names_nothing_before_it_keeps_nothing(first_kept: str | None) -> None:
    assert ["k", "u3"] == shown(*TURNS, compaction("k", first_kept), user("u3"))


def test_a_compaction_that_names_itself_keeps_nothing() -> None:
    assert ["k", "u3"] == shown(*TURNS, compaction("k", "k"), user("u3"))


def test_a_compaction_that_names_itself_keeps_nothing_even_if_its_id_is_there_twice() -> None:
    assert ["k"] == shown({**user("u1"), "id": "k"}, compaction("k", "k"))


def test_of_two_compactions_the_last_one_counts() -> None:
    assert ["k2", "u3", "u4"] == shown(*TURNS, compaction("k1", "u2"), user("u3"), compaction("k2", "u3"), user("u4"))


def test_an_older_compaction_among_what_was_kept_is_not_shown() -> None:
    assert ["k2", "a2", "u3"] == shown(*TURNS, compaction("k1", "u2"), user("u3"), compaction("k2", "a2"))
    assert ["k2", "u3"] == shown(*TURNS, compaction("k1", "u2"), user("u3"), compaction("k2", "k1"))


def test_what_is_kept_may_begin_at_an_entry_that_is_not_shown() -> None:
    mark = entry("label", "l", targetId="u1", label="x")

    assert ["k", "a2"] == shown(*TURNS[:3], mark, TURNS[3], compaction("k", "l"))


def test_stored_system_messages_are_never_shown() -> None:
    system = {"role": "system", "content": "old", "timestamp": 1}

    assert ["k", "u1", "u2"] == shown(
        entry("message", "s", message=system), user("u1"), compaction("k", "s", systemMessage=system), user("u2")
    )


# Edits.


def test_an_edit_omits_a_message() -> None:
    assert ["u1", "a1", "a2"] == shown(*TURNS, edit("e", "u2", None))


def test_an_edit_replaces_only_the_content() -> None:
    before, after = (build_context([*TURNS, *more]).messages[3] for more in ([], [edit("e", "a2", {"content": "new"})]))

    assert {**before, "content": [{"type": "text", "text": "new"}]} == after


def test_an_edit_replaces_content_by_blocks() -> None:
    blocks = [{"type": "text", "text": "n"}, {"type": "text", "text": "ew"}]

    assert ["u1", "a1", "new", "a2"] == shown(*TURNS, edit("e", "u2", {"content": blocks}))


def test_a_text_stays_a_text_where_the_role_allows_it() -> None:
    messages = build_context(
        [
            user("u1"),
            result("r1"),
            note("n1"),
            *(edit(f"e{each}", each, {"content": "new"}) for each in ("u1", "r1", "n1")),
        ]
    ).messages

    assert ["new", [{"type": "text", "text": "new"}], "new"] == [
        message["content"] for message in messages if message["role"] in {"user", "toolResult", "custom"}
    ]


def test_an_edit_changes_no_stored_entry() -> None:
    path = [*TURNS, edit("e", "u2", {"content": "new"}), edit("f", "a2", None)]
    before = [dict(each) for each in path]

    build_context(path)

    assert before == path
    assert ["u1", "a1", "u2", "a2"] == shown(*path[:4])


def test_of_two_edits_of_a_message_the_latest_counts() -> None:
    new = edit("e2", "u2", {"content": "new"})

    assert ["u1", "a1", "new", "a2"] == shown(*TURNS, edit("e1", "u2", None), new)
    assert ["u1", "a1", "a2"] == shown(*TURNS, new, edit("e1", "u2", None))


def test_an_edit_may_precede_its_target() -> None:
    assert ["u1", "a1", "a2"] == shown(*TURNS[:2], edit("e", "u2", None), *TURNS[2:])


def test_an_edit_behind_its_target_is_later_than_one_before_it() -> None:
    new = edit("e2", "u2", {"content": "new"})

    assert ["u1", "a1", "new"] == shown(*TURNS[:2], edit("e1", "u2", None), TURNS[2], new)


def test_an_edit_that_was_compacted_away_counts_no_more() -> None:
    early = [*TURNS[:2], edit("e", "u2", None), *TURNS[2:]]

    assert ["k", "u2", "a2"] == shown(*early, compaction("k", "u2"))


def test_an_edit_that_was_kept_counts_on() -> None:
    assert ["k", "a2"] == shown(*TURNS, edit("e", "u2", None), compaction("k", "u2"))


def test_an_edit_omits_summaries_and_shell_commands_but_gives_them_no_content() -> None:
    left = entry("branch_summary", "b", summary="b", fromId="f")
    path = [user("u1"), compaction("k", "u1"), left, shell("sh")]
    omitting, replacing = (
        [edit(f"e{each}", each, replacement) for each in ("k", "b", "sh")] for replacement in (None, {"content": "new"})
    )

    assert ["u1"] == shown(*path, *omitting)
    assert build_context(path) == build_context([*path, *replacing])


@pytest.mark.parametrize("replacement", [{}, {"content": None}, {"content": 5}, "text", 5, False, []])
def test_an_edit_without_a_replacement_has_no_effect(replacement: object) -> None:
    assert ["u1", "a1", "a2"] == shown(*TURNS, edit("e1", "u2", None), edit("e2", "u2", replacement))


def test_an_edit_without_a_replacement_counts_for_nothing() -> None:
    assert ["u1", "a1", "u2", "a2"] == shown(*TURNS, entry("context_edit", "e", targetId="u2"))


@pytest.mark.parametrize("target_id", ["gone", "e", None, 5, ["u2"]])
def test_an_edit_of_what_is_not_on_the_branch_counts_for_nothing(target_id: object) -> None:
    assert ["u1", "a1", "u2", "a2"] == shown(*TURNS, entry("context_edit", "e", targetId=target_id, replacement=None))


# Choices.


def test_the_last_model_counts_whether_chosen_or_answering() -> None:
    chosen = entry("model_change", "c", provider="q", modelId="n")

    assert ("q", "n") == build_context([answer("a1"), chosen]).model
    assert ("p", "m") == build_context([chosen, answer("a1")]).model


def test_choices_before_a_compaction_count() -> None:
    path = [
        entry("model_change", "c", provider="q", modelId="n"),
        entry("thinking_level_change", "t", thinkingLevel="high"),
        user("u1"),
        compaction("k", "u1"),
    ]

    assert (("q", "n"), "high") == build_context(path)[1:]


def test_a_choice_that_names_nothing_changes_nothing() -> None:
    path = [
        entry("model_change", "c1", provider="q", modelId="n"),
        entry("thinking_level_change", "t1", thinkingLevel="high"),
        entry("model_change", "c2", provider="q"),
        entry("thinking_level_change", "t2", thinkingLevel=None),
        entry("message", "a", message={"role": "assistant", "provider": "p"}),
    ]

    assert (("q", "n"), "high") == build_context(path)[1:]


# Damage.


def test_l3_a_damaged_line_in_the_middle_leaves_the_rest_of_the_context() -> None:
    names = ["u1", "a1", "u2", "a2", "u3", "a3"]
    entries = [
        {**each, "parentId": parent_id}
        for each, parent_id in zip((user(n) if n[0] == "u" else answer(n) for n in names), [None, *names], strict=False)
    ]
    lines = [encode_record(each) for each in entries]
    lines[2] = lines[2].replace(b'"', b"\0")
    header = encode_record({"type": "session", "version": 3, "id": "s", "timestamp": TIME, "cwd": "/"})

    tree = EntryTree(read_session(header + b"".join(lines)).entries)

    assert ["u1", "a1", "a2", "u3", "a3"] == shown(*(tree.entries[place] for place in tree.path(tree.leaf)))


def test_of_an_id_that_is_there_twice_both_messages_are_shown() -> None:
    first, second = user("u1"), {**answer("a1"), "id": "u1", "parentId": "u1"}
    tree = EntryTree([first, second])

    assert ["u1", "a1"] == shown(*(tree.entries[place] for place in tree.path(tree.leaf)))


def test_of_an_id_that_is_there_twice_the_closest_one_before_is_kept_and_edited() -> None:
    again = {**user("again"), "id": "u1"}

    assert ["k", "again", "u2"] == shown(user("u1"), again, compaction("k", "u1"), user("u2"))
    assert ["u1"] == shown(user("u1"), again, edit("e", "u1", None))
    assert ["again"] == shown(user("u1"), edit("e", "u1", None), again)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["", "a", "text", "user"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "text", "content"]), inner),
    max_leaves=4,
)
FIELDS = (
    *("id", "timestamp", "targetId", "firstKeptEntryId", "replacement", "summary", "tokensBefore", "fromId"),
    *("content", "customType", "display", "provider", "modelId", "thinkingLevel"),
)
messages = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("role", "content", "timestamp", "provider", "model", "usage", "stopReason"), junk)
)
any_entry = st.builds(
    lambda fields, entry_type, message: {**fields, "type": entry_type, "message": message},
    st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, junk)),
    st.sampled_from(["message", "compaction", "context_edit", "custom_message", "branch_summary", "model_change", 5]),
    messages,
)


@given(st.lists(any_entry, max_size=6))
def test_any_entries_whatever_give_a_context(path: Sequence[Entry]) -> None:
    before = repr(path)

    context = build_context(path)

    assert all(isinstance(message["timestamp"], int) for message in context.messages)
    assert ContextIndex(Branch.of(path)).count() == len(context.messages)
    assert before == repr(path)


@given(st.lists(any_entry, max_size=6), st.lists(any_entry, max_size=3), st.integers(0, 2))
def test_messages_are_counted_without_being_read(held: list[Entry], added: list[Entry], removed: int) -> None:
    tree = EntryTree(held)
    for entry in added:
        tree.add(entry)
    for _ in range(min(removed, len(added))):
        tree.remove_last(len(tree.entries) - 1)
    path = tree.branch()

    assert ContextIndex(path, tree.kinds).count() == len(build_context(path).messages)
    assert tree.kinds == Counter(head_of(entry)[2] for entry in tree.entries)


def test_every_role_that_is_a_message_has_a_kind() -> None:
    assert set(MESSAGE_KINDS) == set(message_repair._ROLES)
