"""The system prompt: role, tools, rules, appended texts, context files, skills, working folder and date.

Pure but for `read_prompt_argument`. Short on purpose: small local models have small contexts. Each section but the
first has a tag, since most contain files whose headings and lists could be mistaken for the prompt's own; the tags are
those of the original. The parts that change most are at the end, so that a provider's cache keeps the rest.
"""

import os
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pinnace_agent.files.text_file import TextFileError, read_regular
from pinnace_agent.prompting.context_files import ContextFile
from pinnace_spec.printable import printable

if TYPE_CHECKING:  # loaded where there are any
    from pinnace_agent.prompting.skills import Skill

# A larger prompt fits into no model; a smaller one is never cut.
MAX_PROMPT_BYTES: Final = 16 * 1024 * 1024
_ROLE: Final = (
    "You are a coding agent. You work in the user's folder by calling tools: look before you change "
    "something, and check your work when you have."
)
_LAST_GUIDELINES: Final = (
    "Keep answers short and to the point.",
    "Name files by their path.",
)
_SEARCH_TOOLS: Final = frozenset({"grep", "find", "ls"})
_SKILL_READERS: Final = {"read": "the read tool", "bash": "bash"}
_ENTITIES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"})
_SEARCH_BY_SHELL: Final = "Use bash to list and search files, for example with ls, find or rg."


class PromptTool(Protocol):
    """The parts of a tool that the prompt contains."""

    @property
    def name(self) -> str:
        """The name by which the model calls it."""
        ...

    @property
    def snippet(self) -> str:
        """Its purpose in one line; a tool without one is not listed."""
        ...

    @property
    def guidelines(self) -> tuple[str, ...]:
        """Rules for its use."""
        ...


class PromptArgument(NamedTuple):
    """The text of a flag that takes a text or a file."""

    text: str
    problem: str | None = None


def read_prompt_argument(argument: str, folder: str = "") -> PromptArgument:
    """Return the content of the file that the argument names, or the argument itself if it names none.

    A relative path is one in `folder`, by default in that of the process.

    An existing file that can't be read is a problem: its path is no instruction to a model.
    """
    # Bytes of a command line that are not UTF-8 are lone surrogates here, which no request can contain.
    text = argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    try:
        path = os.path.join(folder, argument)
        if not os.path.exists(path) or os.path.isdir(path):
            return PromptArgument(text)
    except (OSError, ValueError):  # too long or too odd for a path
        return PromptArgument(text)
    try:
        return PromptArgument(read_regular(path, MAX_PROMPT_BYTES).decode("utf-8-sig"))
    except TextFileError as error:
        return PromptArgument("", f"{argument} {error.text}")
    except UnicodeDecodeError:
        return PromptArgument("", f"{argument} is not UTF-8 text")
    except OSError as error:
        return PromptArgument("", f"{argument} can't be read: {error.strerror or type(error).__name__}")


def assemble_system_prompt(
    tools: Sequence[PromptTool],
    *,
    cwd: str,
    today: date,
    base: str | None = None,
    appended: Sequence[str] = (),
    context_files: Sequence[ContextFile] = (),
    directories: Sequence[str] = (),
    skills: "Sequence[Skill]" = (),
) -> str:
    """Build the system prompt.

    Args:
        tools: The active tools, in the order in which the model sees them.
        cwd: The folder that relative paths start from.
        today: The local date.
        base: Replaces role, tools and rules.
        appended: Texts after those.
        context_files: The instructions of the project.
        directories: More folders that the user works in.
        skills: Skills that the model may load if it has a tool for that; hidden ones are left out.
    """
    if base is None:
        sections = [_ROLE, _section("tools", _tool_list(tools)), _section("rules", _rules(tools))]
    else:
        sections = [base.strip()]
    sections += [
        _section("addendum", "\n\n".join(text.strip() for text in appended if text.strip())),
        _section("project_context", "\n\n".join(map(_instructions, context_files))),
        _section("skills", _skill_list(tools, skills)),
        _section("cwd", printable(cwd.replace("\\", "/"))),
        _section("additional_directories", "\n".join(printable(each.replace("\\", "/")) for each in directories)),
        _section("date", today.isoformat()),
    ]
    return "\n\n".join(section for section in sections if section)


def _section(name: str, text: str) -> str:
    return f"<{name}>\n{text}\n</{name}>" if text else ""


def _instructions(file: ContextFile) -> str:
    path = printable(file.path).translate(_ENTITIES)
    return f'<project_instructions path="{path}">\n{file.text.strip()}\n</project_instructions>'


def _skill_list(tools: Sequence[PromptTool], skills: "Sequence[Skill]") -> str:
    names = {tool.name for tool in tools}
    reader = next((words for name, words in _SKILL_READERS.items() if name in names), None)
    if reader is None or not skills:
        return ""
    from pinnace_agent.prompting.skills import listed_skills  # with the first skill

    return listed_skills(skills, reader)


def _tool_list(tools: Sequence[PromptTool]) -> str:
    return "\n".join(f"- {tool.name}: {snippet}" for tool in tools if (snippet := _one_line(tool.snippet)))


def _rules(tools: Sequence[PromptTool]) -> str:
    names = {tool.name for tool in tools}
    guidelines: list[str] = []
    if "bash" in names and not names & _SEARCH_TOOLS:
        guidelines.append(_SEARCH_BY_SHELL)
    for tool in tools:
        guidelines += tool.guidelines
    guidelines += _LAST_GUIDELINES
    kept = dict.fromkeys(line for text in guidelines if (line := _one_line(text)))
    return "\n".join(f"- {line}" for line in kept)


def _one_line(text: str) -> str:
    return " ".join(text.split())
