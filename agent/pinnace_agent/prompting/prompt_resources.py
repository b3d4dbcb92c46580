"""The resources of the open conversation's folder: the system prompt, and the expansion of commands.

Holds the resources that were read when the conversation began, and the system prompt built from them, which changes
only with the date. A message is expanded once, before it is emitted or queued; skills take precedence over templates,
and a message with an unknown name stays as it is. Has no access to sessions or records.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Final, NamedTuple

from pinnace_agent.config.trust import TRUST_REMEDY
from pinnace_agent.core.user_warnings import Notice, Warnings
from pinnace_agent.prompting.folder_resources import FolderResources
from pinnace_agent.prompting.system_prompt import PromptTool, assemble_system_prompt

_SKILL: Final = "/skill:"


class ExpansionProblem(NamedTuple):
    """Why a message that names a skill or template was not expanded."""

    path: str
    event: str
    text: str


class Expansion(NamedTuple):
    """The result of an expansion."""

    text: str
    problem: ExpansionProblem | None = None


class PromptResources:
    """The resources of one process: of one folder at a time."""

    def __init__(
        self,
        read: Callable[[str], FolderResources] = lambda _cwd: FolderResources(),
        tools: Sequence[PromptTool] = (),
        warnings: Warnings | None = None,
    ) -> None:
        """Read nothing yet; `tools` are those that the system prompt lists."""
        self._warnings = Warnings() if warnings is None else warnings
        self._read = read
        self._tools = tools
        self._cwd: str | None = None
        self._resources = FolderResources()
        self._prompt: tuple[date, str] | None = None
        self.on_added: Callable[[Sequence[str], Sequence[str]], None] = _nothing_added
        """Takes paths of additional skills and templates, for everything that is read afterwards."""
        self._has_added = False
        self.on_directories: Callable[[Sequence[str]], None] | None = None
        """Takes the additional folders, likewise."""

    def renew(self, cwd: str) -> None:
        """Read the resources of a folder, and warn of what is wrong with them. Blocks on files."""
        if self._resources.trust_notice is not None:
            self._warnings.forget("project_trust", self._cwd)
        self._cwd, self._resources, self._prompt = cwd, self._read(cwd), None
        untrusted = self._resources.trust_notice
        others = (Notice("resources", text) for text in self._resources.notices if text != untrusted)
        self._warnings.renew(("resources",), others)
        if untrusted is not None:
            self._warnings.add(Notice("project_trust", untrusted, TRUST_REMEDY, cwd))

    def is_trusted(self, cwd: str) -> bool:
        """Return whether the project in a folder is trusted."""
        return self.of(cwd).is_trusted

    def take_decision(self, cwd: str, is_trusted: bool) -> None:
        """Set the decision about the project in a folder that was made after its resources were read."""
        self._resources = self.of(cwd)._replace(is_trusted=is_trusted)

    def add(self, cwd: str, skills: Sequence[str], templates: Sequence[str]) -> None:
        """Use additional paths, in place of those that were added before."""
        if not (skills or templates or self._has_added):
            return
        self._has_added = bool(skills or templates)
        self.on_added(skills, templates)
        self.renew(cwd)

    def use_tools(self, tools: Sequence[PromptTool]) -> None:
        """List these tools in the system prompt from now on."""
        self._tools, self._prompt = tools, None

    def options(self, cwd: str) -> Mapping[str, object]:
        """Return the parts of the system prompt for a folder, by their names in the extension API."""
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
        """Return the resources of a folder, read if they are not current."""
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
                directories=resources.directories,
                skills=tuple(resources.skills.values()),
            )
            self._prompt = today, text
        return self._prompt[1]

    def expand(self, text: str, cwd: str) -> Expansion:
        """Expand a message that names a skill or template. Reads a skill, a small regular file, without a thread."""
        if not text.startswith("/"):
            return Expansion(text)
        resources = self.of(cwd)
        if not (resources.skills or resources.templates):
            return Expansion(text)
        from pinnace_agent.prompting.template_arguments import TooLong, first_blank
        from pinnace_agent.prompting.templates import ResourceProblem

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
    """Ignore additional paths."""
