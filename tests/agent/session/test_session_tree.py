"""The tree of a session's entries: parents, labels, names, and nothing hidden in any file."""

import json
from collections.abc import Iterator, Mapping, Sequence

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.session.store.reading import read_session
from pinnace_agent.session.tree import EntryTree, Label, TreeNode, clean_name, encode_nodes
from pinnace_spec.records.entries import Entry
from pinnace_spec.wire.json_text import encode_record

# As long as sessions get, and far deeper than anything that calls itself once a level.
MANY = 20_000
IDS = ("a", "b", "c", "d", "e")
TIME = "2026-01-02T03:04:05.678Z"


def entry(entry_id: str, parent_id: str | None, entry_type: str = "custom", **fields: object) -> Entry:
    return {"type": entry_type, "id": entry_id, "parentId": parent_id, "timestamp": TIME, **fields}


def label(entry_id: str, parent_id: str | None, target_id: str, text: str | None, timestamp: str = TIME) -> Entry:
    named = {} if text is None else {"label": text}
    return {**entry(entry_id, parent_id, "label", targetId=target_id), **named, "timestamp": timestamp}


def chain(*ids: str) -> list[Entry]:
    return [entry(entry_id, parent_id) for entry_id, parent_id in zip(ids, [None, *ids], strict=False)]


def named(tree: EntryTree) -> list[object]:
    """Return the path to the leaf by ids."""
    return [tree.entries[place]["id"] for place in tree.path(tree.leaf)]


def parents(tree: EntryTree) -> list[int | None]:
    return [tree.parent(place) for place in range(len(tree.entries))]


def shape(nodes: Sequence[TreeNode]) -> list[object]:
    return [[node["entry"]["id"], *shape(node["children"])] for node in nodes]


def flat(nodes: Sequence[TreeNode]) -> Iterator[TreeNode]:
    left = list(nodes)
    while left:
        node = left.pop()
        yield node
        left += node["children"]


# Files with anything for parents: ids twice, parents that are missing, later, themselves, in a circle, or absent.
any_parent = st.sampled_from([*IDS, "gone", None, "", 7])
any_entry = st.builds(entry, st.sampled_from(IDS), any_parent) | st.sampled_from(IDS).map(
    lambda entry_id: {"type": "custom", "id": entry_id}
)
any_file = st.lists(any_entry, max_size=12)


@st.composite
def healthy_file(draw: st.DrawFn) -> list[Entry]:
    """Entries with distinct ids and parents that exist, without circles, in any order."""
    count = draw(st.integers(0, 12))
    made: list[Entry] = []
    for number in range(count):
        parent = draw(st.none() | st.integers(0, number - 1)) if number else None
        made.append(entry(f"{number}", None if parent is None else f"{parent}"))
    return draw(st.permutations(made))


# Parents.


@given(any_file)
def test_every_path_ends_at_a_root_and_passes_no_entry_twice(entries: list[Entry]) -> None:
    tree = EntryTree(entries)

    for place in range(len(entries)):
        path = tree.path(place)
        assert path[-1] == place
        assert len(path) == len(set(path))
        assert tree.parent(path[0]) is None


@given(any_file)
def test_every_entry_is_reachable_from_a_root_exactly_once(entries: list[Entry]) -> None:
    tree = EntryTree(entries)

    found = [id(node["entry"]) for node in flat(tree.nodes())]

    assert sorted(id(each) for each in tree.entries) == sorted(found)


@given(healthy_file())
def test_a_healthy_file_gets_exactly_the_parents_it_names(entries: list[Entry]) -> None:
    tree = EntryTree(entries)

    found = [None if parent is None else entries[parent]["id"] for parent in parents(tree)]

    assert ([each["parentId"] for each in entries], 0) == (found, tree.orphans)


@given(any_file)
def test_the_parent_is_the_newest_entry_before_with_the_id_that_is_named(entries: list[Entry]) -> None:
    tree = EntryTree(entries)

    for place, each in enumerate(entries):
        before = [other for other in range(place) if entries[other]["id"] == each.get("parentId")]
        if before:
            assert before[-1] == tree.parent(place)


@given(any_file)
def test_an_orphan_hangs_from_the_nearest_entry_before_it_that_does_not_hang_from_it(entries: list[Entry]) -> None:
    tree = EntryTree(entries)
    orphans = 0

    for place, each in enumerate(entries):
        parent = tree.parent(place)
        if each.get("parentId", "") is None:
            assert parent is None
        elif parent is None or entries[parent]["id"] != each.get("parentId"):
            orphans += 1
            for passed in range(0 if parent is None else parent + 1, place):
                assert place in tree.path(passed)

    assert orphans <= tree.orphans  # one may hang by accident from an entry with the id that it names


