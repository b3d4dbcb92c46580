"""Measures how long the process takes to end, in every state and for every reason of the tests of endings.

    .venv/bin/python tests/benchmarks/endings.py [--runs 7] [--only idle,in_tools]

From just before stdin is closed, or the signal sent, to the exit of the process; a run whose ending breaks its contract
stops the measurement. Prints milliseconds, median and maximum. What is asked for is 200 when idle and 800 at most, on a
machine that has nothing else to do. Judges nothing: times belong to a machine.
"""

import argparse
import importlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter

COMMAND: Final = (sys.executable, "-P", "-m", "pinnace_rpc")
TESTS: Final = Path(__file__).parents[1] / "rpc"


def measure_ms(tests: Any, state: Callable[..., Any], ending: Callable[..., int]) -> float:
    """Bring a new agent into a state, end it, and return how long that took."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def llm(script: Iterable[Scripted]) -> FakeLlm:
            return stack.enter_context(FakeLlm(script))

        names = (folder / f"gate-{number}" for number in range(100))
        agent = stack.enter_context(AgentStarter(COMMAND, folder))
        pi = state(tests.Tools(agent, lambda: stack.enter_context(ShellGate(next(names))), llm))
        begun_s = time.monotonic()
        code = ending(pi)
        tests.check_ended(pi, code)
        return float((pi.process.exited_s - begun_s) * 1000)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--only", help="a comma list of states")
    options = parser.parse_args()
    sys.path.insert(0, str(TESTS))
    tests: Any = importlib.import_module("test_endings")  # the same states, held to the same contract
    wanted = options.only.split(",") if options.only else None
    names = [ending.__name__ for ending in tests.ENDINGS]
    print("| median / max, ms |" + "".join(f" {name} |" for name in names))
    print("|---" * (len(names) + 1) + "|")
    for state in tests.STATES:
        if wanted is None or state.__name__ in wanted:
            cells = ""
            for ending in tests.ENDINGS:
                times = [measure_ms(tests, state, ending) for _ in range(options.runs)]
                cells += f" {statistics.median(times):.0f} / {max(times):.0f} |"
            print(f"| {state.__name__} |{cells}", flush=True)


if __name__ == "__main__":
    main()
