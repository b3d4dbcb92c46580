"""The states that campaigns begin in: how an agent is brought there, deterministically, by gates."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pinnace_fuzz.judge.campaigns.cases import Command

START: Command = {"id": "p", "type": "prompt", "message": "START"}


class ReachedState(NamedTuple):
    """The model's lines and the client's steps that lead to a state."""

    llm: tuple[Mapping[str, Any], ...] = ()
    client: tuple[Any, ...] = ()
    needs: tuple[str, ...] = ("llm",)
    settings: Mapping[str, Any] | None = None


STATES: Mapping[str, ReachedState] = {
    "idle": ReachedState(),
    "llm": ReachedState(({"gate": "g", "text": ["one", " two"]},), ({"send": START}, {"requests": 1})),
    "tools": ReachedState(
        ({"tool": {"name": "bash", "args": {"command": "${gate:t}; echo ready"}}},),
        ({"send": START}, {"try": "tool_start"}),
        ("llm", "tools"),
    ),
    "queued": ReachedState(
        ({"gate": "g", "text": ["one", " two"]},),
        (
            {"send": START},
            {"requests": 1},
            {
                "send": [
                    {"id": "q1", "type": "steer", "message": "STEERED"},
                    {"id": "q2", "type": "follow_up", "message": "FOLLOWED"},
                ]
            },
            {"try": "resp(q2)"},
        ),
    ),
    "text": ReachedState(({"text": ["one", {"gate": "g"}, " two"]},), ({"send": START}, {"try": "delta"})),
    "after": ReachedState(({"text": "first answer"},), ({"send": START}, "quiet")),
    "retrying": ReachedState(
        ({"error": 529},),
        ({"send": START}, {"try": "retry_start"}),
        ("llm", "settings"),
        {"retry": {"enabled": True, "maxRetries": 2, "baseDelayMs": 1200}},
    ),
    "compacting": ReachedState(
        ({"text": "first answer"}, {"text": "second answer"}, {"gate": "g", "text": "a summary"}),
        (
            {"send": START},
            "quiet",
            {"send": {**START, "id": "p2"}},
            "quiet",
            {"send": {"id": "k", "type": "compact"}},
            {"try": "compaction_start"},
        ),
        ("llm", "settings"),
    ),
    "shell": ReachedState(
        (), ({"send": {"id": "sh", "type": "bash", "command": "${gate:s}; echo ready"}}, {"reached": "s"}), ("bash",)
    ),
}
