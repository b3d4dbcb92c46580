"""The script of a chaos run: moves that can be written down, read back and played again.

Pure. A move is a name and what it was drawn with; ids and texts are made when it is played, from a count, so that the
same moves have the same texts. Independent of how moves are executed.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from pinnace_fuzz.script import Scripted
from pinnace_spec.records import command_table

Drawn = Mapping[str, Any]
"""The edge of JSON: what a move was drawn with."""


class Move(NamedTuple):
    """One step of a run."""

    name: str
    """Of a method of `world.World`."""
    drawn: Drawn = MappingProxyType({})


ANSWERS: Final[Sequence[str]] = tuple(
    "text text tools tools held held hanging long refused overloaded later cut reset".split()
)
"""The behaviour of the model at a request; see `answer`."""

SETTINGS: Final[Sequence[Mapping[str, object]]] = (
    {"type": "set_model", "provider": "fake", "modelId": "m1"},
    {"type": "set_model", "provider": "fake", "modelId": "m2"},
    {"type": "set_model", "provider": "fake", "modelId": "no such model"},
    {"type": "cycle_model"},
    {"type": "set_thinking_level", "level": "high"},
    {"type": "set_thinking_level", "level": "off"},
    {"type": "cycle_thinking_level"},
    {"type": "set_steering_mode", "mode": "all"},
    {"type": "set_steering_mode", "mode": "one-at-a-time"},
    {"type": "set_follow_up_mode", "mode": "all"},
    {"type": "set_follow_up_mode", "mode": "one-at-a-time"},
    {"type": "set_auto_compaction", "enabled": False},
    {"type": "set_auto_compaction", "enabled": True},
    {"type": "set_auto_retry", "enabled": False},
    {"type": "set_auto_retry", "enabled": True},
    {"type": "set_session_name", "name": "a name"},
    {"type": "set_active_tools", "names": ["read", "bash", "edit", "write"]},
    {"type": "set_tool_approval", "mode": "read-only"},
    {"type": "set_tool_approval", "mode": "never"},
)
READS: Final[Sequence[Mapping[str, object]]] = tuple(
    {"type": name} for name in command_table.READS if name not in {"export_html", "get_branch_messages"}
)
"""Without what writes a file, and without another name of one of them."""
STOPS: Final[Sequence[Mapping[str, object]]] = (
    {"type": "abort"},
    {"type": "abort"},
    {"type": "abort", "queue": "clear"},
    {"type": "abort", "queue": "continue"},
    {"type": "abort_retry"},
    {"type": "abort_bash"},
    {"type": "clear_queue"},
)
TEXTS: Final[Sequence[Mapping[str, object]]] = (
    {"type": "prompt"},
    {"type": "prompt"},
    {"type": "prompt", "streamingBehavior": "steer"},
    {"type": "prompt", "streamingBehavior": "followUp"},
    {"type": "steer"},
    {"type": "follow_up"},
)
"""Without their texts."""
SHELLS: Final[Sequence[str]] = (
    "echo said",
    "exit 3",
    "seq 3000",
    "sleep 1000",
    "trap '' TERM; sleep 1000 & wait",
    "cd /nowhere",
)
HANGING: Final = "sleep 1000"
"""A shell command with this text ends only when it is killed."""
SESSIONS: Final[Sequence[str]] = ("new_session", "new_session", "fork", "clone", "switch_session")
ODD_LINES: Final[Sequence[str]] = (
    "",
    "{",
    "[]",
    '{"type":"no such command","id":"odd"}',
    '{"type":"prompt","id":"odd"}',
    "null",
)
RESTARTS: Final[Sequence[str]] = ("session", "session", "continue", "fresh")
"""How the next process begins: with the same file, with the newest one, with none."""


def made_command(family: str, pick: int) -> dict[str, object]:
    """Make a command of a family; without its id, and with no text of its own yet."""
    match family:
        case "ask":
            return {**TEXTS[pick], "message": ""}
        case "setting":
            return dict(SETTINGS[pick])
        case "read":
            return dict(READS[pick])
        case "stop":
            return dict(STOPS[pick])
        case "shell":
            return {"type": "bash", "command": SHELLS[pick]}
        case "replace":
            return {"type": SESSIONS[pick]}
        case "compact":
            return {"type": "compact"}
        case _:
            raise ValueError(family)


def to_text(moves: Iterable[Move], *, about: str) -> str:
    """Write a script; its first line says what it is."""
    lines = [json.dumps({"chaos": 1, "about": about})]
    return "\n".join([*lines, *(json.dumps({"move": each.name, **each.drawn}) for each in moves), ""])


def from_text(text: str) -> list[Move]:
    """Read a script.

    Raises:
        ValueError: It is none.
    """
    head, *lines = text.splitlines()
    if json.loads(head).get("chaos") != 1:
        raise ValueError("no script of a chaos run")
    read = [json.loads(line) for line in lines if line.strip()]
    return [Move(each.pop("move"), each) for each in read]


def shrink(script: Sequence[Move], is_broken: Callable[[Sequence[Move]], bool], seconds: float) -> list[Move]:
    """Remove the moves that a failure does not need, in ever smaller parts, until none can be removed or time is up."""
    ends_s = time.monotonic() + seconds
    kept, size = list(script), (len(script) + 1) // 2
    while size and time.monotonic() < ends_s:
        has_shrunk, at = False, len(kept) - size
        while at >= 0 and time.monotonic() < ends_s:
            tried = kept[:at] + kept[at + size :]
            if is_broken(tried):
                kept, has_shrunk = tried, True
            at -= size
        size = size if has_shrunk and size == 1 else size // 2
    return kept


FINE: Final[Scripted] = {"text": "fine", "repeat": -1}
"""When nothing else is scripted: also for requests of retries and compactions."""
LATER_S: Final = 40
"""A server that asks for a long delay: the agent waits for it."""


def answer(name: str, number: int) -> Scripted:
    """Make the answer with this name; the number makes its gate and its texts its own."""
    match name:
        case "text":
            return {"text": [f"part {part} of {number}. " for part in range(4)]}
        case "tools":
            calls: list[dict[str, object]] = [
                {"name": "bash", "args": {"command": f"echo {number}; seq 40"}},
                {"name": "write", "args": {"path": f"file-{number % 5}", "content": f"line {number}\n" * 50}},
                {"name": "read", "args": {"path": f"file-{number % 5}"}},
            ]
            return {"text": "now ", "tool_calls": calls[: 1 + number % 3]}
        case "held":
            return {"text": ["begun ", {"gate": gate(number)}, "ended"]}
        case "hanging":
            return {"tool_calls": [{"name": "bash", "args": {"command": f"echo {number}; {HANGING}"}}]}
        case "long":
            return {"gen": {"n": 150, "size": 40}}
        case "refused":
            return {"error": {"status": 400}}
        case "overloaded":
            return {"error": {"status": 503}}
        case "later":
            return {"error": {"status": 529, "headers": {"Retry-After": str(LATER_S)}}}
        case "cut":
            return {"chunks": [{"text": "never more than "}, {"disconnect": "rst"}]}
        case "reset":
            return {"refuse": "rst"}
        case _:
            raise ValueError(name)


def gate(number: int) -> str:
    """Name the gate of a held answer."""
    return f"gate-{number}"
