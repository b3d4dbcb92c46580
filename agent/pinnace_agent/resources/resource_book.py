"""What the open conversation's folder adds, as the rest of the agent uses it: the prompt, and words after a slash.

Holds what was read when the conversation began, and the system prompt that was made of it, which changes with the day
alone. A text is expanded once, before anybody sees it; skills go before templates, and a name that nothing has is a
text like any other. Must not know sessions or records.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Final, NamedTuple

from pinnace_agent.resources.folder_resources import FolderResources
from pinnace_agent.resources.system_prompt import PromptTool, assemble_system_prompt

_SKILL: Final = "/skill:"


class ExpansionProblem(NamedTuple):
    """Why a text stays as it is although it names something."""

    path: str
    event: str
    text: str


class Expansion(NamedTuple):
    """What a text became."""

    text: str
    problem: ExpansionProblem | None = None


class ResourceBook:
    """The resources of one process: of one folder at a time."""

    def __init__(
        self, read: Callable[[str], FolderResources] = lambda _cwd: FolderResources(), tools: Sequence[PromptTool] = ()
    ) -> None:
        """Read nothing yet; `tools` are those that models are told of."""
        self._read = read
        self._tools = tools
        self._cwd: str | None = None
        self._resources = FolderResources()
        self._prompt: tuple[date, str] | None = None
        self._told: set[str] = set()
        self.on_added: Callable[[Sequence[str], Sequence[str]], None] = _nothing_added
        """Takes paths of further skills and templates, for what is read from then on."""
        self._has_added = False

    def renew(self, cwd: str) -> list[str]:
        """Read what a folder adds, and return what is to be told of it for the first time. Blocks on files."""
        self._cwd, self._resources, self._prompt = cwd, self._read(cwd), None
        notices = [notice for notice in dict.fromkeys(self._resources.notices) if notice not in self._told]
        self._told.update(notices)
        return notices

    def is_trusted(self, cwd: str) -> bool:
        """Tell whether the project in a folder is trusted."""
        return self.of(cwd).is_trusted

    def take_decision(self, cwd: str, is_trusted: bool) -> None:
        """Take what was decided about the project in a folder after what it adds was read."""
        self._resources = self.of(cwd)._replace(is_trusted=is_trusted)

    def add(self, cwd: str, skills: Sequence[str], templates: Sequence[str]) -> list[str]:
        """Take further paths, in the place of those that were added before; returns as `renew`."""
        if not (skills or templates or self._has_added):
            return []
        self._has_added = bool(skills or templates)
        self.on_added(skills, templates)
        return self.renew(cwd)

    def use_tools(self, tools: Sequence[PromptTool]) -> None:
        """Tell models of these tools from now on."""
        self._tools, self._prompt = tools, None

    def options(self, cwd: str) -> Mapping[str, object]:
        """Return what the prompt for a folder is made from, in the words of extensions."""
        resources = self.of(cwd)
        return {
            "cwd": cwd,
            "customPrompt": resources.base,
            "appendSystemPrompt": list(resources.appended),
            "contextFiles": [{"path": each.path, "content": each.text} for each in resources.context_files],
            "skills": [
                {"name": each.name, "description": each.description, "filePath": each.path}
                for each in resources.skills.values()
            ],
            "selectedTools": [tool.name for tool in self._tools],
            "toolSnippets": {tool.name: tool.snippet for tool in self._tools if tool.snippet},
            "promptGuidelines": [text for tool in self._tools for text in tool.guidelines],
        }

    def of(self, cwd: str) -> FolderResources:
        """Return what a folder adds."""
        if cwd != self._cwd:
            self.renew(cwd)
        return self._resources

    def system_prompt(self, cwd: str) -> str:
        """Return the prompt of a request that is sent now, for tools that work in `cwd`."""
        resources = self.of(cwd)
        today = date.today()
        if self._prompt is None or self._prompt[0] != today:
            text = assemble_system_prompt(
                self._tools,
                cwd=cwd,
                today=today,
                base=resources.base,
                appended=resources.appended,
                context_files=resources.context_files,
                skills=tuple(resources.skills.values()),
            )
            self._prompt = today, text
        return self._prompt[1]

    def expand(self, text: str, cwd: str) -> Expansion:
        """Return the text that the user means. A skill is a small regular file, so this takes next to no time."""
        if not text.startswith("/"):
            return Expansion(text)
        resources = self.of(cwd)
        if not (resources.skills or resources.templates):
            return Expansion(text)
        from pinnace_agent.resources.prompt_templates import ResourceProblem
        from pinnace_agent.resources.template_arguments import TooLong, first_blank

        if text.startswith(_SKILL):
            name, _, arguments = text[len(_SKILL) :].partition(" ")
            skill = resources.skills.get(name)
            if skill is not None:
                try:
                    return Expansion(skill.expanded(arguments))
                except ResourceProblem as error:
                    return Expansion(text, ExpansionProblem(skill.path, "skill_expansion", error.text))
        end = first_blank(text)
        template = resources.templates.get(text[1:end])
        if template is None:
            return Expansion(text)
        try:
            return Expansion(template.expanded(text[end:]))
        except TooLong:
            return Expansion(text, ExpansionProblem(template.path, "template_expansion", "the text would be too long"))


def _nothing_added(_skills: Sequence[str], _templates: Sequence[str]) -> None:
    """Nobody reads what is added."""
