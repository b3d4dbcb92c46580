"""Sessions of a client: opened again after any end, listed a page at a time, deleted, and their settings."""

import json
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.rpc.acp.conftest import StartAcp, opened, text
from tests.source_tree import REPOSITORY

from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted


def test_after_a_kill_everything_that_was_complete_is_shown_again(
    acp: StartAcp, work: Path, llm: Callable[[Iterable[Scripted]], FakeLlm]
) -> None:
    server = llm([{"text": "whole"}, {"chunks": [{"text": "half"}, {"gate": "g"}]}, {"text": "later"}])
    first = acp(server=server)
    session = opened(first, work)
    first.call("session/prompt", sessionId=session, prompt=text("one"))
    first.request("session/prompt", sessionId=session, prompt=text("two"))
    server.wait_reached("g")
    chunk = first.update("agent_message_chunk", content={"type": "text", "text": "whole"})
    os.killpg(first.process.pid, signal.SIGKILL)
    first.process.kill()

    second = acp(server=server)
    second.call("initialize", protocolVersion=1)
    second.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    said = [each["content"]["text"] for each in second.updates(session) if each["sessionUpdate"].endswith("_chunk")]
    assert said[:2] == ["one", "whole"]
    assert said.count("two") == 1
    assert second.update("agent_message_chunk")["messageId"] == chunk["messageId"]
    assert second.call("session/prompt", sessionId=session, prompt=text("go on"))["stopReason"] == "end_turn"


def test_resume_shows_nothing_and_goes_on(acp: StartAcp, work: Path) -> None:
    agent = acp(script=[{"text": "one"}, {"text": "two"}])
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("a"))
    agent.call("session/close", sessionId=session)
    assert agent.error("session/prompt", sessionId=session, prompt=text("b"))["code"] == -32002
    before = len(agent.messages)
    agent.call("session/resume", sessionId=session, cwd=str(work), mcpServers=[])
    assert agent.call("session/prompt", sessionId=session, prompt=text("b"))["stopReason"] == "end_turn"
    assert agent.text(before) == "two"


def test_a_session_belongs_to_its_folder(acp: StartAcp, work: Path) -> None:
    agent = acp(script=[{"text": "one"}])
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("a"))
    agent.call("session/close", sessionId=session)
    other = work.parent / "other"
    other.mkdir()
    error = agent.error("session/load", sessionId=session, cwd=str(other), mcpServers=[])
    assert error["code"] == -32602
    assert str(work) in error["message"]
    link = work.parent / "link"
    link.symlink_to(work)
    agent.call("session/load", sessionId=session, cwd=str(link), mcpServers=[])
    for unknown in (session[:8], "..", "/etc/passwd", ""):
        assert agent.error("session/load", sessionId=unknown, cwd=str(work), mcpServers=[])["code"] == -32002


def test_a_session_that_is_open_belongs_to_its_folder_too(acp: StartAcp, work: Path) -> None:
    agent = acp(script=[{"text": "one"}, {"text": "two"}])
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("a"))
    for method in ("session/load", "session/resume"):
        error = agent.error(method, sessionId=session, cwd=str(work.parent), mcpServers=[])
        assert (error["code"], error["data"]["path"]) == (-32602, "params.cwd")
        assert str(work) in error["message"]
    assert agent.call("session/prompt", sessionId=session, prompt=text("b"))["stopReason"] == "end_turn"


def test_loads_of_one_session_at_once_share_its_opening(acp: StartAcp, work: Path) -> None:
    first = acp(script=[{"text": "one"}])
    session = opened(first, work)
    first.call("session/prompt", sessionId=session, prompt=text("a"))
    assert first.end() == 0
    agent = acp(script=[{"text": "two"}])
    agent.call("initialize", protocolVersion=1)
    methods = ("session/load", "session/load", "session/resume")
    requests = [agent.request(each, sessionId=session, cwd=str(work), mcpServers=[]) for each in methods]
    answers = [agent.response(each) for each in requests]
    assert ["result" in each for each in answers] == [True, True, True], answers
    shown = [each["content"]["text"] for each in agent.updates(session) if each["sessionUpdate"].endswith("_chunk")]
    assert shown == ["a", "one"] * 2
    assert agent.call("session/prompt", sessionId=session, prompt=text("b"))["stopReason"] == "end_turn"


