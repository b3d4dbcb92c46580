"""Settings of user and project, and trust, as the original has them: the same files, then `get_state` of both programs.

What release 1.5.2 answered is kept in tests/data, so that this runs without it. Where it is present it must still
answer so. To record anew, delete the file and run this with the original.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pytest
from tests.parts import asked_again
from tests.source_tree import DATA, PYTHONPATH

from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.harness.agent_process import AgentGone, DriverTimeout
from pinnace_fuzz.harness.driver import Agent

RECORDED: Final = DATA / "settings-of-pi-1.5.2.json"
NAMES: Final = ("steeringMode", "followUpMode", "thinkingLevel", "autoCompactionEnabled")
# The original takes one second of it, on a machine that has nothing else to do.
START_S: Final = 60.0
M2: Final = ("--model", "m2")
ALL: Final = {"steeringMode": "all"}
State = dict[str, Any]


class Case(NamedTuple):
    """The files of one start, its flags, and if ours is to differ, how."""

    name: str
    user: object = None
    project: object = None
    trust: dict[str, bool | None] | str | None = None
    """By a word for the folder, or the text of the file."""
    flags: Sequence[str] = ()
    ours: Mapping[str, object] = MappingProxyType({})


CASES: Final = (
    Case("nothing"),
    Case("user", ALL),
    # Trust.
    Case("project, nobody decided", project=ALL),
    Case("--approve", project=ALL, flags=("--approve",)),
    Case("-a -na", project=ALL, flags=("-a", "-na")),
    Case("-na -a", project=ALL, flags=("-na", "-a")),
    Case("always", {"defaultProjectTrust": "always"}, ALL),
    Case("never", {"defaultProjectTrust": "never"}, ALL),
    Case("always, said by the project", project={**ALL, "defaultProjectTrust": "always"}),
    Case("always, but not for this run", {"defaultProjectTrust": "always"}, ALL, flags=("--no-approve",)),
    Case("trusted", project=ALL, trust={"work": True}),
    Case("folder above trusted", project=ALL, trust={"root": True}),
    Case("trusted below one that is not", project=ALL, trust={"work": True, "root": False}),
    Case("not trusted below one that is", project=ALL, trust={"work": False, "root": True}),
    Case("null below one that is trusted", project=ALL, trust={"work": None, "root": True}),
    Case("not trusted, although always", {"defaultProjectTrust": "always"}, ALL, {"work": False}),
    Case("trusted, but not for this run", project=ALL, trust={"work": True}, flags=("-na",)),
    # Merging.
    Case("both", {"followUpMode": "all"}, ALL, flags=("-a",)),
    Case("project over user", ALL, {"steeringMode": "one-at-a-time"}, flags=("-a",)),
    Case("null over user", ALL, {"steeringMode": None}, flags=("-a",)),
    Case("null for an object", {"compaction": {"enabled": False}}, {"compaction": None}, flags=("-a",)),
    Case("object over object", {"compaction": {"enabled": False}}, {"compaction": {"reserveTokens": 1}}, flags=("-a",)),
    Case("levels", {"defaultThinkingLevel": "low"}, {"defaultThinkingLevel": "high"}, flags=("-a", *M2)),
    Case("level of a model", {"defaultThinkingLevel": "low", "modelThinkingLevels": {"fake/m2": "high"}}, flags=M2),
    Case("level of another", {"defaultThinkingLevel": "low", "modelThinkingLevels": {"fake/m1": "high"}}, flags=M2),
    Case(
        "levels of models joined",
        {"modelThinkingLevels": {"fake/m2": "high"}},
        {"modelThinkingLevels": {"fake/m1": "low"}},
        flags=("-a", *M2),
    ),
    Case("flag over level of a model", {"modelThinkingLevels": {"fake/m2": "high"}}, flags=(*M2, "--thinking", "low")),
    # Older names, and files that make no sense.
    Case("queueMode", {"queueMode": "all"}),
    Case(
        "queueMode of the project over steeringMode",
        {"steeringMode": "one-at-a-time"},
        {"queueMode": "all"},
        flags=("-a",),
    ),
    Case("both names", {"queueMode": "all", "steeringMode": "one-at-a-time"}),
    Case("byte order mark", "\ufeff" + json.dumps(ALL)),
    Case("damaged", '{"steeringMode": "all",'),
    Case("comment", '{"steeringMode": "all"} // why not'),
    Case("damaged project", ALL, '{"steeringMode": "all",', flags=("-a",)),
    Case("wrong mode", {"steeringMode": "some"}, ours={"steeringMode": "one-at-a-time"}),
    Case("damaged trust", ALL, ALL, "{", ours={"steeringMode": "all"}),
    Case("trust that is no decision", {}, ALL, '{"/": "yes"}', ours={"steeringMode": "one-at-a-time"}),
)


def state(command: Sequence[str], root: Path, case: Case) -> State:
    """Return what a program says with these files, or that it does not start."""
    home = prepare_pi_home(root, "http://127.0.0.1:9", env={"PYTHONPATH": PYTHONPATH})
    (home.agent_dir / "settings.json").write_text(_text(case.user), encoding="utf-8")
    if case.project is not None:
        (home.work / ".pi").mkdir()
        (home.work / ".pi" / "settings.json").write_text(_text(case.project), encoding="utf-8")
    if case.trust is not None:
        folders = {"work": home.work, "root": home.root}
        decided = case.trust
        if not isinstance(decided, str):
            decided = json.dumps({str(folders[name]): decision for name, decision in decided.items()})
        (home.agent_dir / "trust.json").write_text(decided)
    with Agent([*command, *home.arguments, *case.flags], cwd=home.work, env=home.env) as agent:
        try:
            data = agent.request({"type": "get_state"}, timeout_s=START_S)["data"]
        except (AgentGone, DriverTimeout):
            agent.wait_exit()  # its pipes may be closed before its end is noticed
            return {"starts": False}
    return {name: data[name] for name in NAMES}


def _text(content: object) -> str:
    return content if isinstance(content, str) else json.dumps(content or {})


@pytest.mark.parametrize("index", range(len(CASES)), ids=lambda index: CASES[index].name)
def test_a_start_is_as_of_the_original(index: int, tmp_path: Path) -> None:
    case = CASES[index]
    expected: dict[str, State] = json.loads(RECORDED.read_text(encoding="utf-8"))
    ours, theirs = state((sys.executable, "-P", "-m", "pinnace_rpc"), tmp_path, case), expected[case.name]

    if case.ours:
        assert theirs != ours, "no difference any more"
        assert case.ours.items() <= ours.items()
    else:
        assert theirs == ours


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, State]]:
    """Takes what the original says, case by case; keeps it if nothing is recorded."""
    record: dict[str, State] = {}
    yield record
    if not RECORDED.exists() and len(record) == len(CASES):
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in record.items())
        RECORDED.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [CASES[each] for each in asked_again(len(CASES), RECORDED)], ids=lambda case: case.name
)
def test_the_original_still_starts_so(
    case: Case, original_pi: list[str], tmp_path: Path, found: dict[str, State]
) -> None:
    # One test each: together they take minutes on a busy machine, as only a test that hangs does.
    found[case.name] = state(original_pi, tmp_path, case)
    if RECORDED.exists():
        record = json.loads(RECORDED.read_text(encoding="utf-8"))
        assert (len(CASES), found[case.name]) == (len(record), record[case.name])