@given(st.lists(st.builds(entry, st.sampled_from(IDS), st.sampled_from([*IDS, None])), max_size=8))
def test_entries_added_one_by_one_get_the_parents_that_a_file_of_them_gives(entries: list[Entry]) -> None:
    ids: set[object] = set()
    known: list[Entry] = []
    for each in entries:  # of those that name a later one, the tree can't know yet
        known.append(each if each["parentId"] in ids else {**each, "parentId": "gone"})
        ids.add(each["id"])
    tree = EntryTree()

    for each in known:
        tree.add(each)

    assert (parents(EntryTree(known)), EntryTree(known).orphans) == (parents(tree), tree.orphans)


@given(healthy_file() | any_file, st.lists(st.sampled_from([*IDS, None]), max_size=3), st.booleans())
def test_a_path_follows_the_parents_in_a_file_that_grows(
    entries: list[Entry], more: list[str | None], is_taken_back: bool
) -> None:
    tree = EntryTree(entries)
    for parent_id in more:
        tree.add(entry("more", parent_id))
    if more and is_taken_back:
        tree.remove_last(len(tree.entries) - 1)
        tree.add(entry("other", None))

    for place in range(len(tree.entries)):
        former = tree.parent(place)
        assert list(tree.path(place)) == [*([] if former is None else tree.path(former)), place]


def test_the_path_of_an_entry_in_the_place_of_one_taken_back_follows_its_own_parent() -> None:
    tree = EntryTree(chain("a", "b"))
    tree.add(entry("c", "b"))
    tree.remove_last(2)
    tree.add(entry("d", "a"))

    assert [0, 2] == list(tree.path(2))


def test_l3_a_damaged_line_in_the_middle_hides_nothing() -> None:
    lines = [encode_record({"type": "session", "version": 3, "id": "s", "timestamp": TIME, "cwd": "/"})]
    lines += [encode_record(each) for each in chain("a", "b", "c", "d", "e")]
    lines[3] = lines[3][:20] + b"\n"

    tree = EntryTree(read_session(b"".join(lines)).entries)

    assert (["a", "b", "d", "e"], 1) == (named(tree), tree.orphans)


def test_l3_an_entry_without_a_parent_hides_nothing() -> None:
    without = {key: value for key, value in entry("c", None).items() if key != "parentId"}

    tree = EntryTree([*chain("a", "b"), without])

    assert (["a", "b", "c"], 1) == (named(tree), tree.orphans)


def test_l3_a_damaged_first_line_leaves_one_root() -> None:
    tree = EntryTree(chain("a", "b", "c")[1:])

    assert (["b", "c"], 1) == (named(tree), tree.orphans)


def test_parents_in_a_circle_end_where_the_file_goes_back() -> None:
    tree = EntryTree([entry("r", None), entry("a", "b"), entry("b", "a")])

    assert (["r", "a", "b"], 1) == (named(tree), tree.orphans)


def test_an_entry_that_is_its_own_parent_hangs_from_the_one_before() -> None:
    tree = EntryTree([*chain("a", "b"), entry("c", "c")])

    assert (["a", "b", "c"], 1) == (named(tree), tree.orphans)


def test_an_entry_that_is_its_own_parent_does_not_hang_from_a_later_one_with_its_id() -> None:
    tree = EntryTree([entry("a", None), entry("c", "c"), entry("c", "a")])

    assert [None, 0, 0] == parents(tree)


def test_an_id_that_is_there_twice_hides_neither_entry() -> None:
    tree = EntryTree([*chain("a", "b"), entry("b", "b"), entry("c", "b")])

    assert (["a", "b", "b", "c"], 0) == (named(tree), tree.orphans)


def test_two_crossing_circles_hide_nothing() -> None:
    tree = EntryTree([entry("t", None), entry("a", "c"), entry("b", "d"), entry("c", "b"), entry("d", "a")])

    assert (["t", "b", "c", "a", "d"], 1) == (named(tree), tree.orphans)


def test_a_parent_may_come_later_in_the_file() -> None:
    tree = EntryTree([entry("c", "b"), entry("b", "a"), entry("a", None)])

    assert ([1, 2, None], 0) == (parents(tree), tree.orphans)


def test_a_second_root_is_no_orphan() -> None:
    tree = EntryTree([*chain("a", "b"), entry("c", None)])

    assert (["c"], 0) == (named(tree), tree.orphans)


