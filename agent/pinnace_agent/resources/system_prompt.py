"""The system prompt: role, tools, guidelines, what the user appends, the day and the folder.

Pure but for `read_prompt_argument`. Short on purpose: small local models have small contexts, and lose the
thread of a long one. What changes most stands at the end, so that a provider's cache keeps the rest.
"""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Final, NamedTuple, Protocol

_ROLE: Final = (
    "You are a coding agent. You work in the user's folder by calling tools: look before you change "
    "something, and check your work when you have."
)
_LAST_GUIDELINES: Final = (
    "Keep answers short and to the point.",
    "Name files by their path.",
)
_SEARCH_TOOLS: Final = frozenset({"grep", "find", "ls"})
_SEARCH_BY_SHELL: Final = "Use bash to list and search files, for example with ls, find or rg."


class PromptTool(Protocol):
    """What the prompt says about a tool."""

    @property
    def name(self) -> str:
        """The name by which the model calls it."""
        ...

    @property
    def snippet(self) -> str:
        """What it is for, in one line; a tool without one is not listed."""
        ...

    @property
    def guidelines(self) -> tuple[str, ...]:
        """What to mind when it is used."""
        ...


class PromptArgument(NamedTuple):
    """The text of a flag that takes a text or a file."""

    text: str
    problem: str | None = None


def read_prompt_argument(argument: str) -> PromptArgument:
    """Return the content of the file that the argument names, or the argument itself if it names none.

    A file that is there and can't be read is a problem: its path is no instruction to a model.
    """
    # Bytes of a command line that are no UTF-8 are half characters here, which no request can hold.
    text = argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    try:
        if not Path(argument).is_file():
            return PromptArgument(text)
    except (OSError, ValueError):  # too long or too odd for a path
        return PromptArgument(text)
    try:
        return PromptArgument(Path(argument).read_text(encoding="utf-8-sig"))
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
) -> str:
    """Put the prompt together.

    Args:
        tools: The active tools, in the order in which the model sees them.
        cwd: The folder that relative paths start from.
        today: The user's day.
        base: Stands in for role, tools and guidelines.
        appended: Goes after them, whatever they are.
    """
    parts = [base.strip()] if base is not None else [_ROLE, _tool_list(tools), _guidelines(tools)]
    parts += [text.strip() for text in appended]
    parts.append(f"Date: {today.isoformat()}\nFolder: {cwd.replace(chr(92), '/')}")
    return "\n\n".join(part for part in parts if part)


def _tool_list(tools: Sequence[PromptTool]) -> str:
    lines = [f"- {tool.name}: {snippet}" for tool in tools if (snippet := _one_line(tool.snippet))]
    return "\n".join(["Tools:", *lines]) if lines else ""


def _guidelines(tools: Sequence[PromptTool]) -> str:
    names = {tool.name for tool in tools}
    guidelines: list[str] = []
    if "bash" in names and not names & _SEARCH_TOOLS:
        guidelines.append(_SEARCH_BY_SHELL)
    for tool in tools:
        guidelines += tool.guidelines
    guidelines += _LAST_GUIDELINES
    kept = dict.fromkeys(line for text in guidelines if (line := _one_line(text)))
    return "\n".join(["Guidelines:", *(f"- {line}" for line in kept)])


def _one_line(text: str) -> str:
    return " ".join(text.split())
