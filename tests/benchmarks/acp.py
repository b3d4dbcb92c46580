"""Measures the agent of editors beside mode rpc, and beside pi-acp with an agent of pi for each session.

    .venv/bin/python tests/benchmarks/acp.py [--runs 5] [--only start,sessions,many,cancel] [--out FILE.md]

What a bar compares is measured in turns in one run: the first answer of `pinnace acp` with that of mode rpc, and ten
sessions of one connection with ten of pi-acp 0.0.34 and pi 1.5.2, which takes a connection for each. Fifty sessions of
one connection are measured alone: the memory of the process of one and of all, adapter included, and the processor that
they take when idle. A cancellation is
measured from its line to the response of the prompt, while an answer of the model has begun. Each row is a median with
its range, its bar and whether the median meets it. Judges nothing: times belong to a machine.
"""

import argparse
import json
import os
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from side_by_side import NODE, ORIGINAL, OURS, TOOLS, MeasuredAgent, Program, cell, install_product, model_server

from pinnace_fuzz.harness.adapters import prepare_pi_home

ADAPTER: Final = [NODE, TOOLS / "pi-acp-0.0.34" / "node_modules" / "pi-acp" / "dist" / "index.js"]
SESSIONS: Final = 10
MANY: Final = 50
IDLE_S: Final = 10.0
CANCELS: Final = 20
# Agents of the sessions finish what they begin at their start, and the memory is what stays.
SETTLE_S: Final = 3.0
Figures = Mapping[str, float]
Programs = Mapping[str, Program]
BARS: Final[Mapping[str, float]] = {
    "initialize answered, of the first answer of mode rpc": 1.2,
    "ten sessions: time to the tenth, of pi-acp's": 0.4,
    "ten sessions: proportional memory of all, of pi-acp's": 0.4,
    "ten sessions: private memory of all, of pi-acp's": 0.4,
    "fifty sessions: private memory of one, MiB": 12.0,
    "fifty sessions, idle: processor of all, % of one core": 0.5,
    "session/cancel to the response, ms": 10.0,
}
"""What a figure must come to, at most."""


def request(identity: object, method: str, **params: object) -> dict[str, object]:
    """Write a request."""
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


def answer_of(identity: str) -> bytes:
    """Return what the response of a request that succeeds has; both programs write no spaces."""
    return f'"id":{json.dumps(identity)},"result":'.encode()


GREETING: Final = request("i", "initialize", protocolVersion=1, clientCapabilities={})


def initialize(agent: MeasuredAgent) -> float:
    """Greet an agent and return when its answer was there."""
    agent.send(GREETING)
    return agent.until(answer_of("i"))


