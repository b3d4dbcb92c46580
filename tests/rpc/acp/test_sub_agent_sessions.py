"""Sub-agents in an editor: sessions of their own, for clients of version 1 that offer `subagents`, and of version 2."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.acp.conftest import StartAcp, opened, text
from tests.rpc.acp.v2.conftest import acp2, idle, states, transcript
from tests.rpc.acp.v2.conftest import begun as begun2
from tests.rpc.acp.v2.conftest import opened as opened2

from pinnace_fuzz.acp.agent import AcpAgent, Message
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_rpc.acp.translation.abilities import Abilities
from pinnace_rpc.acp.translation.children import ChildReplayed, ChildSessions, StoredChild, with_children
from pinnace_rpc.acp.translation.shown import UserMessage
from pinnace_rpc.acp.translation.v1.protocol import Version1
from pinnace_rpc.acp.translation.version import Client

MakeLlm = Callable[[Iterable[Scripted]], FakeLlm]
__all__ = ["acp2"]

TOOLS = ("--tools", "+subagent")


def call(*tasks: str) -> Mapping[str, Any]:  # Any: JSON
    return {"tool_calls": [{"name": "subagent", "args": {"task": task}} for task in tasks], "match": "delegate"}


SEARCH = {"tool_calls": [{"name": "bash", "args": {"command": "echo found; exit 3"}}], "match": "Task: count"}
ANSWER = {"reasoning": ["hm"], "text": ["two", " sails"], "match": "Task: count"}
SCRIPT = [call("count\nthe sails"), SEARCH, ANSWER, {"text": "thanks"}]


def children(updates: Sequence[Message]) -> list[Message]:
    return [each for each in updates if each["sessionUpdate"] == "subagent_update"]


def whole(updates: Sequence[Message]) -> list[Message]:
    """What a client of version 1 has in the end: texts by their message, and calls with their last fields."""
    found: dict[tuple[str, str], Message] = {}
    for each in updates:
        kind = each["sessionUpdate"]
        if kind in ("agent_message_chunk", "agent_thought_chunk"):
            entity = found.setdefault((kind, each["messageId"]), {"kind": kind, "text": ""})
            entity["text"] += each["content"]["text"]
        elif kind in ("tool_call", "tool_call_update"):
            fields = {name: value for name, value in each.items() if name != "sessionUpdate"}
            found.setdefault(("call", each["toolCallId"]), {}).update(fields)
        elif kind == "session_message":
            found["message", each["messageId"]] = dict(each)
    return list(found.values())


def loaded(agent: AcpAgent, session: str, work: Path) -> None:
    agent.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])


def test_it_is_a_session_of_its_own_live_and_when_it_is_loaded(acp: StartAcp, work: Path) -> None:
    first = acp(*TOOLS, script=SCRIPT)
    session = opened(first, work, subagents={})
    first.call("session/prompt", sessionId=session, prompt=text("delegate"))
    begun, ended = children(first.updates(session))
    child = begun["sessionId"]
    live = whole(first.updates(child))
    refused = first.error("session/prompt", sessionId=child, prompt=text("more"))
    not_loaded = first.error("session/load", sessionId=child, cwd=str(work), mcpServers=[])
    mark = len(first.messages)
    loaded(first, session, work)
    again = first.messages[mark:]
    assert first.end() == 0
    second = acp(*TOOLS)
    second.call("initialize", protocolVersion=1, clientCapabilities={"subagents": {}})
    loaded(second, session, work)
    assert second.end() == 0
    plain = acp(*TOOLS)
    plain.call("initialize", protocolVersion=1)
    loaded(plain, session, work)

    assert ("count", "count\nthe sails", str(work)) == (begun["title"], begun["description"], begun["cwd"])
    assert (STEERED["capabilities"], {"state": "running"}) == (begun["capabilities"], begun["state"])
    assert (None, {"state": "idle", "stopReason": "end_turn"}) == (ended["capabilities"], ended["state"])
    [parent_call] = [each for each in whole(first.updates(session)) if "toolCallId" in each]
    assert parent_call["toolCallId"] == ended["_meta"]["pinnace"]["toolCallId"]
    assert ended["_meta"]["pinnace"]["usage"]["totalTokens"] > 0
    message, bash, thought, answer = live
    assert (session, child) == (message["senderSessionId"], message["recipientSessionId"])
    assert "Task: count\nthe sails" == message["content"][0]["text"]
    assert ("bash", "failed") == (bash["name"], bash["status"])
    assert ("hm", "two sails") == (thought["text"], answer["text"])
    assert -32002 == refused["code"] == not_loaded["code"]
    assert [begun, ended] == children(second.updates(session))
    assert live == whole(second.updates(child))
    shown = [each["params"]["update"] for each in again if each.get("params", {}).get("sessionId") == child]
    assert live == whole(shown)
    assert [] == [each for each in plain.messages if child in str(each.get("params", {}).get("sessionId"))]
    assert [] == children(plain.updates(session))


def test_one_is_cancelled_alone(acp: StartAcp, work: Path, llm: MakeLlm) -> None:
    gated = [{"chunks": [{"text": each}, {"gate": each}], "match": f"Task: {each}"} for each in ("a", "b")]
    server = llm([call("a", "b"), *gated, {"text": "with one"}])
    agent = acp(*TOOLS, server=server)
    session = opened(agent, work, subagents={})
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("delegate"))
    server.wait_reached("a")
    server.wait_reached("b")
    one, other = (agent.update("subagent_update", description=each)["sessionId"] for each in ("a", "b"))
    agent.notify("session/cancel", sessionId=one)
    ended = agent.update("subagent_update", sessionId=one, capabilities=None)
    server.release("a", "b")
    result = agent.response(prompt)["result"]

    assert {"state": "idle", "stopReason": "cancelled"} == ended["state"]
    assert "end_turn" == agent.update("subagent_update", sessionId=other, capabilities=None)["state"]["stopReason"]
    assert "end_turn" == result["stopReason"]
    agent.notify("session/cancel", sessionId=one)  # it has ended: nothing happens
    assert agent.text().endswith("with one")


def test_a_cancelled_prompt_ends_it_first(acp: StartAcp, work: Path, llm: MakeLlm) -> None:
    waiting = {"chunks": [{"text": "half"}, {"gate": "g"}], "match": "Task: count"}
    server = llm([call("count"), waiting])
    agent = acp(*TOOLS, server=server)
    session = opened(agent, work, subagents={})
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("delegate"))
    server.wait_reached("g")
    child = agent.update("subagent_update")["sessionId"]
    agent.notify("session/cancel", sessionId=session)

    assert "cancelled" == agent.response(prompt)["result"]["stopReason"]
    assert "cancelled" == children(agent.updates(session))[-1]["state"]["stopReason"]
    assert {"half"} == {each["text"] for each in whole(agent.updates(child)) if "text" in each}


def test_one_that_works_is_loaded_and_goes_on(acp: StartAcp, work: Path, llm: MakeLlm) -> None:
    """What it did before is shown again, and what it does afterwards once, behind it."""
    waiting = {"chunks": [{"text": "half"}, {"gate": "g"}, {"text": " done"}], "match": "Task: count"}
    server = llm([call("count"), SEARCH, waiting, {"text": "thanks"}])
    agent = acp(*TOOLS, server=server)
    session = opened(agent, work, subagents={})
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("delegate"))
    server.wait_reached("g")
    child = agent.update("subagent_update")["sessionId"]
    agent.update("agent_message_chunk", content={"type": "text", "text": "half"})
    mark = len(agent.messages)
    loaded(agent, session, work)
    before = whole(agent.updates(child, mark))
    server.release("g")
    result = agent.response(prompt)["result"]

    assert "end_turn" == result["stopReason"]
    assert ["running", "idle"] == [each["state"]["state"] for each in children(agent.updates(session, mark))]
    message, bash, *rest = whole(agent.updates(child, mark))
    assert [message, bash] == before[:2]
    assert ("session_message", "failed") == (message["sessionUpdate"], bash["status"])
    assert ["half done"] == [each["text"] for each in rest]


def test_in_version_2_it_has_a_state_of_its_own(acp2: StartAcp, work: Path) -> None:
    """And a session that is resumed shows the same again."""
    first = acp2(*TOOLS, script=SCRIPT)
    session = opened2(first, work)
    first.call("session/prompt", sessionId=session, prompt=text("delegate"))
    idle(first)
    begun, ended = children(first.updates(session))
    child = begun["sessionId"]
    live = first.updates(child)
    assert first.end() == 0
    second = acp2(*TOOLS)
    begun2(second)
    second.call("session/resume", sessionId=session, cwd=str(work), replayFrom={"type": "start"})

    assert ["running", "idle:end_turn"] == states(live)
    assert {"state": "idle", "stopReason": "end_turn"} == ended["state"]
    assert [begun, ended] == children(second.updates(session))
    assert transcript(live) == transcript(second.updates(child))
    assert states(live) == states(second.updates(child))
    assert "session_message" in [each["sessionUpdate"] for each in live]
    assert [] == [each for each in live if "capabilities" in each]


STEERED = {"capabilities": {"cancel": {}, "_meta": {"steering": {"supported": True}}}}
GATED = {"chunks": [{"gate": "g"}, {"text": "two sails"}], "match": "Task: count"}


def given(updates: Sequence[Message]) -> list[tuple[str, str | None]]:
    """The messages of a session, each with the id by which a client knows it."""
    messages = [each for each in updates if each["sessionUpdate"] == "session_message"]
    ids = [each.get("_meta", {}).get("pinnace", {}).get("messageId") for each in messages]
    texts = ["".join(block["text"] for block in each["content"]) for each in messages]
    return list(zip(texts, ids, strict=True))


@pytest.mark.parametrize("version", [1, 2])
def test_one_that_works_is_given_a_message(
    acp: StartAcp, acp2: StartAcp, work: Path, llm: MakeLlm, version: int
) -> None:
    """R-SUB-10: accepted by the response, delivered by its `session_message`, which a loaded session has again."""
    server = llm([call("count"), GATED, {"text": "and masts", "match": "Message: masts"}, {"text": "thanks"}])
    agent = (acp if version == 1 else acp2)(*TOOLS, server=server)
    session = opened(agent, work, subagents={}) if version == 1 else opened2(agent, work)
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("delegate"))
    server.wait_reached("g")
    begun = agent.update("subagent_update")
    child = begun["sessionId"]
    accepted = agent.call("_session/steering", sessionId=child, prompt=text("masts"))
    picture = [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]
    refused = agent.error("_session/steering", sessionId=child, prompt=[*text("see"), *picture])
    before = given(agent.updates(child))
    server.release("g")
    ended = agent.update("subagent_update", sessionId=child, capabilities=None)
    agent.response(prompt) if version == 1 else idle(agent)
    live = given(agent.updates(child))
    late = agent.error("_session/steering", sessionId=child, prompt=text("more"))
    mark = len(agent.messages)
    if version == 1:
        loaded(agent, session, work)
    else:
        agent.call("session/resume", sessionId=session, cwd=str(work), replayFrom={"type": "start"})

    identity = accepted["messageId"]
    assert ("injected", STEERED["capabilities"]) == (accepted["outcome"], begun["capabilities"])
    assert (-32602, "params.prompt") == (refused["code"], refused["data"]["path"])
    assert [("Task: count", None)] == before
    assert [("Task: count", None), ("Message: masts", identity)] == live == given(agent.updates(child, mark))
    delivered = [{"messageId": identity, "text": "masts", "state": "delivered"}]
    assert delivered == ended["_meta"]["pinnace"]["messages"]
    assert delivered == children(agent.updates(session, mark))[-1]["_meta"]["pinnace"]["messages"]
    senders = [each.get("senderSessionId") for each in agent.updates(child) if "recipientSessionId" in each]
    assert [session, None] * 2 == senders
    assert -32002 == late["code"]


def test_a_message_that_one_did_not_get_is_returned_with_its_end(acp: StartAcp, work: Path, llm: MakeLlm) -> None:
    """R-SUB-10: and one that comes after its end is decided is refused, whichever of the two is known first."""
    server = llm([call("count"), GATED, {"text": "without"}])
    agent = acp(*TOOLS, server=server)
    session = opened(agent, work, subagents={})
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("delegate"))
    server.wait_reached("g")
    child = agent.update("subagent_update")["sessionId"]
    identity = agent.call("_session/steering", sessionId=child, prompt=text("masts"))["messageId"]
    agent.notify("session/cancel", sessionId=child)
    late = agent.error("_session/steering", sessionId=child, prompt=text("more"))
    ended = agent.update("subagent_update", sessionId=child, capabilities=None)

    assert "end_turn" == agent.response(prompt)["result"]["stopReason"]
    assert -32002 == late["code"]
    returned = [{"messageId": identity, "text": "masts", "state": "returned"}]
    assert returned == ended["_meta"]["pinnace"]["messages"]
    assert [("Task: count", None)] == given(agent.updates(child))


AGENT: Message = {"agentId": "k", "toolCallId": "c", "task": "count", "provider": "p", "model": "m", "cwd": "/w"}
BLOCK = {"type": "toolCall", "id": "x", "name": "read", "arguments": {"path": "a"}}
TEXT = {"type": "text", "text": "done"}
MESSAGES: Sequence[Message] = (
    {"role": "user", "content": "Task: count"},
    {"role": "assistant", "content": [BLOCK], "stopReason": "toolUse"},
    {"role": "toolResult", "toolCallId": "x", "content": [{"type": "text", "text": "ok"}], "isError": False},
    {"role": "assistant", "content": [TEXT], "stopReason": "stop"},
)


def delta(entry: str, event: Message) -> Message:
    return {"type": "message_update", "entryId": entry, "assistantMessageEvent": event}


def events() -> list[Message]:
    """The records of a sub-agent that calls a tool and answers."""
    brackets: list[list[Message]] = [
        [{"type": kind, "entryId": f"e{at}", "message": message} for kind in ("message_start", "message_end")]
        for at, message in enumerate(MESSAGES)
    ]
    streamed = [delta("e3", {"type": "text_delta", "contentIndex": 0, "delta": each}) for each in ("do", "ne")]
    called = [
        delta("e1", {"type": "toolcall_start", "contentIndex": 0, "toolName": "read"}),
        delta("e1", {"type": "toolcall_end", "contentIndex": 0, "toolCall": BLOCK}),
    ]
    of_call: Message = {"toolCallId": "x", "toolName": "read", "callIndex": 0, "entryId": "e2"}
    result = {"content": MESSAGES[2]["content"]}
    carried_out: list[Message] = [
        {"type": "tool_execution_start", **of_call, "args": {}},
        {"type": "tool_execution_end", **of_call, "result": result, "isError": False},
    ]
    first, second, third, last = brackets
    return [*first, second[0], *called, second[1], *carried_out, *third, last[0], *streamed, last[1]]


def test_one_that_a_client_has_started_is_shown_without_a_call() -> None:
    """R-SUB-13: live, and behind all that its session shows again."""
    client = Client(Version1(), Abilities(children=True))
    agent = {name: value for name, value in AGENT.items() if name != "toolCallId"}
    works: Message = {**agent, "state": "running"}
    live = ChildSessions("s", client, lambda _: "of-another", offers=True)
    [(to, announced)] = live.take({"agentId": "k", "agent": works})
    stored = StoredChild({**agent, "state": "completed"}, (), ())
    of_call = StoredChild({**AGENT, "agentId": "m", "state": "completed"}, (), ())
    [message, replayed] = with_children([UserMessage("e", ())], [of_call, stored])
    assert isinstance(replayed, ChildReplayed)
    again = [*ChildSessions("s", client, lambda _: "of-another", offers=True).replay(replayed)]

    assert ("s", "k") == (to, announced["sessionId"])
    assert {"pinnace": {"model": "p/m"}} == announced["_meta"]
    assert isinstance(message, UserMessage)
    assert ("s", announced) == again[0]


def test_it_is_shown_once_wherever_in_its_work_it_is_loaded() -> None:
    """Every place at which its records begin to be held, and every later one at which its file is read."""
    client = Client(Version1(), Abilities(children=True))
    works: Message = {**AGENT, "state": "running"}
    begun: Message = {"agentId": "k", "agent": works}
    ended: Message = {"agentId": "k", "agent": {**AGENT, "state": "completed"}}
    done = events()
    records: list[Message] = [{"agentId": "k", "event": each} for each in done]

    def sessions() -> ChildSessions:
        return ChildSessions("s", client, lambda call: f"of-{call}", offers=True)

    shown = sessions()
    live = whole([update for each in (begun, *records, ended) for to, update in shown.take(each) if to == "k"])
    for held in range(len(records) + 1):
        for read in range(held, len(records) + 1):
            stored = [each for each in done[:read] if each["type"] == "message_end"]
            entries: list[Message] = [
                {**each, "type": "message", "id": f"e{at}", "parentId": f"e{at - 1}" if at else None}
                for at, each in enumerate(stored)
            ]
            child = sessions()
            for each in (begun, *records[:held]):
                list(child.take(each))
            child.hold()
            for each in records[held:]:
                assert [] == list(child.take(each))
            replayed = ChildReplayed(StoredChild(works, entries, ()), "of-c")
            updates = [*child.replay(replayed), *child.release(), *child.take(ended)]
            assert live == whole([update for to, update in updates if to == "k"]), (held, read)
            assert ["running", "idle"] == [each["state"]["state"] for each in children([u for _, u in updates])]
