"""The system prompt."""

from datetime import date
from pathlib import Path
from typing import NamedTuple

import pytest

from pinnace_agent.resources.system_prompt import assemble_system_prompt, read_prompt_argument
from pinnace_agent.tools import builtin_tools


class Tool(NamedTuple):
    name: str
    snippet: str = ""
    guidelines: tuple[str, ...] = ()


DAY = date(2026, 2, 3)


def assemble(*tools: Tool, base: str | None = None, appended: tuple[str, ...] = (), cwd: str = "/work") -> str:
    return assemble_system_prompt(tools, cwd=cwd, today=DAY, base=base, appended=appended)


def test_day_and_folder_stand_at_the_end() -> None:
    assert assemble(appended=("more",)).endswith("\n\nmore\n\nDate: 2026-02-03\nFolder: /work")


def test_a_folder_is_written_with_slashes() -> None:
    assert assemble(cwd="C:\\w").endswith("Folder: C:/w")


def test_tools_are_listed_with_their_snippets_in_order() -> None:
    prompt = assemble(Tool("b", "does\n  b"), Tool("silent"), Tool("a", "does a"))
    assert "Tools:\n- b: does b\n- a: does a\n\n" in prompt
    assert "silent" not in prompt


def test_without_tools_there_is_no_list() -> None:
    assert "Tools:" not in assemble()


def test_guidelines_of_tools_are_said_once_and_the_general_ones_last() -> None:
    prompt = assemble(Tool("a", "x", ("Read first.", "Same.")), Tool("b", "x", (" Same. ", "")))
    lines = prompt.split("Guidelines:\n")[1].split("\n\n")[0].splitlines()
    assert ["- Read first.", "- Same."] == lines[:2]
    assert len(lines) == len(set(lines))
    assert "- Name files by their path." == lines[-1]


@pytest.mark.parametrize(
    ("names", "is_told"),
    [(["bash"], True), (["bash", "read"], True), (["bash", "grep"], False), (["bash", "ls"], False), (["read"], False)],
)
def test_the_shell_is_for_searching_when_no_tool_is(names: list[str], is_told: bool) -> None:
    assert is_told == ("Use bash to list and search" in assemble(*map(Tool, names)))


def test_a_prompt_of_the_users_own_stands_in_for_role_tools_and_guidelines() -> None:
    prompt = assemble(Tool("bash", "runs", ("Careful.",)), base="Be a pirate.\n", appended=("Arr.",))
    assert "Be a pirate.\n\nArr.\n\nDate: 2026-02-03\nFolder: /work" == prompt


def test_an_empty_prompt_of_the_users_own_leaves_day_and_folder() -> None:
    assert "Date: 2026-02-03\nFolder: /work" == assemble(base="")


def test_the_whole_prompt_is_short_enough_for_a_small_model() -> None:
    """A thousand tokens at four characters each: an eighth of a context of 8192."""
    prompt = assemble_system_prompt(tuple(builtin_tools().values()), cwd="/work", today=DAY)
    assert len(prompt) < 4_000


def test_an_argument_is_a_text_or_the_file_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "prompt.md"
    file.write_bytes(b"\xef\xbb\xbfBe brief.\n")
    assert ("Be brief.\n", None) == read_prompt_argument(str(file))
    assert ("Be brief.", None) == read_prompt_argument("Be brief.")
    assert (str(tmp_path), None) == read_prompt_argument(str(tmp_path))


@pytest.mark.parametrize("text", ["", "x" * 100_000, "a\nb", "nul\0byte", "~/x", "@file"])
def test_no_text_is_too_odd_to_be_a_prompt(text: str) -> None:
    assert (text, None) == read_prompt_argument(text)


def test_a_file_that_is_no_text_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "prompt.bin"
    file.write_bytes(b"\xff\xfe")
    assert "is not UTF-8 text" in (read_prompt_argument(str(file)).problem or "")
