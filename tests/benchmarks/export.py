"""Measures an export: 5,000 messages of 400 bytes on average, 500 of them with a block of code of 20 lines.

    .venv/bin/python tests/benchmarks/export.py [--runs 5] [--out FILE.md]

What must hold on two cores: under five seconds, process start included, and a page of less than three times the
session's size. Also how long the agent takes to answer while it exports.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.harness.driver import Agent

MESSAGES: Final = 5_000
CODE_EVERY: Final = 10
MEAN_BYTES: Final = 400
WORDS: Final = (
    "the parser reads a line and `split` gives one **field** too many so the check in _validate_ counts them and "
    "nothing says which (see [the page](https://example.org/a)) but we can't know until it has run again"
).split()
CODE: Final = '''\
```python
class Window(NamedTuple):
    """A part of a text, by its lines."""

    first: int
    last: int = 0

    def text(self, lines: Sequence[str]) -> str:
        # The last line has no end of its own.
        chosen = lines[self.first : self.last or None]
        return "\\n".join(line.rstrip() for line in chosen)


def window(text: str, *, limit: int = 2_000) -> Window:
    lines = text.split("\\n")
    if len(lines) <= limit:
        return Window(0)
    for number, line in enumerate(lines):
        if line.startswith("def ") and number > limit:
            return Window(number, number + limit)
    raise ValueError(f"no window in {len(lines)} lines")
```
'''


def lines(cwd: Path) -> Iterator[str]:
    """Write a session, line by line."""
    chance = random.Random(7)
    stamp = "2026-01-01T00:00:00.000Z"
    yield json.dumps({"type": "session", "version": 3, "id": "bench", "timestamp": stamp, "cwd": str(cwd)})
    former: str | None = None
    for number in range(MESSAGES):
        entry_id = f"{number:08x}"
        entry = {"type": "message", "id": entry_id, "parentId": former, "timestamp": stamp}
        yield json.dumps({**entry, "message": message(number, text(number, chance))}, separators=(",", ":"))
        former = entry_id


def text(number: int, chance: random.Random) -> str:
    """Make the text of a message; those with code are longer, so the others are a bit shorter than the mean."""
    has_code = number % CODE_EVERY == 1
    size = max(40, int(chance.gauss(MEAN_BYTES - len(CODE) / CODE_EVERY, 120)))
    words: list[str] = []
    while sum(map(len, words)) + len(words) < size:
        words.append(chance.choice(WORDS) + ("\n\n" if chance.random() < 0.02 else ""))
    return " ".join(words) + (f"\n\n{CODE}\nThat is all." if has_code else "")


def message(number: int, said: str) -> dict[str, object]:
    """Make the message of a place: user, answer with a call, result, answer, in turn."""
    cost = {"input": 0.001, "output": 0.002, "cacheRead": 0, "cacheWrite": 0, "total": 0.003}
    usage = {"input": 900, "output": 100, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 1000, "cost": cost}
    block = {"type": "text", "text": said}
    answer = {
        "role": "assistant",
        "content": [block],
        "api": "openai-completions",
        "provider": "fake",
        "model": "m1",
        "usage": usage,
        "stopReason": "stop",
        "timestamp": number,
    }
    match number % 4:
        case 0:
            return {"role": "user", "content": [block], "timestamp": number}
        case 1:
            call = {"type": "toolCall", "id": f"c{number}", "name": "bash", "arguments": {"command": "make test"}}
            return {**answer, "content": [block, call], "stopReason": "toolUse"}
        case 2:
            result = {"role": "toolResult", "toolCallId": f"c{number - 1}", "toolName": "bash", "content": [block]}
            return {**result, "isError": False, "timestamp": number}
        case _:
            return answer


def command_line(session: Path, page: Path) -> float:
    """Return how long `pinnace --export` takes."""
    started_s = time.perf_counter()
    subprocess.run(
        [sys.executable, "-P", "-m", "pinnace_rpc", "--export", str(session), str(page)],
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - started_s


def answers_meanwhile(session: Path, page: Path, home: Path) -> tuple[float, list[float]]:
    """Return how long the command takes, and how long each `get_state` that was sent meanwhile."""
    prepared = prepare_pi_home(home, "http://127.0.0.1:9", env={"PYTHONPATH": os.pathsep.join(sys.path)})
    command = [sys.executable, "-P", "-m", "pinnace_rpc", *prepared.arguments, "--session", str(session)]
    command.remove("--no-session")
    agent = Agent(command, cwd=prepared.work, env=prepared.env)
    with agent:
        agent.request({"type": "get_state"})
        started_s = time.perf_counter()
        agent.send({"id": "export", "type": "export_html", "outputPath": str(page)})
        waited: list[float] = []
        while not agent.found({"type": "response", "id": "export"}):
            asked_s = time.perf_counter()
            agent.request({"type": "get_state"})
            waited.append(time.perf_counter() - asked_s)
            time.sleep(0.02)
        return time.perf_counter() - started_s, waited


def main() -> None:
    """Measure and write a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        session, page = Path(folder, "bench.jsonl"), Path(folder, "bench.html")
        session.write_text("".join(f"{line}\n" for line in lines(Path(folder))))
        took = [command_line(session, page) for _ in range(options.runs)]
        rows = [
            ("session, MB", f"{session.stat().st_size / 1e6:.2f}"),
            ("page, MB", f"{page.stat().st_size / 1e6:.2f}"),
            ("page / session", f"{page.stat().st_size / session.stat().st_size:.2f}"),
            ("--export, s, median", f"{statistics.median(took):.2f}"),
            ("--export, s, worst", f"{max(took):.2f}"),
        ]
        export_s, waited = answers_meanwhile(session, page, Path(folder, "home"))
        rows += [
            ("export_html, s", f"{export_s:.2f}"),
            ("get_state meanwhile, ms, median", f"{statistics.median(waited) * 1e3:.0f}"),
            ("get_state meanwhile, ms, worst", f"{max(waited) * 1e3:.0f}"),
        ]
    table = "".join(f"| {name} | {value} |\n" for name, value in (("", ""), ("---", "---:"), *rows))
    (options.out.write_text if options.out else sys.stdout.write)(table)


if __name__ == "__main__":
    main()
