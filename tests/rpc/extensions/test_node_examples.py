"""The original's own examples: what each registers, shows at the start and offers to the model, as in the original.

`tests/data/pi-examples.json` holds what pi 1.5.2 does with each in mode rpc, recorded on 2026-11-27: the commands of
extensions without its own, the requests to the client until its first answers, and the tools of the first request
without the built-in ones.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from tests.rpc.extensions.conftest import Extended
from tests.source_tree import REPOSITORY

from pinnace_fuzz.trials.workbench import AgentStarter

EXAMPLES: Final = REPOSITORY / ".tools" / "pi-1.5.2" / "package" / "examples" / "extensions"
RECORDED: Final[dict[str, dict[str, Any]]] = json.loads(
    (REPOSITORY / "tests" / "data" / "pi-examples.json").read_text()
)
REASONS: Final = {
    "custom-provider-anthropic": "Cannot find package '@anthropic-ai/sdk'",
    "gondolin": "Cannot find package '@earendil-works/gondolin'",
    "jev-router.ts": "virtual models are not available in pinnace",
    "with-deps": "Cannot find package 'ms'",
}
"""Those that can't be loaded, with the error: three need packages of npm."""
PACKAGE: Final = "subagent"
"""Named as a folder, it is a package in pi, whose prompts are loaded and whose index is not."""
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
_OWN: Final = {"login"}


@pytest.fixture
def examples(original_pi: list[str], node_program: str) -> Path:
    """The folder of the examples."""
    assert original_pi
    assert node_program
    return EXAMPLES


def plain(request: Any, work: Path) -> Any:
    """Return a request to the client without its number, its colours and the folder."""
    fields = {name: value for name, value in request.items() if name not in ("id", "type")}
    text = json.dumps(fields, ensure_ascii=False).replace("\\u001b", "\x1b").replace(str(work), "CWD")
    shown: Any = json.loads(_STYLE.sub("", text))
    if fields["method"] == "setTitle":  # it has the name of the folder
        shown["title"] = shown["title"].rpartition(" ")[0]
    return shown


def declared(tools: list[Any]) -> dict[str, Any]:
    """Return the tools of a request as recorded: without the built-in ones and what providers are asked for."""
    builtin = {"bash", "edit", "find", "grep", "ls", "read", "write"}
    found = {each["function"]["name"]: dict(each["function"]) for each in tools}
    for each in found.values():
        each.pop("strict", None)
        each["parameters"] = {
            name: value for name, value in each["parameters"].items() if name not in ("additionalProperties", "$schema")
        }
    return {name: each for name, each in found.items() if name not in builtin}


@pytest.mark.parametrize("name", sorted(set(RECORDED) - set(REASONS) - {PACKAGE}))
def test_an_example_does_what_it_does_in_the_original(
    agent: AgentStarter, examples: Path, node_program: str, name: str
) -> None:
    recorded = RECORDED[name]
    pi = agent([{"text": "done"}], "-e", str(examples / name), env={"PINNACE_NODE": node_program}, is_checked=False)
    one = Extended(pi)
    commands = pi.ask("get_commands")["commands"]
    pi.ask("get_state")
    shown = [plain(each, pi.home.work) for each in one.frames()]
    assert recorded["commands"] == [
        [each["name"], each.get("description")]
        for each in commands
        if each["source"] == "extension" and each["name"] not in _OWN
    ]
    expected = [plain({**each}, pi.home.work) for each in recorded["displays"]]
    assert expected[: len(shown)] == shown
    if recorded["tools"]:
        one.say("hello")
        assert recorded["tools"] == declared(pi.llm.requests[0].body["tools"])
    assert not one.errors or name == "file-trigger.ts"


@pytest.mark.parametrize("name", sorted(REASONS))
def test_an_example_that_can_not_be_loaded_says_why(
    agent: AgentStarter, examples: Path, node_program: str, name: str
) -> None:
    pi = agent((), "-e", str(examples / name), env={"PINNACE_NODE": node_program}, is_checked=False)
    assert 1 == pi.wait_exit()
    assert REASONS[name] in pi.stderr_text
