"""Measures grep and find inside a running agent beside the programs that they use, on a tree of 50,000 files.

    .venv/bin/python tests/benchmarks/search.py [--files 50000] [--runs 7]

A tool's time is from its start's record to that of its end, as a client sees them; a program's is that of a process
whose output is read and thrown away. They take turns, so that a busy moment of the machine hits both. Prints
milliseconds, median and range, and the ratio of the medians. What is asked for: grep 1.5 of `rg --json`, find 1.5 of
fd, without fd 5 of `rg --files`. Judges nothing.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_agent.tools.local.search_program import find_fd, find_rg
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

COMMAND: Final = (sys.executable, "-P", "-m", "pinnace_rpc", "--tools", "grep,find")
FILES_A_FOLDER: Final = 100
LINES_A_FILE: Final = 20
ALL: Final = 10_000_000
TIMEOUT_S: Final = 120.0

_RG: Final = find_rg(os.environ) or sys.exit("ripgrep is not there")
_FD: Final = find_fd(os.environ)
_GREP: Final = (_RG, "--no-config", "--json", "--line-number", "--color=never", "--hidden")
_FILES: Final = (_RG, "--no-config", "--files", "--null", "--hidden")


class Pair(NamedTuple):
    """A call of a tool and the command to hold it against."""

    name: str
    tool: str
    args: Mapping[str, object]
    command: Sequence[str]
    has_fd: bool = True


def pairs() -> list[Pair]:
    """Return what is measured."""
    grep = [
        Pair(name, "grep", {"pattern": pattern, "limit": limit}, (*_GREP, "--", pattern, "."))
        for name, pattern, limit in (
            ("grep, one match", "needle", 100),
            ("grep, no match", "no such thing", 100),
            ("grep, a match in every file, all wanted", "word 7 ", ALL),
            ("grep, a match in every file, 100 wanted", "word 7 ", 100),
        )
    ]
    patterns = (("a few files", "file-77.txt", ALL), ("all files", "*", ALL), ("paths", "folder-1*/*.txt", ALL))
    finds: list[Pair] = []
    for name, pattern, limit in patterns:
        args = {"pattern": pattern, "limit": limit}
        if _FD is not None:
            full = ("--full-path", f"**/{pattern}") if "/" in pattern else (pattern,)
            finds.append(Pair(f"find with fd, {name}", "find", args, (_FD, "--hidden", "--print0", "--glob", *full)))
        finds.append(Pair(f"find without fd, {name}", "find", args, _FILES, has_fd=False))
    return grep + finds


def lay_out(folder: Path, files: int) -> None:
    """Write the tree, a repository with some ignored files."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".gitignore").write_text("*.log\n")
    text = "".join(f"line with word {number} in it\n" for number in range(LINES_A_FILE))
    for number in range(files):
        place = folder / f"folder-{number // FILES_A_FOLDER}"
        place.mkdir(exist_ok=True)
        suffix = "log" if number % FILES_A_FOLDER == 0 else "txt"
        (place / f"file-{number % FILES_A_FOLDER}.{suffix}").write_text(text)
    (folder / "folder-0/needle.txt").write_text("a needle\n")


def tool_ms(pi: HomedAgent, pair: Pair) -> float:
    """Have the agent make the call; return how long it took."""
    pi.llm.add({"tool_calls": [{"name": pair.tool, "args": dict(pair.args)}]})
    pi.llm.add({"text": "done"})
    begin = pi.mark()
    pi.send({"type": "prompt", "message": "go"})
    times: list[float] = []
    for kind in ("tool_execution_start", "tool_execution_end"):
        received = pi.journal.find({"type": kind}, begin, TIMEOUT_S)
        assert received is not None
        times.append(received.time_s)
    assert received is not None
    assert not received.record["isError"], received.record
    assert pi.journal.find({"type": "agent_settled"}, begin, TIMEOUT_S) is not None
    return (times[1] - times[0]) * 1000


def program_ms(command: Sequence[str], folder: Path) -> float:
    """Run a command and throw away what it says; return how long it took."""
    begun_s = time.monotonic()
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while os.read(process.stdout.fileno(), 1 << 16):
            pass
    return (time.monotonic() - begun_s) * 1000


def row(name: str, tool: Sequence[float], program: Sequence[float]) -> str:
    """Write a row of the table."""
    cells = (f"{statistics.median(each):.0f} ({min(each):.0f}..{max(each):.0f})" for each in (tool, program))
    return f"| {name} | {' | '.join(cells)} | {statistics.median(tool) / statistics.median(program):.2f} |"


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    with ExitStack() as stack:
        root = Path(tempfile.mkdtemp(prefix="pinnace-bench-"))
        stack.callback(shutil.rmtree, root)
        tree = root / "tree"
        lay_out(tree, options.files)
        without = root / "bin"
        without.mkdir()
        (without / "rg").symlink_to(_RG)
        starter = stack.enter_context(AgentStarter(COMMAND, root))
        agents = {True: starter(is_checked=False), False: starter(is_checked=False, env={"PATH": str(without)})}
        print("| milliseconds | tool | program | ratio |\n|---|---|---|---|")
        for pair in pairs():
            pair = pair._replace(args={**pair.args, "path": str(tree)})
            pi = agents[pair.has_fd]
            # The first run of each meets files that are not in memory yet, and does not count.
            samples = [(tool_ms(pi, pair), program_ms(pair.command, tree)) for _ in range(options.runs + 1)][1:]
            print(row(pair.name, *zip(*samples, strict=True)), flush=True)
        print(f"\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {options.files} files")


if __name__ == "__main__":
    main()
