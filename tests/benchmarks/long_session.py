"""Measures a session of 20,000 messages beside the original agent: opening it, reading it, going on with it.

    .venv/bin/python tests/benchmarks/long_session.py [--runs 5] [--out FILE.md]

Both open a file of their own with the same lines: user, assistant with a tool call, tool result, assistant, about a KB
each. Also what a prompt costs in it beside a new session: appending must not grow with what is there.
"""

import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from side_by_side import Figures, Item, MeasuredAgent, Program, compare

MESSAGES: Final = 20_000
SETTLE_S: Final = 1.5
PROMPTS: Final = 5
TEXT: Final = "All work and no play makes a long session of which nothing may be lost. " * 9
TIME_MS: Final = 1_767_225_600_000


def lines(cwd: Path, messages: int, *, has_blanks: bool = False) -> Iterator[str]:
    """Write a session, line by line, as the agents do or with a blank behind each comma and colon."""
    stamp = "2026-01-01T00:00:00.000Z"
    session_id = "019b0000-0000-7000-8000-000000000000"
    yield json.dumps({"type": "session", "version": 3, "id": session_id, "timestamp": stamp, "cwd": str(cwd)})
    former: str | None = None
    for number in range(messages):
        entry_id = f"{number:08x}"
        entry = {"type": "message", "id": entry_id, "parentId": former, "timestamp": stamp, "message": message(number)}
        yield json.dumps(entry, separators=(", ", ": ") if has_blanks else (",", ":"))
        former = entry_id


def message(number: int) -> dict[str, object]:
    """Make the message of a place: four kinds in turn."""
    cost = {"input": 0.001, "output": 0.002, "cacheRead": 0, "cacheWrite": 0, "total": 0.003}
    usage = {"input": 900, "output": 100, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 1000, "cost": cost}
    text = {"type": "text", "text": f"{number}: {TEXT}"}
    answer = {
        "role": "assistant",
        "content": [text],
        "api": "openai-completions",
        "provider": "fake",
        "model": "m1",
        "usage": usage,
        "stopReason": "stop",
        "timestamp": TIME_MS + number,
    }
    match number % 4:
        case 0:
            return {"role": "user", "content": [text], "timestamp": TIME_MS + number}
        case 1:
            call = {
                "type": "toolCall",
                "id": f"call_{number}",
                "name": "read",
                "arguments": {"path": f"src/{number}.py"},
            }
            return {**answer, "content": [text, call], "stopReason": "toolUse"}
        case 2:
            named = {"toolCallId": f"call_{number - 1}", "toolName": "read"}
            return {"role": "toolResult", **named, "content": [text], "isError": False, "timestamp": TIME_MS + number}
        case _:
            return answer


def session_of(program: Program, messages: int = MESSAGES, *, has_blanks: bool = False) -> Path:
    """Return where a program's session of this length is; it is written if it is not there."""
    path = program.home.sessions / f"{messages}-messages{'-with-blanks' * has_blanks}.jsonl"
    if not path.exists():
        with path.open("w") as file:
            file.writelines(line + "\n" for line in lines(program.home.work, messages, has_blanks=has_blanks))
    return path


def opened(program: Program, messages: int = MESSAGES, *, has_blanks: bool = False) -> Figures:
    """Open the session and read it."""
    path = session_of(program, messages, has_blanks=has_blanks)
    with MeasuredAgent(program, "--session", str(path)) as agent:
        state_ms = (agent.state() - agent.begun_s) * 1000
        size = agent.bytes
        sent_s = agent.send({"id": "m", "type": "get_messages"})
        read_s = agent.until(b'"command":"get_messages"')
        messages_ms = (read_s - agent.begun_s) * 1000
        if agent.bytes - size < messages * len(TEXT):
            raise RuntimeError("not all messages are there")
        asked_s = agent.send({"id": "t", "type": "get_session_stats"})
        stats_ms = (agent.until(b'"command":"get_session_stats"') - asked_s) * 1000
        cpu_ms = agent.cpu_ms()
        time.sleep(SETTLE_S)
        memory = agent.memory_mib()
    with MeasuredAgent(program, "--session", str(path)) as agent:
        agent.state()
        time.sleep(SETTLE_S)
        unread = agent.memory_mib()
    name = f"{messages:,} messages{' with blanks' * has_blanks}"
    return {
        f"{name}: start to get_state, ms": state_ms,
        f"{name}: start to get_messages, ms": messages_ms,
        f"{name}: get_messages alone, ms": (read_s - sent_s) * 1000,
        f"{name}: get_session_stats after it, ms": stats_ms,
        f"{name}: start to get_session_stats, CPU ms": cpu_ms,
        f"{name}, opened: private, MiB": unread["private"],
        f"{name}, opened: peak, MiB": unread["peak"],
        f"{name}, after get_messages: private, MiB": memory["private"],
        f"{name}, after get_messages: peak, MiB": memory["peak"],
    }


def appended(program: Program) -> Figures:
    """Send prompts in a new session and in the long one; the request itself grows with the context, the answer not."""
    figures: dict[str, float] = {}
    for name, flags in (("new", ()), ("long", ("--session", str(session_of(program))))):
        with MeasuredAgent(program, *flags) as agent:
            agent.state()
            time.sleep(SETTLE_S)
            accepted_ms: list[float] = []
            ended_ms: list[float] = []
            for _ in range(PROMPTS):
                sent_s = agent.prompt("hello")
                accepted_ms.append((agent.until(b'"command":"prompt"') - sent_s) * 1000)
                ended_ms.append((agent.until(b'{"type":"agent_end"') - sent_s) * 1000)
                time.sleep(0.1)
        figures[f"prompt to its response, {name} session, ms"] = statistics.median(accepted_ms[1:])
        figures[f"prompt to agent_end, {name} session, ms"] = statistics.median(ended_ms[1:])
    return figures


ITEMS: Final = (Item("open", opened), Item("append", appended))

if __name__ == "__main__":
    sys.stderr.write(f"a session of {MESSAGES:,} messages\n")
    compare("Measure a long session beside the original agent.", ITEMS, before=session_of, has_session=True)
