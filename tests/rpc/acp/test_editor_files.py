"""Files that an editor serves: tools see its text, and what it refuses is not written. R-FIL-01 to R-FIL-05."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.acp.conftest import StartAcp, opened, text

from pinnace_fuzz.acp.agent import AcpAgent, Message
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted

BOTH = {"readTextFile": True, "writeTextFile": True}
READ = {"name": "read", "args": {"path": "a.txt"}}
WRITE = {"name": "write", "args": {"path": "b.txt", "content": "written\n"}}
EDIT = {"name": "edit", "args": {"path": "a.txt", "edits": [{"oldText": "typed", "newText": "changed"}]}}
DONE = {"text": "done"}


def calls(*each: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": list(each)}


def asked(agent: AcpAgent, method: str, after: int = 0) -> Message:
    return agent.until(lambda message: message.get("method") == method, after)


def ended(agent: AcpAgent) -> list[tuple[str, str]]:
    """Return how each call has ended, with the text of its result."""
    updates = [each for each in agent.updates() if each.get("status") in ("completed", "failed")]
    return [(each["status"], str(each.get("content"))) for each in updates]


def test_tools_read_and_edit_what_is_in_the_editor(acp: StartAcp, work: Path) -> None:
    buffers = {str(work / "a.txt"): "typed\n"}

    def serve(request: Message) -> dict[str, Any]:
        params = request["params"]
        if request["method"] == "fs/read_text_file":
            return {"content": buffers[params["path"]]}
        buffers[params["path"]] = params["content"]
        return {}

    agent = acp(script=[calls(READ), calls(EDIT), calls(WRITE), DONE], answer=serve)
    (work / "a.txt").write_text("saved\n")
    session = opened(agent, work, fs=BOTH)
    assert agent.call("session/prompt", sessionId=session, prompt=text("Go"))["stopReason"] == "end_turn"

    assert ["completed"] * 3 == [status for status, _ in ended(agent)]
    assert "typed" in ended(agent)[0][1]
    assert {str(work / "a.txt"): "changed\n", str(work / "b.txt"): "written\n"} == buffers
    assert ["saved\n"] == [each.read_text() for each in work.glob("*.txt")]


def test_an_editor_that_only_reads_is_only_read(acp: StartAcp, work: Path) -> None:
    """An edit needs both; an error reply leaves a read to the disk."""
    agent = acp(script=[calls(READ), calls(EDIT, WRITE), DONE])
    (work / "a.txt").write_text("typed on the disk\n")
    session = opened(agent, work, fs={"readTextFile": True})
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("Go"))
    agent.refuse(asked(agent, "fs/read_text_file"), -32603, "not now")
    assert agent.response(prompt)["result"]["stopReason"] == "end_turn"

    assert "typed on the disk" in ended(agent)[0][1]
    assert ("changed on the disk\n", "written\n") == ((work / "a.txt").read_text(), (work / "b.txt").read_text())
    assert 1 == len([each for each in agent.messages if str(each.get("method")).startswith("fs/")])


@pytest.mark.parametrize(("code", "is_written"), [(-32603, False), (-32601, True)])
def test_a_write_that_the_editor_refuses_fails(acp: StartAcp, work: Path, code: int, is_written: bool) -> None:
    """Unless the editor does not know the method at all."""
    agent = acp(script=[calls(WRITE), DONE])
    session = opened(agent, work, fs=BOTH)
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("Go"))
    agent.refuse(asked(agent, "fs/write_text_file"), code, "the user has said no")
    assert agent.response(prompt)["result"]["stopReason"] == "end_turn"

    [(status, content)] = ended(agent)
    assert ("completed" if is_written else "failed") == status
    assert is_written or "the user has said no" in content
    assert is_written == (work / "b.txt").exists()


@pytest.mark.parametrize(("call", "method"), [(READ, "fs/read_text_file"), (WRITE, "fs/write_text_file")])
def test_a_cancellation_does_not_wait_for_the_editor(
    acp: StartAcp, work: Path, call: dict[str, Any], method: str
) -> None:
    """A read is withdrawn; a write is not, and its late answer is ignored."""
    agent = acp(script=[calls(call), DONE])
    (work / "a.txt").write_text("saved\n")
    session = opened(agent, work, fs=BOTH)
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("Go"))
    request = asked(agent, method)
    agent.notify("session/cancel", sessionId=session)
    assert agent.response(prompt)["result"]["stopReason"] == "cancelled"
    agent.respond(request, {"content": "late"} if call is READ else {})
    assert agent.call("session/prompt", sessionId=session, prompt=text("Go"))["stopReason"] == "end_turn"

    withdrawn = [each["params"]["requestId"] for each in agent.messages if each.get("method") == "$/cancel_request"]
    assert ([request["id"]] if call is READ else []) == withdrawn
    assert not (work / "b.txt").exists()


@pytest.mark.parametrize("result", [{"content": 7}, {}, None, []])
def test_a_read_with_an_odd_answer_is_made_on_the_disk(acp: StartAcp, work: Path, result: Any) -> None:
    agent = acp(script=[calls(READ), DONE])
    (work / "a.txt").write_text("saved\n")
    session = opened(agent, work, fs=BOTH)
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("Go"))
    answer = {"jsonrpc": "2.0", "id": asked(agent, "fs/read_text_file")["id"], "result": result}
    agent.write(json.dumps(answer).encode() + b"\n")
    assert agent.response(prompt)["result"]["stopReason"] == "end_turn"

    assert "saved" in ended(agent)[0][1]


def test_an_edit_of_what_another_session_has_changed_meanwhile_is_refused(
    acp: StartAcp, work: Path, llm: Callable[[Iterable[Scripted]], FakeLlm]
) -> None:
    """The change of the first to write would be lost; tried again, the second builds on it."""
    edits = [
        {"name": "edit", "args": {"path": "a.txt", "edits": [{"oldText": old, "newText": old.upper()}]}}
        for old in ("one", "two")
    ]
    first, second = ({"match": "the first"}, {"match": "the second"})
    server = llm(
        [
            {**calls(edits[0]), **first},
            {**DONE, **first},
            {**calls(edits[1]), **second, "repeat": 3},
            {**DONE, **second},
        ]
    )
    agent = acp(server=server)
    (work / "a.txt").write_text("saved\n")
    one = opened(agent, work, fs=BOTH)
    two = agent.call("session/new", cwd=str(work), mcpServers=[])["sessionId"]

    def request_of(session: str, method: str, after: int = 0) -> Message:
        return agent.until(
            lambda message: message.get("method") == method and message["params"]["sessionId"] == session, after
        )

    prompts = [
        agent.request("session/prompt", sessionId=session, prompt=text(said))
        for session, said in ((one, "the first"), (two, "the second"))
    ]
    reads = [request_of(session, "fs/read_text_file") for session in (one, two)]
    agent.respond(reads[0], {"content": "one two\n"})
    write = request_of(one, "fs/write_text_file")
    assert write["params"]["content"] == "ONE two\n"
    before = len(agent.messages)
    agent.respond(reads[1], {"content": "one two\n"})
    # The client has the write, and has not answered: what it reads now may be the text before it, too.
    again = request_of(two, "fs/read_text_file", before)
    agent.respond(write, {})
    assert agent.response(prompts[0])["result"]["stopReason"] == "end_turn"
    before = len(agent.messages)
    agent.respond(again, {"content": "one two\n"})
    agent.respond(request_of(two, "fs/read_text_file", before), {"content": "ONE two\n"})
    write = request_of(two, "fs/write_text_file", before)
    assert write["params"]["content"] == "ONE TWO\n"
    agent.respond(write, {})
    assert agent.response(prompts[1])["result"]["stopReason"] == "end_turn"

    *refused, last = [each for each in agent.updates(two) if each.get("status") in ("completed", "failed")]
    assert ["failed", "failed", "completed"] == [each["status"] for each in (*refused, last)]
    assert all("Another session has changed the file" in str(each["content"]) for each in refused)


def test_additional_folders_are_in_the_prompt_and_their_files_are_the_editors(
    acp: StartAcp, work: Path, llm: Callable[[Iterable[Scripted]], FakeLlm]
) -> None:
    """Each once, with its instructions; another request for the session has its own."""
    other = work.parent / "other"
    other.mkdir()
    (other / "AGENTS.md").write_text("Write in verse.")
    (work.parent / "link").symlink_to(other)
    read = {"name": "read", "args": {"path": str(other / "a.txt")}}
    server = llm([calls(read), *[DONE] * 4])
    agent = acp(server=server)
    agent.call("initialize", protocolVersion=1, clientCapabilities={"fs": BOTH})
    folders = [str(other), str(work.parent / "link")]
    session = agent.call("session/new", cwd=str(work), mcpServers=[], additionalDirectories=folders)["sessionId"]
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("Go"))
    agent.respond(asked(agent, "fs/read_text_file"), {"content": "typed"})
    assert agent.response(prompt)["result"]["stopReason"] == "end_turn"
    assert "typed" in ended(agent)[0][1]
    prompted = server.requests[0].body["messages"][0]["content"]
    assert f"<additional_directories>\n{other}\n</additional_directories>" in prompted
    assert prompted.count("Write in verse.") == 1

    for closes, given in ((False, []), (False, folders), (True, [])):
        if closes:
            agent.call("session/close", sessionId=session)
        agent.call("session/resume", sessionId=session, cwd=str(work), mcpServers=[], additionalDirectories=given)
        agent.call("session/prompt", sessionId=session, prompt=text("Go"))
        assert ("verse" in server.requests[-1].body["messages"][0]["content"]) is bool(given)


@pytest.mark.parametrize("typed", [None, "typed by the user\n"])
def test_after_a_command_the_disk_counts_where_the_editor_has_what_it_held_before(
    acp: StartAcp, work: Path, typed: str | None
) -> None:
    """What the user has typed counts all the same, and a file that a command has removed is gone."""
    path = work / "a.txt"
    buffers = {str(path): "typed\n"}
    command = {"name": "bash", "args": {"command": "echo 'typed, formatted' > a.txt"}}
    remove = {"name": "bash", "args": {"command": "rm a.txt"}}

    def serve(request: Message) -> dict[str, Any]:
        params = request["params"]
        if request["method"] == "fs/read_text_file":
            return {"content": buffers[params["path"]]}
        buffers[params["path"]] = params["content"]
        path.write_text(params["content"])  # an editor that saves
        return {}

    def type_something(request: Message) -> dict[str, Any]:
        reads = [each for each in agent.messages if each.get("method") == "fs/read_text_file"]
        if typed is not None and len(reads) == 2:
            buffers[str(path)] = typed
        return serve(request)

    script = [calls(READ), calls(command), calls(READ), calls(EDIT), calls(remove), calls(READ), DONE]
    agent = acp(script=script, answer=type_something)
    path.write_text("typed\n")
    session = opened(agent, work, fs=BOTH)
    assert agent.call("session/prompt", sessionId=session, prompt=text("Go"))["stopReason"] == "end_turn"

    before, _, after, edit, _, gone = ended(agent)
    assert "typed\n" in before[1].replace("\\n", "\n")
    assert ("typed, formatted" in after[1]) == (typed is None)
    assert ("completed", "failed") == (edit[0], gone[0])
    assert {str(path): "changed, formatted\n" if typed is None else "changed by the user\n"} == buffers
