"""The script of a chaos run: moves that can be written down, read back and played again.

Pure. A move is a name and what it was drawn with; ids and texts are made when it is played, from a count, so that
the same moves say the same. Must not know how anything is done.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

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
"""What the model does when it is asked; see `answers.answer`."""

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
)
READS: Final[Sequence[Mapping[str, object]]] = tuple(
    {"type": name}
    for name in (
        *("get_state", "get_messages", "get_session_stats", "get_last_assistant_text", "get_commands", "get_tree"),
        *("get_available_models", "get_fork_messages", "get_entries", "get_available_thinking_levels"),
    )
)
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
"""A shell command with this in it ends only when somebody ends it."""
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
