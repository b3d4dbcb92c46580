"""What the model answers: a script of turns that the seed draws, for the agent's provider `offline`. And settings.

The provider plays it in the agent's process, so requests over HTTP are not simulated. Turns are answers of some words,
calls of tools that only read, failures with a status that is retried or not, failures in the middle, answers that fill
the context, answers of many kilobytes, and answers that never end. The script of a calm history, or of the end of each,
has answers alone.
"""

import json
import random
from collections.abc import Mapping, Sequence
from typing import Final

MODEL: Final = "offline/rehearsal"
SCRIPT_VARIABLE: Final = "PINNACE_OFFLINE_SCRIPT"
READ_FILE: Final = "notes.txt"
"""A file in the working folder, which calls read."""
TOOLS: Final = "read,ls"
_TURNS: Final = 60
_LONG_TURNS: Final = 0.03
_KEPT_TOKENS: Final = (20_000, 500, 50)
"""How much of a conversation a compaction keeps: with little, most of them find something to summarise."""
_WORDS: Final = ("one", "two", "three", "four", "five", "six", "seven")
_DELAYS_MS: Final = (0, 0, 1, 15, 15, 200)
_SLOW_MS: Final = 8_000
_STATUSES: Final = (400, 429, 500, 503)
CALLS: Final[Sequence[Mapping[str, object]]] = (
    {"name": "read", "arguments": {"path": READ_FILE}},
    {"name": "read", "arguments": {"path": "missing.txt"}},
    {"name": "ls", "arguments": {"path": "."}},
)
"""Those of the model, if a history has no others."""


def draw_script(
    draws: random.Random, calls: Sequence[Mapping[str, object]] = CALLS, *, trouble: float, is_slow: bool = False
) -> bytes:
    """Draw a script, as JSON.

    Args:
        draws: Decides.
        calls: The calls that turns have.
        trouble: How many turns fail, or never end; a probability.
        is_slow: Whether every turn takes some seconds.
    """
    turns: list[dict[str, object]] = []
    while len(turns) < _TURNS:
        turns.append(turn := _turn(draws, calls, trouble))
        while "error" in turn and draws.random() < 0.5:  # an attempt that fails again
            turns.append(turn)
    slow = {"start_delay_ms": _SLOW_MS} if is_slow else {}
    return json.dumps({"turns": [{**turn, **slow} for turn in turns]}).encode()


def draw_settings(draws: random.Random) -> bytes:
    """Draw the user's settings, as JSON."""
    return json.dumps({"compaction": {"keepRecentTokens": draws.choice(_KEPT_TOKENS)}}).encode()


def _turn(draws: random.Random, calls: Sequence[Mapping[str, object]], trouble: float) -> dict[str, object]:
    text = [f"{draws.choice(_WORDS)} " for _ in range(draws.randrange(1, 12))]
    is_long = draws.random() < _LONG_TURNS  # more than a client's pipe takes while it does not read
    if is_long:
        text = [word * 100 for word in text for _ in range(5)]
    turn: dict[str, object] = {"text": text, "delay_ms": draws.choice(_DELAYS_MS)}
    if is_long or draws.random() < 0.3:
        turn["tools"] = [draws.choice(calls) for _ in range(draws.randrange(1, 4))]
    if draws.random() < 0.1:
        turn["usage"] = {"input": draws.choice((50_000, 125_000)), "output": 10}
    if draws.random() >= trouble:
        return turn
    match draws.randrange(3):
        case 0:
            turn["error"] = {"status": draws.choice(_STATUSES), "message": "no answer"}
        case 1:
            turn["error"] = {"message": "the connection was lost"}
        case _:
            turn["hang"] = True
    turn.pop("tools", None)
    return turn
