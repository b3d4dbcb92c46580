"""`list_sessions` and `set_label` over real pipes: saved sessions in pages, labels of entries. R-SES-11, R-SES-12."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.rpc.conftest import ENVIRONMENT

from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

MORE = {"text": "more", "repeat": -1}


def saved(folder: Path, number: int, cwd: Path) -> None:
    """Write a session, later than those with lower numbers."""
    stamp = "2026-01-02T03:04:05.000Z"
    head = {"type": "session", "version": 3, "id": f"s{number}", "timestamp": stamp, "cwd": str(cwd)}
    message = {"role": "user", "content": f"text {number}", "timestamp": 1767323040000 + number}
    entry = {"type": "message", "id": "e1", "parentId": None, "timestamp": stamp, "message": message}
    path = folder / f"{number}.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in (head, entry)))
    os.utime(path, ns=(10**18 + number, 10**18 + number))


def pages(pi: HomedAgent, **fields: object) -> list[list[str]]:
    """Read all pages; return the ids of each."""
    found: list[list[str]] = []
    cursor: dict[str, object] = {}
    while True:
        page = pi.ask("list_sessions", **fields, **cursor)
        found.append([each["id"] for each in page["sessions"]])
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}


def refused(pi: HomedAgent, **fields: object) -> str:
    response = pi.request({"type": "list_sessions", **fields})
    assert ("invalid_field", False) == (response["errorCode"], response["success"])
    return str(response["error"])


def test_pages_hold_every_session_once_the_newest_first(agent: AgentStarter, tmp_path: Path) -> None:
    """R-SES-11: also if files have the same time; those of other folders are there with `all` alone."""
    pi = agent([], has_session=True)
    folder, work = pi.home.sessions, pi.home.work
    for number in range(5):
        saved(folder, number, work)
    saved(folder, 5, tmp_path)
    for number in (0, 1):
        os.utime(folder / f"{number}.jsonl", ns=(10**18, 10**18))
    (folder / "odd.jsonl").write_text("no session\n")

    assert [["s4", "s3"], ["s2", "s1"], ["s0"]] == pages(pi, limit=2)
    assert [["s5", "s4", "s3", "s2", "s1", "s0"]] == pages(pi, all=True)
    assert [["s5"]] == pages(pi, cwd=str(tmp_path))


def test_a_session_is_listed_with_what_its_file_holds(agent: AgentStarter) -> None:
    pi = agent([MORE], has_session=True)
    pi.say("the question")
    pi.ask("set_session_name", name="a name")
    state = pi.ask("get_state")
    [session] = pi.ask("list_sessions")["sessions"]

    shown = ("id", "path", "cwd", "name", "messageCount", "firstMessage")
    expected = (state["sessionId"], state["sessionFile"], state["cwd"], "a name", 2, "the question")
    assert expected == tuple(session[name] for name in shown)


def test_fields_that_do_not_fit_are_named(agent: AgentStarter) -> None:
    """R-ERR-03."""
    pi = agent([], has_session=True)
    problems = [
        refused(pi, cwd="here"),
        refused(pi, cwd="/", all=True),
        refused(pi, cursor="nowhere"),
        refused(pi, cursor="bm8gbnVtYmVy"),
        refused(pi, limit=201),
        refused(pi, limit=0),
    ]

    assert [
        "cwd must be an absolute path",
        "cwd must not be given with all",
        "cursor must be the nextCursor of an earlier response",
        "cursor must be the nextCursor of an earlier response",
        "limit must be an integer from 1 to 200",
        "limit must be an integer from 1 to 200",
    ] == [text.removeprefix("Invalid list_sessions command: ") for text in problems]


def test_a_process_that_keeps_no_sessions_lists_none(agent: AgentStarter) -> None:
    """R-CLI-02: nothing is read then."""
    assert "session_unavailable" == agent([]).request({"type": "list_sessions"})["errorCode"]


SLOW_LIST = """
import sys
from pinnace_rpc.server import slow_reads
read = slow_reads._list_sessions
def at_the_gate(*arguments):
    with open({path!r}) as gate:
        gate.readline()
    return read(*arguments)
slow_reads._list_sessions = at_the_gate
from pinnace_rpc.cli.main import main
sys.exit(main())
"""
"""An agent that reads its sessions for as long as a gate says."""


def test_other_commands_are_answered_meanwhile(tmp_path: Path, gates: Callable[[], ShellGate]) -> None:
    """R-SES-11: the list is read in a thread."""
    gate = gates()
    command = (sys.executable, "-P", "-c", SLOW_LIST.format(path=str(gate.path)))
    with AgentStarter(command, tmp_path / "slow", ENVIRONMENT, is_specified=True) as start:
        pi = start([], has_session=True)
        saved(pi.home.sessions, 0, pi.home.work)
        pi.send_many([{"id": "list", "type": "list_sessions"}, {"id": "state", "type": "get_state"}])
        gate.wait_reached()
        assert pi.wait_response("state")["success"]
        assert pi.response("list") is None
        gate.release()
        assert ["s0"] == [each["id"] for each in pi.wait_response("list")["data"]["sessions"]]


def labels(tree: list[Record]) -> list[str]:
    """Return the labels of a tree."""
    found = [each["label"] for each in tree if "label" in each]
    return found + [label for each in tree for label in labels(each["children"])]


def test_a_label_is_in_the_tree_and_survives_the_process(agent: AgentStarter) -> None:
    """R-SES-12."""
    pi = agent([MORE], has_session=True)
    pi.say("one")
    entry = pi.ask("get_fork_messages")["messages"][0]["entryId"]
    pi.ask("set_label", entryId=entry, label="the first")
    path = pi.ask("get_state")["sessionFile"]
    pi.close_stdin()
    assert pi.wait_exit() == 0
    again = agent([MORE], "--session", path, again=pi)
    kept = labels(again.ask("get_tree")["tree"])
    again.ask("set_label", entryId=entry, label=None)

    assert (["the first"], []) == (kept, labels(again.ask("get_tree")["tree"]))


@pytest.mark.parametrize("has_session", [True, False], ids=["in a file", "in memory"])
def test_only_an_entry_of_the_session_has_a_label(agent: AgentStarter, has_session: bool) -> None:
    """R-SES-12."""
    pi = agent([], has_session=has_session)
    response = pi.request({"type": "set_label", "entryId": "nobody", "label": "x"})

    assert ("entry_not_found", "Entry not found: nobody") == (response["errorCode"], response["error"])
