"""Mode json: the session's header, then the same events as in mode rpc, and an exit code that says little."""

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

import pytest

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.reading import record_faults
from pinnace_fuzz.trials.workbench import AgentStarter, find_problems
from pinnace_spec.profiles.profiles import PROFILES, Profile

CALLS: Scripted = {
    "reasoning": "let me see",
    "text": "I will look",
    "tool_calls": [
        {"name": "bash", "args": {"command": "echo deep"}},
        {"name": "read", "args": {"path": "nope.txt"}},
    ],
}
REFUSED: Scripted = {"error": {"status": 400}}
OVERLOADED: Scripted = {"error": {"status": 503}}
# What is never the same twice.
CHANCE = frozenset({"timestamp", "durationMs", "entryId", "assistantEntryId", "messageId"})
SCRIPTS: dict[str, tuple[list[str], list[Scripted]]] = {
    "text": (["hello"], [{"text": ["good", " ", "day"]}]),
    "tools": (["look"], [CALLS, {"text": "done"}]),
    "two prompts": (["one", "two"], [{"text": "1"}, {"text": "2"}]),
    "a refusal": (["hello"], [REFUSED]),
    "a retry": (["hello"], [OVERLOADED, {"text": "fine"}]),
    "a cut answer": (["hello"], [{"text": "half", "finish": "length", "usage": {"input": 10, "output": 4096}}]),
}
SETTINGS = {"retry": {"baseDelayMs": 1}}


def settled(value: Any, folder: str) -> Any:
    """Leave out what is chance: times, and where the folder is."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)  # cast: of JSON
        return {key: settled(item, folder) for key, item in fields.items() if key not in CHANCE}
    if isinstance(value, list):
        return [settled(item, folder) for item in value]
    return value.replace(folder, "{root}") if isinstance(value, str) else value


def is_told_by_a_working_tool(record: Record) -> bool:
    return record["type"] in {"tool_execution_update", "tool_execution_end"}


def call_by_call(records: Iterable[Record]) -> list[Record]:
    """Put what tools tell while they work together by call.

    R-RUN-02: calls of one answer end in the order of completion, which is chance. What one call tells keeps its order,
    and everything else its place: all starts come before, in call order, and all results behind.
    """
    ordered: list[Record] = []
    for is_free, stretch in itertools.groupby(records, is_told_by_a_working_tool):
        together = list(stretch)
        ordered += sorted(together, key=lambda record: record["toolCallId"]) if is_free else together
    return ordered


def events(records: Sequence[Record], folder: object) -> list[object]:
    told = call_by_call(record for record in records if record["type"] != "response")
    return [settled(record, str(folder)) for record in told]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", SCRIPTS)
def test_its_records_are_the_events_of_mode_rpc(
    name: str, profile: Profile, agent: AgentStarter, print_agent: OneShotStarter
) -> None:
    prompts, script = SCRIPTS[name]
    pi = agent(script, "--protocol", profile, settings=SETTINGS)
    for prompt in prompts:
        mark = pi.mark()
        pi.request({"type": "prompt", "message": prompt})
        pi.wait({"type": "agent_end"}, since=mark)
        # In `seed` nothing says that the agent has settled, nor that a retry follows; it has when the state says so.
        while pi.ask("get_state")["isStreaming"]:
            pass
    one_shot = print_agent(["--mode", "json", "--protocol", profile, *prompts], script, settings=SETTINGS)
    header, *records = one_shot.end().records
    if profile != "seed":  # nothing that it does not publish
        assert "result" == records.pop()["type"]

    assert "session" == header["type"]
    # Failures name the address of the model.
    records = json.loads(json.dumps(records).replace(one_shot.llm.base_url, pi.llm.base_url))
    assert events([each.record for each in pi.records], pi.home.root) == events(records, one_shot.home.root)
    assert [] == find_problems(records, profile)
    assert [] == record_faults(records)


def test_the_header_is_the_one_of_the_file(print_agent: OneShotStarter) -> None:
    first = print_agent(["--mode", "json", "a"], [{"text": "one"}], has_session=True)
    header = first.end().out.splitlines()[0]
    [file] = first.home.sessions.rglob("*.jsonl")
    again = print_agent(["--mode", "json", "b", "--session", str(file)], [{"text": "two"}], has_session=True)

    assert file.read_text().splitlines()[0] == header
    assert json.loads(header) == again.end().records[0]


def test_the_header_says_what_a_file_would(print_agent: OneShotStarter) -> None:
    one_shot = print_agent(["--mode", "json", "a", "--session-id", "mine"], [{"text": "one"}])
    header = one_shot.end().records[0]

    assert {"type", "version", "id", "timestamp", "cwd"} == set(header)
    assert (3, "mine", str(one_shot.home.work)) == (header["version"], header["id"], header["cwd"])


def test_without_a_prompt_there_are_no_events(print_agent: OneShotStarter) -> None:
    ended = print_agent(["--mode", "json"]).end()

    assert (0, ["session", "result"]) == (ended.code, [record["type"] for record in ended.records])


@pytest.mark.parametrize("answer", [REFUSED, {"text": "half", "finish": "length", "usage": {"input": 1, "output": 99}}])
def test_a_failure_of_the_model_is_reported_by_records_alone(answer: Scripted, print_agent: OneShotStarter) -> None:
    """As in the original; who wants an exit code says so."""
    ended = print_agent(["--mode", "json", "hello"], [answer]).end()
    strict = print_agent(["--mode", "json", "--fail-on-error", "hello"], [answer]).end()

    assert (0, "") == (ended.code, ended.err)
    assert 1 == strict.code
    assert strict.err.startswith("pinnace: ")
    assert len(ended.records) == len(strict.records)


def test_a_prompt_that_is_refused_is_an_error(print_agent: OneShotStarter) -> None:
    """There is no record that could tell it."""
    ended = print_agent(["--mode", "json", "hello"], models={"providers": {"fake": {"apiKey": "none"}}}).end()

    assert 1 == ended.code
    assert ended.err.startswith("pinnace: ")


def test_lines_are_lines_for_every_reader(print_agent: OneShotStarter) -> None:
    """R-FRM-09."""
    ended = print_agent(["--mode", "json", "a\u2028b\x85c"], [{"text": "\u2029"}]).end()

    assert ended.out.splitlines() == ended.out.removesuffix("\n").split("\n")
