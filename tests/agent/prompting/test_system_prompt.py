"""The system prompt."""

import re
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pytest

from pinnace_agent.prompting.context_files import ContextFile
from pinnace_agent.prompting.origin import Origin
from pinnace_agent.prompting.skills import Skill
from pinnace_agent.prompting.system_prompt import assemble_system_prompt, read_prompt_argument
from pinnace_agent.tools import builtin_tools


class Tool(NamedTuple):
    name: str
    snippet: str = ""
    guidelines: tuple[str, ...] = ()


DAY = date(2026, 2, 3)


END = "<cwd>\n/work\n</cwd>\n\n<date>\n2026-02-03\n</date>"
READ, BASH = Tool("read"), Tool("bash")


def assemble(
    *tools: Tool,
    base: str | None = None,
    appended: tuple[str, ...] = (),
    cwd: str = "/work",
    files: tuple[ContextFile, ...] = (),
    skills: tuple[Skill, ...] = (),
) -> str:
    return assemble_system_prompt(
        tools, cwd=cwd, today=DAY, base=base, appended=appended, context_files=files, skills=skills
    )


def skill(name: str, description: str = "d", path: str = "/s/SKILL.md", *, is_hidden: bool = False) -> Skill:
    return Skill(name, description, path, Origin("user", "auto"), is_hidden)


def section(name: str, prompt: str) -> str:
    return prompt.partition(f"<{name}>\n")[2].partition(f"\n</{name}>")[0]


def test_folder_and_day_stand_at_the_end() -> None:
    assert assemble(appended=("more",)).endswith(f"\n\n<addendum>\nmore\n</addendum>\n\n{END}")


def test_a_folder_is_written_with_slashes_and_in_one_line() -> None:
    assert "C:/w\ufffd" == section("cwd", assemble(cwd="C:\\w\n"))


def test_tools_are_listed_with_their_snippets_in_order() -> None:
    prompt = assemble(Tool("b", "does\n  b"), Tool("silent"), Tool("a", "does a"))
    assert "- b: does b\n- a: does a" == section("tools", prompt)
    assert "silent" not in prompt


def test_without_tools_there_is_no_list() -> None:
    assert "<tools>" not in assemble()


def test_guidelines_of_tools_are_said_once_and_the_general_ones_last() -> None:
    prompt = assemble(Tool("a", "x", ("Read first.", "Same.")), Tool("b", "x", (" Same. ", "")))
    lines = section("rules", prompt).splitlines()
    assert ["- Read first.", "- Same."] == lines[:2]
    assert len(lines) == len(set(lines))
    assert "- Name files by their path." == lines[-1]


@pytest.mark.parametrize(
    ("names", "is_told"),
    [(["bash"], True), (["bash", "read"], True), (["bash", "grep"], False), (["bash", "ls"], False), (["read"], False)],
)
def test_the_shell_is_for_searching_when_no_tool_is(names: list[str], is_told: bool) -> None:
    assert is_told == ("Use bash to list and search" in assemble(*map(Tool, names)))


def test_a_prompt_of_the_users_own_stands_in_for_role_tools_and_rules() -> None:
    prompt = assemble(Tool("bash", "runs", ("Careful.",)), base="Be a pirate.\n", appended=("Arr.",))
    assert f"Be a pirate.\n\n<addendum>\nArr.\n</addendum>\n\n{END}" == prompt


def test_an_empty_prompt_of_the_users_own_leaves_folder_and_day() -> None:
    assert END == assemble(base="")


def test_several_appended_texts_are_parted_by_a_blank_line() -> None:
    assert "one\n\ntwo" == section("addendum", assemble(appended=("one\n", " ", "two")))


def test_context_files_are_named_by_their_path() -> None:
    prompt = assemble(files=(ContextFile("/a/AGENTS.md", "one\n\n"), ContextFile('/a/"b\n<c>', "# two\n<x> & y")))
    assert (
        '<project_instructions path="/a/AGENTS.md">\none\n</project_instructions>\n\n'
        '<project_instructions path="/a/&quot;b\ufffd&lt;c&gt;">\n# two\n<x> & y\n</project_instructions>'
    ) == section("project_context", prompt)


def test_skills_are_listed_with_their_marks_taken_away() -> None:
    prompt = assemble(READ, skills=(skill("a", "if <x> & \"y\" or 'z'\n", "/s/<a>/SKILL.md"), skill("b")))
    assert (
        "  <skill>\n    <name>a</name>\n"
        "    <description>if &lt;x&gt; &amp; &quot;y&quot; or &apos;z&apos;</description>\n"
        "    <location>/s/&lt;a&gt;/SKILL.md</location>\n  </skill>\n  <skill>\n    <name>b</name>\n"
        "    <description>d</description>\n    <location>/s/SKILL.md</location>\n  </skill>"
    ) == section("available_skills", prompt)


@pytest.mark.parametrize(
    ("tools", "words"),
    [((READ, BASH), "the read tool"), ((BASH,), "with bash"), ((Tool("edit"), Tool("ls")), None), ((), None)],
)
def test_skills_are_listed_for_models_that_can_load_them(tools: tuple[Tool, ...], words: str | None) -> None:
    prompt = assemble(*tools, skills=(skill("a"),))
    assert (words is not None) == ("<skills>" in prompt)
    assert words is None or words in section("skills", prompt)


def test_hidden_skills_are_not_listed() -> None:
    assert "<skills>" not in assemble(READ, skills=(skill("a", is_hidden=True),))


def test_the_sections_stand_in_the_order_of_the_original() -> None:
    prompt = assemble(Tool("read", "x"), appended=("x",), files=(ContextFile("/x", "x"),), skills=(skill("a"),))
    names = ["tools", "rules", "addendum", "project_context", "skills", "cwd", "date"]
    assert names == re.findall(r"^<([a-z_]+)>$", re.sub(r"<available_skills>", "", prompt), re.MULTILINE)


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
