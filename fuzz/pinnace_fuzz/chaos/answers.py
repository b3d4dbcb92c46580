"""What the model does when it is asked: one scripted answer for each name in `moves.ANSWERS`. Pure."""

from typing import Final

from pinnace_fuzz.chaos.moves import HANGING
from pinnace_fuzz.script import Scripted

FINE: Final[Scripted] = {"text": "fine", "repeat": -1}
"""When nothing else is scripted: also for what asks by itself, as a retry and a compaction do."""
LATER_S: Final = 40
"""A server that asks for so much patience: the agent is found waiting for it."""


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
