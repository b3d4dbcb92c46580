"""What configures agents and has come in a session is not trusted with the folder above it."""

import json
from pathlib import Path

import pytest
from tests.rpc.sandbox.test_sandboxed_tools import DONE, bash, mechanisms, settings, write

from pinnace_agent.config.trust import distrust, read_decisions, save_decision
from pinnace_fuzz.trials.workbench import AgentStarter

MAKES = {
    "a command": bash("mkdir -p sub/.pi && echo {} > sub/.pi/settings.json; mkdir -p deep/er/.agents/skills"),
    "the tool write": write("sub/.pi/settings.json"),
}


@mechanisms
@pytest.mark.parametrize("way", MAKES)
def test_trust_does_not_descend_to_what_has_come_since_the_start(
    agent: AgentStarter, tmp_path: Path, mechanism: str, way: str
) -> None:
    work = tmp_path / "agent-1" / "work"
    for each in ("sub", "deep/er", "old/.pi"):
        (work / each).mkdir(parents=True)
    pi = agent(
        [MAKES[way], DONE],
        *("--sandbox", "workspace-write"),
        settings=settings(mechanism),
        files={"trust.json": {str(work): True}},
    )
    file = pi.home.agent_dir / "trust.json"
    mark = pi.mark()
    pi.say("go")
    pi.wait({"type": "agent_settled"}, since=mark)
    pi.check_end()

    wanted = {str(work): True, str(work / "sub"): False}
    if way == "a command":
        wanted[str(work / "deep/er")] = False
    assert json.loads(file.read_text()) == wanted


@pytest.mark.parametrize(
    ("decisions", "after"),
    [
        ({"/a": True}, {"/a": True, "/a/b": False}),
        ({"/a": True, "/a/b": True}, {"/a": True, "/a/b": True}),
        ({"/a": True, "/a/b": None}, {"/a": True, "/a/b": False}),
        ({"/a": False}, {"/a": False}),
        ({}, {}),
    ],
)
def test_a_decision_for_the_folder_itself_stays(
    tmp_path: Path, decisions: dict[str, bool | None], after: dict[str, bool | None]
) -> None:
    file = tmp_path / "trust.json"
    file.write_text(json.dumps(decisions))
    distrust(file, Path("/a/b"))
    assert json.loads(file.read_text()) == after
    save_decision(file, Path("/a/b"), True)
    distrust(file, Path("/a/b"))
    assert read_decisions(file)[0]["/a/b"] is True
