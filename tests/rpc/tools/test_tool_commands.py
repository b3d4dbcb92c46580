"""`get_tools` and `set_active_tools`: what a client sees of the tools, and what the model is then offered. R-STA-06."""

from pathlib import Path

import pytest

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

EXTENSION = '''
def extension(pi):
    @pi.tool()
    def count(ctx, text: str) -> str:
        """Counts words."""
        return "3"
'''


def tools_of(pi: HomedAgent) -> dict[str, Record]:
    return {each["name"]: each for each in pi.ask("get_tools")["tools"]}


def active(pi: HomedAgent) -> list[str]:
    return [name for name, each in tools_of(pi).items() if each["active"]]


def test_the_list_has_every_tool_with_its_schema_and_source(agent: AgentStarter) -> None:
    pi = agent([])
    tools = tools_of(pi)

    assert ["read", "bash", "edit", "write", "grep", "find", "ls"] == list(tools)
    assert ["read", "bash", "edit", "write"] == active(pi)
    assert all(each["parameters"]["type"] == "object" and each["description"] for each in tools.values())
    assert {"builtin"} == {each["sourceInfo"]["source"] for each in tools.values()}


def test_a_tool_of_an_extension_is_listed_with_its_file(agent: AgentStarter, tmp_path: Path) -> None:
    path = tmp_path / "counting.py"
    path.write_text(EXTENSION)
    count = tools_of(agent([], "-e", str(path)))["count"]

    assert (str(path), True) == (count["sourceInfo"]["path"], count["active"])
    assert ["text"] == list(count["parameters"]["properties"])


def test_the_next_request_declares_the_selected_tools(agent: AgentStarter) -> None:
    """R-SET-06: also the system prompt names them."""
    pi = agent([{"text": "one"}, {"text": "two"}])
    pi.say("first")
    pi.ask("set_active_tools", names=["ls", "read"])
    pi.say("second")
    before, after = (request.body for request in pi.llm.requests)

    assert ["read", "ls"] == active(pi)
    assert ["read", "bash", "edit", "write"] == [each["function"]["name"] for each in before["tools"]]
    assert ["read", "ls"] == [each["function"]["name"] for each in after["tools"]]
    assert "- bash:" in str(before["messages"][0])
    assert "- bash:" not in str(after["messages"][0])


def test_an_unknown_name_changes_nothing(agent: AgentStarter) -> None:
    """R-SET-06: all of them are named."""
    pi = agent([])
    refused = pi.request({"type": "set_active_tools", "names": ["ls", "nope", "neither"]})

    assert ("tool_not_found", False) == (refused["errorCode"], refused["success"])
    assert refused["error"].startswith("Tools not found: nope, neither.")
    assert ["read", "bash", "edit", "write"] == active(pi)


@pytest.mark.parametrize("names", ["read", [1], None])
def test_names_that_are_no_list_of_texts_are_refused(agent: AgentStarter, names: object) -> None:
    """R-ERR-03."""
    refused = agent([]).request({"type": "set_active_tools", "names": names})

    assert "invalid_field" == refused["errorCode"]
    assert refused["error"].startswith("Invalid set_active_tools command: names")


@pytest.mark.parametrize("profile", ["seed", "0.5x"])
def test_an_older_generation_does_not_know_the_commands(agent: AgentStarter, profile: str) -> None:
    """R-PRO-02: there they are refused like any other unknown command, whatever their fields hold."""
    pi = agent([])
    known = pi.ask("hello", protocol=profile)["commands"]
    refused = [pi.request({"type": "get_tools"}), pi.request({"type": "set_active_tools", "names": 1})]

    assert ["Unknown command: get_tools", "Unknown command: set_active_tools"] == [each["error"] for each in refused]
    assert not {"get_tools", "set_active_tools"} & set(known)
