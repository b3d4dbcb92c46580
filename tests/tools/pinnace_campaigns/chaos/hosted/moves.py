"""The moves of a run against a host: what is drawn for each, and how often it comes.

Pure. Drawn from one seeded generator, so that a seed names its scripts; what can't be played in its place is skipped.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pinnace_campaigns.chaos.moves import STOPS, TEXTS, Move

CLIENTS: Final[Mapping[str, str]] = {"one": "main", "two": "main", "three": "other"}
"""Names of clients -> agents."""
NAMES: Final = tuple(CLIENTS)
VICTIMS: Final = (*NAMES, "agent", "agent", "zygote", "host")
READS: Final[Sequence[str]] = ("get_state", "get_messages", "get_session_stats", "get_tree", "get_tools")
SHELL_S: Final = (0.1, 0.5)
"""How long shell commands work behind their first effect: a death in between shows whether it is repeated. Most miss
the brief ones."""
ANSWERS: Final[Sequence[str]] = tuple("text text tools tools held held long refused cut".split())
DISKS: Final = ("agents", "host", "both", "disk")
"""Whose files may not grow (`RLIMIT_FSIZE`); or a disk that is really full."""


def _command(draw: random.Random) -> list[object]:
    family = draw.choice(["text"] * 6 + ["stop"] * 2 + ["shell"] * 2 + ["read"])
    table = {"text": len(TEXTS), "stop": len(STOPS), "shell": len(SHELL_S), "read": len(READS)}
    return [family, draw.randrange(table[family])]


def _commands(draw: random.Random, least: int, most: int) -> list[list[object]]:
    """Each for the client with this number."""
    return [[draw.randrange(len(NAMES)), *_command(draw)] for _ in range(draw.randint(least, most))]


def _answers(draw: random.Random) -> list[str]:
    return [draw.choice(ANSWERS) for _ in range(draw.randint(1, 3))]


def _send(draw: random.Random) -> Mapping[str, Any]:
    return {"commands": _commands(draw, 1, 4), "answers": _answers(draw)}


def _kill(draw: random.Random) -> Mapping[str, Any]:
    return {
        "who": draw.choice(VICTIMS),
        "pick": draw.randrange(4),
        "commands": _commands(draw, 0, 4),
        "answers": _answers(draw),
        "records": draw.choice([0, 0, 0, 1, 2, 3, 5, 8, 20, 40]),
        "later_ms": draw.choice([0, 0, 1, 2, 4, 8, 16, 32, 64, 128]),
    }


def _who(*names: str) -> Callable[[random.Random], Mapping[str, Any]]:
    return lambda draw: {"who": draw.choice(names), "pick": draw.randrange(4)}


def _name(draw: random.Random) -> Mapping[str, Any]:
    return {"name": draw.choice(NAMES)}


def _disk(draw: random.Random) -> Mapping[str, Any]:
    return {"kind": draw.choice(DISKS), "room": draw.choice([0, 1, 60, 400, 3000])}


def _nothing(_draw: random.Random) -> Mapping[str, Any]:
    return {}


TABLE: Final[Mapping[str, tuple[int, Callable[[random.Random], Mapping[str, Any]]]]] = {
    "send": (30, _send),
    "release": (10, _nothing),
    "kill": (18, _kill),
    "freeze": (6, _who(*VICTIMS)),
    "thaw": (6, _nothing),
    "leave": (4, _name),
    "attach": (8, _name),
    "take_over": (2, _name),
    "fill": (3, _disk),
    "make_room": (3, _nothing),
    "sleep": (1, _nothing),
    "restart": (2, _nothing),
    "settle": (7, _nothing),
}
"""Name of a move -> how often it comes among the others, and what is drawn for it."""


def draw_script(seed: int, steps: int) -> list[Move]:
    """Draw so many moves."""
    draw = random.Random(seed)
    weights = [weight for weight, _ in TABLE.values()]
    names = draw.choices(list(TABLE), weights, k=steps)
    return [Move(name, TABLE[name][1](draw)) for name in names]