def test_sessions_are_listed_a_page_at_a_time_and_deleted(acp: StartAcp, work: Path, tmp_path: Path) -> None:
    agent = acp()
    agent.call("initialize", protocolVersion=1)
    folder = tmp_path / "home" / "agent" / "sessions" / f"--{str(work).strip('/').replace('/', '-')}--"
    folder.mkdir(parents=True)
    for number in range(60):
        identity = f"01a207e0-0000-7000-8000-{number:012}"
        header = {"type": "session", "version": 3, "id": identity, "timestamp": "2026-01-01T00:00:00.000Z"}
        path = folder / f"{number:03}_{identity}.jsonl"
        path.write_text(json.dumps({**header, "cwd": str(work)}) + "\n")
        os.utime(path, (number, number))
        other = folder / f"other-{number:03}.jsonl"
        other.write_text(json.dumps({**header, "id": f"{identity[:-1]}z", "cwd": "/elsewhere"}) + "\n")
    page = agent.call("session/list", cwd=str(work))
    added = folder / "new.jsonl"
    added.write_text(json.dumps({**header, "id": "added", "cwd": str(work)}) + "\n")
    rest = agent.call("session/list", cwd=str(work), cursor=page["nextCursor"])
    ids = [each["sessionId"] for each in (*page["sessions"], *rest["sessions"])]
    assert ids == [f"01a207e0-0000-7000-8000-{number:012}" for number in reversed(range(60))]
    assert "nextCursor" not in rest
    assert agent.error("session/list", cursor="?")["code"] == -32602
    assert agent.error("session/list", cwd="relative")["code"] == -32602
    added.unlink()
    agent.call("session/delete", sessionId=ids[0])
    agent.call("session/delete", sessionId=ids[0])
    assert agent.call("session/list", cwd=str(work))["sessions"][0]["sessionId"] == ids[1]


def test_settings_are_options_and_modes(acp: StartAcp, work: Path) -> None:
    agent = acp(script=[{"text": "one"}])
    agent.call("initialize", protocolVersion=1, clientCapabilities={"session": {"configOptions": {"boolean": {}}}})
    created = agent.call("session/new", cwd=str(work), mcpServers=[])
    session = created["sessionId"]
    options = {each["id"]: each for each in created["configOptions"]}
    assert options["model"]["currentValue"] == "fake/m1"
    assert options["auto_compaction"]["currentValue"] is True
    changed = agent.call(
        "session/set_config_option", sessionId=session, configId="auto_compaction", type="boolean", value=False
    )
    assert {each["id"]: each for each in changed["configOptions"]}["auto_compaction"]["currentValue"] is False
    for config, value in (("no_such", "x"), ("model", "no/such")):
        error = agent.error("session/set_config_option", sessionId=session, configId=config, value=value)
        assert error["code"] == -32602
    assert not [each for each in agent.updates() if each["sessionUpdate"] == "config_option_update"]


def test_without_session_files_nothing_stored_is_offered(acp: StartAcp, work: Path) -> None:
    agent = acp("--no-session", script=[{"text": "one"}])
    capabilities = agent.call("initialize", protocolVersion=1)["agentCapabilities"]
    assert capabilities["loadSession"] is False
    assert set(capabilities["sessionCapabilities"]) == {"additionalDirectories", "close", "systemPrompt"}
    session = agent.call("session/new", cwd=str(work), mcpServers=[])["sessionId"]
    assert agent.call("session/prompt", sessionId=session, prompt=text("a"))["stopReason"] == "end_turn"
    assert agent.error("session/list")["code"] == -32601


def test_without_a_key_history_is_shown_and_a_prompt_names_what_to_do(
    acp: StartAcp, work: Path, tmp_path: Path
) -> None:
    """The key is read again by `authenticate` and by the next prompt, and is in nothing that is written.

    Where a model has one, no method to log in is offered.
    """
    first = acp(script=[{"text": "one"}, {"text": "two"}])
    session = opened(first, work)
    first.call("session/prompt", sessionId=session, prompt=text("a"))
    assert first.end() == 0
    models = tmp_path / "home" / "agent" / "models.json"
    described = json.loads(models.read_text())
    described["providers"]["fake"]["apiKey"] = "$MISSING_KEY"

    agent = acp(models=described)
    offered = agent.call("initialize", protocolVersion=1, clientCapabilities={"auth": {"terminal": True}})
    assert [(each["id"], each.get("type"), each.get("args")) for each in offered["authMethods"]] == [
        ("api-key", None, None),
        ("login", "terminal", ["--login"]),
    ]
    assert agent.error("session/new", cwd=str(work), mcpServers=[])["code"] == -32000
    assert agent.error("authenticate", methodId="api-key")["code"] == -32000
    assert agent.error("authenticate", methodId="login")["code"] == -32602
    agent.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    assert agent.text() == "one"
    error = agent.error("session/prompt", sessionId=session, prompt=text("b"))
    assert (error["code"], error["data"]["errorCode"]) == (-32000, "no_api_key")
    key = "sk-marker-of-the-test"
    (models.parent / "auth.json").write_text(json.dumps({"fake": {"type": "api_key", "key": key}}))
    agent.call("authenticate", methodId="api-key")
    assert agent.call("session/prompt", sessionId=session, prompt=text("b"))["stopReason"] == "end_turn"
    assert agent.end() == 0
    assert key not in str(agent.messages) + agent.stderr.decode()
    assert acp(models=described).call("initialize", protocolVersion=1)["authMethods"] == []


