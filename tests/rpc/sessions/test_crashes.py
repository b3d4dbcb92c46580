"""kill -9 at a random moment of a random conversation: what was promised is on the disk, and the session goes on.

Twenty conversations in an ordinary run; with HYPOTHESIS_PROFILE=long three hundred, and each is then opened by the
original as well, where that is installed:

    HYPOTHESIS_PROFILE=long .venv/bin/python -m pytest tests/rpc/sessions/test_crashes.py -q

A failure is repeated by its number; what exactly the agent is doing when the kill comes is up to the machine.
Rules R-SES-05 to R-SES-07.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from pinnace_campaigns.trials.crashes import CrashScenario, make_scenario, play_until_killed
from pinnace_fuzz.records import Record
from pinnace_fuzz.session_verdict import (
    branch_messages,
    find_damage,
    find_losses,
    find_request_faults,
    shell_results,
    text_of,
    without_cut_line,
)
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

IS_LONG: Final = os.environ.get("HYPOTHESIS_PROFILE") == "long"
NUMBERS: Final = range(300 if IS_LONG else 20)
# The original takes a second to start.
NUMBERS_FOR_THE_ORIGINAL: Final = NUMBERS if IS_LONG else range(300, 303)
# An answer that is cut is asked for again, without the usual seconds in between.
SETTINGS: Final = {"retry": {"baseDelayMs": 5}}
GO_ON: Final = "go on after the crash"
# What of a text is looked for in a request, where it is escaped: enough to tell texts apart.
BEGINNING: Final = 16


class Crashed(NamedTuple):
    """What a killed agent left behind, and what it had told."""

    scenario: CrashScenario
    agent: HomedAgent
    files: dict[str, bytes]


class Restarted(NamedTuple):
    """How an agent found the session that it went on with, and how it left it."""

    path: Path
    branch_before: list[Record]
    messages_after: list[Record]


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.jsonl"))}


def messages_of(agent: HomedAgent) -> list[Record]:
    messages: list[Record] = agent.request({"type": "get_messages"})["data"]["messages"]
    return messages


def crash(agent: AgentStarter, number: int) -> Crashed:
    """Play a conversation to its end and check what is left of it."""
    scenario = make_scenario(number)
    pi = agent(scenario.script, has_session=True, settings=SETTINGS)
    pi.request({"type": "get_state"})
    play_until_killed(pi, scenario)
    files = files_in(pi.home.sessions)

    assert [] == find_losses((each.record for each in pi.records), scenario.texts, files)
    assert {} == {name: found for name, data in files.items() if (found := find_damage(data, may_be_torn=True))}
    return Crashed(scenario, pi, files)


def go_on(agent: AgentStarter, crashed: Crashed) -> Restarted:
    """Restart with the newest session and hold another prompt; check what it finds, asks the model, and leaves."""
    pi = agent((), "--continue", again=crashed.agent)
    path = Path(pi.request({"type": "get_state"})["data"]["sessionFile"])
    before = messages_of(pi)
    crashed_data = crashed.files.get(path.name, b"")
    branch = branch_messages(crashed_data)
    assert branch == before[: len(branch)]
    # What a shell said in a run that did not come to its end follows, if it is not in the branch.
    assert [] == [each for each in before[len(branch) :] if each not in shell_results({path.name: crashed_data})]

    asked = len(pi.llm.requests)
    assert pi.request({"id": "again", "type": "prompt", "message": GO_ON})["success"]
    pi.wait({"type": "agent_settled"})
    requests = pi.llm.requests[asked:]
    assert [] == [fault for request in requests for fault in find_request_faults(request.body)]
    texts = [text_of(message) for message in before if message["role"] == "user"]
    assert [] == [text for text in [*texts, GO_ON] if text[:BEGINNING] not in requests[0].text]
    after = messages_of(pi)
    assert before == after[: len(before)]

    files = files_in(pi.home.sessions)
    assert [] == find_losses((each.record for each in pi.records), {"again": GO_ON}, files)
    for name, data in files.items():
        whole = without_cut_line(data, crashed.files.get(name, b""))
        assert [] == find_damage(whole, may_be_torn=name != path.name), name
    return Restarted(path, branch, after)


@pytest.mark.parametrize("number", NUMBERS)
def test_what_was_answered_survives_and_the_session_continues(agent: AgentStarter, number: int) -> None:
    go_on(agent, crash(agent, number))


@pytest.fixture
def original_reads(original_pi: list[str], tmp_path: Path) -> Iterator[Callable[[Path], list[Record]]]:
    """Lets the original open a copy of a session file; returns the messages that it finds."""
    with AgentStarter(original_pi, tmp_path / "original") as starter:

        def read(path: Path) -> list[Record]:
            return messages_of(starter((), "--session", str(path), has_session=True))

        yield read


@pytest.mark.peer
@pytest.mark.parametrize("number", NUMBERS_FOR_THE_ORIGINAL)
def test_the_original_finds_the_same_messages(
    agent: AgentStarter, original_reads: Callable[[Path], list[Record]], tmp_path: Path, number: int
) -> None:
    crashed = crash(agent, number)
    copies = tmp_path / "copies"
    shutil.copytree(crashed.agent.home.sessions, copies)
    restarted = go_on(agent, crashed)

    if (left := copies / restarted.path.name).exists() and left.stat().st_size:
        assert restarted.branch_before == original_reads(left)
    assert restarted.messages_after == original_reads(restarted.path)
