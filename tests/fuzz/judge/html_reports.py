"""JSON reports for the tests of the page: as the kit writes them, small, with one of everything."""

import copy
import json
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]

# What would act if any of it were taken for HTML, for a script, for a style or for a link.
HOSTILE: tuple[str, ...] = (
    "<script>globalThis.hit=1;alert(1)</script>",
    "</script><script>globalThis.hit=1;alert(1)</script>",
    "</style><style>*{background:url(http://evil.invalid/css)}</style>",
    '"><img src=http://evil.invalid/img onerror=globalThis.hit=1>',
    "'><svg/onload=globalThis.hit=1>",
    '" autofocus onfocus=globalThis.hit=1 x="',
    "]]>--><iframe src=http://evil.invalid/frame></iframe><!--",
    "<a href=javascript:globalThis.hit=1>x</a> `<b>` [x](javascript:alert(1))",
    "<base href=http://evil.invalid/><meta http-equiv=refresh content='0;url=http://evil.invalid/'>",
    "</title></pre></details></svg></table><form action=http://evil.invalid/><button>",
    "&lt;script&gt; &#x202e; &#0; &amp",
    "\x00\x1b[31m \x9b \x7f",
    "\ud800 \udcff \u202e\u2066\u200f \U000e0041 \ufeff\u2028\u0085",
    "};*{display:none}",
)


def line(number: int, text: str | Json, *, way: str = "out", group: int = 0, **more: Any) -> Json:
    """Write a line of a trace."""
    raw = text if isinstance(text, str) else json.dumps(text)
    return {"n": number, "at": number / 8, "dir": way, "group": group, "line": raw, **more}


def finding(source: str, *rules: str, level: str = "violation", steps: tuple[int, ...] = ()) -> Json:
    """Write a finding."""
    text = f"{source} is broken"
    return {"source": source, "rules": [*rules], "level": level, "text": text, "process": 0, "steps": [*steps]}


def case(name: str, verdict: str, *rules: str, findings: tuple[Json, ...] = (), **more: Any) -> Json:
    """Write a case."""
    base: Json = {
        "id": name,
        "title": f"The story of {name}.",
        "kind": "scenario",
        "place": "first.yaml:1",
        "rules": [*rules],
        "verdict": verdict,
        "counts": verdict in ("FAIL", "HANG", "CRASH"),
        "not_scored": "",
        "why": "",
        "shutdown": {"verdict": "clean", "text": "exit 0 in 0.01 s"},
        "seconds": 1.5,
        "reproduced": [0, 0],
        "cells": [{"state": "idle", "command": "prompt"}],
        "findings": [*findings],
        "scenario": {},
        "processes": [],
        "transcript": [],
        "reproduction": "",
        "stored": "",
    }
    return {**base, **more}


STEPS = [
    line(1, {"id": "a", "type": "prompt", "message": "hi"}, way="in", group=1),
    line(2, {"id": "b", "type": "prompt", "message": "there"}, way="in", group=1),
    line(3, {"id": "a", "type": "response", "command": "prompt", "success": True}),
    line(4, {"type": "agent_start"}),
    line(5, {"type": "tool_execution_start", "toolCallId": "c", "toolName": "bash", "args": {}}),
    line(6, {"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "delta": "x"}}),
    line(7, {"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "delta": "y"}}),
    line(8, {"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "delta": "z"}}),
    line(9, {"type": "message_end", "message": {"role": "assistant", "content": "long " * 100}}),
    line(10, '{"type":"agent_end"', characters=70_000),
    line(11, "this is no JSON \udcff"),
    line(12, {"id": "kit-1", "type": "get_state"}, way="in", group=2),
    line(13, {"type": "agent_settled"}),
]


def failure() -> Json:
    """Write a case that failed, with everything that a case can have."""
    return case(
        "QUE/two-in-one-write",
        "FAIL",
        "R-QUE-03",
        "I-QUE-2",
        findings=(finding("I-QUE-2", "R-QUE-03", steps=(2, 5)), finding("I-EVT-11", level="nonstrict", steps=(11,))),
        reproduced=[3, 3],
        processes=[
            {
                "end": {"how": "exit", "code": 1, "seconds": 0.25, "stderr": "Error: no\n"},
                "marks": [{"after": 3, "name": "here"}],
                "script_end": 11,
                "steps": copy.deepcopy(STEPS),
            }
        ],
        scenario={"id": "QUE/two-in-one-write", "client": [{"send": {"type": "prompt"}}]},
        reproduction="printf '%s\\n' '{\"type\":\"prompt\"}' | agent\npinnace-conform replay 'x y.jsonl' -- agent",
        stored=".conform/failures/I-QUE-2/1f2e.jsonl",
        why="it came again",
    )


def report(*cases: Json, name: str = "alpha", **more: Any) -> Json:
    """Write a report; without cases: with a good one and a bad one."""
    found = list(cases) or [failure(), case("PRM/one-prompt", "PASS", "R-PRM-01")]
    return {
        "conform": 1,
        "agent": {
            "name": name,
            "version": "1.0",
            "command": ["agent", "--mode", "rpc"],
            "generation": "1.5",
            "is_ours": False,
            "adapter": "pi",
            "capabilities": ["llm"],
            "commands_known": ["prompt"],
        },
        "kit": {
            "version": "pinnace-conform 0.1.0",
            "date": "2026-01-02T03:04:05+00:00",
            "seed": 77,
            "budget_s": 600.0,
            "seconds": 590.0,
            "jobs": 2,
            "strict": True,
            "only": ["QUE/"],
            "skip": ["FRM/"],
            "python": "3.12.1",
            "system": "Linux x86_64",
            "cpus": 2,
            "load": {"late_s": 0.1, "is_overloaded": False},
        },
        "summary": {
            "exit_code": 1,
            "verdicts": {},
            "shutdown": {},
            "campaigns": {"framing": {"examples": 12, "seconds": 3.0, "caught": 1, "unconfirmed": 0}},
            "baseline": {"known": [], "stale": []},
        },
        "cases": found,
        "coverage": {
            "states": ["idle", "streaming.llm"],
            "commands": ["prompt", "abort"],
            "cells": [{"state": "idle", "command": "prompt", "cases": 2}],
            "cells_reached": 1,
            "cells_all": 4,
            "records": {"response": 3},
            "records_never": ["auto_retry_start"],
            "armed": {"I-QUE-2": 1, "I-PER-1": 0},
        },
        "rules": {
            rule: {"level": "MUST", "origin": "seed", "text": f"What `{rule}` says."}
            for rule in ("R-QUE-03", "R-PRM-01")
        },
        **more,
    }


# Names in these are the agent's or the run's, not the shape's.
_OPEN = frozenset({"rules", "armed", "campaigns", "scenario"})
# What has to stay for the rest to be shown at all.
_KEPT = frozenset({"dir"})


def changed(value: Any, change: Callable[[str], str], *, is_open: bool = False) -> Any:
    """Return JSON with every text in it changed, and the names of what has names of its own."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [changed(each, change) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        (change(key) if is_open else key): each if key in _KEPT else changed(each, change, is_open=key in _OPEN)
        for key, each in value.items()
    }
