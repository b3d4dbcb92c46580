"""What `get_session_stats` counts in each profile, of a session of which the context is a small part. Rule R-STA-08."""

import json
from pathlib import Path

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter
from pinnace_spec.profiles.profiles import ClientProfile

# What releases 0.80.2 and 1.5.2 answer to it.
CONTEXT = {"userMessages": 2, "assistantMessages": 1, "toolCalls": 0, "toolResults": 0, "totalMessages": 6}
WHOLE = {"userMessages": 4, "assistantMessages": 4, "toolCalls": 2, "toolResults": 2, "totalMessages": 11}


def _in_branches() -> bytes:
    """A session with two branches, a compaction, results with a usage, and entries that are no messages."""
    usage = {
        **dict.fromkeys(("input", "output"), 10),
        **dict.fromkeys(("cacheRead", "cacheWrite"), 1),
        "totalTokens": 22,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.25},
    }
    call = {"type": "toolCall", "name": "read", "arguments": {"path": "x"}}
    text = {"type": "text", "text": "t"}
    shell = {"command": "ls", "output": "x", "exitCode": 0, "cancelled": False, "truncated": False}

    def user() -> Record:
        return {"role": "user", "content": [text]}

    def answer(*calls: str) -> Record:
        content = [text, *({**call, "id": each} for each in calls)]
        model = {"api": "openai-completions", "provider": "fake", "model": "m1"}
        return {"role": "assistant", "content": content, **model, "usage": usage, "stopReason": "stop"}

    def result(call_id: str, **more: object) -> Record:
        return {
            "role": "toolResult", "toolCallId": call_id, "toolName": "read", "content": [text], "isError": False, **more
        }  # fmt: skip

    left = [user(), answer("c1", "c2"), result("c1", usage=usage), result("c2"), answer(), user(), answer()]
    rows: list[tuple[int, Record]] = [(place, {"message": each}) for place, each in enumerate(left)]
    rows += [
        (5, {"type": "branch_summary", "fromId": "7", "summary": "left", "usage": usage}),
        (8, {"message": user()}),
        (9, {"message": {"role": "bashExecution", **shell}}),
        (10, {"type": "custom_message", "customType": "x", "content": "hello", "display": True}),
        (11, {"type": "compaction", "summary": "S", "firstKeptEntryId": "9", "tokensBefore": 500, "usage": usage}),
        (12, {"message": user()}),
        (13, {"message": answer()}),
    ]
    head = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}
    lines: list[Record] = [head]
    for number, (parent, row) in enumerate(rows, 1):
        if "message" in row:
            row["message"]["timestamp"] = 1_767_225_600_000 + number
        ids = {"id": str(number), "parentId": str(parent) if parent else None}
        lines.append({"type": "message", **ids, "timestamp": f"2026-01-01T00:00:{number:02}.000Z", **row})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def test_the_stats_of_a_profile_count_what_its_release_counts(agent: AgentStarter, tmp_path: Path) -> None:
    """R-STA-08: as measured of the original with the same file."""
    path = tmp_path / "branches.jsonl"
    path.write_bytes(_in_branches())
    profiles: dict[ClientProfile, Record] = {"pi": CONTEXT, "1.5": WHOLE, "seed": CONTEXT}
    for protocol, expected in profiles.items():
        pi = agent((), "--session", str(path), protocol=protocol, has_session=True)
        stats = pi.ask("get_session_stats")
        whole = expected is WHOLE
        assert {name: stats[name] for name in expected} == expected
        assert (stats["tokens"]["total"], stats["cost"]) == ((154, 1.75) if whole else (22, 0.25))
        if protocol != "seed":
            assert stats["session"] == {**WHOLE, "tokens": {
                "input": 70, "output": 70, "cacheRead": 7, "cacheWrite": 7, "total": 154,
            }, "cost": 1.75}  # fmt: skip
        pi.close_stdin()
        assert pi.wait_exit() == 0
