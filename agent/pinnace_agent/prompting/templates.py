"""Prompt templates: Markdown files that a prompt names after a slash.

The name is the file's, the description its frontmatter's or else its first line. A template is read once, so that its
meaning does not change while a client shows it. Has no knowledge of the places of templates.
"""

from pathlib import Path
from typing import Final, NamedTuple

from pinnace_agent.files.text_file import TextFileError, read_text_file
from pinnace_agent.prompting.frontmatter import BLANKS, FrontmatterError, read_document
from pinnace_agent.prompting.origin import Origin, Resource
from pinnace_agent.prompting.template_arguments import split_arguments, substitute

# The length of a description that is taken from the first line: clients show it in one line.
_MAX_LINE_CHARS: Final = 60


class PromptTemplate(NamedTuple):
    """A prompt in a file, with places for arguments; `/name` expands it."""

    name: str
    description: str
    body: str
    path: str
    origin: Origin
    argument_hint: str | None = None
    """The author's hint about arguments."""

    def expanded(self, arguments: str) -> str:
        """Return its text with the arguments inserted.

        Raises:
            TooLong: It would be larger than any prompt.
        """
        return substitute(self.body, split_arguments(arguments))


class ResourceProblem(Exception):
    """A file that is not used; the text gives the reason, without the file's name."""

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
