"""What an agent says of its own accord, a scenario does not count."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pinnace_fuzz.judge.adapter import NoAdapter
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.load import LoadMeter
from pinnace_fuzz.judge.results import CaseResult
from pinnace_fuzz.judge.running import run_once
from pinnace_fuzz.judge.scenarios.reading import read_scenario
from pinnace_fuzz.judge.unasked import SHOWN, is_unasked
from pinnace_spec.profiles.generations import generation

TALKATIVE = """
import json, sys
print(json.dumps({"type": "ready", "version": 1}), flush=True)
print(json.dumps({"type": "extension_ui_request", "id": "1", "method": "setWidget", "widgetKey": "w"}), flush=True)
for line in sys.stdin:
    own = json.loads(line)["id"]
    state = {"sessionId": "s", "thinkingLevel": "off", "isStreaming": False, "isCompacting": False}
    modes = {"steeringMode": "all", "followUpMode": "all", "autoCompactionEnabled": True}
    data = {**state, **modes, "messageCount": 0, "pendingMessageCount": 0, "model": None}
    answer = {"type": "response", "id": own, "command": "get_state", "success": True, "data": data}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[AgentUnderTest]:
    agent = tmp_path / "talkative.py"
    agent.write_text(TALKATIVE)
    with LoadMeter() as meter:
        yield AgentUnderTest(
            (sys.executable, str(agent)), NoAdapter(), frozenset(), generation("seed"), tmp_path, meter, 0.2
        )


def judged(kit: AgentUnderTest, expect: str) -> CaseResult:
    steps = [{"ask": {"id": "a", "type": "get_state"}}]
    source: dict[str, Any] = {"id": "KIT/x", "title": "x", "rules": ["R-RSP-01"], "client": steps, "expect": expect}
    return run_once(read_scenario(source), kit)


def test_records_of_its_own_and_what_it_shows_are_passed_over(kit: AgentUnderTest) -> None:
    assert "PASS" == judged(kit, "^ resp(a,ok) $").verdict


def test_who_is_judged_strictly_or_promises_more_may_write_nothing_else(kit: AgentUnderTest) -> None:
    assert "FAIL" == judged(kit._replace(is_strict=True), "^ resp(a,ok) $").verdict
    assert "FAIL" == judged(kit._replace(is_ours=True), "^ resp(a,ok) $").verdict


@pytest.mark.parametrize("kind", ["response", "agent_settled", "hook_error", "queue_update", "no record", "@"])
def test_what_some_generation_writes_is_always_counted(kind: str) -> None:
    assert not is_unasked({"type": kind}, has_extensions=False)


def test_a_dialog_is_counted_and_so_is_what_an_extension_shows() -> None:
    shown = [{"type": "extension_ui_request", "method": method} for method in sorted(SHOWN)]

    assert [True] * 5 == [is_unasked(each, has_extensions=False) for each in shown]
    assert [False] * 5 == [is_unasked(each, has_extensions=True) for each in shown]
    assert not is_unasked({"type": "extension_ui_request", "method": "confirm"}, has_extensions=False)
