"""Files that a client serves to the tools of a real agent. R-FIL-01 to R-FIL-05."""

from typing import Any

import pytest

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

DONE = {"text": "done"}
SETTLED = {"type": "agent_settled"}
BOTH = ("read_text_file", "write_text_file")
READ = {"name": "read", "args": {"path": "a.txt"}}
WRITE = {"name": "write", "args": {"path": "b.txt", "content": "written"}}


def calls(*each: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [{"id": f"t{number}", **call} for number, call in enumerate(each)]}


def request(pi: HomedAgent, since: int = 0) -> Record:
    return pi.wait({"type": "client_request"}, since=since)


def answer(pi: HomedAgent, asked: Record, **fields: object) -> None:
    pi.send({"type": "client_response", "id": asked["id"], "success": True, **fields})


def results(pi: HomedAgent, since: int = 0) -> list[str]:
    ends = pi.found({"type": "tool_execution_end"}, since=since)
    return [end["result"]["content"][0]["text"] for end in ends]


def edit(old: str, new: str) -> dict[str, Any]:
    return {"name": "edit", "args": {"path": "a.txt", "edits": [{"oldText": old, "newText": new}]}}


def test_each_tool_reaches_files_by_what_the_client_has_offered(agent: AgentStarter) -> None:
    """R-FIL-01: one process, with another offer before each prompt; an approved call is served alike."""
    script = [calls(READ, WRITE), DONE, calls(edit("typed", "changed")), DONE, calls(READ, WRITE), DONE]
    pi = agent(script, "--tool-approval", "ask")
    (pi.home.work / "a.txt").write_text("saved\n")

    pi.ask("hello", delegate=["read_text_file"])
    pi.ask("set_tool_approval", mode="never")
    pi.send({"type": "prompt", "message": "go"})
    asked = request(pi)
    assert (str(pi.home.work.resolve() / "a.txt"), "t0") == (asked["path"], asked["toolCallId"])
    answer(pi, asked, content="typed\n")
    pi.wait(SETTLED)
    assert {"typed\n", "Successfully wrote to b.txt"} == set(results(pi))
    assert "written" == (pi.home.work / "b.txt").read_text()

    mark = pi.mark()
    pi.ask("hello", delegate=list(BOTH))
    pi.ask("set_tool_approval", mode="ask")
    pi.send({"type": "prompt", "message": "go"})
    question = pi.wait({"type": "extension_ui_request", "method": "select"}, since=mark)
    pi.send({"type": "extension_ui_response", "id": question["id"], "value": "Allow once"})
    answer(pi, request(pi, mark), content="typed\n")
    written = pi.wait({"type": "client_request", "method": "write_text_file"}, since=mark)
    assert "changed\n" == written["content"]
    answer(pi, written)
    pi.wait(SETTLED, since=mark)
    assert "saved\n" == (pi.home.work / "a.txt").read_text()

    mark = pi.mark()
    pi.ask("hello", delegate=[])
    pi.ask("set_tool_approval", mode="never")
    pi.say("go")
    assert {"saved\n", "Successfully wrote to b.txt"} == set(results(pi, mark))
    assert [] == pi.found({"type": "client_request"}, since=mark)


def test_an_abort_ends_a_read_at_once_and_a_write_in_half_a_second(agent: AgentStarter) -> None:
    """R-FIL-05: nothing is written, and later answers are ignored."""
    pi = agent([calls(READ), calls(WRITE), DONE])
    (pi.home.work / "a.txt").write_text("saved\n")
    pi.ask("hello", delegate=list(BOTH))
    for _ in ("read", "write"):
        mark = pi.mark()
        pi.send({"type": "prompt", "message": "go"})
        asked = request(pi, mark)
        pi.ask("abort")
        [end] = pi.found({"type": "tool_execution_end"}, since=mark)
        assert end["isError"]
        answer(pi, asked, content="typed\n")
        assert not pi.ask("get_state")["isStreaming"]

    assert ["saved\n"] == [each.read_text() for each in pi.home.work.glob("*.txt")]


def test_a_withdrawn_offer_gives_reads_back_to_the_disk_and_fails_writes(agent: AgentStarter) -> None:
    """R-FIL-05."""
    pi = agent([calls(READ, WRITE), DONE])
    (pi.home.work / "a.txt").write_text("saved\n")
    pi.ask("hello", delegate=list(BOTH))
    pi.send({"type": "prompt", "message": "go"})
    for method in BOTH:
        pi.wait({"type": "client_request", "method": method}, since=0)
    pi.ask("hello", delegate=[])
    pi.wait(SETTLED)

    read, written = sorted(results(pi), key=len)
    assert "saved\n" == read
    assert "the client that serves it is gone" in written
    assert not (pi.home.work / "b.txt").exists()


def test_the_end_of_input_gives_reads_back_to_the_disk(agent: AgentStarter) -> None:
    """R-FIL-05: the agent completes its run without a client."""
    pi = agent([calls(READ, WRITE), DONE], "--on-eof", "drain")
    (pi.home.work / "a.txt").write_text("saved\n")
    pi.ask("hello", delegate=list(BOTH))
    pi.send({"type": "prompt", "message": "go"})
    for method in BOTH:
        pi.wait({"type": "client_request", "method": method}, since=0)
    pi.close_stdin()
    pi.wait(SETTLED)

    assert 0 == pi.wait_exit()
    assert "saved\n" in results(pi)
    assert not (pi.home.work / "b.txt").exists()


@pytest.mark.parametrize("profile", ["seed", "0.18"])
def test_an_older_generation_offers_nothing(agent: AgentStarter, profile: str) -> None:
    """R-PRO-02: the field is not known, and the answer to a request is ignored as everywhere."""
    pi = agent([calls(READ), DONE])
    (pi.home.work / "a.txt").write_text("saved\n")
    hello = pi.ask("hello", protocol=profile, delegate=list(BOTH))
    assert "client_response" not in hello["commands"]
    assert "client_request" not in hello["events"]
    pi.send({"type": "prompt", "message": "go"})
    end = pi.wait({"type": "agent_end"})

    assert any("saved" in str(message["content"]) for message in end["messages"])
    pi.send({"type": "client_response", "id": "x", "success": True})
    pi.ask("get_state")
