"""The statechart as SCXML: well-formed, whole, and the same rows when it is read again."""

from xml.etree import ElementTree

import pytest

from pinnace_spec import data
from pinnace_spec.generate.scxml import NAMESPACE, read, scxml
from pinnace_spec.generate.source import load
from pinnace_spec.statechart.transitions import CHART, REGIONS, STATES, Transition
from pinnace_statechart.actions import ACTIONS
from pinnace_statechart.guards import GUARDS

SPEC = load()
ROOT = ElementTree.fromstring(data.text("chart.scxml"))
Q = f"{{{NAMESPACE}}}"
# What a chart in this form may be made of: an element and what may stand in it.
CONTENT = {
    "scxml": {"parallel"},
    "parallel": {"state"},
    "state": {"state", "transition"},
    "transition": {"raise"},
    "raise": set[str](),
}


def test_it_is_made_of_the_elements_of_the_standard_in_their_places() -> None:
    for parent in ROOT.iter():
        inner = {child.tag.removeprefix(Q) for child in parent}

        assert inner <= CONTENT[parent.tag.removeprefix(Q)]


def test_ids_are_there_once_and_every_target_is_one() -> None:
    ids = [each.attrib["id"] for each in ROOT.iter() if "id" in each.attrib]
    targets = {each.attrib["target"] for each in ROOT.iter(f"{Q}transition") if "target" in each.attrib}
    initial = {each.attrib["initial"] for each in ROOT.iter() if "initial" in each.attrib}

    assert len(ids) == len(set(ids))
    assert targets | initial <= set(ids)


def test_a_target_is_a_state_of_the_same_region() -> None:
    """Regions move by themselves."""
    for region in ROOT.iterfind(f"{Q}parallel/{Q}state"):
        name = region.attrib["id"]
        inner = {each.attrib["id"] for each in region}
        targets = [each.attrib["target"] for each in region.iter(f"{Q}transition") if "target" in each.attrib]

        assert inner == {f"{name}.{state}" for state in dict(STATES)[name]}  # type: ignore[index]
        assert set(targets) <= inner
        assert region.attrib["initial"] in inner


def test_regions_are_in_the_order_in_which_they_are_asked() -> None:
    assert list(REGIONS) == [each.attrib["id"] for each in ROOT.iterfind(f"{Q}parallel/{Q}state")]


def test_a_transition_without_a_trigger_has_a_condition() -> None:
    """Or it would be taken for ever."""
    for each in ROOT.iter(f"{Q}transition"):
        assert "event" in each.attrib or "cond" in each.attrib


def test_conditions_and_effects_are_names_that_have_bodies() -> None:
    conditions = {each.attrib["cond"].removesuffix("()") for each in ROOT.iter() if "cond" in each.attrib}
    effects = {each.attrib["event"].removeprefix("effect.") for each in ROOT.iter(f"{Q}raise")}

    assert conditions == set(GUARDS)
    assert effects == set(ACTIONS)


def test_the_rows_come_back() -> None:
    def key(row: Transition) -> tuple[int, int]:
        return REGIONS.index(row.region), STATES[row.region].index(row.source)

    assert sorted(CHART, key=key) == read(data.text("chart.scxml"))


def test_a_changed_row_is_another_chart() -> None:
    changed = SPEC._replace(rows=(CHART[0]._replace(effects=()), *CHART[1:]))

    assert scxml(SPEC) != scxml(changed)


@pytest.mark.parametrize("text", ["", "<scxml>", "<scxml/>"])
def test_what_is_no_chart_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read(text)