@pytest.mark.parametrize("is_forward", [False, True])
def test_a_file_made_to_be_slow_is_read_in_linear_time(is_forward: bool) -> None:
    # Each walk up from the tip takes as many steps as there are entries: 400,000,000 in all if every entry asks.
    ids = [str(number) for number in range(MANY)]
    tail = chain(*ids)
    asking = [entry(f"x{number}", ids[-1] if is_forward else "gone") for number in range(MANY)]

    tree = EntryTree([*asking, *tail] if is_forward else [*tail, *asking])

    assert (0 if is_forward else MANY) == tree.orphans


def test_a_file_made_to_be_slow_with_orphans_is_read_in_linear_time() -> None:
    # Before each orphan are its descendants, a long block; once it is adopted, that hangs from the next orphan.
    adopters = [entry(f"a{number}", f"o{number + 1}") for number in reversed(range(MANY))]
    block = [entry(f"b{number}", "o0") for number in range(MANY)]
    orphans = [entry(f"o{number}", "gone") for number in range(MANY + 1)]

    tree = EntryTree([*adopters, *block, *orphans])

    assert (MANY + 1, MANY - 1, 0, None) == (
        tree.orphans,
        tree.parent(2 * MANY),
        tree.parent(3 * MANY - 1),
        tree.parent(3 * MANY),
    )


# Leaf, growth, taking back.


def test_the_leaf_of_a_file_is_its_last_entry() -> None:
    assert (2, None) == (EntryTree([*chain("a", "b"), entry("c", "a")]).leaf, EntryTree().leaf)


def test_nothing_leads_to_no_leaf() -> None:
    assert [] == EntryTree(chain("a", "b")).path(None)


def test_adding_moves_the_leaf() -> None:
    tree = EntryTree(chain("a", "b"))

    place = tree.add(entry("c", "a"))

    assert (2, 2, ["a", "c"]) == (place, tree.leaf, named(tree))


def test_the_line_of_another_program_does_not_move_the_leaf() -> None:
    tree = EntryTree(chain("a", "b"))

    place = tree.add_aside(entry("x", "a"))

    assert (2, 1, 0, 2) == (place, tree.leaf, tree.parent(place), tree.find("x"))


def test_an_id_that_is_there_twice_names_the_newest_entry() -> None:
    tree = EntryTree([*chain("a", "b"), entry("a", "b")])

    assert (2, None, {"a", "b"}) == (tree.find("a"), tree.find("gone"), set(tree.ids))


def test_only_the_newest_entry_can_be_taken_back() -> None:
    tree = EntryTree(chain("a", "b"))

    with pytest.raises(ValueError):
        tree.remove_last(0)


def state(tree: EntryTree) -> Mapping[str, object]:
    ids = {entry_id: tree.find(entry_id) for entry_id in tree.ids}
    rows: dict[str, object] = {"entries": tree.entries, "parents": parents(tree), "ids": ids}
    return {**rows, "leaf": tree.leaf, "orphans": tree.orphans, "name": tree.name, "labels": tree.labels}


any_noted_entry = (
    any_entry
    | st.builds(label, st.sampled_from(IDS), any_parent, st.sampled_from(IDS), st.sampled_from(["x", "y", "", None]))
    | st.builds(
        lambda entry_id, name: entry(entry_id, None, "session_info", name=name),
        st.sampled_from(IDS),
        st.sampled_from(["one", "two", ""]),
    )
)


@given(st.lists(any_noted_entry, max_size=6), any_noted_entry, st.booleans())
def test_an_entry_that_is_taken_back_leaves_no_trace(entries: list[Entry], extra: Entry, is_ours: bool) -> None:
    tree = EntryTree(entries)
    if is_ours:  # ours hang from the leaf
        extra = {**extra, "parentId": entries[-1]["id"] if entries else None}

    tree.remove_last(tree.add(extra) if is_ours else tree.add_aside(extra))

    assert state(EntryTree(entries)) == state(tree)


# Names and labels.


def test_the_name_is_the_latest_of_the_file_on_whichever_branch() -> None:
    names = [entry("n1", "b", "session_info", name="one"), entry("n2", "a", "session_info", name="two")]

    assert "two" == EntryTree([*chain("a", "b"), *names, entry("c", "n1")]).name