def test_a_session_that_another_process_uses_is_shown_and_neither_written_nor_deleted(
    acp: StartAcp, work: Path
) -> None:
    """Other sessions go on meanwhile; deleted, it takes what is kept beside its file with it."""
    first = acp(script=[{"text": "one", "repeat": -1}])
    session = opened(first, work)
    first.call("session/prompt", sessionId=session, prompt=text("a"))
    second = acp(script=[{"text": "two"}])
    own = opened(second, work)
    load = second.request("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    assert second.call("session/prompt", sessionId=own, prompt=text("b"))["stopReason"] == "end_turn"
    assert "result" in second.response(load)
    shown = [each["content"]["text"] for each in second.updates(session) if each["sessionUpdate"].endswith("_chunk")]
    assert shown == ["a", "one"]
    refused = second.error("session/prompt", sessionId=session, prompt=text("c"))
    kept = second.error("session/delete", sessionId=session)
    for error, code in ((refused, "session_not_saved"), (kept, "session_unavailable")):
        assert (error["code"], error["data"]["errorCode"]) == (-32603, code)
        assert "Session is in use" in error["message"]

    [path] = (work.parent / "agent" / "sessions").glob(f"*/*{session}.jsonl")
    for ending in ("damaged", "bak", "bak.2"):
        path.with_name(f"{path.name}.{ending}").write_text("{}")
    first.call("session/delete", sessionId=session)
    assert list(path.parent.glob(f"{path.name}*")) == []


def test_a_session_of_the_original_is_shown_with_every_kind_of_entry(acp: StartAcp, work: Path) -> None:
    """A line that can't be read is left out; a summary is a call where the client knows no compactions."""
    lines = (REPOSITORY / "tests" / "data" / "session-of-pi-1.5.2.jsonl").read_text().strip().split("\n")
    header = {**json.loads(lines[0]), "cwd": str(work)}
    last = json.loads(lines[-1])
    common = {"timestamp": last["timestamp"]}
    custom = {"customType": "note", "content": "a note", "display": True}
    more = [
        {
            "type": "branch_summary",
            "id": "aaaaaaa1",
            "parentId": last["id"],
            "fromId": last["id"],
            "summary": "elsewhere",
        },
        {"type": "custom_message", "id": "aaaaaaa2", "parentId": "aaaaaaa1", **custom},
        {"type": "custom_message", "id": "aaaaaaa3", "parentId": "aaaaaaa2", **custom, "display": False},
    ]
    folder = work.parent / "agent" / "sessions" / f"--{str(work).strip('/').replace('/', '-')}--"
    folder.mkdir(parents=True)
    written = [json.dumps(header), *lines[1:], "{torn", *(json.dumps({**each, **common}) for each in more)]
    (folder / f"2026_{header['id']}.jsonl").write_text("\n".join(written) + "\n")

    agent = acp()
    agent.call("initialize", protocolVersion=1)
    agent.call("session/load", sessionId=header["id"], cwd=str(work), mcpServers=[])
    shown = agent.updates(header["id"])
    calls = {each["title"]: each for each in shown if each["sessionUpdate"] == "tool_call"}
    assert calls["Branch summary"]["kind"] == "think"
    assert (calls["echo from the tool"]["status"], calls["echo shell; exit 3"]["status"]) == ("completed", "failed")
    assert agent.text().endswith("a note")
    assert agent.text().count("a note") == 1
    assert any(each.get("content", {}).get("type") == "image" for each in shown if "chunk" in each["sessionUpdate"])


@pytest.mark.parametrize("has_notices", [True, False])
def test_an_editor_is_shown_the_warnings_of_its_agent_once(acp: StartAcp, work: Path, has_notices: bool) -> None:
    """R-WRN-01: as a notice, or without those in the first turn."""
    (work / ".pi").mkdir()
    (work / ".pi" / "settings.json").write_text("{}")
    agent = acp(script=[{"text": "fine", "repeat": -1}])
    session = opened(agent, work, **({"session": {"notices": {}}} if has_notices else {}))
    said = []
    for _ in range(2):
        since = len(agent.messages)
        agent.call("session/prompt", sessionId=session, prompt=text("hi"))
        said.append(agent.text(since).partition("fine")[0])
    notices = [each for each in agent.updates(session) if each["sessionUpdate"] == "notice"]
    shown = [f"{each['title']} {each['description']}" for each in notices] if has_notices else said[:1]
    assert [("not trusted" in each, "pinnace trust" in each) for each in shown] == [(True, True)]
    assert said == ["", ""] if has_notices else (not notices and said[1] == "")


def test_an_agent_that_does_not_start_is_reported_with_its_own_words(acp: StartAcp, work: Path) -> None:
    """In the response of every method that opens a session, and on stderr; a key changes nothing of that."""
    (work / "broken.py").write_text("def extension(pi:")
    first = acp(script=[{"text": "one"}])
    session = opened(first, work)
    first.call("session/prompt", sessionId=session, prompt=text("a"))
    assert first.end() == 0
    for flags, said in (
        (("-e", "missing.py"), "missing.py: does not exist"),
        (("-e", "broken.py", "--provider", "offline", "--model", "rehearsal"), "broken.py: SyntaxError"),
        (("--tools", "nope"), 'no tool named "nope"'),
    ):
        agent = acp(*flags)
        agent.call("initialize", protocolVersion=1)
        errors = [agent.error("session/new", cwd=str(work), mcpServers=[])]
        errors.append(agent.error("session/load", sessionId=session, cwd=str(work), mcpServers=[]))
        for error in errors:
            assert (error["code"], error["data"]["errorCode"]) == (-32603, "agent_ended"), error
            assert said in error["message"]
        assert agent.end() == 0
        assert agent.stderr.decode().count(said) == len(errors)


def test_after_a_logout_nothing_begins_until_the_next_login(acp: StartAcp, work: Path) -> None:
    """The keys stay; an open session is not ended, and its options can be changed."""
    agent = acp(script=[{"text": "one"}])
    offered = agent.call("initialize", protocolVersion=1)
    session = agent.call("session/new", cwd=str(work), mcpServers=[])["sessionId"]
    agent.call("logout")
    states = [agent.call("auth/status")["state"]]
    agent.call("session/set_mode", sessionId=session, modeId="ask")
    refused = [
        agent.error("session/new", cwd=str(work), mcpServers=[]),
        agent.error("session/prompt", sessionId=session, prompt=text("a")),
    ]
    agent.call("authenticate", methodId="api-key")
    states.append(agent.call("auth/status")["state"])

    assert states == ["unauthenticated", "authenticated"]
    assert offered["agentCapabilities"]["auth"] == {"logout": {}, "status": {}}
    assert [(each["code"], each["data"]["errorCode"]) for each in refused] == [(-32000, "logged_out")] * 2
    assert agent.call("session/prompt", sessionId=session, prompt=text("a"))["stopReason"] == "end_turn"


def test_a_copy_is_a_session_of_its_own_with_the_conversation_so_far(acp: StartAcp, work: Path) -> None:
    """Of an open session, of one that is stored alone, and of one without messages; it is shown as the source is."""
    agent = acp(script=[{"text": "red"}, {"text": "round"}, {"text": "heavy"}])
    session = opened(agent, work)
    empty = agent.call("session/fork", sessionId=session, cwd=str(work), mcpServers=[])["sessionId"]
    agent.call("session/prompt", sessionId=session, prompt=text("COLOUR"))
    copy = agent.call("session/fork", sessionId=session, cwd=str(work), mcpServers=[])
    agent.call("session/prompt", sessionId=copy["sessionId"], prompt=text("SHAPE"))
    agent.call("session/prompt", sessionId=session, prompt=text("WEIGHT"))
    agent.call("session/close", sessionId=session)
    later = agent.call("session/fork", sessionId=session, cwd=str(work), mcpServers=[])["sessionId"]
    texts = {}
    for name in (session, copy["sessionId"], later):
        before = len(agent.messages)
        agent.call("session/load", sessionId=name, cwd=str(work), mcpServers=[])
        shown = [each["params"]["update"] for each in agent.messages[before:] if each.get("method") == "session/update"]
        texts[name] = [each["content"]["text"] for each in shown if each["sessionUpdate"].endswith("_chunk")]
    unknown = agent.error("session/fork", sessionId="none", cwd=str(work), mcpServers=[])
    elsewhere = agent.error("session/fork", sessionId=session, cwd="/no/such", mcpServers=[])

    assert copy["configOptions"]
    assert len({session, empty, copy["sessionId"], later}) == 4
    assert texts[copy["sessionId"]] == ["COLOUR", "red", "SHAPE", "round"]
    assert texts[session] == texts[later] == ["COLOUR", "red", "WEIGHT", "heavy"]
    assert (unknown["code"], unknown["data"]["sessionId"], elsewhere["code"]) == (-32002, "none", -32602)


def test_a_title_is_set_in_the_file_of_a_session_that_is_open_or_closed(acp: StartAcp, work: Path) -> None:
    """An open session also reports it; the answer is what the list has."""
    agent = acp(script=[{"text": "one"}])
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("a"))
    first = agent.call("session/set_title", sessionId=session, title=" two\nsails\x07 ")
    reported = agent.update("session_info_update", title="two sails")
    agent.call("session/close", sessionId=session)
    status = [agent.call("session/status", sessionId=session)]
    second = agent.call("session/set_title", sessionId=session, title="masts")
    status.append(agent.call("session/status", sessionId=session))
    [listed] = agent.call("session/list")["sessions"]
    agent.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    status.append(agent.call("session/status", sessionId=session))
    empty = agent.error("session/set_title", sessionId=session, title=" \n")
    unknown = [agent.error(f"session/{each}", sessionId="none", title="x") for each in ("set_title", "status")]

    assert [first, second] == [{"title": "two sails"}, {"title": "masts"}]
    assert reported
    assert listed["title"] == "masts"
    assert status == [{"status": "saved"}] * 2 + [{"status": "open"}]
    assert (empty["code"], empty["data"]["path"]) == (-32602, "params.title")
    assert [(each["code"], each["data"]["sessionId"]) for each in unknown] == [(-32002, "none")] * 2


