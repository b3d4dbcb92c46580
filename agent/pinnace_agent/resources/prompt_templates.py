"""Prompt templates: Markdown files that a prompt names after a slash.

The name is the file's, the description its frontmatter's or else its first line. A template is read once, so that what
a name means does not change while a client shows it. Must not know where templates are looked for.
"""

from pathlib import Path
from typing import Final, NamedTuple

from pinnace_agent.files.text_file import TextFileError, read_text_file
from pinnace_agent.resources.frontmatter import BLANKS, FrontmatterError, read_document
from pinnace_agent.resources.resource_origin import Origin, Resource
from pinnace_agent.resources.template_arguments import split_arguments, substitute

# Of a description that is made of the first line: what clients show in one.
_MAX_LINE_CHARS: Final = 60


class PromptTemplate(NamedTuple):
    """One template."""

    name: str
    description: str
    body: str
    path: str
    origin: Origin
    argument_hint: str | None = None
    """What its author says about arguments."""

    def expanded(self, arguments: str) -> str:
        """Return its text with what stands behind its name.

        Raises:
            TooLong: It would be larger than any prompt.
        """
        return substitute(self.body, split_arguments(arguments))


class ResourceProblem(Exception):
    """A file that is not used; the text says why, without its name."""

    def __init__(self, text: str) -> None:
        """Keep the text."""
        super().__init__(text)
        self.text = text


def read_template(resource: Resource) -> PromptTemplate:
    """Read a file.

    Raises:
        ResourceProblem: It can't be a template.
    """
    try:
        document = read_document(read_text_file(resource.path, resource.reach))
    except (TextFileError, FrontmatterError) as error:
        raise ResourceProblem(error.text) from None
    name = Path(resource.path).name.removesuffix(".md")
    if not name.isprintable():
        raise ResourceProblem("a name with control characters can't be typed")
    description = document.texts.get("description") or _first_line(document.body)
    return PromptTemplate(
        name, description, document.body, resource.path, resource.origin, document.texts.get("argument-hint")
    )


def _first_line(body: str) -> str:
    line = next((line for line in body.split("\n") if line.strip(BLANKS)), "")
    return line if len(line) <= _MAX_LINE_CHARS else f"{line[:_MAX_LINE_CHARS]}..."
