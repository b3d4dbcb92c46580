"""Random runs in version 2: what was live is what a replay shows, and what version 1 and the agent's entries have."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rpc.acp.conftest import StartAcp
from tests.rpc.acp.v2.conftest import begun, essence, idle, text, transcript

from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_rpc.acp.translation.abilities import Abilities
from pinnace_rpc.acp.translation.replay import replay
from pinnace_rpc.acp.translation.translator import Translator
from pinnace_rpc.acp.translation.v1.updates import Updates as Updates1
from pinnace_rpc.acp.translation.v2.updates import Updates as Updates2

EXAMPLES = {"ci": 3}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 12)
PURE_EXAMPLES = {"ci": 500, "long": 50_000}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 10_000)

CALLS = st.sampled_from(
    [
        {"name": "bash", "args": {"command": "echo out; exit 2"}},
        {"name": "bash", "args": {"command": "true"}},
        {"name": "read", "args": {"path": "a.txt"}},
        {"name": "read", "args": {"path": "none"}},
        {"name": "write", "args": {"path": "b.txt", "content": "x"}},
        {"name": "edit", "args": {"path": "a.txt", "edits": [{"oldText": "one", "newText": "two"}]}},
        {"name": "no_such_tool", "args": {}},
    ]
)
TEXTS = st.lists(st.sampled_from(["a", "`b`", "\n", "ü", "\U0001f6a3"]), min_size=1, max_size=3)
WORKING = st.fixed_dictionaries(
    {"tool_calls": st.lists(CALLS, min_size=1, max_size=3)}, optional={"text": TEXTS, "reasoning": TEXTS}
)
LAST = st.one_of(
    st.fixed_dictionaries({"text": TEXTS}, optional={"reasoning": TEXTS}),
    st.fixed_dictionaries({"text": TEXTS, "finish": st.just("length")}),
    st.just({"error": {"status": 400, "message": "refused"}}),
)
RUN = st.tuples(st.lists(WORKING, max_size=2), LAST)


def test_random_runs_are_shown_again_as_they_were_in_version_2(
    acp2: StartAcp, work: Path, llm: Callable[[Iterable[Scripted]], FakeLlm]
) -> None:
    """By an agent of their own, with equal ids of calls as some servers give them."""
    server = llm([])
    agent = acp2(server=server, settings={"retry": {"enabled": False}})
    begun(agent)

    @settings(max_examples=EXAMPLES)
    @given(st.lists(RUN, min_size=1, max_size=3))
    def check(runs: list[tuple[list[Mapping[str, Any]], Mapping[str, Any]]]) -> None:
        (work / "a.txt").write_text("one\n")
        (work / "b.txt").unlink(missing_ok=True)
        session = agent.call("session/new", cwd=str(work))["sessionId"]
        for working, last in runs:
            for answer in (*working, last):
                numbered = [{**call, "id": f"call_{at % 2}"} for at, call in enumerate(answer.get("tool_calls", ()))]
                server.add({**answer, "tool_calls": numbered} if numbered else answer)
            since = len(agent.messages)
            agent.call("session/prompt", sessionId=session, prompt=text("Go"))
            idle(agent, since)
        live = transcript(agent.updates(session))
        agent.call("session/close", sessionId=session)
        since = len(agent.messages)
        agent.call("session/resume", sessionId=session, cwd=str(work), replayFrom={"type": "start"})
        assert transcript(agent.updates(session, since)) == live
        agent.call("session/delete", sessionId=session)

    check()
    assert server.unscripted == []


# Pure: one run of records, in both versions and in the entries that it leaves.

Json = dict[str, Any]
BLOCK = st.one_of(
    st.builds(lambda said: {"type": "text", "text": said}, st.text(min_size=1, max_size=8)),
    st.builds(lambda said: {"type": "thinking", "thinking": said}, st.text(min_size=1, max_size=8)),
    st.builds(
        lambda tool, path: {
            "type": "toolCall",
            "id": "call",
            "name": tool,
            "arguments": {"path": path, "command": path},
        },
        st.sampled_from(["bash", "read", "ls", "other"]),
        st.text(alphabet="abc", min_size=1, max_size=3),
    ),
)
RESULT = st.tuples(st.booleans(), st.text(alphabet="xyz\n", max_size=6), st.integers(0, 3))
ANSWER = st.tuples(st.lists(BLOCK, min_size=1, max_size=4), st.lists(RESULT, min_size=4, max_size=4))


def _records(answers: list[tuple[list[Json], list[tuple[bool, str, int]]]]) -> tuple[list[Json], list[Json]]:
    """Return the records of a run, and the entries that it leaves."""
    asked: Json = {"role": "user", "content": [{"type": "text", "text": "Go"}]}
    records: list[Json] = [{"type": "message_start", "entryId": "u", "message": asked}]
    entries: list[Json] = [{"type": "message", "id": "u", "message": asked}]
    for number, (blocks, results) in enumerate(answers):
        entry, message = f"a{number}", {"role": "assistant", "content": blocks, "stopReason": "stop"}
        records.append({"type": "message_start", "entryId": entry, "message": {"role": "assistant", "content": []}})
        for at, block in enumerate(blocks):
            records += [{"type": "message_update", "assistantMessageEvent": each} for each in _events(at, block)]
        records.append({"type": "message_end", "entryId": entry, "message": message})
        entries.append({"type": "message", "id": entry, "parentId": entries[-1]["id"], "message": message})
        calls = [block for block in blocks if block["type"] == "toolCall"]
        for index, (call, (is_error, said, pieces)) in enumerate(zip(calls, results, strict=False)):
            ending = "\n\nCommand exited with code 2" if is_error and call["name"] == "bash" else ""
            result: Json = {"content": [{"type": "text", "text": (said or "(no output)") + ending}]}
            named = {"toolCallId": "call", "callIndex": index, "entryId": f"r{number}{index}", "toolName": call["name"]}
            records.append({"type": "tool_execution_start", **named, "args": call["arguments"]})
            for end in range(1, pieces + 1):
                partial = {"content": [{"type": "text", "text": said[: len(said) * end // pieces]}]}
                records.append({"type": "tool_execution_update", **named, "partialResult": partial})
            records.append({"type": "tool_execution_end", **named, "result": result, "isError": is_error})
            stored = {"role": "toolResult", "toolCallId": "call", "isError": is_error, **result}
            entries.append(
                {"type": "message", "id": named["entryId"], "parentId": entries[-1]["id"], "message": stored}
            )
    return records, entries


def _events(at: int, block: Json) -> list[Json]:
    if block["type"] == "toolCall":
        start = {"type": "toolcall_start", "contentIndex": at, "toolName": block["name"]}
        return [start, {"type": "toolcall_end", "contentIndex": at, "toolCall": block}]
    kind, said = ("text", block["text"]) if block["type"] == "text" else ("thinking", block["thinking"])
    half = len(said) // 2
    return [{"type": f"{kind}_delta", "contentIndex": at, "delta": each} for each in (said[:half], said[half:]) if each]


@settings(max_examples=PURE_EXAMPLES)
@given(st.lists(ANSWER, min_size=1, max_size=3))
def test_a_run_is_the_same_in_both_versions_and_in_its_entries(
    answers: list[tuple[list[Json], list[tuple[bool, str, int]]]],
) -> None:
    records, entries = _records(answers)
    first, second = Updates1("/w", Abilities()), Updates2("/w")
    # Rendered as they come: what is shown of a call refers to it, and it changes.
    one, two = Translator(), Translator()
    live1 = [update for record in records for each in one.take(record) for update in first.of(each)]
    live2 = [update for record in records for each in two.take(record) for update in second.of(each)]
    again1 = [update for each in replay(entries) for update in Updates1("/w", Abilities()).of(each)]
    replaying = Updates2("/w")
    again2 = [update for each in replay(entries) for update in replaying.of(each)]

    assert essence(live1) == essence(live2) == essence(again1) == essence(again2)
    assert transcript(live2) == transcript(again2)
