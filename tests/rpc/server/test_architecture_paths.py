"""The paths of docs/architecture.md: each table of steps is followed in a real agent process.

The functions of a table are called for the first time in its order, no file has two steps, and the agent enters no room
between the first and the last step that the table does not name.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.source_tree import PYTHONPATH, REPOSITORY

from pinnace_fuzz.trials.workbench import AgentStarter

PAGE: Final = REPOSITORY / "docs" / "architecture.md"
TRACED: Final = Path(__file__).with_name("traced_agent.py")
PATHS: Final = ("prompt", "abort", "delta", "append")

_SECTION: Final = re.compile(r"^### The path of [^\n]*`?(prompt|abort|delta|append)`?\n(.*?)(?=^##)", re.S | re.M)
_ROW: Final = re.compile(r"^\| `\w+/(pinnace_\w+/[\w/]+\.py)` \| `([\w.]+)` \|", re.M)
_BESIDE: Final = re.compile(r"^Rooms beside the path: (.*)\.$", re.M)


class Call(NamedTuple):
    """One call, or one step of a table."""

    file: str
    function: str

    @property
    def room(self) -> str:
        return self.file.rpartition("/")[0]


class Table(NamedTuple):
    """One path of the page."""

    steps: Sequence[Call]
    beside: frozenset[str]
    """Rooms that steps use without being a step."""


def tables() -> dict[str, Table]:
    """Read the page."""
    found = {}
    for name, text in _SECTION.findall(PAGE.read_text(encoding="utf-8")):
        rooms = [room for line in _BESIDE.findall(text) for room in re.findall(r"`\w+/([\w/]+)`", line)]
        found[name] = Table([Call(*row) for row in _ROW.findall(text)], frozenset(rooms))
    return found


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[Call]]:
    """Run an agent; return the calls from the beginning of each path on."""
    folder = tmp_path_factory.mktemp("traced")
    file = folder / "calls.txt"
    command = (sys.executable, str(TRACED), str(file))
    with AgentStarter(command, folder / "agent", {"PYTHONPATH": PYTHONPATH}, is_specified=True) as start:
        # Each is held until the writer has written the one before.
        chunks = [{"text": "one "}, {"gate": "two "}, {"text": "two "}, {"gate": "three"}, {"text": "three"}]
        pi = start(
            [
                {"text": "warm"},
                {"chunks": chunks},
                {"tool_calls": [{"name": "bash", "id": "t0", "args": {"command": "echo begun; sleep 60"}}]},
            ],
            has_session=True,
        )
        pi.say("load what a first prompt needs")
        pi.ask("prompt", message="answer in three deltas")
        for written, held in (("one ", "two "), ("two ", "three")):
            pi.wait({"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "delta": written}})
            pi.llm.release(held)
        pi.wait({"type": "agent_settled"})
        pi.ask("prompt", message="call a tool")
        pi.wait({"type": "tool_execution_update", "partialResult": {"content": [{"text": "begun\n"}]}})
        pi.ask("abort")
    calls = [Call(*line.split(" ", 1)) for line in file.read_text(encoding="utf-8").splitlines()]
    return {name: calls[begin:] for name, begin in begins(calls).items()}


def begins(calls: Sequence[Call]) -> dict[str, int]:
    """Return where each path begins: at its first step, in the second prompt or in the abort."""

    def places(function: str) -> list[int]:
        return [place for place, call in enumerate(calls) if call.function == function]

    def last_before(function: str, place: int) -> int:
        return max(each for each in places(function) if each < place)

    _, prompt, _, abort = places("Dispatcher.receive")
    _, second_delta, *_ = [place for place in places("MessageBuilder.text_delta") if place > prompt]
    return {
        "prompt": last_before("_take_lines", prompt),
        "abort": last_before("_take_lines", abort),
        "delta": last_before("SseReader.feed", second_delta),
        "append": min(place for place in places("RunRecorder.write_message") if place > prompt),
    }


def test_the_page_has_a_table_of_each_path() -> None:
    assert sorted(PATHS) == sorted(tables())
    assert all(len(table.steps) > 5 for table in tables().values())


@pytest.mark.parametrize("name", PATHS)
def test_no_step_visits_a_file_twice(name: str) -> None:
    files = [step.file for step in tables()[name].steps]

    assert [] == [file for file in files if files.count(file) > 1]


@pytest.mark.parametrize("name", PATHS)
def test_the_steps_are_taken_in_the_order_of_the_table(name: str, trace: Mapping[str, Sequence[Call]]) -> None:
    steps, calls = tables()[name].steps, trace[name]
    assert [] == [step for step in steps if step not in calls]

    first: Callable[[Call], int] = calls.index
    assert sorted(steps, key=first) == list(steps)


@pytest.mark.parametrize("name", PATHS)
def test_a_path_enters_no_room_that_the_page_does_not_name(name: str, trace: Mapping[str, Sequence[Call]]) -> None:
    table, calls = tables()[name], trace[name]
    named = {step.room for step in table.steps} | table.beside
    passed = [call for call in calls[: max(map(calls.index, table.steps))] if call.function != "<module>"]

    assert set() == {call.room for call in passed if not any(f"{call.room}/".startswith(f"{each}/") for each in named)}
