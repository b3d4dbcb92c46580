"""A session file whose very first write was cut, by kill -9 or a full disk: it is gone on with, under its name.

Rule R-SES-07.
"""

from pathlib import Path

import pytest

from pinnace_fuzz.session_verdict import entries_of, text_of
from pinnace_fuzz.trials.workbench import AgentStarter

HEADER = (
    b'{"type":"session","version":3,"id":"01a1ff28-5339-7b81-b3f9-f1f79558e508","timestamp":"2026-01-02T03:04:05.678Z"'
)


@pytest.mark.parametrize("size", [1, 20, 60, len(HEADER)])
def test_a_file_with_the_beginning_of_a_header_is_continued(agent: AgentStarter, tmp_path: Path, size: int) -> None:
    path = tmp_path / "2026-01-02T03-04-05-678Z_01a1ff28-5339-7b81-b3f9-f1f79558e508.jsonl"
    path.write_bytes(HEADER[:size])
    pi = agent([{"text": "fine"}], "--session", str(path), has_session=True)
    assert pi.ask("get_state")["messageCount"] == 0
    pi.say("one")
    pi.check_end()

    data = path.read_bytes()
    assert data.startswith(HEADER[:size] + b'\n{"type":"session",')
    assert path.with_name(f"{path.name}.damaged").read_bytes() == HEADER[:size] + b"\n"
    again = agent((), "--session", str(path), again=pi)
    assert ["one", "fine"] == [text_of(each) for each in again.ask("get_messages")["messages"]]
    assert 2 == sum(each["type"] == "message" for each in entries_of(data))


def test_a_file_that_is_something_else_is_refused_as_before(agent: AgentStarter, tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_bytes(b'{"type":"other"')
    pi = agent((), "--session", str(path), has_session=True, is_checked=False)

    assert 1 == pi.wait_exit()
    assert "Not a session file" in pi.stderr_text
    assert b'{"type":"other"' == path.read_bytes()
