"""What a session records of choices of tools, and what the records of a branch come to."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.session.branch import Branch
from pinnace_agent.session.tool_records import Declaration, ToolChange, record_of, recorded_tools
from pinnace_spec.records.entries import Entry

NAMES = ("read", "bash", "edit", "found")
SETS = st.frozensets(st.sampled_from(NAMES))


def declarations(names: Sequence[str] | frozenset[str], about: str = "") -> dict[str, Declaration]:
    return {
        name: {"name": name, "description": f"{name}{about}", "parameters": {"type": "object"}}
        for name in NAMES
        if name in names
    }


def entry(message: object) -> Entry:
    return {"type": "message", "id": "e", "parentId": None, "timestamp": 1, "message": message}


def system(**fields: object) -> Entry:
    return entry({"role": "system", "content": "", "timestamp": 1, **fields})


def shown(record: Mapping[str, object] | None) -> tuple[list[str], list[str]] | None:
    """Return the names that a record adds and removes."""
    if record is None:
        return None
    parts = [record.get(field, []) for field in ("toolsAdded", "toolsRemoved")]
    added, removed = ([each["name"] for each in part] for part in parts if isinstance(part, list))
    return added, removed


@given(st.lists(st.tuples(SETS, SETS), max_size=6))
def test_the_records_of_a_branch_come_to_what_was_chosen_last(
    choices: list[tuple[frozenset[str], frozenset[str]]],
) -> None:
    """R-SET-09: tools that were active before, and were not chosen, are mentioned: they are not new to a reader."""
    path: list[Entry] = []
    seen: set[str] = set()
    for before, after in choices:
        record = record_of(ToolChange(declarations(before), declarations(after)), Branch.of(path), 1)
        assert record is not None or not path or recorded_tools(Branch.of(path)) is not None
        if record is not None:
            path.append(entry(record))
            seen |= before | after
        recorded = recorded_tools(Branch.of(path))
        if recorded is None:
            assert before == after
        else:
            assert after == set(recorded.active)
            assert seen <= set(recorded.mentioned)
            assert None is record_of(ToolChange(declarations(after), declarations(after)), Branch.of(path), 1)


@pytest.mark.parametrize(
    ("former", "change", "expected"),
    [
        ([], ToolChange(declarations(["read", "bash"]), declarations(["read"])), (["read"], ["bash"])),
        ([], ToolChange(declarations(["read"]), declarations(["read"])), None),
        ([], ToolChange(declarations(["read"]), {}), ([], ["read"])),
        ([system(toolsAdded=[{"name": "bash"}])], ToolChange({}, declarations(["bash"])), (["bash"], ["bash"])),
        ([system(toolsAdded=[{"name": "later"}])], ToolChange({}, declarations(["read"])), (["read"], ["later"])),
        (
            [system(toolsAdded=[{"name": "later"}])],
            ToolChange({}, declarations(["read"]), frozenset({"later"})),
            (["read"], []),
        ),
        (
            [system(toolsAdded=list(declarations(["read", "bash"]).values()))],
            ToolChange(declarations(["read", "bash", "found"]), declarations(["read", "edit"])),
            (["edit"], ["bash", "found"]),
        ),
    ],
)
def test_a_record_has_the_difference_to_those_before_it(
    former: list[Entry], change: ToolChange, expected: tuple[list[str], list[str]] | None
) -> None:
    """A tool whose declaration has changed is removed and added, as in the original."""
    assert expected == shown(record_of(change, Branch.of(former), 1))


@pytest.mark.parametrize(
    "message",
    [
        None,
        {"role": "user", "content": "x", "toolsAdded": [{"name": "read"}]},
        {"role": "unknown", "toolsAdded": [{"name": "read"}]},
    ],
)
def test_a_branch_without_a_system_message_records_nothing(message: object) -> None:
    assert None is recorded_tools(Branch.of([entry(message)]))


@pytest.mark.parametrize("odd", [None, 5, "read", {"name": "read"}, [None, 5, "read", {}, {"name": 7}, {"name": ""}]])
def test_an_odd_record_is_read_as_far_as_it_can_be(odd: object) -> None:
    path = [system(toolsAdded=odd, toolsRemoved=odd), system(toolsAdded=[{"name": "bash"}])]
    recorded = recorded_tools(Branch.of(path))
    assert recorded is not None
    assert (["bash"], {"bash"}) == (list(recorded.active), set(recorded.mentioned))