def test_an_archived_session_is_not_listed_unless_it_is_asked_for(acp: StartAcp, work: Path) -> None:
    """It is closed first; it keeps its id and its history, and can be opened as it is."""
    agent = acp(script=[{"text": "one"}, {"text": "two"}])
    session = opened(agent, work)
    other = agent.call("session/new", cwd=str(work), mcpServers=[])["sessionId"]
    for each in (session, other):
        agent.call("session/prompt", sessionId=each, prompt=text("a"))

    def listed(**filters: str) -> dict[str, bool]:
        return {each["sessionId"]: each["archived"] for each in agent.call("session/list", filters)["sessions"]}

    for _ in range(2):
        assert agent.call("session/archive", sessionId=session) == {"_meta": {}}
    assert agent.call("session/status", sessionId=session) == {"status": "saved"}
    assert listed() == {other: False}
    assert listed(archived="only") == {session: True}
    assert listed(archived="include", cwd=str(work)) == {session: True, other: False}
    agent.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    assert agent.text().endswith("one")
    assert listed(archived="only") == {session: True}
    for _ in range(2):
        assert agent.call("session/unarchive", sessionId=session) == {"_meta": {}}
    assert listed() == {session: False, other: False}

    errors = [agent.error(f"session/{each}", sessionId="none") for each in ("archive", "unarchive")]
    filtered = agent.error("session/list", archived="_later")
    assert [(each["code"], each["data"]["sessionId"]) for each in errors] == [(-32002, "none")] * 2
    assert (filtered["code"], filtered["data"]["path"]) == (-32602, "params.archived")


def test_a_deleted_session_leaves_nothing_in_the_archive(acp: StartAcp, work: Path, tmp_path: Path) -> None:
    agent = acp(script=[{"text": "one"}])
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("a"))
    agent.call("session/archive", sessionId=session)
    [mark] = (tmp_path / "home" / "agent" / "archived-sessions").iterdir()
    before = mark.read_text()
    agent.call("session/delete", sessionId=session)

    assert before == f"{session}\n"
    assert [*mark.parent.iterdir()] == []
