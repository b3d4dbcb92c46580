"""The recorded seeds of faults find nothing where there is no fault: else they would find the program's own."""

import json

import pytest
from tests.fuzz.simulation.fault_seeds import FILE

from pinnace_campaigns.mutants.durability import HOSTED_MUTANTS
from pinnace_campaigns.mutants.editor_faults import EDITOR_MUTANTS
from pinnace_campaigns.mutants.simulated import FOUND_OF_HOST, FOUND_OF_MODEL_HOST
from pinnace_fuzz.simulation.editors.history import Programs, simulate_editors
from pinnace_fuzz.simulation.history import simulate
from pinnace_fuzz.simulation.hosted.history import simulate_hosted
from pinnace_fuzz.simulation.program import (
    DEFAULT_ADAPTER,
    DEFAULT_HOST,
    DEFAULT_PROGRAM,
    load_adapter,
    load_host,
    load_program,
)

PROGRAM, HOST = load_program(DEFAULT_PROGRAM), load_host(DEFAULT_HOST)
PROGRAMS = Programs(PROGRAM, HOST, load_adapter(DEFAULT_ADAPTER))
OF_EDITORS = frozenset(mutant.name for mutant in EDITOR_MUTANTS)
OF_HOSTS = frozenset(mutant.name for mutant in HOSTED_MUTANTS) | FOUND_OF_HOST | FOUND_OF_MODEL_HOST
SEEDS: dict[str, int] = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", ["agent", "host", "editors"])
def test_the_seeds_of_faults_find_nothing_without_them(kind: str) -> None:
    """Each once, of whichever faults it is."""
    kinds = {name: "editors" if name in OF_EDITORS else "host" if name in OF_HOSTS else "agent" for name in SEEDS}
    found: list[object] = []
    for seed in sorted({seed for name, seed in SEEDS.items() if kinds[name] == kind}):
        match kind:
            case "agent":
                found += simulate(seed, PROGRAM).findings
            case "host":
                found += simulate_hosted(seed, PROGRAM, HOST).findings
            case _:
                found += simulate_editors(seed, PROGRAMS).findings

    assert [] == found
