"""The faults of the real program are up to date, and are found by the checks that they name."""

import os

import pytest

from pinnace_campaigns.mutants import AGENT_MUTANTS, WIRE_MUTANTS, AgentMutant
from pinnace_campaigns.mutants.host_faults import HOST_MUTANTS
from pinnace_campaigns.mutants.judging import bench, judge
from pinnace_campaigns.mutants.trial import CHECKOUT, Copy, patched
from pinnace_fuzz.judge.campaigns.schedule import CAMPAIGNS
from pinnace_fuzz.judge.scenarios.files import load as load_scenarios
from pinnace_spec.generate.source import load
from pinnace_spec.observers import Checks, observers
from pinnace_spec.profiles.generations import generation

IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
# The quick ones; the others by command, or here in long runs: `python -P -m pinnace_campaigns.mutants`.
# Invariants that need more than one trace, or what is beside it, have no observer.
COMPARED = {"I-ABT-2", "I-PER-1", "I-LLM-1", "I-FRM-3", "I-FRM-4"}
ALL = (*AGENT_MUTANTS, *WIRE_MUTANTS, *HOST_MUTANTS)
JUDGED = [mutant for mutant in ALL if mutant.judged is not None]
# What the judge has to find in every run; the others by command: `python -P -m pinnace_campaigns.mutants --judge`.
QUICKLY_JUDGED = ("settled-twice", "queued-without-a-word", "null-kills")
TRIED = ("nothing-is-held", "abort-before-settled", "results-as-they-come", "separators-as-they-are")


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_a_fault_has_its_text_once_and_names_what_exists(mutant: AgentMutant) -> None:
    """Who moves the text updates the catalogue."""
    file, _, test = mutant.check.partition("::")

    assert patched(mutant) != (CHECKOUT / mutant.file).read_text(encoding="utf-8")
    assert not mutant.check or f"def {test}(" in (CHECKOUT / file).read_text(encoding="utf-8")
    assert [] == [rule for rule in mutant.rules if rule not in load().rules]


def test_there_are_enough_faults() -> None:
    assert len(AGENT_MUTANTS) >= 12
    assert len({mutant.name for mutant in ALL}) == len(ALL)
    assert len(JUDGED) >= 30
    assert sum(mutant.is_on_wire for mutant in AGENT_MUTANTS) >= 12


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A private copy of the checkout."""
    return Copy(tmp_path_factory.mktemp("mutants"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant", [each for each in AGENT_MUTANTS if IS_LONG or each.name in TRIED], ids=lambda mutant: mutant.name
)
def test_a_fault_is_found_by_its_check(copy: Copy, mutant: AgentMutant) -> None:
    trial = copy.attempt(mutant)

    assert trial.is_found, trial.printed[-2_000:]


def test_the_judge_has_what_shall_find_a_fault() -> None:
    places = {scenario.id for scenario in load_scenarios()} | CAMPAIGNS.keys()
    names = {each.id for each in observers(generation("pi"), checks=Checks(is_ours=True))} | load().rules.keys()

    found = [mutant.judged for mutant in JUDGED if mutant.judged is not None]
    assert [] == [each for each in found if each.by not in places or each.named not in names | COMPARED]


@pytest.mark.slow
def test_the_judge_names_faults_by_the_records_alone(copy: Copy) -> None:
    """`pinnace-conform` of this checkout, the program of the copy, a fault that the judge knows nothing of."""
    missed: dict[str, object] = {}
    with bench(copy) as kit:
        for mutant in JUDGED:
            if IS_LONG or mutant.name in QUICKLY_JUDGED:
                judgement = judge(kit, copy, mutant, confirmations=1)
                if not judgement.is_found:
                    missed[mutant.name] = judgement

    assert {} == missed


def test_a_check_passes_without_the_fault(copy: Copy) -> None:
    """Or it would find anything."""
    assert copy.passes(AGENT_MUTANTS[0].check)