def new_session(identity: str, folder: Path) -> dict[str, object]:
    """Ask for a session in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    return request(identity, "session/new", cwd=str(folder), mcpServers=[])


def start(programs: Programs) -> Figures:
    """Measure the first answer of both modes."""
    with MeasuredAgent(programs["acp"]) as agent:
        acp_s = initialize(agent) - agent.begun_s
    with MeasuredAgent(programs["rpc"]) as agent:
        rpc_s = agent.state() - agent.begun_s
    return {
        "initialize answered, ms": acp_s * 1000,
        "first answer of mode rpc, ms": rpc_s * 1000,
        "initialize answered, of the first answer of mode rpc": acp_s / rpc_s,
    }


def sessions(programs: Programs) -> Figures:
    """Measure ten sessions: when the last is open, and the memory of all processes then.

    All are of one connection; of pi-acp, which ends a session when its connection opens another, each has its own.
    """
    found: dict[str, float] = {}
    names = [f"s{number}" for number in range(SESSIONS)]
    for name, groups in (("acp", [names]), ("pi-acp", [[each] for each in names])):
        program = programs[name]
        with ExitStack() as stack:
            begun_s = time.monotonic()
            agents = [stack.enter_context(MeasuredAgent(program)) for _ in groups]
            for agent, group in zip(agents, groups, strict=True):
                agent.send(GREETING, *(new_session(each, program.home.work / each) for each in group))
            ends_s = [agent.until(*map(answer_of, group)) for agent, group in zip(agents, groups, strict=True)]
            time.sleep(SETTLE_S)
            memory = [agent.memory_mib() for agent in agents]
        label = "pinnace acp" if name == "acp" else "pi-acp"
        found[f"ten sessions of {label}: time to the tenth, s"] = max(ends_s) - begun_s
        for kind in ("proportional", "private"):
            found[f"ten sessions of {label}: {kind} memory of all, MiB"] = sum(each[kind] for each in memory)
    for kind in ("time to the tenth, s", "proportional memory of all, MiB", "private memory of all, MiB"):
        ours, theirs = (found[f"ten sessions of {label}: {kind}"] for label in ("pinnace acp", "pi-acp"))
        found[f"ten sessions: {kind.rpartition(',')[0]}, of pi-acp's"] = ours / theirs
    return found


def many(programs: Programs) -> Figures:
    """Measure fifty sessions of one connection: the memory of all processes, and the processor while they are idle."""
    program = programs["acp"]
    names = [f"m{number}" for number in range(MANY)]
    with MeasuredAgent(program) as agent:
        begun_s = agent.send(GREETING, *(new_session(name, program.home.work / name) for name in names))
        open_s = agent.until(*map(answer_of, names)) - begun_s
        time.sleep(SETTLE_S)
        before_ms = agent.family_cpu_ms()
        time.sleep(IDLE_S)
        used_ms = agent.family_cpu_ms() - before_ms
        each = [memory["private"] for memory in agent.memories_mib()]
    return {
        "fifty sessions: time to the last, s": open_s,
        "fifty sessions: private memory of one, MiB": statistics.median(each),
        "fifty sessions: private memory of all, MiB": sum(each),
        "fifty sessions, idle: processor of all, % of one core": used_ms / IDLE_S / 10,
    }


def cancel(programs: Programs) -> Figures:
    """Measure cancellations of answers that have begun."""
    program = programs["acp"]
    took_ms: list[float] = []
    with MeasuredAgent(program) as agent:
        initialize(agent)
        agent.kept = []
        agent.send(new_session("s", program.home.work))
        agent.until(answer_of("s"))
        lines = b"".join(agent.kept).splitlines()
        session = next(json.loads(line) for line in lines if answer_of("s") in line)["result"]["sessionId"]
        agent.kept = None
        for number in range(CANCELS):
            prompt = [{"type": "text", "text": "bench:hang:0"}]
            agent.send(request(f"p{number}", "session/prompt", sessionId=session, prompt=prompt))
            agent.until(b'"agent_message_chunk"')
            line = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
            begun_s = agent.send(line)
            took_ms.append((agent.until(answer_of(f"p{number}")) - begun_s) * 1000)
    return {"session/cancel to the response, ms": statistics.median(took_ms)}


GROUPS: Final[Mapping[str, Callable[[Programs], Figures]]] = {
    "start": start,
    "sessions": sessions,
    "many": many,
    "cancel": cancel,
}


def prepared(root: Path, address: str) -> Programs:
    """Lay out a home for each program."""
    settings = {"defaultProvider": "fake", "defaultModel": "m1", "quietStartup": True}
    pi = root / "bin" / "pi"
    pi.parent.mkdir()
    pi.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, ORIGINAL))} "$@"\n')
    pi.chmod(0o755)
    found: dict[str, Program] = {}
    for name, command in (("acp", [*OURS, "acp"]), ("rpc", OURS), ("pi-acp", ADAPTER)):
        home = prepare_pi_home(root / name, address, settings=settings, path_first=pi.parent, has_session=True)
        home = home if name == "rpc" else home._replace(arguments=())
        env = {**home.env, "PI_ACP_PI_COMMAND": str(pi)}
        found[name] = Program(name, [*map(str, command)], home._replace(env=env))
    return found


def table(samples: Mapping[str, Sequence[float]]) -> list[str]:
    """Write the rows: the figures with bars first."""
    lines = ["| figure | measured | wanted | |", "|---|---|---|---|"]
    for figure in sorted(samples, key=lambda figure: figure not in BARS):
        if (bar := BARS.get(figure)) is None:
            lines.append(f"| {figure} | {cell(samples[figure])} | | |")
        else:
            verdict = "met" if statistics.median(samples[figure]) <= bar else "**not met**"
            lines.append(f"| {figure} | {cell(samples[figure])} | at most {bar:g} | {verdict} |")
    return lines


def main() -> None:
    """Measure and print, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="of each item and program")
    parser.add_argument("--only", default=",".join(GROUPS), help=f"some of: {','.join(GROUPS)}")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    given = parser.parse_args()
    install_product()
    if missing := [str(path) for path in (*ORIGINAL, *ADAPTER) if not path.exists()]:
        parser.error(f"{', '.join(missing)} not there: scripts/peers installs them")
    root = Path(tempfile.mkdtemp(prefix="pinnace-bench-"))
    samples: dict[str, list[float]] = {}
    try:
        with model_server() as address:
            programs = prepared(root, address)
            for _ in range(given.runs):
                for name in given.only.split(","):
                    for figure, value in GROUPS[name](programs).items():
                        samples.setdefault(figure, []).append(value)
                sys.stderr.write(".")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}"
    lines = [*table(samples), "", f"{machine}; median (range) of {given.runs} runs in turns."]
    sys.stdout.write("\n".join(lines) + "\n")
    if given.out is not None:
        given.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
