"""Measures pinnace beside the original agent: the same work, in turns, on the same machine.

    .venv/bin/python tests/benchmarks/against_original.py [--runs 7] [--only start,deltas] [--out FILE.md]

Each figure is a median with its range; a ratio below 1 in the last column means that pinnace needs less. Runs of the
two programs alternate, so that a busy moment of the machine hits both. Neither is measured in its very first run: each
keeps a home and a folder for temporary files, where the original keeps compiled code, as on a user's machine; what the
first start costs without that is a row of its own. The model is a process of its own (`model_server.py`), and stdout is
read in large pieces and not parsed. Judges nothing: times belong to a machine.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Final

from side_by_side import Figures, Item, MeasuredAgent, Program, compare

# A process that has just answered is still busy with what it put off; after this it is idle.
SETTLE_S: Final = 1.0
PAUSE_S: Final = 0.15
ABORTS: Final = 3
PROMPTS: Final = 4
READS: Final = 500
MANY: Final = 20_000
FEWER: Final = 5_000
PACED: Final = 1_000


def start(program: Program) -> Figures:
    """Start a process and wait for its first answer; then let it be idle."""
    with MeasuredAgent(program) as agent:
        wall_ms = (agent.state() - agent.begun_s) * 1000
        cpu_ms = agent.cpu_ms()
        time.sleep(SETTLE_S)
        memory = agent.memory_mib()
    return {
        "start to the first answer, ms": wall_ms,
        "start to the first answer, CPU ms": cpu_ms,
        "idle: resident, MiB": memory["resident"],
        "idle: proportional share, MiB": memory["proportional"],
        "idle: private, MiB": memory["private"],
    }


def first_start(program: Program) -> Figures:
    """Start a process that finds its folder for temporary files empty, as after a reboot."""
    with tempfile.TemporaryDirectory() as temp, MeasuredAgent(program, temp=temp) as agent:
        return {"start with an empty TMPDIR, ms": (agent.state() - agent.begun_s) * 1000}


def first_delta(program: Program) -> Figures:
    """Send prompts that the model answers at once."""
    latencies_ms: list[float] = []
    with MeasuredAgent(program) as agent:
        agent.state()
        time.sleep(SETTLE_S)
        for _ in range(PROMPTS):
            sent_s = agent.prompt("hello")
            latencies_ms.append((agent.until(b'"text_delta"') - sent_s) * 1000)
            agent.until(b'{"type":"agent_end"')
            time.sleep(PAUSE_S)
        memory = agent.memory_mib()
    return {
        "prompt to first delta, first prompt, ms": latencies_ms[0],
        "prompt to first delta, later prompts, ms": statistics.median(latencies_ms[1:]),
        "after a prompt: resident, MiB": memory["resident"],
    }


def deltas(program: Program, kind: str, count: int, *flags: str) -> Figures:
    """Stream a long answer in a process that has answered once."""
    with MeasuredAgent(program, *flags) as agent:
        agent.state()
        agent.prompt("hello")
        agent.until(b'{"type":"agent_end"')
        time.sleep(PAUSE_S)
        cpu_ms, size, records = agent.cpu_ms(), agent.bytes, agent.records
        begun_s = agent.prompt(kind, count)
        wall_s = agent.until(b'{"type":"agent_end"') - begun_s
        cpu_ms, size, records = agent.cpu_ms() - cpu_ms, agent.bytes - size, agent.records - records
        peak_mib = agent.memory_mib()["peak"]
        agent.check_text(count)
    profile = f", {flags[-1]}" if flags else ""
    name = f"{count:,} deltas ({kind}{profile})"
    return {
        f"{name}: wall, ms": wall_s * 1000,
        f"{name}: CPU, ms": cpu_ms,
        f"{name}: deltas/s": count / wall_s,
        f"{name}: stdout, MB": size / 1e6,
        f"{name}: records": records,
        f"{name}: peak, MiB": peak_mib,
    }


def abort(program: Program) -> Figures:
    """Abort answers that hang."""
    latencies_ms: list[float] = []
    with MeasuredAgent(program) as agent:
        agent.state()
        for _ in range(ABORTS + 1):
            agent.prompt("hang")
            agent.until(b'"text_delta"')
            time.sleep(PAUSE_S)
            sent_s = agent.send({"id": "a", "type": "abort"})
            latencies_ms.append((agent.until(b'"command":"abort"') - sent_s) * 1000)
            time.sleep(PAUSE_S)
    return {"abort to its response, ms": statistics.median(latencies_ms[1:])}


def reads(program: Program) -> Figures:
    """Ask for the state many times, one after the other and in one write."""
    with MeasuredAgent(program) as agent:
        agent.state()
        time.sleep(SETTLE_S)
        cpu_ms = agent.cpu_ms()
        begun_s = time.monotonic()
        for _ in range(READS):
            ended_s = agent.state()
        sequential_ms = (ended_s - begun_s) * 1000
        begun_s = agent.send(*({"id": f"z{number}", "type": "get_state"} for number in range(READS)))
        pipelined_ms = (agent.until(b'"id":"z%d"' % (READS - 1)) - begun_s) * 1000
        cpu_ms = agent.cpu_ms() - cpu_ms
    return {
        f"{READS} get_state in turn, ms": sequential_ms,
        f"{READS} get_state in one write, ms": pipelined_ms,
        f"{READS} get_state in turn and {READS} in one write, CPU ms": cpu_ms,
    }


def _deltas(kind: str, count: int) -> Callable[[Program], Figures]:
    return lambda program: deltas(program, kind, count)


def _profile(profile: str) -> Callable[[Program], Figures]:
    return lambda program: deltas(program, "framed", FEWER, "--protocol", profile)


ITEMS: Final = (
    Item("start", start),
    Item("start", first_start),
    Item("first", first_delta),
    Item("deltas", _deltas("packed", MANY)),
    Item("deltas", _deltas("framed", FEWER)),
    Item("deltas", _deltas("framed", MANY)),
    Item("paced", _deltas("paced", PACED)),
    Item("profiles", _profile("pi"), is_ours_only=True),
    Item("profiles", _profile("seed"), is_ours_only=True),
    Item("abort", abort),
    Item("reads", reads),
)


if __name__ == "__main__":
    # The first start of a home compiles and caches.
    compare("Measure pinnace beside the original agent.", ITEMS, before=start)
