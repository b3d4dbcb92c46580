"""Skills: instructions that a model loads when a task needs them, or a prompt names with `/skill:name`.

A skill is a Markdown file with frontmatter that describes its use. Only the frontmatter is kept; the instructions are
read anew at each use, so that changes apply at once. Has no knowledge of the places of skills.
"""

import html
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pinnace_agent.files.text_file import TextFileError, read_text_file
from pinnace_agent.prompting.frontmatter import BLANKS, FrontmatterError, read_document
from pinnace_agent.prompting.origin import Origin, Resource
from pinnace_agent.prompting.templates import ResourceProblem
from pinnace_spec.printable import printable

if TYPE_CHECKING:
    from pinnace_agent.files.opener import Reach

# Of the skills specification that several agents share.
_MAX_NAME_CHARS: Final = 64
_MAX_DESCRIPTION_CHARS: Final = 1_024
_HEAD: Final = (
    "Instructions for special tasks. When a description fits the task, load its file with {reader} first and follow "
    "it. Paths in it are relative to the folder that it is in; tools need absolute ones."
)
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class Skill(NamedTuple):
    """Instructions in a file, which the model reads when their description fits its task."""

    name: str
    description: str
    path: str
    origin: Origin
    is_hidden: bool = False
    """Whether the system prompt leaves it out: only a prompt can name it."""
    reach: "Reach | None" = None
    """Where its file may lead; None: anywhere."""

    def expanded(self, arguments: str) -> str:
        """Return its current instructions, followed by the arguments.

        Raises:
            ResourceProblem: They can't be read.
        """
        try:
            document = read_document(read_text_file(self.path, self.reach))
        except (TextFileError, FrontmatterError) as error:
            raise ResourceProblem(error.text) from None
        folder = os.path.dirname(self.path)
        block = (
            f'<skill name="{self.name}" location="{self.path}">\n'
            f"References are relative to {folder}.\n\n{document.body.strip(BLANKS)}\n</skill>"
        )
        arguments = arguments.strip(BLANKS)
        return f"{block}\n\n{arguments}" if arguments else block


class ReadSkill(NamedTuple):
    """A skill, and warnings for its author."""

    skill: Skill
    warnings: tuple[str, ...]


def read_skill(resource: Resource) -> ReadSkill | None:
    """Read a file; None if it is neither a skill nor declared as one.

    Raises:
        ResourceProblem: It is declared as a skill and is invalid.
    """
    try:
        document = read_document(read_text_file(resource.path, resource.reach))
    except (TextFileError, FrontmatterError) as error:
        raise ResourceProblem(error.text) from None
    description = document.texts.get("description", "")
    if not description.strip(BLANKS):
        if not resource.is_declared and "name" not in document.texts:
            return None
        raise ResourceProblem("a skill must have a description")
    name = document.texts.get("name") or Path(resource.path).parent.name
    if not name.isprintable():
        # DEVIATION D-40: it can't be typed, and a terminal that shows it would interpret it.
        raise ResourceProblem("a name with control characters can't be typed")
    is_hidden = "disable-model-invocation" in document.true
    skill = Skill(name, description, resource.path, resource.origin, is_hidden, resource.reach)
    return ReadSkill(skill, tuple(_warnings(skill)))


def _warnings(skill: Skill) -> list[str]:
    warnings: list[str] = []
    if len(skill.name) > _MAX_NAME_CHARS:
        warnings.append(f"its name has more than {_MAX_NAME_CHARS} characters")
    if not _NAME.fullmatch(skill.name):
        warnings.append("its name should be of small letters, digits and single hyphens between them")
    if len(skill.description) > _MAX_DESCRIPTION_CHARS:
        warnings.append(f"its description has more than {_MAX_DESCRIPTION_CHARS} characters")
    return warnings


def listed_skills(skills: Iterable[Skill], reader: str) -> str:
    """Return how a prompt names skills, without those that are hidden; `reader` is what reads their files."""
    listed = [skill for skill in skills if not skill.is_hidden]
    if not listed:
        return ""
    lines = [_HEAD.format(reader=reader), "", "<available_skills>"]
    for skill in listed:
        lines.append("  <skill>")
        members = {"name": skill.name, "description": skill.description.strip(), "location": printable(skill.path)}
        lines += (f"    <{key}>{_escaped(text)}</{key}>" for key, text in members.items())
        lines.append("  </skill>")
    return "\n".join([*lines, "</available_skills>"])


def _escaped(text: str) -> str:
    return html.escape(text).replace("&#x27;", "&apos;")  # as other agents escape it
