"""What a sub-agent is started with, of the options of the agent that starts it. R-SUB-03."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from pinnace_agent.core.ports.children import ChildRefused, ChildRequest
from pinnace_rpc.options.options import Options
from pinnace_rpc.options.parser import UsageError
from pinnace_rpc.options.values import count
from pinnace_rpc.subagents.rights import (
    DECIDED,
    LEFT_OUT,
    MOST_TURNS,
    PASSED_ON,
    ChildStart,
    ParentState,
    check_state,
    child_start,
)
from pinnace_spec.records.messages import Model

MODEL: Model = {
    "id": "m",
    "name": "m",
    "api": "openai-completions",
    "provider": "p",
    "baseUrl": "http://127.0.0.1",
    "reasoning": False,
    "input": ["text"],
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    "contextWindow": 1,
    "maxTokens": 1,
}
SANDBOX = {"mode": "workspace-write", "network": "off", "writable": ["/w"]}


def parent(folder: Path, options: Options | None = None, **changed: Any) -> ParentState:
    state = ParentState(
        options or Options(),
        str(folder),
        str(folder),
        MODEL,
        "off",
        ("read", "bash", "subagent"),
        "never",
        is_project_trusted=False,
        sandbox=None,
        has_extensions=False,
        key_provider=None,
        depth=0,
        max_turns=None,
        cost_share=None,
    )
    return state._replace(**changed)


def started(state: ParentState, **request: Any) -> ChildStart:
    return child_start(ChildRequest("task", "call", **request), state, MODEL, 1)


def words_after(start: ChildStart, name: str) -> list[str]:
    return [word for before, word in zip(start.words, start.words[1:], strict=False) if before == name]


def test_each_option_is_passed_on_decided_or_left_out() -> None:
    """A new option has to be put into one of these: whoever adds it decides what it means for sub-agents."""
    assert sorted(Options._fields) == sorted([*PASSED_ON, *DECIDED, *LEFT_OUT])


def test_options_are_passed_on_as_they_were_given(tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("x")
    options = Options(
        models=("a", "b*"),
        skills=("skill",),
        append_system_prompt=("be kind", "prompt.md"),
        extensions=("guard.py", "other.py"),
        no_mcp=True,
        sandbox="read-only",
        extension_flags=(("plan", None), ("level", "3")),
        name="mine",
    )
    start = started(parent(tmp_path, options))

    assert ["a,b*"] == words_after(start, "--models")
    assert [str(tmp_path / "skill")] == words_after(start, "--skill")
    assert ["be kind", str(tmp_path / "prompt.md")] == words_after(start, "--append-system-prompt")
    assert ["guard.py", "other.py"] == words_after(start, "--extension")
    assert ["read-only"] == words_after(start, "--sandbox")
    assert ["3"] == words_after(start, "--level")
    assert {"--no-mcp", "--plan"} < set(start.words)
    assert "mine" not in start.words


def test_the_key_is_given_for_its_own_provider_alone(tmp_path: Path) -> None:
    options = Options(api_key="key-of-p")

    assert "key-of-p" == started(parent(tmp_path, options, key_provider="p")).api_key
    assert started(parent(tmp_path, options, key_provider="q")).api_key is None
    assert "key-of-p" not in started(parent(tmp_path, options, key_provider="p")).words


def test_limits_are_the_smaller_ones(tmp_path: Path) -> None:
    start = started(parent(tmp_path, max_turns=3, cost_share=0.25), max_turns=5)

    assert (["3"], ["0.250000"]) == (words_after(start, "--max-turns"), words_after(start, "--max-cost"))
    assert ["2"] == words_after(started(parent(tmp_path, max_turns=3), max_turns=2), "--max-turns")
    [most] = words_after(started(parent(tmp_path), max_turns=1 << 31), "--max-turns")
    assert MOST_TURNS == count("--max-turns", most)
    with pytest.raises(UsageError):
        count("--max-turns", str(MOST_TURNS + 1))


@pytest.mark.parametrize("approved", [None, True])
def test_a_project_that_has_brought_nothing_is_not_trusted(tmp_path: Path, approved: bool | None) -> None:
    options = Options(approved=approved)

    assert "--no-approve" in started(parent(tmp_path, options)).words
    trusted = started(parent(tmp_path, options, is_project_trusted=True))
    assert "--no-approve" not in trusted.words
    assert (approved is True) == ("--approve" in trusted.words)


@pytest.mark.parametrize("guard", [{"sandbox": SANDBOX}, {"has_extensions": True}, {"is_project_trusted": True}])
def test_with_guards_of_its_folder_no_other_is_given(tmp_path: Path, guard: dict[str, Any]) -> None:
    (tmp_path / "sub").mkdir()

    assert str(tmp_path / "sub") == started(parent(tmp_path), folder="sub").session_folder
    with pytest.raises(ChildRefused, match=r"^cwd: with "):
        started(parent(tmp_path, **guard), folder="sub")


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    os.symlink(tmp_path, own / "out")
    with pytest.raises(ChildRefused, match=r"^cwd: out is no folder within"):
        started(parent(own), folder="out")


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "/\0", "x" * 5000, "~", "file"])
def test_a_text_that_is_no_folder_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ChildRefused, match=f"^cwd: {re.escape(text)} is no folder within"):
        started(parent(tmp_path), folder=text)


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        ({"sandbox": SANDBOX}, {"toolApproval": "never"}),
        ({"sandbox": SANDBOX}, {"toolApproval": "never", "sandbox": {**SANDBOX, "network": "on"}}),
        ({"approval": "ask"}, {"toolApproval": "never"}),
        ({"is_project_trusted": True}, {"toolApproval": "never", "projectTrusted": False}),
    ],
)
def test_one_that_reports_other_rights_gets_no_task(
    tmp_path: Path, changed: dict[str, Any], state: dict[str, object]
) -> None:
    with pytest.raises(ChildRefused):
        check_state(state, started(parent(tmp_path, **changed)))
