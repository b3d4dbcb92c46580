"""Measures what one extension in TypeScript costs: a start, memory, and a forwarded event.

What node has compiled is kept in the home of each program, and there before anything is measured.
"""

import time
from pathlib import Path
from typing import Final

from side_by_side import Figures, MeasuredAgent, Numbers, Program

SETTLE_S: Final = 1.0
HANDLED: Final = 300
EXTENSION: Final = """
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

export default function (pi: ExtensionAPI) {
  pi.on("input", (event) => (event.text === "handled" ? { action: "handled" } : undefined));
}
"""


def costs(program: Program) -> Figures:
    """Start it without and with the extension, one after the other, and send prompts that the extension handles."""
    plain_ms, plain = _idle(program)
    path = Path(program.home.work) / "handles.ts"
    path.write_text(EXTENSION)
    if not (marker := path.with_suffix(".warm")).exists():
        _idle(program, "-e", str(path))
        marker.touch()
    extended_ms, extended = _idle(program, "-e", str(path))
    return {
        "without it: CPU, ms": plain_ms,
        "with it: CPU, ms": extended_ms,
        "with it: private, MiB": extended["private"],
        "what it needs more: CPU, ms": extended_ms - plain_ms,
        "what it needs more: private, MiB": extended["private"] - plain["private"],
        "what it needs more: proportional share, MiB": extended["proportional"] - plain["proportional"],
        "prompt that it handles, ms": _handled(program, path),
    }


def _idle(program: Program, *flags: str) -> tuple[float, Numbers]:
    with MeasuredAgent(program, *flags) as agent:
        agent.state()
        time.sleep(SETTLE_S)
        return agent.family_cpu_ms(), agent.memory_mib()


def _handled(program: Program, path: Path) -> list[float]:
    latencies_ms: list[float] = []
    with MeasuredAgent(program, "-e", str(path)) as agent:
        agent.state()
        for _ in range(HANDLED + 1):
            sent_s = agent.send({"id": "h", "type": "prompt", "message": "handled"})
            latencies_ms.append((agent.until(b'"command":"prompt"') - sent_s) * 1000)
    return latencies_ms[1:]
