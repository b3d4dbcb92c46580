"""Configuration files that are no regular files: a start never waits for a writer, and never reads without end."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pinnace_agent.files.relaxed_json import MAX_CONFIGURATION_BYTES, ConfigurationFileError, read_text
from pinnace_agent.prompting.system_prompt import read_prompt_argument
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent


def make_endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


ODD = pytest.mark.parametrize("make", [os.mkfifo, make_endless], ids=["fifo", "endless"])
Make = Callable[[Path], None]


@ODD
def test_a_configuration_file_that_is_no_regular_file_is_refused(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "settings.json")
    with pytest.raises(ConfigurationFileError, match="is no regular file"):
        read_text(tmp_path / "settings.json")


def test_a_configuration_file_may_not_be_endless(tmp_path: Path) -> None:
    with (tmp_path / "models.json").open("wb") as file:
        file.truncate(MAX_CONFIGURATION_BYTES + 1)
    with pytest.raises(ConfigurationFileError, match="has more than 16384 KiB"):
        read_text(tmp_path / "models.json")


@ODD
def test_a_prompt_file_that_is_no_regular_file_is_a_problem_and_no_prompt(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "prompt.md")
    assert ("", f"{tmp_path}/prompt.md is no regular file") == read_prompt_argument(str(tmp_path / "prompt.md"))


IN_AGENT_DIR = [
    "settings.json",
    "auth.json",
    "trust.json",
    "AGENTS.md",
    "SYSTEM.md",
    "APPEND_SYSTEM.md",
    "prompts/odd.md",
    "skills/odd.md",
    "skills/odd/SKILL.md",
    "skills/.gitignore",
    "extensions/odd.py",
    "extensions/odd/extension.py",
    "extensions/odd/pyproject.toml",
]
IN_PROJECT = [
    ".pi/settings.json",
    ".pi/SYSTEM.md",
    ".pi/prompts/odd.md",
    ".pi/skills/odd/SKILL.md",
    ".pi/extensions/odd.py",
    "AGENTS.md",
    "CLAUDE.md",
    ".gitignore",
]


@ODD
def test_a_start_waits_for_no_file_and_reads_none_without_end(agent: AgentStarter, make: Make) -> None:
    """Each file that a start reads, at once; and models.json alone, without which there is no model."""
    first = agent([])
    first.request({"type": "get_state"})
    for folder, names in ((first.home.agent_dir, IN_AGENT_DIR), (first.home.work, IN_PROJECT)):
        for name in names:
            replaced(folder / name, make)
    answered(agent([], "--approve", again=first))
    replaced(first.home.agent_dir / "models.json", make)
    one = agent([], "--approve", again=first, is_checked=False)
    one.wait_exit()
    assert "models.json" in one.stderr_text


def replaced(path: Path, make: Make) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    make(path)


def answered(one: HomedAgent) -> None:
    assert one.request({"type": "get_state"})["success"]
    assert one.request({"type": "get_commands"})["success"]
    assert "settings.json" in one.stderr_text
    assert "is no regular file" in one.stderr_text
