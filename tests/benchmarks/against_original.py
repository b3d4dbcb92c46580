"""Measures pinnace beside the original agent: the same work, in turns, on the same machine.

    .venv/bin/python tests/benchmarks/against_original.py [--runs 7] [--only start,deltas] [--out FILE.md]

Each figure is a median with its range; a ratio below 1 in the last column means that pinnace needs less. Runs of the
two programs alternate, so that a busy moment of the machine hits both. Neither is measured in its very first run: each
keeps a home and a folder for temporary files, where the original keeps compiled code, as on a user's machine; what the
first start costs without that is a row of its own. The model is a process of its own (`model_server.py`), and stdout is
read in large pieces and not parsed. Judges nothing: times belong to a machine.
"""

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Final

from side_by_side import Figures, Item, MeasuredAgent, Program, compare

# A process that has just answered is still busy with what it put off; after this it is idle.
SETTLE_S: Final = 1.0
PAUSE_S: Final = 0.15
ABORTS: Final = 100
ABORT_PAUSE_S: Final = 0.02
PROMPTS: Final = 4
READS: Final = 500
READS_IN_A_STREAM: Final = 200
MOST_READS_S: Final = 10.0
"""An answer without an end must not fill the memory of who is slow."""
AGENTS: Final = 10
FLEET_SETTLE_S: Final = 2.0
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
        "after four prompts: private, MiB": memory["private"],
        "after four prompts: proportional share, MiB": memory["proportional"],
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
        memory = agent.memory_mib()
        agent.check_text(count)
    name = f"{count:,} deltas, {kind}"
    return {
        f"{name}: wall, ms": wall_s * 1000,
        f"{name}: deltas/s": count / wall_s,
        f"{name}: CPU a delta, us": cpu_ms * 1000 / count,
        f"{name}: stdout, MB": size / 1e6,
        f"{name}: records": records,
        f"{name}: peak, MiB": memory["peak"],
        f"{name}: private afterwards, MiB": memory["private"],
    }


def abort(program: Program) -> Figures:
    """Abort answers that hang; settled is who has also answered."""
    latencies_ms: list[float] = []
    with MeasuredAgent(program) as agent:
        agent.state()
        for _ in range(ABORTS + 1):
            agent.prompt("hang")
            agent.until(b'"text_delta"')
            time.sleep(ABORT_PAUSE_S)
            sent_s = agent.send({"id": "a", "type": "abort"})
            latencies_ms.append((agent.until(b'"command":"abort"', b'"agent_settled"') - sent_s) * 1000)
            time.sleep(ABORT_PAUSE_S)
    return {"abort to settled, ms": latencies_ms[1:]}


def round_trips_ms(agent: MeasuredAgent, count: int) -> list[float]:
    """Ask for the state, again when it is answered, and so on, so many times if there is time for them."""
    found: list[float] = []
    deadline_s = time.monotonic() + MOST_READS_S
    for turn in range(count):
        if time.monotonic() > deadline_s:
            break
        sent_s = agent.send({"id": f"read-{turn}", "type": "get_state"})
        found.append((agent.until(b'"id":"read-%d"' % turn) - sent_s) * 1000)
    return found


def reads_in_a_stream(program: Program, kind: str) -> Figures:
    """Ask for the state while an answer comes."""
    with MeasuredAgent(program) as agent:
        agent.state()
        agent.prompt("hello")
        agent.until(b'"agent_settled"')
        agent.prompt(kind, 1_000_000)
        agent.until(b'"text_delta"')
        time.sleep(PAUSE_S)
        found = round_trips_ms(agent, READS_IN_A_STREAM)
        agent.send({"id": "a", "type": "abort"})
        agent.until(b'"command":"abort"', b'"agent_settled"')
    return {f"get_state while an answer comes ({kind}), ms": found}


def reads(program: Program) -> Figures:
    """Ask for the state many times, one after the other and in one write."""
    with MeasuredAgent(program) as agent:
        agent.state()
        time.sleep(SETTLE_S)
        cpu_ms = agent.cpu_ms()
        found = round_trips_ms(agent, READS)
        begun_s = agent.send(*({"id": f"z{number}", "type": "get_state"} for number in range(READS)))
        pipelined_ms = (agent.until(b'"id":"z%d"' % (READS - 1)) - begun_s) * 1000
        cpu_ms = agent.cpu_ms() - cpu_ms
    return {
        "get_state when idle, ms": found,
        f"{READS} get_state in one write, ms": pipelined_ms,
        f"{READS} get_state in turn and {READS} in one write, CPU ms": cpu_ms,
    }


def fleet(program: Program) -> Figures:
    """Start ten at once; then each has a prompt."""
    with contextlib.ExitStack() as stack:
        begun_s = time.monotonic()
        agents = [stack.enter_context(MeasuredAgent(program)) for _ in range(AGENTS)]
        for agent in agents:
            agent.send({"id": "s", "type": "get_state"})
        answered_s = max(agent.until(b'"command":"get_state"') for agent in agents)
        cpu_ms = sum(agent.cpu_ms() for agent in agents)
        time.sleep(FLEET_SETTLE_S)
        idle = [agent.memory_mib() for agent in agents]
        for agent in agents:
            agent.prompt("hello")
        for agent in agents:
            agent.until(b'{"type":"agent_end"')
        time.sleep(FLEET_SETTLE_S)
        worked = [agent.memory_mib() for agent in agents]
    figures = {
        f"{AGENTS} agents: start until all have answered, ms": (answered_s - begun_s) * 1000,
        f"{AGENTS} agents: start until all have answered, CPU ms": cpu_ms,
    }
    for when, memories in (("idle", idle), ("after a prompt", worked)):
        for name, kind in (("private", "private"), ("proportional share", "proportional")):
            figures[f"{AGENTS} agents {when}: {name}, MiB"] = sum(memory[kind] for memory in memories)
    return figures


def streamed(kind: str, count: int, *flags: str) -> Callable[[Program], Figures]:
    """Return `deltas` of a kind and a size."""
    return lambda program: deltas(program, kind, count, *flags)


def read_while(kind: str) -> Callable[[Program], Figures]:
    """Return `reads_in_a_stream` of a kind."""
    return lambda program: reads_in_a_stream(program, kind)


ITEMS: Final = (
    Item("start", start),
    Item("start", first_start),
    Item("first", first_delta),
    Item("deltas", streamed("packed", MANY)),
    Item("deltas", streamed("framed", FEWER)),
    Item("deltas", streamed("framed", MANY)),
    Item("paced", streamed("paced", PACED)),
    Item("abort", abort),
    Item("reads", reads),
    Item("reads", read_while("paced")),
    Item("reads", read_while("flood")),
    Item("fleet", fleet),
)


if __name__ == "__main__":
    # The first start of a home compiles and caches.
    compare("Measure pinnace beside the original agent.", ITEMS, before=start)
