"""Skills: instructions that a model loads when a task needs them, or a prompt names with `/skill:name`.

A skill is a Markdown file with frontmatter that says when it is of use. Only that is kept; the instructions are read
anew each time, so that the newest are followed. Must not know where skills are looked for.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pinnace_agent.files.text_file import TextFileError, read_text_file
from pinnace_agent.resources.frontmatter import BLANKS, FrontmatterError, read_document
from pinnace_agent.resources.prompt_templates import ResourceProblem
from pinnace_agent.resources.resource_origin import Origin, Resource

if TYPE_CHECKING:
    from pinnace_agent.files.opener import Reach

SKILL_FILE: Final = "SKILL.md"
# Of the skills specification that several agents share.
_MAX_NAME_CHARS: Final = 64
_MAX_DESCRIPTION_CHARS: Final = 1_024
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


class Skill(NamedTuple):
    """One skill."""

    name: str
    description: str
    path: str
    origin: Origin
    is_hidden: bool = False
    """Whether models are not told of it: only a prompt can name it."""
    reach: "Reach | None" = None
    """Where its file may lead; None: anywhere."""

    def expanded(self, arguments: str) -> str:
        """Return its instructions as they are now, and what stands behind its name.

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
    """A skill, and what its author should know."""

    skill: Skill
    warnings: tuple[str, ...]


def read_skill(resource: Resource) -> ReadSkill | None:
    """Read a file; None if it is no skill and does not say that it is one.

    Raises:
        ResourceProblem: It says so and can't be one.
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
        # DEVIATION D-40: it could not be typed, and would be acted on where it is shown.
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
