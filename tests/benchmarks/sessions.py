"""Measures sessions beside the original agent: opening and finding them, and one that goes on for 2,000 turns.

    .venv/bin/python tests/benchmarks/sessions.py [--runs 3] [--only open,find,turns] [--out FILE.md]

Neither program lists sessions by a command of the protocol; both have to look through a folder for `--continue` and
for a part of an id, and pinnace prints a list. The model of the long conversation answers at once with one word.
"""

import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import long_session
from side_by_side import AS_ORIGINAL, Figures, Item, MeasuredAgent, Program, compare, number

SIZES: Final = (100, 20_000, 200_000)
FOLDER: Final = 2_000
"""Sessions in the folder that is looked through."""
ENTRIES: Final = 20
"""Messages of each of them."""
WANTED: Final = 1_234
TURNS: Final = 2_000
PART: Final = 100
"""Turns whose median is one point."""
SETTLE_S: Final = 1.0


def folder_of(program: Program) -> Path:
    """Return a folder of many sessions; it is made if it is not there."""
    folder = program.home.root / "many"
    if not folder.exists():
        folder.mkdir()
        body = list(long_session.lines(program.home.work, ENTRIES))
        head = json.loads(body[0])
        for place in range(FOLDER):
            stamp = f"2026-01-01T{place // 3600:02}:{place // 60 % 60:02}:{place % 60:02}.000Z"
            head |= {"id": session_id(place), "timestamp": stamp}
            name = f"{stamp.translate(str.maketrans(':.', '--'))}_{head['id']}.jsonl"
            (folder / name).write_text("\n".join([json.dumps(head), *body[1:]]) + "\n")
    return folder


def session_id(place: int) -> str:
    """Return the id of a session of the folder."""
    return f"{place:08x}-0000-7000-8000-000000000000"


def found(program: Program) -> Figures:
    """Start with the newest session of many, and with one that a part of its id names."""
    folder = str(folder_of(program))
    figures: dict[str, float] = {}
    for name, flags in (("--continue", ("--continue",)), ("--session ID", ("--session", session_id(WANTED)[:13]))):
        with MeasuredAgent(program, *flags, "--session-dir", folder) as agent:
            figures[f"start with {name}, {FOLDER:,} sessions, ms"] = (agent.state() - agent.begun_s) * 1000
    return figures


def listed(program: Program, folder: Path, name: str) -> Figures:
    """Print the list of a folder's sessions."""
    command = [item for item in program.command if item not in AS_ORIGINAL]
    begun_s = time.monotonic()
    done = subprocess.run(
        [*command, "sessions", "--session-dir", str(folder)],
        cwd=program.home.work,
        env=program.home.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
    )
    took_ms = (time.monotonic() - begun_s) * 1000
    if not done.stdout:
        raise RuntimeError("nothing is listed")
    return {f"`pinnace sessions`, {name}, ms": took_ms}


def list_many(program: Program) -> Figures:
    """List many short sessions."""
    return listed(program, folder_of(program), f"{FOLDER:,} sessions")


def list_long(size: int) -> Callable[[Program], Figures]:
    """Return what lists one session of a length."""

    def measure(program: Program) -> Figures:
        path = long_session.session_of(program, size)
        folder = path.parent / f"alone-{size}"
        folder.mkdir(exist_ok=True)
        if not (folder / path.name).exists():
            (folder / path.name).hardlink_to(path)
        return listed(program, folder, f"a session of {size:,} messages")

    return measure


def turns(program: Program) -> Figures:
    """Hold a long conversation."""
    took_ms: list[float] = []
    cpus_ms: list[float] = []
    with MeasuredAgent(program) as agent:
        agent.state()
        for turn in range(TURNS):
            if turn % PART == 0:
                cpus_ms.append(agent.cpu_ms())
            sent_s = agent.prompt("hello")
            took_ms.append((agent.until(b'"agent_settled"') - sent_s) * 1000)
            if turn == PART:
                begin = agent.memory_mib()
        cpus_ms.append(agent.cpu_ms())
        time.sleep(SETTLE_S)
        end = agent.memory_mib()
    medians = [statistics.median(took_ms[at : at + PART]) for at in range(0, TURNS, PART)]
    figures: dict[str, float | list[float]] = {
        f"a turn, turns {number(PART + 1)} to {number(2 * PART)}, ms": medians[1],
        f"a turn, turns {TURNS - PART + 1:,} to {TURNS:,}, ms": medians[-1],
        f"a turn, turns {number(PART + 1)} to {number(2 * PART)}, CPU ms": (cpus_ms[2] - cpus_ms[1]) / PART,
        f"a turn, turns {TURNS - PART + 1:,} to {TURNS:,}, CPU ms": (cpus_ms[-1] - cpus_ms[-2]) / PART,
        f"after {TURNS:,} turns: private, MiB": end["private"],
        f"after {TURNS:,} turns: more than after {PART}, private, MiB": end["private"] - begin["private"],
        f"after {TURNS:,} turns: proportional share, MiB": end["proportional"],
    }
    figures |= {f"a turn at {at * PART + PART // 2:,}, ms": value for at, value in enumerate(medians)}
    return figures


def open_of(size: int) -> Callable[[Program], Figures]:
    """Return what opens a session of a length."""
    return lambda program: long_session.opened(program, size)


def open_with_blanks(program: Program) -> Figures:
    """Open a session that another program wrote: with a blank behind each comma and colon."""
    return long_session.opened(program, has_blanks=True)


LIGHT: Final = (
    Item("open", open_with_blanks),
    Item("find", found),
    Item("find", list_many, is_ours_only=True),
    Item("turns", turns),
)
ITEMS: Final = (
    *(Item("open", open_of(size)) for size in SIZES),
    *(Item("find", list_long(size), is_ours_only=True) for size in SIZES),
    *LIGHT,
)

if __name__ == "__main__":
    compare("Measure sessions beside the original agent.", ITEMS, before=open_of(SIZES[0]), has_session=True)
