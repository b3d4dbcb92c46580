"""Measures how soon a read is answered, whatever the agent does meanwhile.

    .venv/bin/python tests/benchmarks/responsiveness.py [--reads 400]

Each `get_state` is sent when the one before is answered; its time is from just before the write to when its answer was
read. Prints milliseconds: median, 99th percentile, maximum. What is asked for is 50. Where the agent writes much, the
client that measures has to read and parse it all on the same machine, so these are upper bounds. Judges nothing.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Unpack

from pinnace_fuzz.harness.adapters import HomeOptions, pi_models
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_spec.profiles.profiles import Profile

COMMAND: Final = (sys.executable, "-P", "-m", "pinnace_rpc")
PROMPT: Final = {"type": "prompt", "message": "go"}
DELTA: Final = {"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}}
# More than is ever written while the reads are answered.
ENDLESS: Final = 10_000_000


class Bench:
    """Makes what a situation needs; it ends with the situation."""

    def __init__(self, stack: ExitStack) -> None:
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._stack = stack
        self._names = (self.folder / f"gate-{number}" for number in range(100))

    def llm(self, script: Iterable[Scripted]) -> FakeLlm:
        """Start a model."""
        return self._stack.enter_context(FakeLlm(script))

    def agent(
        self, model: FakeLlm | Iterable[Scripted] = (), profile: Profile = "pi", **options: Unpack[HomeOptions]
    ) -> HomedAgent:
        """Start an agent that may be killed in the middle of its work."""
        starter = self._stack.enter_context(AgentStarter(COMMAND, self.folder))
        return starter(model, protocol=profile, is_checked=False, **options)

    def gate(self) -> ShellGate:
        """Make a gate."""
        return self._stack.enter_context(ShellGate(next(self._names)))


def idle(bench: Bench) -> HomedAgent:
    """Do nothing."""
    return bench.agent()


def key_is_fetched(bench: Bench) -> HomedAgent:
    """A prompt waits for its key."""
    gate, model = bench.gate(), bench.llm([])
    models: Any = pi_models(model.base_url)
    models["providers"]["fake"]["apiKey"] = f"!{gate.reading}"
    pi = bench.agent(model, models=models)
    pi.send(PROMPT)
    gate.wait_reached()
    return pi


def model_is_silent(bench: Bench) -> HomedAgent:
    """The model has not begun to answer."""
    pi = bench.agent([{"text": "one", "hold": "head"}])
    pi.send(PROMPT)
    pi.llm.wait_reached("head")
    return pi


def _streaming(bench: Bench, profile: Profile, *chunks: object, **response: object) -> HomedAgent:
    pi = bench.agent([{"chunks": list(chunks), **response}], profile)
    pi.send(PROMPT)
    pi.wait(DELTA)
    return pi


def model_at_200_a_second(bench: Bench) -> HomedAgent:
    """A quick model, whole messages in each update."""
    return _streaming(bench, "pi", *({"text": "some words "} for _ in range(20_000)), chunk_delay_ms=5)


def model_floods_deltas(bench: Bench) -> HomedAgent:
    """A model as fast as the agent can read it, deltas alone."""
    return _streaming(bench, "1.5", {"gen": {"n": ENDLESS, "size": 20}})


def model_floods_messages(bench: Bench) -> HomedAgent:
    """The same with whole messages in each update."""
    return _streaming(bench, "pi", {"gen": {"n": ENDLESS, "size": 20}})


def _in_tool(bench: Bench, command: str) -> HomedAgent:
    pi = bench.agent([{"tool_calls": [{"name": "bash", "args": {"command": command}}]}])
    pi.send(PROMPT)
    pi.wait({"type": "tool_execution_start"})
    return pi


def tool_works(bench: Bench) -> HomedAgent:
    """A tool takes its time and says nothing."""
    return _in_tool(bench, "sleep 600")


def tool_floods(bench: Bench) -> HomedAgent:
    """A tool says more than anybody reads; half a gigabyte at most, since it is kept in a file."""
    return _in_tool(bench, "yes flood | head -c 500000000; sleep 600")


def bash_works(bench: Bench) -> HomedAgent:
    """Twenty shells of the client take their time."""
    pi = bench.agent()
    pi.send_many({"type": "bash", "command": "sleep 600"} for _ in range(20))
    return pi


def bash_floods(bench: Bench) -> HomedAgent:
    """A shell of the client says more than anybody reads; a gigabyte at most."""
    pi = bench.agent()
    pi.send({"type": "bash", "command": "yes flood | head -c 1000000000; sleep 600"})
    pi.wait({"type": "bash_execution_update"})
    return pi


SITUATIONS: Final[tuple[Callable[[Bench], HomedAgent], ...]] = (
    idle,
    key_is_fetched,
    model_is_silent,
    model_at_200_a_second,
    model_floods_deltas,
    model_floods_messages,
    tool_works,
    tool_floods,
    bash_works,
    bash_floods,
)


class Times(NamedTuple):
    """Milliseconds."""

    median: float
    p99: float
    maximum: float


@contextmanager
def brought_about(situation: Callable[[Bench], HomedAgent]) -> Iterator[HomedAgent]:
    """Give an agent in a situation; afterwards everything is gone."""
    with ExitStack() as stack:
        yield situation(Bench(stack))


def measure(pi: HomedAgent, reads: int) -> Times:
    """Send reads one after another; the first, which may meet a process that still starts, does not count."""
    pi.request({"type": "get_state"}, 60.0)
    times: list[float] = []
    for number in range(reads):
        key = f"read-{number}"
        begin = pi.mark()
        begun_s = pi.send({"id": key, "type": "get_state"})
        received = pi.journal.find({"type": "response", "id": key}, begin, 60.0)
        assert received is not None
        times.append((received.time_s - begun_s) * 1000)
    times.sort()
    return Times(statistics.median(times), times[int(len(times) * 0.99)], times[-1])


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reads", type=int, default=400)
    options = parser.parse_args()
    print("| get_state while, ms | median | p99 | max |\n|---|---|---|---|")
    for situation in SITUATIONS:
        with brought_about(situation) as pi:
            times = measure(pi, options.reads)
        print(f"| {situation.__name__} | {times.median:.2f} | {times.p99:.2f} | {times.maximum:.2f} |", flush=True)


if __name__ == "__main__":
    main()
