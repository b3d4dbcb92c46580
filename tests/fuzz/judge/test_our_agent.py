"""Our own agent: it passes every scenario that is smoke, and the judge says what it is."""

import sys
from pathlib import Path

import pytest

from pinnace_fuzz.judge.adapter import PiAdapter
from pinnace_fuzz.judge.results import BAD
from pinnace_fuzz.judge.session import Options, conduct

# Started by its entry, not as a module: a home of its own has no PYTHONPATH.
ROOTS = [path for path in sys.path if path]
START = f"import sys; sys.path[:0] = {ROOTS!r}; from pinnace_rpc.cli.main import main; sys.exit(main())"
pytestmark = pytest.mark.slow


def test_smoke(tmp_path: Path) -> None:
    run = conduct(Options(command=(sys.executable, "-c", START), adapter=PiAdapter(), time_s=60, seed=1, out=tmp_path))

    assert {} == {case.scenario.id: case.findings for case in run.cases if case.verdict in BAD}
    assert (0, "pi", True) == (run.exit_code, run.agent["generation"], run.agent["is_ours"])
    assert not [case.why for case in run.cases if case.verdict == "NOT-RUN"]
