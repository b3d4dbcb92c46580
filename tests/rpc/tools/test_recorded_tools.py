"""Choices of tools belong to the branch on which they were made. R-SET-09."""

import json
from pathlib import Path
from typing import Any

import pytest

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_spec.session_format import validate_session

EXTENSION = '''
def extension(pi):
    @pi.tool()
    def count(ctx, text: str) -> str:
        """Counts words."""
        return "3"

    @pi.command("choose")
    async def choose(ctx, arguments):
        pi.set_active_tools(arguments.split())

    @pi.command("register")
    async def register(ctx, arguments):
        @pi.tool(name="late", default_active=False)
        def late(ctx, text: str) -> str:
            """Comes late."""
            return "4"
'''
BEGINNING = ["read", "bash", "edit", "write"]


def active(pi: HomedAgent) -> list[str]:
    return [each["name"] for each in pi.ask("get_tools")["tools"] if each["active"]]


def file_of(pi: HomedAgent) -> str:
    return str(pi.ask("get_state")["sessionFile"])


def recorded(file: str) -> list[tuple[list[str], list[str]]]:
    messages: list[Any] = [json.loads(line).get("message", {}) for line in Path(file).read_text().splitlines()]
    return [
        ([each["name"] for each in message.get("toolsAdded", [])], [e["name"] for e in message.get("toolsRemoved", [])])
        for message in messages
        if message.get("role") == "system"
    ]


def forks(pi: HomedAgent) -> list[str]:
    return [str(each["entryId"]) for each in pi.ask("get_fork_messages")["messages"]]


@pytest.mark.parametrize("has_extension", [False, True])
def test_a_branch_has_the_tools_that_were_chosen_on_it(
    has_extension: bool, agent: AgentStarter, tmp_path: Path
) -> None:
    """After a fork, a clone, a move and a switch; without a record those of the beginning, as in a new session."""
    path = tmp_path / "counting.py"
    path.write_text(EXTENSION)
    flags = ["-e", str(path)] if has_extension else []
    beginning = [*BEGINNING, "count"] if has_extension else BEGINNING

    def choose(*names: str) -> None:
        if has_extension:
            pi.ask("prompt", message=f"/choose {' '.join(names)}")
        else:
            pi.ask("set_active_tools", names=list(names))
        assert list(names) == active(pi)

    pi = agent([{"text": "fine", "repeat": -1}], *flags, has_session=True)
    pi.say("first")
    choose("read", "ls")
    pi.say("second")
    choose("bash")
    pi.say("third")
    file, (first, second, third) = file_of(pi), forks(pi)
    found = {}
    for name, command in {
        "clone": {"type": "clone"},
        "reload": {"type": "reload"},
        "fork": {"type": "fork", "entryId": second},
        "back": {"type": "switch_session", "sessionPath": file},
        "move": {"type": "navigate_tree", "entryId": second},
        "forward": {"type": "navigate_tree", "entryId": third},
        "beginning": {"type": "navigate_tree", "entryId": first},
        "again": {"type": "switch_session", "sessionPath": file},
        "new": {"type": "new_session"},
    }.items():
        assert pi.request(command)["success"]
        found[name] = active(pi)
    once, twice = ["read", "ls"], ["bash"]
    expected = {"clone": twice, "reload": twice, "fork": once, "back": twice, "move": once, "forward": twice}
    assert expected | {"beginning": beginning, "again": beginning, "new": beginning} == found
    dropped = [name for name in beginning if name != "read"]
    assert [(once, dropped), (twice, once)] == recorded(file)
    assert [] == validate_session(Path(file).read_bytes())
    pi.check_end()


def test_a_choice_survives_a_crash_behind_its_answer(agent: AgentStarter) -> None:
    """Nothing was requested since; flags of the next start take precedence."""
    pi = agent([{"text": "fine", "repeat": -1}], has_session=True)
    pi.say("first")
    pi.ask("set_active_tools", names=["read", "ls"])
    file = file_of(pi)
    pi.kill()
    pi.wait_exit()

    def restarted(*flags: str) -> list[str]:
        again = agent([{"text": "fine", "repeat": -1}], "--session", file, *flags, has_session=True)
        names = active(again)
        again.check_end()
        return names

    assert ["read", "ls"] == restarted()
    assert ["ls"] == restarted("--exclude-tools", "read")
    assert ["read", "bash", "ls"] == restarted("--tools", "+bash")
    assert ["edit"] == restarted("--tools", "edit")


def test_a_recorded_tool_becomes_active_when_it_is_registered(agent: AgentStarter, tmp_path: Path) -> None:
    path = tmp_path / "counting.py"
    path.write_text(EXTENSION)
    pi = agent([{"text": "fine", "repeat": -1}], "-e", str(path), has_session=True)
    pi.say("first")
    pi.ask("prompt", message="/register")
    pi.ask("prompt", message="/choose read late")
    assert ["read", "late"] == active(pi)
    pi.ask("clone")
    assert ["read"] == active(pi)
    pi.ask("prompt", message="/register")
    assert ["read", "late"] == active(pi)
    pi.check_end()


def test_no_client_and_no_model_sees_a_record(agent: AgentStarter) -> None:
    """D-09: the messages of the conversation are the same, and the numbers of them."""
    pi = agent([{"text": "one"}, {"text": "two"}], has_session=True)
    pi.say("first")
    pi.ask("set_active_tools", names=["read"])
    pi.say("second")

    def roles(messages: list[Record]) -> list[str]:
        return [each["role"] for each in messages]

    assert ["user", "assistant", "user", "assistant"] == roles(pi.ask("get_messages")["messages"])
    assert 4 == pi.ask("get_state")["messageCount"]
    assert ["system", "user", "assistant", "user"] == roles(pi.llm.requests[-1].body["messages"])
    assert [] == pi.found({"type": "message_start", "message": {"role": "system"}})
    pi.check_end()