@pytest.mark.parametrize("cleared", [{"name": ""}, {"name": "  "}, {}, {"name": None}, {"name": 5}])
def test_a_name_is_cleared_by_an_empty_one(cleared: dict[str, object]) -> None:
    assert (
        EntryTree([entry("n1", None, "session_info", name="one"), entry("n2", "n1", "session_info", **cleared)]).name
        is None
    )


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        ("  one \n", "one"),
        ("one\r\ntwo\n\nthree", "one two three"),
        ("one\u2028two\u2029three\x85four\tfive", "one two three four five"),
        ("\x1b[31mred\x07\x9b0m\x7f", "[31mred0m"),
        ("naïve 名前 😀", "naïve 名前 😀"),
        ("\x00\x1b", None),
        ("", None),
    ],
)
def test_a_name_is_one_line_without_control_characters(given_name: str, name: str | None) -> None:
    assert name == clean_name(given_name)


@given(st.text())
def test_cleaning_a_name_twice_changes_nothing(text: str) -> None:
    name = clean_name(text)

    assert name is None or (clean_name(name) == name and len(name.splitlines()) == 1)


def test_labels_of_all_branches_count_in_the_order_of_the_file() -> None:
    entries = [
        *chain("a", "b"),
        label("l1", "b", "a", "first", "2026-01-01T00:00:00.000Z"),
        entry("c", "a"),
        label("l2", "c", "a", "second", "2026-01-02T00:00:00.000Z"),
        label("l3", "b", "b", "kept", "2026-01-03T00:00:00.000Z"),
    ]

    expected = {"a": Label("second", "2026-01-02T00:00:00.000Z"), "b": Label("kept", "2026-01-03T00:00:00.000Z")}
    assert expected == EntryTree(entries).labels


@pytest.mark.parametrize("cleared", ["", None])
def test_a_label_is_cleared_by_an_empty_one_and_by_none(cleared: str | None) -> None:
    assert {} == EntryTree([*chain("a"), label("l1", "a", "a", "x"), label("l2", "l1", "a", cleared)]).labels


def test_a_label_of_nothing_is_ignored() -> None:
    odd: Entry = {"type": "label", "id": "l", "parentId": None, "targetId": ["a"], "label": "x"}

    assert {} == EntryTree([odd]).labels


# Nodes.


def test_children_are_sorted_by_time_and_else_as_in_the_file() -> None:
    def at(entry_id: str, timestamp: object) -> Entry:
        return {**entry(entry_id, "r"), "timestamp": timestamp}

    entries = [
        entry("r", None),
        at("noon", "2026-01-01T12:00:00.000Z"),
        at("unknown", "some day"),
        at("zone", "2026-01-01T12:00:00.000+02:00"),
        at("early", "2026-01-01T09:00:00.000Z"),
        at("noon too", "2026-01-01T12:00:00.000Z"),
        at("number", 1767225600000),
    ]

    expected = [["r", ["number"], ["early"], ["zone"], ["noon"], ["unknown"], ["noon too"]]]
    assert expected == shape(EntryTree(entries).nodes())


def test_roots_stay_in_the_order_of_the_file() -> None:
    later = {**entry("b", None), "timestamp": "2020-01-01T00:00:00.000Z"}

    assert [["a"], ["b"]] == shape(EntryTree([entry("a", None), later]).nodes())


def test_nodes_have_labels_and_their_times() -> None:
    bare = {"type": "label", "id": "l2", "parentId": "l1", "targetId": "b", "label": "undated"}

    (root,) = EntryTree([*chain("a", "b"), label("l1", "b", "a", "x"), bare]).nodes()

    assert ("x", TIME) == (root.get("label"), root.get("labelTimestamp"))
    assert {"entry", "children", "label"} == set(root["children"][0])


def test_a_branch_of_20_000_entries_becomes_nodes_and_one_line() -> None:
    tree = EntryTree(chain(*(str(number) for number in range(MANY))))

    line = encode_record({"tree": encode_nodes(tree.nodes())})

    assert MANY == line.count(b'{"entry":')
    assert line.endswith(b"]}" * MANY + b"]}\n")


@given(st.lists(any_noted_entry, max_size=10))
def test_encoded_nodes_equal_the_nodes(entries: list[Entry]) -> None:
    nodes = EntryTree(entries).nodes()

    assert {"tree": nodes} == orjson.loads(encode_record({"tree": encode_nodes(nodes)}))


def test_nodes_with_a_lone_surrogate_can_be_encoded() -> None:
    nodes = EntryTree([entry("a", None, data="\ud800")]).nodes()

    assert [{"entry": nodes[0]["entry"], "children": []}] == json.loads(encode_record({"tree": encode_nodes(nodes)}))[
        "tree"
    ]
