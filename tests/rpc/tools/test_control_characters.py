"""Control characters on their way to a model: from tools, users, resources and sessions of other programs. R-TOL-11."""

import json
from pathlib import Path

from pinnace_fuzz.trials.workbench import AgentStarter

CONTROLS = frozenset(chr(code) for code in range(0x20)) - frozenset("\t\n")
DIRTY = "\x1b[31mred\x1b[0m \0\x07"


def strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for each in value.items() for text in strings(list(each))]
    return [text for each in value for text in strings(each)] if isinstance(value, list) else []


def test_a_session_with_control_characters_can_be_sent(agent: AgentStarter) -> None:
    """R-TOL-11: what a session has of before, and what is added to it."""
    calls = [
        {"name": "bash", "args": {"command": "printf '10%%\\r\\033[1m20%%\\033[0m\\0\\n'"}},
        {"name": "read", "args": {"path": "f"}},
        {"name": "bash", "args": {"command": "echo \x1b[0m"}},
    ]
    first = agent([{"text": "one"}, {"tool_calls": calls}, {"text": "two"}], has_session=True)
    first.say("go")
    file = Path(first.ask("get_state")["sessionFile"])
    lines = file.read_text().splitlines()
    entry = json.loads(lines[-1])
    texts = [{"type": "text", "text": DIRTY}]
    message = {"role": "user", "content": texts, "timestamp": 1}
    entry |= {"id": "dirty000", "parentId": entry["id"], "message": message}
    first.check_end()
    file.write_text("\n".join([*lines, json.dumps(entry), ""]))
    (first.home.work / "AGENTS.md").write_text(f"Be {DIRTY}.")
    (first.home.work / "f").write_text("a\x1bb\n")
    pi = agent((), "--continue", again=first)
    pi.ask("bash", command="printf '1%%\\r2%%\\a\\n'")
    pi.say(f"look {DIRTY}")
    sent = [text for request in pi.llm.requests for text in strings(request.body["messages"])]
    results = [each["result"]["content"] for each in pi.found({"type": "tool_execution_end"})]

    assert [] == [text for text in sent if not CONTROLS.isdisjoint(text)]
    assert {"20%\n", "a␛b\n"} <= {each[0]["text"] for each in results}
    assert any("```\n2%\n\n```" in text for text in sent)
    assert any("echo ␛[0m" in text for text in sent)
    assert {"red ", "look red "} < set(sent)
