"""What `session/load` shows again is what was live: in another process, during a run, and after any run."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rpc.acp.conftest import StartAcp, opened, text

from pinnace_fuzz.acp.agent import Message
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_rpc.acp.translation.replay import last_answer, replay, tail
from pinnace_rpc.acp.translation.shown import CallEnded, CallProgressed, CallReplayed, UserMessage
from pinnace_rpc.acp.translation.translator import Translator

MakeLlm = Callable[[Iterable[Scripted]], FakeLlm]

SAID = st.lists(st.sampled_from(["a", "b\n", "# c", "```", " ", "ü\u2028"]), min_size=1, max_size=3)
CALLS: list[Mapping[str, Any]] = [
    {"name": "bash", "args": {"command": "echo one; exit 3"}},
    {"name": "bash", "args": {"command": "head -c 70000 /dev/zero | tr '\\0' x"}},
    {"name": "write", "args": {"path": "new.txt", "content": "one\ntwo\n"}},
    {"name": "edit", "args": {"path": "a.txt", "edits": [{"oldText": "one", "newText": "two"}]}},
    {"name": "read", "args": {"path": "a.txt"}},
    {"name": "read", "args": {"path": "missing"}},
    {"name": "read", "args": {}},
    {"name": "grep", "args": {"pattern": "o"}},
    {"name": "no_such_tool", "args": {"x": [1, None]}},
]
CALLED = st.lists(st.sampled_from(CALLS), min_size=1, max_size=3)
WORKING = st.fixed_dictionaries(
    {"tool_calls": CALLED}, optional={"text": SAID, "reasoning": SAID, "finish": st.just("length")}
)
"""Answers after which the run goes on. Of one that was cut, no call is made."""
LAST: st.SearchStrategy[Mapping[str, Any]] = st.one_of(
    st.fixed_dictionaries({"text": SAID}, optional={"reasoning": SAID}),
    st.fixed_dictionaries({"text": SAID, "finish": st.just("length")}),
    st.just({"error": {"status": 400, "message": "no"}}),
    st.just({"text": [], "finish": "stop"}),
)
"""Answers after which the run ends."""
EXAMPLES: Final = settings.default.max_examples // 4 if settings.default else 12
RUN = st.tuples(st.lists(WORKING, max_size=2), LAST)


def test_what_was_live_is_shown_again_by_another_process(acp: StartAcp, work: Path) -> None:
    (work / "a.txt").write_text("one\n")
    edit = {"path": "a.txt", "edits": [{"oldText": "one", "newText": "two"}]}
    script = [
        {"reasoning": "first", "text": "Changing.", "tool_calls": [{"name": "edit", "args": edit, "id": "call_0"}]},
        {"text": "Now a look.", "tool_calls": [{"name": "read", "args": {"path": "missing"}, "id": "call_0"}]},
        {"text": "Done."},
    ]
    first = acp(script=script)
    session = opened(first, work)
    prompt = [
        *text("Change it, see "),
        {"type": "resource_link", "name": "a.txt", "uri": f"file://{work}/a.txt"},
    ]
    first.call("session/prompt", sessionId=session, prompt=prompt)
    live = first.updates(session)
    assert first.end() == 0

    second = acp()
    second.call("initialize", protocolVersion=1)
    second.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    again = second.updates(session)
    assert _texts(again)[1:] == _texts(live)
    assert _calls(again) == _calls(live)
    assert [call["status"] for call in _calls(again).values()] == ["completed", "failed"]
    assert _texts(again)[0][2] == f"Change it, see [a.txt](file://{work}/a.txt)"
    diff = next(iter(_calls(again).values()))["content"][0]
    assert (diff["type"], diff["oldText"], diff["newText"]) == ("diff", "one", "two")
    listed = second.call("session/list", cwd=str(work))["sessions"]
    assert [each["sessionId"] for each in listed] == [session]
    assert second.end() == 0


def test_a_session_is_loaded_while_it_runs(acp: StartAcp, work: Path, llm: MakeLlm) -> None:
    """What has been is shown again before the response, what comes follows it, and the prompt has its one response."""
    server = llm(
        [
            {"text": "before"},
            {"text": "I look.", "tool_calls": [{"name": "ls", "args": {}}]},
            {"chunks": [{"text": "whi"}, {"gate": "g"}, {"text": "le"}]},
        ]
    )
    agent = acp(server=server)
    session = opened(agent, work)
    agent.call("session/prompt", sessionId=session, prompt=text("one"))
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("two"))
    agent.update("agent_message_chunk", content={"type": "text", "text": "whi"})
    live = agent.updates(session)
    since = len(agent.messages)
    agent.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    shown = agent.updates(session, since)
    said = [each["content"]["text"] for each in shown if each["sessionUpdate"].endswith("_chunk")]
    assert said == ["one", "before", "two", "I look."]
    assert _calls(shown) == _calls(live)
    server.release("g")
    assert agent.response(prompt)["result"]["stopReason"] == "end_turn"
    assert agent.text(since) == "beforeI look.while"
    assert sum(message.get("id") == prompt for message in agent.messages) == 1


@pytest.mark.parametrize("knows_compactions", [False, True])
def test_a_session_is_loaded_while_it_is_compacted(
    acp: StartAcp, work: Path, llm: MakeLlm, knows_compactions: bool
) -> None:
    """The compaction is shown as under way behind what has been, and ends once."""
    server = llm([{"text": "long " * 50}, {"text": "short", "hold": "summary"}])
    agent = acp(server=server, settings={"compaction": {"keepRecentTokens": 1}})
    features: dict[str, Any] = {"session": {"compaction": {}}} if knows_compactions else {}
    session = opened(agent, work, **features)
    agent.call("session/prompt", sessionId=session, prompt=text("one"))
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("/compact"))
    server.wait_reached("summary")
    agent.update("compaction_update" if knows_compactions else "tool_call")
    since = len(agent.messages)
    agent.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    server.release("summary")
    assert agent.response(prompt)["result"]["stopReason"] == "end_turn"
    shown = [each for each in agent.updates(session, since) if {"toolCallId", "compactionId"} & each.keys()]
    assert [each["status"] for each in shown] == ["in_progress", "completed"]
    kinds = ["compaction_update"] * 2 if knows_compactions else ["tool_call", "tool_call_update"]
    assert [each["sessionUpdate"] for each in shown] == kinds


def test_records_behind_the_entries_that_a_load_has_shown_show_nothing_again() -> None:
    """Records wait for the disk, and an answer to `get_entries` may come before them."""
    question = {"role": "user", "content": [{"type": "text", "text": "go"}]}
    call = {"type": "toolCall", "id": "call_0", "name": "ls", "arguments": {}}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "hm"}, call], "stopReason": "toolUse"}
    branch: list[dict[str, Any]] = [
        {"type": "message", "id": "q", "message": question},
        {"type": "message", "id": "a", "parentId": "q", "message": answer},
    ]
    shown = Translator()
    began = {"type": "message_start", "entryId": "a", "message": {"role": "assistant", "content": []}}
    assert list(shown.take(began)) == []
    shown.join(frozenset(str(entry["id"]) for entry in tail(branch)), last_answer(branch))
    assert list(shown.begin_again()) == []
    assert shown.unfinished == {"a:0"}
    assert list(shown.take({"type": "message_end", "entryId": "a", "message": answer})) == []
    assert shown.answer == answer
    begun = {"type": "tool_execution_start", "toolCallId": "call_0", "callIndex": 0, "toolName": "ls", "args": {}}
    ended = {**begun, "type": "tool_execution_end", "result": {"content": []}, "isError": False}
    begun_call, ended_call = [*shown.take(begun), *shown.take(ended)]
    assert isinstance(begun_call, CallProgressed)
    assert isinstance(ended_call, CallEnded)
    assert (ended_call.call.id, ended_call.call.status) == ("a:0", "completed")

    late = Translator()
    late.join(frozenset({"q"}), None)
    assert list(late.take({"type": "message_start", "entryId": "q", "message": question})) == []
    assert list(late.take({"type": "message_end", "entryId": "q", "message": question})) == []


def test_a_message_that_has_begun_without_an_entry_is_shown_at_its_end_after_a_load() -> None:
    """Whoever has sent it, since the client begins anew."""
    question = {"role": "user", "content": [{"type": "text", "text": "go"}]}
    shown = Translator()
    shown.expect("m1")
    record = {"entryId": "q", "messageId": "m1", "message": question}
    said = [{"type": "text", "text": "go"}]
    assert list(shown.take({"type": "message_start", **record})) == [UserMessage("q", said, is_own=True, given_as="m1")]
    shown.join(frozenset(), None)
    assert list(shown.begin_again()) == []
    assert [*shown.take({"type": "message_end", **record})] == [UserMessage("q", said, given_as="m1")]


def test_a_message_that_is_being_saved_is_shown_when_it_is_accepted() -> None:
    """Its entry is there before; it may be taken back. Those of others, and what has begun, are shown by entries."""
    said = [{"type": "text", "text": "go"}]
    question = {"role": "user", "content": said}
    entry: dict[str, Any] = {"type": "message", "id": "q", "messageId": "m1", "message": question}
    shown = Translator()
    assert shown.without_unsaved([entry]) == [entry]
    shown.expect("m1")
    mark = {"type": "custom", "id": "c", "messageId": "m2"}  # of a command that was sent behind it
    assert [shown.without_unsaved([entry, mark]) for _ in range(2)] == [[mark], [mark]]  # an editor may resume again
    record = {"type": "message_start", "entryId": "q", "messageId": "m1", "message": question}
    assert [*shown.take(record)] == [UserMessage("q", said, given_as="m1")]
    assert shown.without_unsaved([entry]) == [entry]


def test_a_call_of_an_aborted_answer_is_shown_again_without_a_result() -> None:
    """As it was live: it was not carried out."""
    call = {"type": "toolCall", "id": "call_0", "name": "ls", "arguments": {}}
    answer = {"role": "assistant", "content": [call], "stopReason": "aborted"}
    result = {"role": "toolResult", "toolCallId": "call_0", "isError": True, "content": []}
    branch: list[dict[str, Any]] = [
        {"type": "message", "id": "a", "message": answer},
        {"type": "message", "id": "r", "parentId": "a", "message": result},
    ]
    [shown] = replay(branch)
    assert isinstance(shown, CallReplayed)
    assert (shown.call.status, shown.result) == ("cancelled", None)


def test_random_runs_are_shown_again_as_they_were(acp: StartAcp, work: Path, llm: MakeLlm) -> None:
    """Calls with equal ids in one answer included, which some servers give."""
    server = llm([])
    agent = acp(server=server, settings={"retry": {"enabled": False}})
    agent.call("initialize", protocolVersion=1)

    @settings(max_examples=EXAMPLES)
    @given(st.lists(RUN, min_size=1, max_size=3))
    def check(runs: list[tuple[list[Mapping[str, Any]], Mapping[str, Any]]]) -> None:
        (work / "a.txt").write_text("one\n")
        session = agent.call("session/new", cwd=str(work), mcpServers=[])["sessionId"]
        for working, last in runs:
            for answer in (*working, last):
                numbered = [{**call, "id": f"call_{at % 2}"} for at, call in enumerate(answer.get("tool_calls", ()))]
                server.add({**answer, "tool_calls": numbered} if numbered else answer)
            agent.response(agent.request("session/prompt", sessionId=session, prompt=text("Go")))
        live = agent.updates(session)
        agent.call("session/close", sessionId=session)
        since = len(agent.messages)
        agent.call("session/load", sessionId=session, cwd=str(work), mcpServers=[])
        again = agent.updates(session, since)
        asked = [each for each in _texts(again) if each[0] == "user_message_chunk"]
        assert [said for _, _, said in asked] == ["Go"] * len(runs)
        assert [each for each in _texts(again) if each not in asked] == _texts(live)
        assert _calls(again) == _calls(live)
        agent.call("session/delete", sessionId=session)

    check()
    assert server.unscripted == []


def _texts(updates: list[Message]) -> list[tuple[object, object, str]]:
    """Return each message's texts, joined."""
    found: dict[tuple[object, object], str] = {}
    for update in updates:
        if str(update["sessionUpdate"]).endswith("_chunk"):
            key = (update["sessionUpdate"], update["messageId"])
            found[key] = found.get(key, "") + update["content"]["text"]
    return [(*key, said) for key, said in found.items()]


def _calls(updates: list[Message]) -> dict[object, Message]:
    """Return each call as a client knows it in the end."""
    found: dict[object, Message] = {}
    for update in updates:
        if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
            fields = {name: value for name, value in update.items() if name != "sessionUpdate"}
            found.setdefault(update["toolCallId"], {}).update(fields)
    return found
