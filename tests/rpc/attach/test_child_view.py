"""A view of a sub-agent, between a client and the agent above: what passes, as what, and what does not. R-HST-09."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pinnace_agent.session.library import Library
from pinnace_fuzz.records import Record
from pinnace_rpc.attach.child_view import ChildView, why_not_viewed
from pinnace_rpc.options.words import read_words
from pinnace_spec.records.command_table import COMMAND_TABLE
from pinnace_spec.records.messages import ASKED_BY
from pinnace_spec.records.parsing import CommandError, parse_command
from pinnace_spec.wire.json_text import encode_record

CHILD = "01234567-89ab-cdef-0123-456789abcdef"
OTHER = "11234567-89ab-cdef-0123-456789abcdef"
MODEL = {"provider": "p", "id": "m", "name": "M"}
AGENT = {"agentId": CHILD, "toolCallId": "c", "provider": "p", "model": "m", "cwd": "/w", "state": "running"}
QUESTION = {"type": "extension_ui_request", "method": "select", "options": ["Allow once"], "toolCallId": "c"}


class Talk:
    """A view with both of its sides."""

    def __init__(self, file: Path | None = None) -> None:
        self.view = ChildView({"agentId": CHILD, "agent": "main", "sessionFile": None if file is None else str(file)})
        self.view.begin()
        hello, models = self.sent()
        self.answer(hello, {"events": ["message_start", "subagent_event"]})
        self.answer(models, {"models": [MODEL]})
        (listed,) = self.sent()
        self.answer(listed, {"agents": [{**AGENT, "agentId": OTHER, "state": "completed"}, AGENT]})

    def sent(self) -> list[Record]:
        """What the agent above is sent."""
        return list(_taken(self.view.to_host))

    def shown(self) -> list[Record]:
        """What the client is sent."""
        return list(_taken(self.view.to_client))

    def answer(self, command: Record, data: Record | None = None, **error: object) -> None:
        rest = error or ({} if data is None else {"data": data})
        response = {"type": "response", "id": command["id"], "command": command["type"], "success": not error, **rest}
        self.view.take_host(encode_record(response))

    def says(self, *records: Record) -> list[Record]:
        """Have the agent above write; return what the client is sent."""
        self.view.take_host(b"".join(map(encode_record, records)))
        return self.shown()

    def asks(self, **command: object) -> list[Record]:
        """Have the client write; return what the agent above is sent."""
        self.view.take_client(encode_record(command))
        return self.sent()


def _taken(data: bytearray) -> Iterator[Record]:
    lines = data.splitlines()
    data.clear()
    yield from map(json.loads, lines)


def event(agent: str = CHILD, /, **fields: object) -> Record:
    return {"type": "subagent_event", "agentId": agent, "event": fields}


def valid_commands() -> dict[str, Record]:
    """A command of each name, with made-up values for what it needs; those that need more are left out."""
    made: dict[Any, object] = {bool: True, str: "x", int: 1}
    found: dict[str, Record] = {}
    for name, fields in COMMAND_TABLE.items():
        command: dict[str, Any] = {"type": name, "id": name}
        for field, (kind, default, _) in fields.items():
            if default is ...:
                command[field] = sorted(map(str, kind))[0] if isinstance(kind, frozenset) else made.get(kind, ["x"])
        try:
            parse_command(command)
        except CommandError:
            continue
        found[name] = command
    return found


def test_no_command_has_more_of_it_than_its_agent_gives() -> None:
    """Every command there is: those that reach the agent above concern the sub-agent, or change nothing."""
    commands = valid_commands()
    reads = {"hello", "get_state", "list_agents"}
    sent: dict[str, list[str]] = {}
    talk = Talk()
    for name, command in commands.items():
        passed = talk.asks(**command)
        for each in passed:
            assert each["type"] in reads or each["agentId"] == CHILD
            talk.answer(each, {"state": "accepted"} if each["type"] == "message_agent" else {})
        sent[name] = [each["type"] for each in passed]
        answers = talk.shown()
        if name not in ("extension_ui_response", "client_response"):
            assert [(name, name)] == [(each["id"], each["command"]) for each in answers]
            if not passed and not answers[0]["success"]:
                assert "unknown_command" == answers[0]["errorCode"]
                assert answers[0]["error"].endswith("attach to its agent, main")

    messages = {name: ["message_agent"] for name in ("prompt", "steer", "follow_up", "queue_message")}
    one = {"hello": ["hello"], "abort": ["cancel_agent"], "get_state": ["get_state"], "get_queue": ["list_agents"]}
    assert {**messages, **one} == {name: each for name, each in sent.items() if each}
    assert len(commands) > 50


def test_offers_and_answers_for_others_do_not_pass() -> None:
    talk = Talk()
    offer = {"surfaces": True, "delegate": [], "directories": ["/"], "theme": "t", "subagents": False}
    (hello,) = talk.asks(id="h", type="hello", **offer)
    talk.answer(hello, {"commands": ["prompt", "set_model"]})
    questions = [{**QUESTION, "id": each, "title": f"Allow?{ASKED_BY}{each}"} for each in (OTHER, CHILD)]
    answered = talk.says(*questions, {**QUESTION, "id": "own", "title": "Allow tool: bash"})
    passed = [talk.asks(type="extension_ui_response", id=each, value="Allow once") for each in (OTHER, "own", CHILD)]
    resolved = [{"type": "extension_ui_resolved", "id": each, "reason": "answered"} for each in (OTHER, CHILD)]

    assert {"id": "h", "type": "hello", "subagents": True} == hello
    assert ["prompt"] == answered[0]["data"]["commands"]
    assert [(CHILD, None)] == [(each["id"], each.get("toolCallId")) for each in answered[1:]]
    assert [[], [], [{"type": "extension_ui_response", "id": CHILD, "value": "Allow once"}]] == passed
    assert resolved[1:] == talk.says(*resolved)


def test_its_records_pass_alone_until_it_has_ended() -> None:
    """In the place of `subagent_event`; those of sub-agents of its own to a client that asks for them."""
    talk = Talk()
    begin: Record = {"type": "message_start", "entryId": "e", "message": {}}
    below = event(type="subagent_event", agentId="below")
    own = [event(OTHER, **begin), {"type": "agent_start"}, {"type": "message_start"}, below]
    first = talk.says(event(**begin), *own)
    talk.asks(id="h", type="hello", subagents=True)
    shown = talk.says(below)
    ends = {"type": "subagent_event", "agentId": CHILD, "agent": {**AGENT, "state": "cancelled"}}
    last = talk.says({**ends, "agentId": OTHER}, ends, ends)
    late = talk.asks(id="m", type="prompt", message="x")
    talk.answer(late[0], error="it is cancelled", errorCode="agent_not_found")

    assert [begin] == first
    assert [{"type": "subagent_event", "agentId": "below"}] == shown
    assert [{"type": "agent_settled", "aborted": True}] == last
    refused = {"id": "m", "type": "response", "command": "prompt", "success": False}
    assert [{**refused, "error": "it is cancelled", "errorCode": "agent_not_found"}] == talk.shown()
    assert [] == talk.asks(id="a", type="abort")


def test_what_was_read_is_not_shown_again(tmp_path: Path) -> None:
    """A message whose beginning was shown is shown to its end, and not read."""
    session = Library(None).make_at(tmp_path / "child.jsonl", str(tmp_path))
    for text in ("one", "two"):
        session.keep({"role": "user", "content": text, "timestamp": 1})
    one, two = (entry["id"] for entry in session.tree.entries if entry["type"] == "message")
    talk = Talk(tmp_path / "child.jsonl")
    begun = talk.says(event(type="message_start", entryId=two))
    talk.asks(id="g", type="get_messages")
    talk.asks(id="e", type="get_entries")
    talk.asks(id="s", type="get_session_stats")
    messages, entries, stats = talk.shown()
    after = [event(type=kind, entryId=each) for each in (one, two) for kind in ("message_start", "message_end")]
    shown = talk.says(*after[:2], after[3])

    assert [two] == [each["entryId"] for each in begun]
    assert ["one"] == [each["content"] for each in messages["data"]["messages"]]
    assert [one] == [each["id"] for each in entries["data"]["entries"] if each["type"] == "message"]
    assert one == entries["data"]["leafId"]
    assert (2, str(tmp_path / "child.jsonl")) == (stats["data"]["userMessages"], stats["data"]["sessionFile"])
    assert [("message_end", two)] == [(each["type"], each["entryId"]) for each in shown]


def test_a_file_that_is_gone_is_the_error_of_what_reads_it(tmp_path: Path) -> None:
    talk = Talk(tmp_path / "gone.jsonl")
    (asked,) = talk.asks(id="s", type="get_state")
    talk.answer(asked, {"sessionId": "of-its-agent", "messageCount": 7, "toolApproval": "ask", "warnings": []})
    talk.asks(id="g", type="get_messages")
    state, messages = talk.shown()

    shown = state["data"]
    assert (CHILD, 0, "ask", MODEL) == tuple(
        shown[each] for each in ("sessionId", "messageCount", "toolApproval", "model")
    )
    assert "warnings" not in shown
    assert (False, "g") == (messages["success"], messages["id"])


@pytest.mark.parametrize("line", [b"{\n", b"[]\n", b'{"type":1,"id":"a"}\n', b'{"type":"prompt","id":"a"}\n'])
def test_a_line_that_is_no_command_is_refused_here(line: bytes) -> None:
    talk = Talk()
    talk.view.take_client(line)

    assert [] == talk.sent()
    assert [False] == [each["success"] for each in talk.shown()]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([CHILD], None),
        (["9abcdef1", "--cursors", "--on-eof", "detach"], None),
        ([CHILD, "--model", "m"], f"{CHILD} is a sub-agent of main, which runs: leave the flags of an agent out"),
        ([CHILD, "--on-eof", "end"], f"{CHILD} is a sub-agent of main: --on-eof end would end that; leave it out"),
    ],
)
def test_words_for_the_agent_itself_are_refused(words: list[str], problem: str | None) -> None:
    assert problem == why_not_viewed(read_words(words), {"agent": "main"})


def test_an_agent_that_does_not_show_sub_agents_is_named() -> None:
    view = ChildView({"agentId": CHILD, "agent": "main", "sessionFile": None})
    view.begin()
    (hello, _) = _taken(view.to_host)
    view.take_host(encode_record({"type": "response", "id": hello["id"], "command": "hello", "success": False}))

    assert view.failure is not None
    assert view.failure.endswith("attach to main")
